//! What a run has shown of a way to lock.

use std::time::{Duration, Instant};

/// What is looked at. Each is a column of the table of behavior.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Question {
    Pause,
    Cut,
    Crash,
    ExclusivePaused,
    ExclusiveCut,
    ExclusiveKilled,
    LostPaused,
    LostCut,
    Stale,
    Token,
    Order,
    Again,
    Waiting,
    Restart,
    Loss,
    Failover,
    Clock,
    Remains,
}

pub(super) const QUESTIONS: [Question; 18] = [
    Question::Pause,
    Question::Cut,
    Question::Crash,
    Question::ExclusivePaused,
    Question::ExclusiveCut,
    Question::ExclusiveKilled,
    Question::LostPaused,
    Question::LostCut,
    Question::Stale,
    Question::Token,
    Question::Order,
    Question::Again,
    Question::Waiting,
    Question::Restart,
    Question::Loss,
    Question::Failover,
    Question::Clock,
    Question::Remains,
];

impl Question {
    /// Its name in the data.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Cut => "cut",
            Self::Crash => "crash",
            Self::ExclusivePaused => "exclusive_paused",
            Self::ExclusiveCut => "exclusive_cut",
            Self::ExclusiveKilled => "exclusive_killed",
            Self::LostPaused => "lost_paused",
            Self::LostCut => "lost_cut",
            Self::Stale => "stale",
            Self::Token => "token",
            Self::Order => "order",
            Self::Again => "again",
            Self::Waiting => "waiting",
            Self::Restart => "restart",
            Self::Loss => "loss",
            Self::Failover => "failover",
            Self::Clock => "clock",
            Self::Remains => "remains",
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Pause => "holder paused: the next one",
            Self::Cut => "holder cut off: the next one",
            Self::Crash => "holder killed: the next one",
            Self::ExclusivePaused => "exclusive: holder paused",
            Self::ExclusiveCut => "exclusive: holder cut off",
            Self::ExclusiveKilled => "exclusive: holder killed",
            Self::LostPaused => "paused holder notices",
            Self::LostCut => "holder cut off notices",
            Self::Stale => "stale writes: attempted / accepted without a fence / refused with one",
            Self::Token => "fencing token",
            Self::Order => "fair",
            Self::Again => "reentrant",
            Self::Waiting => "requests per waiter and second",
            Self::Restart => "all servers killed and restarted",
            Self::Loss => "one server lost",
            Self::Failover => "failover to an asynchronous replica",
            Self::Clock => "one server's clock jumps ahead",
            Self::Remains => "left behind",
        }
    }
}

/// One thing that was seen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Observation {
    pub(super) way: &'static str,
    pub(super) question: Question,
    /// In a few words; those of several runs are put together where they are the same.
    pub(super) verdict: String,
    /// A time or a rate, where there is one.
    pub(super) number: Option<f64>,
    /// What was seen in detail.
    pub(super) evidence: String,
}

/// The verdict about a lock that two held.
pub(super) const NOT_EXCLUSIVE: &str = "**no**";

/// The observations of a group.
#[derive(Debug, Default)]
pub(super) struct Observations(pub(super) Vec<Observation>);

impl Observations {
    pub(super) fn add(
        &mut self,
        way: &'static str,
        question: Question,
        verdict: impl Into<String>,
        number: Option<f64>,
        evidence: impl Into<String>,
    ) {
        let (verdict, evidence) = (verdict.into(), evidence.into());
        self.0.push(Observation { way, question, verdict, number, evidence });
    }
}

/// Seconds from one moment to a later one.
pub(super) fn seconds(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64()
}

/// A limit in words.
pub(super) fn within(limit: Duration) -> String {
    format!("not within {:.0} s", limit.as_secs_f64())
}
