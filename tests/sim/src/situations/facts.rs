//! What of a run shows its situations.

use std::collections::BTreeMap;
use std::time::Duration;

use zoolet_jute::{ErrorCode, ReconfigRequest, Request, SessionId};
use zoolet_replica::ServerId;

use crate::SimTime;
use crate::checks::Counts;
use crate::faults::{Fault, Kind, Planned};
use crate::history::{CallNumber, Connection, LockStep, Record, What};
use crate::run::Outcome;
use crate::trace::Mark;

/// A connection that was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connected {
    pub(super) at: SimTime,
    pub(super) server: ServerId,
    pub(super) asked: SessionId,
    pub(super) session: SessionId,
}

/// The facts of a run.
#[derive(Debug)]
pub struct Facts<'a> {
    pub(super) outcome: &'a Outcome,
    pub(super) counts: &'a Counts,
    pub(super) marks: &'a [Mark],
    pub(super) plan: &'a [Planned],
    pub(super) connected: Vec<Connected>,
    /// The changes of the ensemble that were answered, with what they were refused for.
    pub(super) reconfigs: Vec<(ReconfigRequest, Option<ErrorCode>)>,
    /// The requests without a reply.
    pub(super) unanswered: Vec<(SimTime, Connection, Request)>,
    records: &'a [Record],
}

impl<'a> Facts<'a> {
    /// Those of a run.
    pub(super) fn of(outcome: &'a Outcome, counts: &'a Counts) -> Self {
        let records = outcome.history.records.as_slice();
        let mut calls: BTreeMap<CallNumber, (SimTime, Connection, Request)> = BTreeMap::new();
        let (mut connected, mut reconfigs) = (Vec::new(), Vec::new());
        for Record { at, what } in records {
            match what {
                What::Connected { server, asked, session, .. } => connected.push(Connected {
                    at: *at,
                    server: *server,
                    asked: *asked,
                    session: *session,
                }),
                What::Called { call, connection, request, .. } => {
                    calls.insert(*call, (*at, *connection, request.clone()));
                }
                What::Returned { call, result, .. } => {
                    if let Some((.., Request::Reconfig(body))) = calls.remove(call) {
                        reconfigs.push((body, result.as_ref().err().copied()));
                    }
                }
                What::Disconnected { .. }
                | What::Notified { .. }
                | What::Complained { .. }
                | What::Lock { .. }
                | What::Recipe { .. }
                | What::ClientDied { .. } => {}
            }
        }
        let unanswered = calls.into_values().collect();
        let (marks, plan) = (outcome.marks.as_slice(), outcome.plan.as_slice());
        Self { outcome, counts, marks, plan, connected, reconfigs, unanswered, records }
    }

    /// Whether a server has logged a text.
    pub(super) fn logged(&self, text: &str) -> bool {
        self.marks.iter().any(|mark| mark.text.contains(text))
    }

    /// When servers have logged a text, and which.
    pub(super) fn all_logged(&self, text: &str) -> impl Iterator<Item = &'a Mark> {
        let marks = self.marks;
        let text = text.to_owned();
        marks.iter().filter(move |mark| mark.text.contains(&text))
    }

    /// How many servers have logged a text.
    pub(super) fn servers_that_logged(&self, text: &str) -> usize {
        let mut who: Vec<&str> = self.all_logged(text).map(|mark| mark.who.as_str()).collect();
        who.sort_unstable();
        who.dedup();
        who.len()
    }

    /// When servers became leaders, and which.
    pub(super) fn elections(&self) -> Vec<(SimTime, ServerId)> {
        let led = self.all_logged("to=Leader");
        led.filter_map(|mark| Some((mark.at, mark.server()?))).collect()
    }

    /// Whether one follows the other within a span.
    pub(super) fn follows(&self, first: &str, then: &str, within: Duration) -> bool {
        self.all_logged(first).any(|first| {
            self.all_logged(then).any(|then| then.at >= first.at && then.at - first.at <= within)
        })
    }

    /// The faults of a kind.
    pub(super) fn faults(&self, kind: Kind) -> impl Iterator<Item = &'a Planned> {
        self.plan.iter().filter(move |planned| planned.fault.kind() == kind)
    }

    /// Whether faults of two kinds were under way at a time.
    pub(super) fn overlap(&self, one: Kind, other: Kind) -> bool {
        self.faults(one).any(|one| {
            self.faults(other).any(|other| {
                one.number != other.number
                    && one.at <= other.at + other.span
                    && other.at <= one.at + one.span
            })
        })
    }

    /// Whether a fault of a kind struck a server within a span behind a text about it.
    pub(super) fn fault_behind(&self, text: &str, kinds: &[Kind], within: Duration) -> bool {
        self.all_logged(text).any(|mark| {
            self.plan.iter().any(|planned| {
                kinds.contains(&planned.fault.kind())
                    && planned.at >= mark.at
                    && planned.at - mark.at <= within
                    && mark.about().is_some_and(|server| planned.fault.may_strike(server))
            })
        })
    }

    /// Whether one of the faults is such a one.
    pub(super) fn any_fault(&self, is_it: impl Fn(&Fault) -> bool) -> bool {
        self.plan.iter().any(|planned| is_it(&planned.fault))
    }

    /// Whether one of the records is such a one.
    pub(super) fn any_record(&self, is_it: impl Fn(&What) -> bool) -> bool {
        self.records.iter().any(|record| is_it(&record.what))
    }

    /// Whether a contender did such a step.
    pub(super) fn any_step(&self, is_it: impl Fn(&LockStep) -> bool) -> bool {
        self.any_record(|what| matches!(what, What::Lock { step, .. } if is_it(step)))
    }

    /// The resumes of sessions, each with the time since it was connected before and whether that was
    /// at another server.
    pub(super) fn resumes(&self) -> Vec<(Connected, Duration, bool)> {
        let mut last: BTreeMap<SessionId, Connected> = BTreeMap::new();
        let mut resumes = Vec::new();
        for connected in &self.connected {
            if connected.session == SessionId::NONE {
                continue;
            }
            if let Some(before) = last.insert(connected.session, *connected) {
                let moved = before.server != connected.server;
                resumes.push((*connected, connected.at - before.at, moved));
            }
        }
        resumes
    }
}
