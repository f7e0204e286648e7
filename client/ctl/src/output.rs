//! Results go to stdout, as text for people or as JSON for programs.

use std::io::{self, Write};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::CtlError;
use crate::format::{lines_text, name_text};

/// How long the end of the program waits for the reader of stderr.
const REPORT_MAX: Duration = Duration::from_secs(1);

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
            to_stderr(&json!({ "note": { "message": text } }));
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
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}")?;
    Ok(stdout.flush()?)
}

/// Writes bytes to stdout as they are.
pub(crate) fn bytes(bytes: &[u8]) -> Result<(), CtlError> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    Ok(stdout.flush()?)
}

/// Says something on stderr that is not a result.
pub(crate) fn note(text: &str) {
    // Nothing can be done about a closed stderr.
    let _ = writeln!(io::stderr().lock(), "{}", lines_text(text));
}

/// Warns on stderr of what does not stop the program.
pub(crate) fn warn(text: &str, json: bool) {
    if json {
        to_stderr(&json!({ "warning": { "message": text } }));
    } else {
        note(&format!("Warning: {}", name_text(text)));
    }
}

/// Asks for something on stderr; the answer is typed on the same line.
pub(crate) fn prompt(text: &str) {
    let mut stderr = io::stderr().lock();
    // Nothing can be done about a closed stderr.
    let _ = write!(stderr, "{}", lines_text(text)).and_then(|()| stderr.flush());
}

/// Prints what went wrong.
pub(crate) fn report(error: &CtlError, json: bool) {
    match json {
        _ if error.message.is_empty() => {}
        true => to_stderr(&error.to_json()),
        false => note(&format!("Error: {error}")),
    }
}

/// Prints what went wrong, where the program ends next: a reader that stalls does not keep it.
pub(crate) fn report_at_end(error: CtlError, json: bool) {
    let (done, reported) = channel();
    thread::spawn(move || {
        report(&error, json);
        // The wait may be over.
        let _ = done.send(());
    });
    let _ = reported.recv_timeout(REPORT_MAX);
}

/// Writes a line of JSON to stderr, as it is.
fn to_stderr(json: &Value) {
    // Nothing can be done about a closed stderr.
    let _ = writeln!(io::stderr().lock(), "{json}");
}
