//! The oracle: the same operations go to a real Apache `ZooKeeper` and to zoolet, and every reply,
//! Stat, error code and watch event must be the same.
//!
//! Both servers start empty. A seeded generator makes operations of several sessions; after each
//! one every session is pinged, so that all the events that it fired are in. Zxids differ between
//! the servers, so they are mapped: each pair that is met must be met again, and the mapping must
//! keep the order. [`differences`] lists what is meant to differ, with its reason.
//!
//! A run comes in chapters: at the end of each the whole trees are compared, and emptied, because
//! a tree that no session may change any more teaches nothing.

mod chapter;
mod compare;
pub mod differences;
mod generate;
mod side;

use std::fmt;
use std::io;
use std::net::SocketAddr;

use fastrand::Rng;
use zoolet_jute::Xid;

use crate::raw::Incoming;
use compare::Mapping;
use generate::{Generator, Step};
use side::{Outcome, Side};

/// The sessions that take part at a time.
const SESSIONS: usize = 3;

/// One more session: the superuser's, which looks over the trees and empties them.
const KEEPER: usize = SESSIONS;

/// The digest of the superuser `super:oracle`, which both servers are started with.
pub const SUPER_DIGEST: &str = "super:w41Z49KzAbWweq3fTkicrahb3kI=";

/// The operations between two looks over the whole trees.
const CHAPTER_OPERATIONS: u64 = 5_000;

/// The session timeout, long enough to never expire on a slow machine; in milliseconds.
const SESSION_TIMEOUT_MS: i32 = 40_000;

/// The steps before its own that a disagreement shows.
const HISTORY_MAX: usize = 12;

/// The characters of a line that say enough: data can be thousands of bytes.
const LINE_CHARS_MAX: usize = 700;

/// What a run has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// The operations that both servers answered.
    pub operations: u64,
    /// The watch events that both servers sent.
    pub events: u64,
    /// The operations that both servers refused.
    pub refused: u64,
    /// The replies that fell under a difference that is meant.
    pub differences: u64,
}

/// Where the two servers disagree.
#[derive(Debug)]
pub struct Disagreement {
    /// The seed that replays it.
    pub seed: u64,
    /// The number of the operation.
    pub step: u64,
    /// What was asked.
    pub asked: String,
    /// What the reference answered.
    pub reference: String,
    /// What the subject answered.
    pub subject: String,
    /// The operations that led there.
    pub history: Vec<String>,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.history {
            writeln!(f, "    {line}")?;
        }
        writeln!(f, "seed {} step {}: {}", self.seed, self.step, self.asked)?;
        writeln!(f, "  reference: {}", self.reference)?;
        write!(f, "  subject:   {}", self.subject)
    }
}

/// Why a run ended early.
#[derive(Debug)]
pub enum OracleError {
    /// The servers disagree.
    Disagreement(Box<Disagreement>),
    /// A server could not be talked to.
    Io(&'static str, io::Error),
}

impl fmt::Display for OracleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disagreement(disagreement) => disagreement.fmt(f),
            Self::Io(side, error) => write!(f, "the {side}: {error}"),
        }
    }
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Decides everything.
    pub seed: u64,
    /// How many operations.
    pub operations: u64,
    /// Whether multis are among them. With hard quotas they must not: see
    /// [`differences::QUOTA_IN_MULTI`].
    pub multis: bool,
}

/// Runs a plan against both servers, which start empty and know [`SUPER_DIGEST`].
pub fn run(reference: SocketAddr, subject: SocketAddr, plan: Plan) -> Result<Summary, OracleError> {
    let mut run = Run::open(reference, subject, plan)?;
    let mut generator = Generator::new(Rng::with_seed(plan.seed), SESSIONS, plan.multis);
    run.begin()?;
    while run.summary.operations < plan.operations {
        for _ in 0..CHAPTER_OPERATIONS.min(plan.operations - run.summary.operations) {
            let (session, asked) = generator.next_step();
            let performed = run.perform(session, &asked)?;
            generator.learn(&asked, &performed.reply);
            if performed.reopened {
                generator.session_reopened(session);
            }
        }
        run.end_chapter()?;
    }
    run.reference.close();
    run.subject.close();
    Ok(run.summary)
}

/// Both servers in the middle of a run.
struct Run {
    seed: u64,
    reference: Side,
    subject: Side,
    mapping: Mapping,
    summary: Summary,
    step: u64,
    history: Vec<String>,
}

/// What became of a step on which both servers agree.
struct Performed {
    /// The reference's reply.
    reply: Incoming,
    /// Whether the session has a new connection.
    reopened: bool,
}

impl Run {
    fn open(reference: SocketAddr, subject: SocketAddr, plan: Plan) -> Result<Self, OracleError> {
        let reference = Side::open("reference", reference)?;
        let subject = Side::open("subject", subject)?;
        let mut mapping = Mapping::default();
        mapping.sessions(&reference.session_ids(), &subject.session_ids());
        let (summary, history) = (Summary::default(), Vec::new());
        Ok(Self { seed: plan.seed, reference, subject, mapping, summary, step: 0, history })
    }

    /// Does the same on both servers; anything but agreement is an error.
    fn perform(&mut self, session: usize, asked: &Step) -> Result<Performed, OracleError> {
        let xid = Xid(i32::try_from(self.step % 0x7fff_0000).unwrap_or(0) + 1);
        let left = self.reference.perform(session, xid, asked)?;
        let right = self.subject.perform(session, xid, asked)?;
        let described = format!("session {session}: {asked:?}");
        let agreed = self
            .reference
            .check_times(&left)
            .and_then(|()| self.subject.check_times(&right))
            .and_then(|()| self.mapping.agree(asked, &left, &right));
        let agreed = match agreed {
            Ok(verdict) => {
                let withheld = self.mapping.take_withheld();
                self.reference.check_withheld(session, xid, withheld, verdict)?
            }
            Err(why) => Err(why),
        };
        match agreed {
            Ok(verdict) => self.summary.count(&left, verdict),
            Err(why) => {
                let asked = format!("{}: {}", short(&described), short(&why));
                return Err(self.disagreement(asked, &left, &right));
            }
        }
        if left.closed {
            self.reference.reopen(session, asked.ends_session())?;
            self.subject.reopen(session, asked.ends_session())?;
        }
        let reopened = left.closed || *asked == Step::Resume;
        if reopened {
            self.mapping.sessions(&self.reference.session_ids(), &self.subject.session_ids());
        }
        if self.history.len() == HISTORY_MAX {
            self.history.remove(0);
        }
        self.history.push(short(&format!("{} {described} -> {:?}", self.step, left.reply)));
        self.step += 1;
        Ok(Performed { reply: left.reply, reopened })
    }

    fn disagreement(&mut self, asked: String, left: &Outcome, right: &Outcome) -> OracleError {
        OracleError::Disagreement(Box::new(Disagreement {
            seed: self.seed,
            step: self.step,
            asked,
            reference: short(&format!("{left:?}")),
            subject: short(&format!("{right:?}")),
            history: std::mem::take(&mut self.history),
        }))
    }
}

fn short(line: &str) -> String {
    line.chars().take(LINE_CHARS_MAX).collect()
}

impl Summary {
    fn count(&mut self, outcome: &Outcome, verdict: compare::Verdict) {
        self.operations += 1;
        self.events += outcome.events.iter().map(|events| events.len() as u64).sum::<u64>();
        if matches!(&outcome.reply, Incoming::Reply(header, _) if header.err.is_some()) {
            self.refused += 1;
        }
        if verdict == compare::Verdict::MeantDifference {
            self.differences += 1;
        }
    }
}
