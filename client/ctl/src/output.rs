//! Results go to stdout, as text for people or as JSON for programs.

use serde_json::{Value, json};

use crate::error::{CtlError, Exit};
use crate::format::{lines_text, name_text};
use crate::stream::{STDERR, STDOUT};

/// Where results go, and in which form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
}

impl Output {
    /// A result: the JSON form on one line, or the text unless it is empty.
    pub(crate) fn result(
        self,
        text: impl FnOnce() -> String,
        json: impl FnOnce() -> Value,
    ) -> Result<(), CtlError> {
        if self.json {
            return line(&json().to_string());
        }
        match text() {
            text if text.is_empty() => Ok(()),
            text => line(&text),
        }
    }

    /// Says something on stderr that is not a result, in the same form.
    pub(crate) fn note(self, text: &str) {
        if self.json {
            // Nothing can be done about a closed stderr.
            let _ = to_stderr(&json!({ "note": { "message": text } }).to_string());
        } else {
            note(text);
        }
    }
}

/// Prints the version of this program.
pub(crate) fn version(output: Output) -> Result<(), CtlError> {
    let version = env!("CARGO_PKG_VERSION");
    output.result(|| format!("zooletctl {version}"), || json!({ "version": version }))
}

/// Prints a help text.
pub(crate) fn help(text: &str, output: Output) -> Result<(), CtlError> {
    output.result(|| text.trim_end().to_owned(), || json!({ "help": text.trim_end() }))
}

/// Writes a line of text to stdout.
pub(crate) fn line(text: &str) -> Result<(), CtlError> {
    STDOUT.write(format!("{text}\n").into_bytes())
}

/// Writes bytes to stdout as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), CtlError> {
    STDOUT.write(bytes.to_vec())
}

/// Says something on stderr that is not a result.
pub(crate) fn note(text: &str) {
    // Nothing can be done about a closed stderr.
    let _ = to_stderr(&lines_text(text));
}

/// Warns on stderr of what does not stop the program.
pub(crate) fn warn(text: &str, json: bool) {
    if json {
        // Nothing can be done about a closed stderr.
        let _ = to_stderr(&json!({ "warning": { "message": text } }).to_string());
    } else {
        note(&format!("Warning: {}", name_text(text)));
    }
}

/// Asks for something on stderr; the answer is typed on the same line.
pub(crate) fn prompt(text: &str) {
    // Nothing can be done about a closed stderr.
    let _ = STDERR.write(lines_text(text).into_bytes());
}

/// Prints what went wrong.
pub(crate) fn report(error: &CtlError, json: bool) {
    // Nothing can be done about a closed stderr.
    let _ = try_report(error, json);
}

/// Prints what went wrong, where the program ends next. Returns how it ends: by the signal that has
/// come if the reader of stderr stalls.
pub(crate) fn report_at_end(error: &CtlError, json: bool) -> Exit {
    match try_report(error, json) {
        Err(stalled) if stalled.is_interrupt() => stalled.exit,
        Ok(()) | Err(_) => error.exit,
    }
}

fn try_report(error: &CtlError, json: bool) -> Result<(), CtlError> {
    match json {
        _ if error.message.is_empty() => Ok(()),
        true => to_stderr(&error.to_json().to_string()),
        false => to_stderr(&lines_text(&format!("Error: {error}"))),
    }
}

/// Writes a line to stderr, as it is.
fn to_stderr(text: &str) -> Result<(), CtlError> {
    STDERR.write(format!("{text}\n").into_bytes())
}
