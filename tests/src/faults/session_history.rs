//! What a session has asked for and which replies it got.

use std::time::Duration;

use zoolet_client::{SessionInfo, Zxid};

/// The kinds of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A sequential znode below `log` that holds the write's number.
    Append,
    /// The write's number into `counter`, by its version.
    Set,
    /// Both, and a check of the version, in one transaction.
    Both,
    /// `flag` is created if it is not there, and deleted if it is.
    Flip,
}

/// What the session knows about a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged, with the zxid of the reply and the path of a sequential znode.
    Acknowledged { zxid: Zxid, path: Option<String> },
    /// The connection was lost, and there was no look since.
    Unknown,
    /// The connection was lost; a later read has shown the write.
    TookEffect,
    /// The connection was lost; a later read behind a sync has not shown the write, so it must
    /// never appear.
    HadNone,
}

/// One write. Its number is its value.
#[derive(Clone, Debug)]
pub struct Event {
    pub number: u64,
    pub op: Op,
    /// Since the load began.
    pub invoked: Duration,
    pub answered: Duration,
    pub outcome: Outcome,
}

impl Event {
    pub fn is_acknowledged(&self) -> bool {
        matches!(self.outcome, Outcome::Acknowledged { .. })
    }

    /// Whether the write has written `counter`.
    pub fn has_counted(&self) -> bool {
        let took_effect = self.is_acknowledged() || self.outcome == Outcome::TookEffect;
        took_effect && matches!(self.op, Op::Set | Op::Both)
    }

    /// Whether the write may be, or has to be, in `log`.
    pub fn may_be_logged(&self) -> bool {
        matches!(self.op, Op::Append | Op::Both) && self.outcome != Outcome::HadNone
    }

    /// Whether the write has to be in `log`.
    pub fn must_be_logged(&self) -> bool {
        let took_effect = self.is_acknowledged() || self.outcome == Outcome::TookEffect;
        took_effect && matches!(self.op, Op::Append | Op::Both)
    }
}

/// Everything one session has asked for, in the order in which it asked.
#[derive(Clone, Debug)]
pub struct SessionHistory {
    /// The znode under which the session writes.
    pub root: String,
    pub session: SessionInfo,
    /// The zxid that created the session's ephemeral znode, `alive`.
    pub alive_since: Zxid,
    pub events: Vec<Event>,
    /// Reads that were answered as the writes before them demand.
    pub reads: usize,
}

impl SessionHistory {
    pub fn acknowledged(&self) -> usize {
        self.events.iter().filter(|event| event.is_acknowledged()).count()
    }

    /// Writes whose reply was lost.
    pub fn in_doubt(&self) -> usize {
        self.events.len() - self.acknowledged()
    }

    /// The newest zxid that acknowledged a write.
    pub fn last_zxid(&self) -> Zxid {
        let zxids = self.events.iter().rev().filter_map(|event| match event.outcome {
            Outcome::Acknowledged { zxid, .. } => Some(zxid),
            Outcome::Unknown | Outcome::TookEffect | Outcome::HadNone => None,
        });
        zxids.max().unwrap_or(self.alive_since)
    }
}
