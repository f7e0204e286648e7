//! The shell: commands line by line, typed by a person or piped in as a script.

mod complete;
mod editor;
mod prompt;

use std::borrow::Cow;
use std::future::pending;
use std::io::{self, BufRead, IsTerminal};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use clap::{CommandFactory, Parser};
use futures_util::FutureExt;
use rustix::process::Signal;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use zoolet_client::{SessionState, WatchedEvent};

use crate::args::{self, Arguments, Options, ShellCommand, ShellLine, Switch, ZnodeCommand};
use crate::commands::{self, Watches, event_json, event_text};
use crate::connection::Connection;
use crate::context::Context;
use crate::error::{self, CtlError, Exit};
use crate::format::name_text;
use crate::interrupt::{self, Interrupt};
use crate::locks;
use crate::output::{self, Output, note, report};
use crate::words;
use complete::{Completion, Slot};
use editor::{Prompt, Typed, is_to_be_remembered};
use prompt::Situation;

/// Runs the shell until its input ends.
pub(crate) async fn run(options: Options) -> Result<(), CtlError> {
    let mut shell = Shell::new(options);
    if io::stdin().is_terminal() && io::stdout().is_terminal() {
        shell.interact().await
    } else {
        shell.run_script().await
    }
}

/// Whether the shell goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Continue,
    Quit,
}

/// The state between two lines.
#[derive(Debug)]
struct Shell {
    options: Options,
    connection: Option<Connection>,
    /// The same client, for the completion of paths.
    completion: Slot,
    /// What the prompt shows.
    situation: Situation,
    history: Vec<String>,
    watches: Watches,
    prints_watches: bool,
    /// What ends the line that is carried out.
    interrupt: Interrupt,
}

impl Shell {
    fn new(options: Options) -> Self {
        let situation = Situation::default();
        situation.set(options.ensemble.as_deref(), options.connect_string(), None);
        Self {
            options,
            situation,
            connection: None,
            completion: Arc::new(Mutex::new(None)),
            history: Vec::new(),
            watches: Watches::default(),
            prints_watches: true,
            interrupt: Interrupt::never(),
        }
    }

    /// A person types.
    async fn interact(&mut self) -> Result<(), CtlError> {
        note(&format!("zooletctl {}: `help` lists the commands", env!("CARGO_PKG_VERSION")));
        if let Err(error) = self.connect(None).await {
            report(&error, false);
        }
        let completion = Completion::new(
            Arc::clone(&self.completion),
            Handle::current(),
            self.situation.clone(),
        );
        let (mut prompt, mut print) = Prompt::start(completion, self.situation.clone())?;
        loop {
            let line = match self.typed(&mut prompt, &mut print).await {
                Typed::Line(line) => line,
                Typed::Nothing => continue,
                Typed::End => break,
            };
            if self.enter_until_interrupted(&line).await == Ok(Flow::Quit) {
                break;
            }
        }
        self.disconnect().await;
        Ok(())
    }

    /// Carries out one line. Behind Ctrl-C it may say how far it has come; a second one ends it at once.
    async fn enter_until_interrupted(&mut self, line: &str) -> Result<Flow, Exit> {
        let (interrupt, receiver) = Interrupt::channel();
        self.interrupt = receiver;
        let mut entered = pin!(self.enter(line));
        tokio::select! {
            flow = &mut entered => return flow,
            _ = tokio::signal::ctrl_c() => drop(interrupt.send_replace(Some(Signal::INT))),
        }
        tokio::select! {
            flow = entered => return flow,
            () = sleep(interrupt::ANSWER_MAX) => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        note("interrupted");
        Ok(Flow::Continue)
    }

    /// Waits for a line, and prints events and changes of the session meanwhile.
    async fn typed(&mut self, prompt: &mut Prompt, print: &mut impl FnMut(String)) -> Typed {
        let mut state = self.connection.as_ref().map(|open| open.client.state());
        if let Some(state) = &mut state {
            state.mark_unchanged();
        }
        let mut line = pin!(prompt.line());
        loop {
            tokio::select! {
                typed = &mut line => return typed,
                () = changed(&mut state) => print(format!("session: {}\n", self.situation.state())),
                Some(event) = self.watches.next() => if self.prints_watches {
                    let text = self.event(&event);
                    print(format!("{text}\n"));
                },
            }
        }
    }

    fn event(&self, event: &WatchedEvent) -> String {
        if self.options.json { event_json(event).to_string() } else { event_text(event) }
    }

    /// Prints the events that came with the answer to a command or before it.
    fn print_events(&mut self) -> Result<(), CtlError> {
        while let Some(Some(event)) = self.watches.next().now_or_never() {
            if self.prints_watches {
                output::line(&self.event(&event))?;
            }
        }
        Ok(())
    }

    /// A script is piped in. It goes on behind a line that fails, as zkCli does; the exit code is
    /// that of the first one.
    async fn run_script(&mut self) -> Result<(), CtlError> {
        self.connect(None).await?;
        let mut lines = read_lines();
        let mut first_failure = None;
        self.interrupt = Interrupt::receive(self.options.json)?;
        let interrupt = self.interrupt.clone();
        loop {
            let line = tokio::select! {
                line = lines.recv() => line,
                Some(event) = self.watches.next() => {
                    if self.prints_watches {
                        output::line(&self.event(&event))?;
                    }
                    continue;
                }
                error = interrupt.comes() => {
                    self.disconnect().await;
                    return Err(error);
                }
            };
            let Some(line) = line else { break };
            let flow = if let Ok(line) = String::from_utf8(line?) {
                self.enter(&line).await
            } else {
                let error = CtlError::new(Exit::InvalidInput, "a line is not UTF-8");
                report(&error, self.options.json);
                Err(error.exit)
            };
            match flow {
                Ok(Flow::Continue) => {}
                Ok(Flow::Quit) => break,
                Err(Exit::BrokenPipe) => return Err(CtlError::new(Exit::BrokenPipe, "")),
                Err(exit) if interrupt.has_come().is_some() => {
                    // The line has said so.
                    first_failure = Some(exit);
                    break;
                }
                Err(exit) => _ = first_failure.get_or_insert(exit),
            }
        }
        self.disconnect().await;
        first_failure.map_or(Ok(()), |exit| Err(CtlError::new(exit, "")))
    }

    /// Carries out one line, and reports what goes wrong in the form that the line asks for.
    async fn enter(&mut self, line: &str) -> Result<Flow, Exit> {
        let mut line = Cow::Borrowed(line.trim());
        let carried_out = self.carry_out(&mut line).await;
        carried_out.map_err(|error| {
            report(&error, self.output(&line).json);
            error.exit
        })
    }

    /// The form of the results of a line.
    fn output(&self, line: &str) -> Output {
        let words = words::split(line).unwrap_or_default();
        let is_wanted = args::is_json_wanted(words.into_iter().map(Into::into));
        Output { json: is_wanted || self.options.json }
    }

    /// Carries out one line, which becomes the one of before if that is to be carried out again.
    async fn carry_out(&mut self, line: &mut Cow<'_, str>) -> Result<Flow, CtlError> {
        if line.is_empty() || line.starts_with('#') {
            return Ok(Flow::Continue);
        }
        let Some(mut parsed) = parse(line, self.output(line))? else { return Ok(Flow::Continue) };
        if let ShellCommand::Redo { number } = parsed.command {
            let again = number.checked_sub(1).and_then(|index| self.history.get(index)).cloned();
            let again = again.ok_or_else(|| {
                CtlError::new(Exit::InvalidInput, format!("the history has no line {number}"))
                    .hint("`history` numbers the lines")
            })?;
            *line = Cow::Owned(again);
            let Some(again) = parse(line, self.output(line))? else { return Ok(Flow::Continue) };
            parsed = again;
        }
        if is_to_be_remembered(line) {
            self.history.push(line.to_string());
        }
        self.execute(parsed).await
    }

    async fn execute(&mut self, line: ShellLine) -> Result<Flow, CtlError> {
        let output = Output { json: line.json || self.options.json };
        match line.command {
            ShellCommand::Znode(command) => {
                let context = self.context(output)?;
                let mut watches = commands::run(&command, &context).await;
                if let ZnodeCommand::RemoveWatches(arguments) = &command
                    && arguments.local
                    && watches.as_ref().is_err_and(|error| error.exit == Exit::Connection)
                    && self.watches.forget(arguments)
                {
                    output.note("no server could be reached: removed here alone");
                    watches = Ok(Vec::new());
                }
                // Events come before the answer to what caused them.
                self.print_events()?;
                self.watches.extend(watches?);
            }
            ShellCommand::Locks(arguments) => {
                let context = self.context(output)?;
                locks::run(&arguments, &self.options, &context).await?;
            }
            ShellCommand::Connect { servers } => {
                self.disconnect().await;
                self.connect(servers).await?;
            }
            ShellCommand::Close => self.disconnect().await,
            ShellCommand::History => self.print_history(output)?,
            ShellCommand::Help { command } => output::help(&help(command.as_deref())?, output)?,
            ShellCommand::PrintWatches { switch: None } => {
                let on = self.prints_watches;
                let text = || format!("printwatches is {}", if on { "on" } else { "off" });
                output.result(text, || json!({ "printwatches": on }))?;
            }
            ShellCommand::PrintWatches { switch: Some(switch) } => {
                self.prints_watches = switch == Switch::On;
            }
            ShellCommand::Version => output::version(output)?,
            // A redone line is never a redo: those are not remembered.
            ShellCommand::Redo { .. } => {}
            ShellCommand::Quit => return Ok(Flow::Quit),
        }
        Ok(Flow::Continue)
    }

    fn context(&self, output: Output) -> Result<Context, CtlError> {
        let connection = self.connection.clone().ok_or_else(closed)?;
        let connection = Connection { interrupt: self.interrupt.clone(), ..connection };
        Ok(Context { connection, output, options: self.options.clone(), is_shell: true })
    }

    async fn connect(&mut self, servers: Option<String>) -> Result<(), CtlError> {
        if let Some(servers) = servers {
            self.options.set_servers(servers);
        }
        let connection = Connection::open(&self.options).await?;
        *self.completion.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(connection.client.clone());
        let (ensemble, state) = (self.options.ensemble.as_deref(), connection.client.state());
        self.situation.set(ensemble, self.options.connect_string(), Some(state));
        self.connection = Some(connection);
        Ok(())
    }

    async fn disconnect(&mut self) {
        self.completion.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.watches.clear();
        self.situation.end();
        if let Some(connection) = self.connection.take() {
            connection.close().await;
        }
    }

    fn print_history(&self, output: Output) -> Result<(), CtlError> {
        let numbered = (1..).zip(&self.history);
        let text = || {
            let lines: Vec<String> =
                numbered.map(|(number, line)| format!("{number} - {}", name_text(line))).collect();
            lines.join("\n")
        };
        output.result(text, || json!(self.history))
    }
}

/// Waits until the session is in another state; without one, forever.
async fn changed(state: &mut Option<watch::Receiver<SessionState>>) {
    let has_changed = match state {
        Some(state) => state.changed().await.is_ok(),
        None => false,
    };
    if !has_changed {
        pending::<()>().await;
    }
}

/// The lines of stdin. They are read by a thread of its own, which the program does not wait for at
/// its end: `quit` may come before stdin is closed.
fn read_lines() -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (sender, lines) = mpsc::channel(1);
    thread::spawn(move || {
        for line in io::stdin().lock().split(b'\n') {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn closed() -> CtlError {
    CtlError::new(Exit::Connection, "not connected").hint("`connect` opens a session")
}

/// Takes a line apart; `None` when it asked for help and got it.
fn parse(line: &str, output: Output) -> Result<Option<ShellLine>, CtlError> {
    let words = words::split(line).map_err(|why| CtlError::new(Exit::Usage, why))?;
    let words = args::as_zkcli_users_write(words.into_iter().map(Into::into));
    match ShellLine::try_parse_from(&words) {
        Ok(line) => Ok(Some(line)),
        Err(error) => {
            let mut names = words.iter().map(|word| word.to_string_lossy());
            let name = names.find(|word| !word.starts_with('-')).unwrap_or_default();
            if let Some(elsewhere) = of_command_line(&name) {
                return Err(elsewhere);
            }
            // No name precedes the command.
            let text = error.render().to_string().replace("Usage:  ", "Usage: ");
            if error.use_stderr() {
                return Err(error::usage(&text));
            }
            output::help(&text, output).map(|()| None)
        }
    }
}

fn help(command: Option<&str>) -> Result<String, CtlError> {
    let mut shell = ShellLine::command();
    let Some(name) = command else {
        let lines = shell.get_subcommands().map(|command| {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            format!("  {:<22}{about}", command.get_name())
        });
        let lines: Vec<String> = lines.collect();
        return Ok(format!("{}\n`help COMMAND` shows more.", lines.join("\n")));
    };
    match shell.find_subcommand_mut(name) {
        Some(command) => Ok(command.render_long_help().to_string().trim_end().to_owned()),
        None => Err(of_command_line(name).unwrap_or_else(|| {
            let message = format!("unknown command {name:?}");
            CtlError::new(Exit::Usage, message).hint("`help` lists the commands")
        })),
    }
}

/// What is said of a command that only the command line has; `None` if the name is that of no such
/// command.
fn of_command_line(name: &str) -> Option<CtlError> {
    let is_of = |all: &clap::Command| all.find_subcommand(name).is_some();
    let message = format!("the shell does not have {name}: run `zooletctl {name}` outside of it");
    (is_of(&Arguments::command()) && !is_of(&ShellLine::command()))
        .then(|| CtlError::new(Exit::Usage, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `help get` panicked.
    #[test]
    fn help_shows_every_command() {
        for command in ShellLine::command().get_subcommands() {
            let shown = help(Some(command.get_name())).unwrap();
            assert!(shown.contains("Usage:"), "{}: {shown}", command.get_name());
        }
        assert!(help(Some("frob")).unwrap_err().message.contains("unknown command"));
    }

    #[test]
    fn commands_of_the_command_line_are_named_as_such() {
        let output = Output { json: false };
        for name in ["lock", "elect", "watch", "status", "bench", "torture", "snapshot", "digest"] {
            let why =
                format!("the shell does not have {name}: run `zooletctl {name}` outside of it");
            assert_eq!(parse(&format!("{name} /a -- true"), output).unwrap_err().message, why);
            assert_eq!(parse(&format!("--json {name} /a"), output).unwrap_err().message, why);
            assert_eq!(help(Some(name)).unwrap_err().message, why);
        }
        assert!(parse("frob /a", output).unwrap_err().message.contains("unrecognized"));
        assert!(parse("locks --frob", output).unwrap_err().message.contains("--frob"));
    }
}
