//! `edit`: the data of a znode in an editor. What was typed is never lost.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use serde_json::json;
use tokio::process::Command;
use zoolet_client::{ErrorCode, Version};

use crate::args::Edit;
use crate::context::Context;
use crate::error::{CtlError, Exit};
use crate::format::{name_text, stat_json};
use crate::output::Output;
use crate::path;

/// The editor where `VISUAL` and `EDITOR` name none.
const EDITOR_DEFAULT: &str = "vi";

/// `edit PATH`.
pub(crate) async fn edit(arguments: &Edit, context: &Context) -> Result<(), CtlError> {
    let path = arguments.path.as_str();
    path::check(path)?;
    let connection = &context.connection;
    let (data, stat) = connection.ask(path, connection.client.get(path)).await?;
    let old = str::from_utf8(&data).map_err(|_| {
        let error = CtlError::new(Exit::InvalidInput, format!("{path}: its data is not text"));
        error.hint("`get --raw` and `set --file` have the bytes in a file")
    })?;
    let mut draft = Draft::write(path, old, context.output)?;
    tokio::select! {
        ended = run_editor(&draft.file) => ended?,
        error = connection.interrupt.comes() => return Err(error),
    }
    let new = draft.read()?;
    if new == old {
        draft.discard();
        let json = || json!({ "path": path, "changed": false, "stat": stat_json(&stat) });
        return context.output.result(|| "nothing was changed".to_owned(), json);
    }
    let write = connection.client.set_data(path, new.as_bytes(), Version::Exactly(stat.version));
    let stat = match connection.ask(path, write).await {
        Ok(stat) => stat,
        Err(error) => return Err(draft.keep(stat.version, error)),
    };
    draft.discard();
    let json = || json!({ "path": path, "changed": true, "stat": stat_json(&stat) });
    context.output.result(|| format!("written, version {}", stat.version), json)
}

/// The text in a file, which stays unless it is written to the servers or is what it was.
struct Draft {
    file: PathBuf,
    old: String,
    is_done: bool,
    output: Output,
}

impl Draft {
    /// Writes the text to a file that its owner alone may read, and that shows which znode it is.
    fn write(path: &str, old: &str, output: Output) -> Result<Self, CtlError> {
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        let name: String = name.chars().filter(is_plain).take(40).collect();
        // The ending has editors recognize the language.
        let file =
            tempfile::Builder::new().prefix("zooletctl-").suffix(&format!("-{name}")).tempfile()?;
        file.as_file().write_all(old.as_bytes())?;
        let (_, file) = file.keep().map_err(|failed| failed.error)?;
        Ok(Self { file, old: old.to_owned(), is_done: false, output })
    }

    /// The text as it is now. Many editors end it with a line feed that was not there.
    fn read(&self) -> Result<String, CtlError> {
        let bytes = fs::read(&self.file).map_err(|error| self.unreadable(&error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| self.unreadable("it is not UTF-8"))?;
        if !self.old.ends_with('\n')
            && let Some(without) = text.strip_suffix('\n')
        {
            return Ok(without.to_owned());
        }
        Ok(text)
    }

    fn unreadable(&self, why: &str) -> CtlError {
        CtlError::new(Exit::Io, format!("{}: {why}; nothing was written", self.file.display()))
    }

    /// The file is not needed any more.
    fn discard(&mut self) {
        self.is_done = true;
        // A file that cannot be removed does no harm.
        let _ = fs::remove_file(&self.file);
    }

    /// Says where the text is after a write that has failed.
    fn keep(&mut self, version: i32, error: CtlError) -> CtlError {
        self.is_done = true;
        let file = self.file.display();
        let why = if error.code == Some(ErrorCode::BadVersion) {
            format!("{}: the znode was changed after version {version} was read", error.message)
        } else {
            error.message.clone()
        };
        let hint = match error.code {
            Some(ErrorCode::BadVersion) => {
                Some("`get` shows what is there now; `edit` again, or `set --file` writes the text")
            }
            _ => error.hint,
        };
        CtlError { message: format!("{why}; your text is kept in {file}"), hint, ..error }
    }
}

impl Drop for Draft {
    /// However it ends, a text that was changed is kept, and its file is named.
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        match self.read() {
            Ok(text) if text == self.old => self.discard(),
            Ok(_) | Err(_) => {
                let file = self.file.display().to_string();
                self.output.note(&format!("your text is kept in {}", name_text(&file)));
            }
        }
    }
}

/// Runs the editor, which may have arguments: a shell takes them apart, as for other programs.
async fn run_editor(file: &Path) -> Result<(), CtlError> {
    let named = ["VISUAL", "EDITOR"]
        .into_iter()
        .find_map(|variable| env::var_os(variable).filter(|value| !value.is_empty()));
    if named.is_none() && !io::stdin().is_terminal() {
        let error =
            CtlError::new(Exit::Usage, "edit needs a terminal, and this is run without one");
        return Err(error.hint("EDITOR names a program that needs none; `set` writes data"));
    }
    let editor: OsString = named.unwrap_or_else(|| EDITOR_DEFAULT.into());
    let mut script = editor.clone();
    script.push(" \"$@\"");
    let mut command = Command::new("sh");
    command.arg("-c").arg(&script).arg(&editor).arg(file).kill_on_drop(true);
    let status = command.status().await?;
    if status.success() { Ok(()) } else { Err(failed(&editor, status)) }
}

fn failed(editor: &OsStr, status: ExitStatus) -> CtlError {
    let message = format!("{}: {status}; nothing was written", editor.display());
    CtlError::new(Exit::Failed, message)
}
