//! The trace of a run: what happened, in order, as lines that a person can read, and their hash, by
//! which two runs of a seed are compared.

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::panic::PanicHookInfo;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use zoolet_replica::ServerId;

use crate::SimTime;
use crate::history::What;

thread_local! {
    static TRACE: RefCell<Trace> = RefCell::new(Trace::default());
}

/// The longest line of a record, in bytes.
const RECORD_BYTES_MAX: usize = 400;
/// The begin of an FNV-1a hash.
const HASH_BEGIN: u64 = 0xcbf2_9ce4_8422_2325;

/// Whose lines those of all clients are.
pub(crate) const CLIENTS: &str = "clients";
/// The begin of the line of a panic.
const PANIC: &str = "PANIC";

/// A line of a server or of the nemesis, kept for those who look for situations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at: SimTime,
    /// Who.
    pub who: String,
    /// What.
    pub text: String,
}

impl Mark {
    /// The server whose line it is.
    pub fn server(&self) -> Option<ServerId> {
        self.who.strip_prefix("server ")?.parse().ok().map(ServerId)
    }

    /// The server that the line names, which may be another one.
    pub fn names(&self) -> Option<ServerId> {
        let number = self.text.split("server=").nth(1)?.split(' ').next()?;
        number.parse().ok().map(ServerId)
    }

    /// The server that the line is about: whose it is, or of which the nemesis says it.
    pub fn about(&self) -> Option<ServerId> {
        let named = || self.text.strip_prefix("server ")?.split(' ').next()?.parse().ok();
        self.server().or_else(|| named().map(ServerId))
    }

    /// Whether it is an error that was logged, or a panic.
    pub fn is_trouble(&self) -> bool {
        self.text.starts_with("ERROR") || self.text.starts_with(PANIC)
    }
}

#[derive(Debug)]
struct Trace {
    marks: Vec<Mark>,
    now: SimTime,
    who: String,
    hash: u64,
    lines: u64,
    is_shown: bool,
    text: String,
    short: String,
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            marks: Vec::new(),
            now: SimTime::default(),
            who: String::new(),
            hash: HASH_BEGIN,
            lines: 0,
            is_shown: false,
            text: String::new(),
            short: String::new(),
        }
    }
}

/// Shows the lines on the standard output from now on, or does not.
pub fn show(is_shown: bool) {
    TRACE.with_borrow_mut(|trace| trace.is_shown = is_shown);
}

/// The time of the lines that follow.
pub(crate) fn at(now: SimTime) {
    TRACE.with_borrow_mut(|trace| trace.now = now);
}

/// Whose lines follow.
pub(crate) fn of(who: &str) {
    TRACE.with_borrow_mut(|trace| {
        if trace.who != who {
            trace.who.clear();
            trace.who.push_str(who);
        }
    });
}

/// Adds a line.
pub(crate) fn line(what: fmt::Arguments<'_>) {
    TRACE.with_borrow_mut(|trace| trace.line(what));
}

/// Adds a line for what a client has done or seen.
pub(crate) fn record(what: &What) {
    TRACE.with_borrow_mut(|trace| {
        let mut text = Short { text: std::mem::take(&mut trace.short), left: RECORD_BYTES_MAX };
        text.text.clear();
        // What is too long is cut off.
        let _ = write!(text, "{what:?}");
        trace.line(format_args!("{}", text.text));
        trace.short = text.text;
    });
}

/// A text that is cut off.
struct Short {
    text: String,
    left: usize,
}

impl fmt::Write for Short {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        if more.len() > self.left {
            self.left = 0;
            return Err(fmt::Error);
        }
        self.left -= more.len();
        self.text.push_str(more);
        Ok(())
    }
}

/// The hash of all lines so far, and how many there were.
pub fn summary() -> (u64, u64) {
    TRACE.with_borrow(|trace| (trace.hash, trace.lines))
}

/// Looks at the marks from this number on. Returns how many there are.
pub(crate) fn look_at_marks(from: usize, look: impl FnMut(&Mark)) -> usize {
    TRACE.with_borrow(|trace| {
        trace.marks.iter().skip(from).for_each(look);
        trace.marks.len()
    })
}

/// Takes the lines of servers and of the nemesis so far.
pub(crate) fn take_marks() -> Vec<Mark> {
    TRACE.with_borrow_mut(|trace| std::mem::take(&mut trace.marks))
}

/// Adds a panic of any server or client. For the hook of the process.
pub fn panicked(panic: &PanicHookInfo<'_>) {
    TRACE.with(|trace| {
        // One that comes out of the trace itself is only shown.
        let Ok(mut trace) = trace.try_borrow_mut() else { return };
        trace.line(format_args!("{PANIC} {panic}"));
        if trace.who == CLIENTS {
            let (at, who, text) = (trace.now, trace.who.clone(), format!("{PANIC} {panic}"));
            trace.marks.push(Mark { at, who, text });
        }
    });
}

impl Trace {
    fn line(&mut self, what: fmt::Arguments<'_>) {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        // Writing into a text does not fail.
        let _ = writeln!(text, "{} {:<9} {what}", self.now, self.who);
        for byte in text.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.lines += 1;
        if self.who != CLIENTS {
            let (who, text) = (self.who.clone(), what.to_string());
            self.marks.push(Mark { at: self.now, who, text });
        }
        if self.is_shown {
            // A reader that has seen enough has gone.
            let _ = io::stdout().write_all(text.as_bytes());
        }
        self.text = text;
    }
}

/// Takes what servers and clients log into the trace.
#[derive(Debug)]
pub struct Logs;

impl Subscriber for Logs {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.target().starts_with("zoolet")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(String::new());
        event.record(&mut fields);
        line(format_args!("{}{}", event.metadata().level(), fields.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing into a text does not fail.
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
