//! What Tab completes: commands, their options and the values of these, and the paths that the
//! servers have.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::{Arg, Command, CommandFactory};
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use tokio::runtime::Handle;
use tokio::time::timeout;
use zoolet_client::Client;

use super::prompt::Situation;
use crate::args::ShellLine;
use crate::format::acts_on_viewers;

/// How long a person waits for a completion before there is none.
const COMPLETION_MAX: Duration = Duration::from_secs(1);

/// The client that the shell has at the moment.
pub(crate) type Slot = Arc<Mutex<Option<Client>>>;

/// Completes words, and draws the prompt.
#[derive(Debug)]
pub(crate) struct Completion {
    shell: Command,
    client: Slot,
    runtime: Handle,
    situation: Situation,
}

impl Completion {
    pub(crate) fn new(client: Slot, runtime: Handle, situation: Situation) -> Self {
        let mut shell = ShellLine::command();
        // Adds to each command the options that all have.
        shell.build();
        Self { shell, client, runtime, situation }
    }

    /// What fits where a word begins so, behind these words.
    fn candidates(&self, before: &[&str], typed: &str) -> Vec<String> {
        let mut commands = before.iter().filter_map(|word| self.shell.find_subcommand(word));
        let Some(command) = commands.next() else {
            let options = if typed.starts_with('-') { options(&self.shell) } else { Vec::new() };
            return fitting(self.commands().chain(options), typed);
        };
        if let Some(values) = before.last().and_then(|word| values_of(command, word)) {
            return fitting(values.into_iter(), typed);
        }
        if typed.starts_with('-') {
            return fitting(options(command).into_iter(), typed);
        }
        if typed.contains('/') {
            return self.paths(typed);
        }
        let words: Vec<String> = match command.get_name() {
            "help" => self.commands().collect(),
            _ => command.get_positionals().flat_map(values).collect(),
        };
        fitting(words.into_iter(), typed)
    }

    fn commands(&self) -> impl Iterator<Item = String> {
        self.shell.get_subcommands().map(|command| command.get_name().to_owned())
    }

    /// The paths that begin so.
    fn paths(&self, typed: &str) -> Vec<String> {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (Some(client), Some((parent, name))) = (client, typed.rsplit_once('/')) else {
            return Vec::new();
        };
        let parent = if parent.is_empty() { "/" } else { parent };
        // The timer is the runtime's: it must be made on it.
        let listed = async { timeout(COMPLETION_MAX, client.children(parent)).await };
        let Ok(Ok((mut children, _))) = self.runtime.block_on(listed) else { return Vec::new() };
        children.retain(|child| child.starts_with(name) && is_plain(child));
        children.sort_unstable();
        children.iter().map(|child| crate::path::join(parent, child)).collect()
    }
}

/// Those words that begin as what is typed, in any case, with a blank behind.
fn fitting(words: impl Iterator<Item = String>, typed: &str) -> Vec<String> {
    let typed = typed.to_ascii_lowercase();
    let fits = |word: &String| word.to_ascii_lowercase().starts_with(&typed);
    let mut words: Vec<String> = words.filter(fits).map(|word| format!("{word} ")).collect();
    words.sort_unstable();
    words
}

/// The options of a command, short and long.
fn options(command: &Command) -> Vec<String> {
    let mut options = Vec::new();
    for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
        options.extend(option.get_short().map(|short| format!("-{short}")));
        options.extend(option.get_long().map(|long| format!("--{long}")));
    }
    options
}

/// The values of an option, if this word is one that takes a value; there may be none to list.
fn values_of(command: &Command, word: &str) -> Option<Vec<String>> {
    let is_it = |option: &&Arg| {
        let short = option.get_short().is_some_and(|short| word == format!("-{short}"));
        short || option.get_long().is_some_and(|long| word == format!("--{long}"))
    };
    let option = command.get_arguments().find(is_it)?;
    option.get_action().takes_values().then(|| values(option))
}

fn values(argument: &Arg) -> Vec<String> {
    let values = argument.get_possible_values();
    let shown = values.iter().filter(|value| !value.is_hide_set() && !argument.is_hide_set());
    shown.map(|value| value.get_name().to_owned()).collect()
}

/// Whether a name can be typed without quotes and shown without escapes.
fn is_plain(name: &str) -> bool {
    let needs_quotes = |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '\\');
    !name.contains(|c| needs_quotes(c) || acts_on_viewers(c))
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let line = line.get(..position).unwrap_or(line);
        let start = line.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        let (before, typed) = line.split_at(start);
        let before: Vec<&str> = before.split_whitespace().collect();
        let found = self.candidates(&before, typed);
        let pair =
            |found: String| Pair { display: found.trim_end().to_owned(), replacement: found };
        Ok((start, found.into_iter().map(pair).collect()))
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {
    /// Draws the prompt as the session is now, and not as it was when the line was begun.
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(
        &'s self,
        prompt: &'p str,
        default: bool,
    ) -> Cow<'b, str> {
        if default { Cow::Owned(self.situation.prompt()) } else { Cow::Borrowed(prompt) }
    }
}

impl Validator for Completion {}
impl Helper for Completion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn commands_options_and_their_values_are_completed() {
        let completion = Completion::new(Slot::default(), Handle::current(), Situation::default());
        for (before, typed, found) in [
            (&[][..], "getac", &["getAcl "][..]),
            (&["--json"], "get", &["get ", "getAcl ", "getAllChildrenNumber ", "getEphemerals "]),
            (&[], "--j", &["--json "]),
            (&["delete"], "-", &["--help ", "--json ", "-h ", "-v "]),
            (&["create"], "--f", &["--file "]),
            (&["addWatch", "-m"], "", &["PERSISTENT ", "PERSISTENT_RECURSIVE "]),
            (&["addWatch", "-m"], "persistent_", &["PERSISTENT_RECURSIVE "]),
            (&["printwatches"], "o", &["off ", "on "]),
            (&["help"], "sync", &["sync "]),
            (&["set", "-v"], "", &[]),
            (&["get"], "/a", &[]),
            (&["get"], "x", &[]),
        ] {
            assert_eq!(completion.candidates(before, typed), found, "{before:?} {typed}");
        }
    }
}
