//! What Tab completes: commands, and the paths that the servers have.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::CommandFactory;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use tokio::runtime::Handle;
use tokio::time::timeout;
use zoolet_client::Client;

use crate::args::ShellLine;
use crate::format::acts_on_viewers;

/// How long a person waits for a completion before there is none.
const COMPLETION_MAX: Duration = Duration::from_secs(1);

/// The client that the shell has at the moment.
pub(crate) type Slot = Arc<Mutex<Option<Client>>>;

/// Completes words.
#[derive(Debug)]
pub(crate) struct Completion {
    commands: Vec<String>,
    client: Slot,
    runtime: Handle,
}

impl Completion {
    pub(crate) fn new(client: Slot, runtime: Handle) -> Self {
        let command = ShellLine::command();
        let commands = command.get_subcommands().map(|command| command.get_name().to_owned());
        Self { commands: commands.collect(), client, runtime }
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
        let typed = line.get(start..).unwrap_or_default();
        let found = if line.get(..start).unwrap_or_default().trim().is_empty() {
            let fits = |command: &&String| {
                command.to_ascii_lowercase().starts_with(&typed.to_ascii_lowercase())
            };
            self.commands.iter().filter(fits).map(|command| format!("{command} ")).collect()
        } else {
            self.paths(typed)
        };
        let pair =
            |found: String| Pair { display: found.trim_end().to_owned(), replacement: found };
        Ok((start, found.into_iter().map(pair).collect()))
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}
impl Validator for Completion {}
impl Helper for Completion {}
