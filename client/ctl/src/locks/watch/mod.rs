//! `locks --watch`: the locks again and again.
//!
//! It looks at the children of each lock's znode once in an interval, and at the whole tree seldom. A
//! recursive watch would send an event for each acquire and each release of every client; one look
//! costs one request for each lock and one for each new place, however busy the locks are, and the
//! counter of changes in a znode's Stat shows how many places have come and gone in between.

mod screen;
mod table;
mod tally;

use std::collections::BTreeSet;
use std::io::{IsTerminal, stdin, stdout};
use std::pin::pin;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, sleep};
use zoolet_survey::clock::now_ms;
use zoolet_survey::locks::{Known, find, find_again, locks_of};

use super::clients::Clients;
use super::keys::Keys;
use super::scope;
use crate::args::{Locks, Options, Order};
use crate::connection::Connection;
use crate::error::{CtlError, Exit};
use crate::output::{self, Output};
use crate::path;
use crate::signals::{Signals, stop_process};
use screen::Screen;
use table::Table;
use tally::{Look, Tally};

/// The shortest time between two looks at the whole tree.
const TREE_INTERVAL_MIN: Duration = Duration::from_secs(10);

/// How many times as long as the look at the whole tree the time between two of them is.
const TREE_SHARE: u32 = 20;

/// `locks --watch [PATH]`, until a key or a signal ends it.
pub(crate) async fn run(arguments: &Locks, options: &Options) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    let mut input = Input::open()?;
    let mut watcher = Watcher::new(arguments, options);
    let mut view = View::new(arguments, options);
    let mut is_first = true;
    loop {
        let looked = {
            let mut look = pin!(watcher.look());
            loop {
                tokio::select! {
                    looked = &mut look => break looked,
                    request = input.next(&mut view.screen) => if view.is_ended_by(request)? {
                        return Ok(());
                    },
                }
            }
        };
        match looked {
            Err(error) if is_first => return Err(error),
            Err(error) => view.trouble = Some(error.message),
            Ok(table) => {
                (view.table, view.trouble) = (table, None);
                if is_first {
                    // What it says until then is for a person too.
                    view.begin()?;
                    input.begin(view.screen.is_some());
                    is_first = false;
                }
            }
        }
        view.show()?;
        let mut pause = pin!(sleep(arguments.interval));
        loop {
            tokio::select! {
                () = &mut pause => break,
                request = input.next(&mut view.screen) => if view.is_ended_by(request)? {
                    watcher.close().await;
                    return Ok(());
                },
            }
        }
    }
}

/// What a person asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    End,
    /// Sort by the next column.
    Sort,
    /// Draw anew: the terminal was another program's meanwhile.
    Draw,
}

/// Keys and signals.
#[derive(Debug)]
struct Input {
    signals: Signals,
    /// Once the screen is there, if standard input is a terminal.
    keys: Option<Keys>,
}

impl Input {
    fn open() -> Result<Self, CtlError> {
        Ok(Self { signals: Signals::receive()?, keys: None })
    }

    fn begin(&mut self, has_screen: bool) {
        self.keys = (has_screen && stdin().is_terminal()).then(Keys::read);
    }

    async fn next(&mut self, screen: &mut Option<Screen>) -> Request {
        let Self { signals, keys } = self;
        loop {
            let key = async {
                match keys {
                    Some(keys) => keys.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                key = key => match key {
                    Some(b'q' | b'Q') => return Request::End,
                    Some(b's' | b'S') => return Request::Sort,
                    Some(_) => {}
                    None => *keys = None,
                },
                signal = signals.next() => match signal {
                    Signal::TSTP => {
                        let was_shown = screen.take().is_some();
                        stop_process();
                        if was_shown {
                            // Without it the lines are printed one below the other.
                            *screen = Screen::enter().ok();
                        }
                        return Request::Draw;
                    }
                    Signal::USR1 | Signal::USR2 => {}
                    _ => return Request::End,
                },
            }
        }
    }
}

/// Where the figures go.
#[derive(Debug)]
struct View {
    path: String,
    interval: Duration,
    order: Order,
    output: Output,
    screen: Option<Screen>,
    table: Table,
    /// Why the last look has failed.
    trouble: Option<String>,
}

impl View {
    fn new(arguments: &Locks, options: &Options) -> Self {
        Self {
            path: arguments.path.clone(),
            interval: arguments.interval,
            order: arguments.sort,
            output: Output { json: options.json },
            screen: None,
            table: Table::default(),
            trouble: None,
        }
    }

    fn begin(&mut self) -> Result<(), CtlError> {
        if !self.output.json && stdout().is_terminal() {
            self.screen = Some(Screen::enter()?);
        }
        Ok(())
    }

    /// Does what was asked for. Returns whether that is to end.
    fn is_ended_by(&mut self, request: Request) -> Result<bool, CtlError> {
        match request {
            Request::End => return Ok(true),
            Request::Sort => self.order = self.order.next(),
            Request::Draw => {}
        }
        // Lines that were printed stay.
        if self.screen.is_some() {
            self.show()?;
        }
        Ok(false)
    }

    fn show(&mut self) -> Result<(), CtlError> {
        let (now, trouble) = (now_ms(), self.trouble.as_deref());
        if self.output.json {
            return output::line(&self.table.json(self.order, trouble, now).to_string());
        }
        let head = table::head(&self.path, self.interval, self.order, self.screen.is_some());
        let mut lines = self.table.lines(self.order, trouble, now);
        lines.insert(0, head);
        match &self.screen {
            Some(screen) => screen.draw(&lines),
            None => output::line(&format!("{}\n", lines.join("\n"))),
        }
    }
}

/// Looks at the locks.
#[derive(Debug)]
struct Watcher<'a> {
    arguments: &'a Locks,
    options: Options,
    connection: Option<Connection>,
    /// The znodes that have or had places below them.
    paths: BTreeSet<String>,
    known: Known,
    tally: Tally,
    next_tree: Instant,
}

impl<'a> Watcher<'a> {
    fn new(arguments: &'a Locks, options: &Options) -> Self {
        Self {
            arguments,
            options: options.clone(),
            connection: None,
            paths: BTreeSet::new(),
            known: Known::new(),
            tally: Tally::default(),
            next_tree: Instant::now(),
        }
    }

    async fn look(&mut self) -> Result<Table, CtlError> {
        let connection = self.connection().await?;
        let (reader, scope) =
            (connection.reader(), scope(&self.arguments.path, self.arguments.all));
        let began = Instant::now();
        if began >= self.next_tree {
            self.paths.extend(find(scope, &reader, |_, _| {}).await?.queues.into_keys());
            let pause = (began.elapsed() * TREE_SHARE).max(TREE_INTERVAL_MIN);
            self.next_tree = Instant::now() + pause;
        }
        let paths = self.paths.iter().cloned().collect();
        let queues = find_again(scope, paths, &reader).await?;
        self.paths.retain(|path| queues.contains_key(path));
        let locks = locks_of(scope, &queues, &mut self.known, &reader).await?;
        let clients = Clients::of(&locks, &self.options).await?;
        let look = Look { at_ms: now_ms(), queues: &queues, locks: &locks, clients: &clients };
        self.tally.take(&look);
        Ok(Table { rows: self.tally.rows(&look), clients })
    }

    /// The session, or another one if it has ended.
    async fn connection(&mut self) -> Result<Connection, CtlError> {
        if let Some(connection) = &self.connection {
            let state = *connection.client.state().borrow();
            if state.is_served() {
                return Ok(connection.clone());
            }
            if !state.is_terminal() {
                let message = "the connection is lost, and a server is looked for";
                return Err(CtlError::new(Exit::Connection, message));
            }
        }
        // What it says on stderr would be on top of the screen; as JSON nothing is said.
        let json = self.options.json || self.connection.is_some();
        let mut options = self.options.clone();
        options.json = json;
        let connection = Connection::open(&options).await?;
        self.connection = Some(connection.clone());
        Ok(connection)
    }

    async fn close(self) {
        if let Some(connection) = self.connection {
            connection.close().await;
        }
    }
}
