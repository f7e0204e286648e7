//! The line editor: a thread of its own, since it blocks while a person types.

use std::path::PathBuf;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::{env, thread};

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{ColorMode, CompletionType, Config, Editor, ExternalPrinter as _};
use tokio::sync::mpsc;

use super::complete::Completion;
use super::prompt::Situation;
use crate::error::{CtlError, Exit};
use crate::words;

/// How many lines are remembered.
const HISTORY_LINES_MAX: usize = 1000;

/// What came of a prompt.
#[derive(Debug)]
pub(crate) enum Typed {
    Line(String),
    /// Ctrl-C: the line is thrown away.
    Nothing,
    /// Ctrl-D, or a terminal that is gone.
    End,
}

/// Asks for lines.
#[derive(Debug)]
pub(crate) struct Prompt {
    ask: SyncSender<()>,
    typed: mpsc::Receiver<Typed>,
}

impl Prompt {
    /// Starts the editor. Answers with it what prints a line above the one that is being typed.
    pub(crate) fn start(
        completion: Completion,
        situation: Situation,
    ) -> Result<(Self, impl FnMut(String)), CtlError> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .completion_show_all_if_ambiguous(true)
            // Without colors the editor would not ask for the prompt anew, see `Completion`.
            .color_mode(ColorMode::Forced)
            .max_history_size(HISTORY_LINES_MAX)
            .and_then(|config| config.history_ignore_dups(true))
            .map(|config| config.auto_add_history(false).build());
        let editor = config.and_then(Editor::<Completion, FileHistory>::with_config);
        let started = editor.and_then(|mut editor| {
            let printer = editor.create_external_printer()?;
            Ok((editor, printer))
        });
        let (mut editor, mut printer) =
            started.map_err(|error| CtlError::new(Exit::Io, error.to_string()))?;
        editor.set_helper(Some(completion));
        let (ask, asked) = sync_channel::<()>(1);
        let (sender, typed) = mpsc::channel(1);
        thread::spawn(move || {
            let file = history_file();
            if let Some(file) = &file {
                // There is none before the first shell.
                let _ = editor.load_history(file);
            }
            while asked.recv().is_ok() {
                let typed = read(&mut editor, &situation.prompt());
                let ends = matches!(typed, Typed::End);
                if let (Typed::Line(_), Some(file)) = (&typed, &file) {
                    // A history that cannot be kept does not end the shell.
                    let _ = editor.save_history(file);
                }
                if sender.blocking_send(typed).is_err() || ends {
                    return;
                }
            }
        });
        let print = move |line: String| {
            // An event that cannot be shown does not end the shell.
            let _ = printer.print(line);
        };
        Ok((Self { ask, typed }, print))
    }

    /// Waits for a line.
    pub(crate) async fn line(&mut self) -> Typed {
        if self.ask.send(()).is_err() {
            return Typed::End;
        }
        self.typed.recv().await.unwrap_or(Typed::End)
    }
}

fn read(editor: &mut Editor<Completion, FileHistory>, prompt: &str) -> Typed {
    match editor.readline(prompt) {
        Ok(line) => {
            if is_to_be_remembered(&line) {
                // Lines that are equal to the last are refused, which is as it should be.
                let _ = editor.add_history_entry(line.as_str());
            }
            Typed::Line(line)
        }
        Err(ReadlineError::Interrupted) => Typed::Nothing,
        Err(_) => Typed::End,
    }
}

/// Whether a line goes into the history; one with a password does not. Options may stand before the
/// command, and quotes around it, so every word counts; of a line that cannot be taken apart, all.
pub(crate) fn is_to_be_remembered(line: &str) -> bool {
    const SECRET: &str = "addauth";
    let has_secret = if let Ok(words) = words::split(line) {
        words.iter().any(|word| word.eq_ignore_ascii_case(SECRET))
    } else {
        // Quotes and backslashes may be anywhere in the word.
        line.replace(['\'', '"', '\\'], "").to_ascii_lowercase().contains(SECRET)
    };
    !has_secret && !line.trim().is_empty()
}

/// `$ZOOLETCTL_HISTORY`, or a file in the home directory.
fn history_file() -> Option<PathBuf> {
    env::var_os("ZOOLETCTL_HISTORY")
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".zooletctl_history")))
        .filter(|file| !file.as_os_str().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_remembered() {
        for secret in [
            "addauth digest user:secret",
            "  addAuth digest user:secret",
            "--json addauth digest user:secret",
            "'addauth' digest user:secret",
            "--json ADD\"auth\" digest user:secret",
            r"ad\dauth digest user:secret",
            "--json addauth digest 'user:secret",
            "'add'auth digest \"user:secret",
            "",
            "  ",
        ] {
            assert!(!is_to_be_remembered(secret), "{secret}");
        }
        for line in ["ls /", "get /addauth", "set /a 'no addauth here'", "set /a 'open"] {
            assert!(is_to_be_remembered(line), "{line}");
        }
    }
}
