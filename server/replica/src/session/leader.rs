//! What the server's part in the ensemble does: the leader reaps containers and overdue znodes and
//! writes the configuration; a server without a leader stops serving.

use std::collections::VecDeque;

use zoolet_jute::{SessionId, Zxid};

use super::liveness::BACKGROUND_MAX;
use crate::proposals::{CommandDraft, ProposalOwner};
use crate::state::{ReapLimits, ReapPlace};
use crate::{Op, Output, Replica, Role, Term};

/// The most containers and znodes with a time to live that are looked at in one step: about a
/// millisecond, for which all others wait.
const LOOKS_MAX: usize = 10_000;

/// What the leader has found to reap, and how fast it may.
#[derive(Debug, Default)]
pub(crate) struct Reaper {
    found: VecDeque<String>,
    /// Where the look that is under way goes on.
    look: Option<ReapPlace>,
    next_look_ms: u64,
    minute_end_ms: u64,
    left_in_minute: u32,
}

impl Replica {
    pub(crate) fn on_role(&mut self, role: Role, term: Option<Term>, out: &mut Vec<Output>) {
        let leads = role == Role::Leader;
        invariant!(leads == term.is_some(), "{:?} with the term {:?}", role, term);
        let before = (self.role, self.term);
        (self.role, self.term) = (role, term);
        // Who leads in another term than before has not led in between.
        if before == (role, term) {
            return;
        }
        if role != Role::Looking {
            self.end_read_only(out);
        }
        // A leader that has lost its quorum for a while leads on in its term.
        if role != Role::Looking {
            self.level_proposed = self.level_proposed.filter(|(then, _)| Some(*then) == term);
        }
        self.forget_deadlines();
        for connection in self.connections.values_mut() {
            connection.touch_mark = u64::MAX;
        }
        match role {
            Role::Looking => {}
            Role::Follower | Role::Observer => self.expiry.enter(None),
            Role::Leader => self.begin_to_lead(),
        }
        self.begin_serving();
        if role == Role::Leader && !self.serving {
            // The clients of a new ensemble wait for it.
            self.write_config(out);
        }
        self.retry_held_pings(out);
        if role == Role::Looking {
            self.stop_serving(out);
        }
    }

    /// Serves clients from now on, if a leader is known and the members are written down: no
    /// client sees a `/zookeeper/config` that is empty and changes a moment later.
    pub(crate) fn begin_serving(&mut self) {
        if !self.serving && self.role != Role::Looking {
            self.serving = self.options.config_text.is_none() || !self.config_data().is_empty();
        }
    }

    /// This server was taken out of the ensemble: its clients' sessions are not kept alive through
    /// it, so they must go at once. A client that waits for the outcome of a change gets it first.
    pub(crate) fn on_removed(&mut self, out: &mut Vec<Output>) {
        if self.role != Role::Looking || !std::mem::take(&mut self.serving) {
            return;
        }
        let waiting = self.reconfigs.values().copied().collect();
        self.close_all_but(&waiting, out);
        for connection in waiting {
            self.ignore_input(connection);
        }
    }

    /// Nothing is served from a state that is known to be wrong: all clients go to another server.
    /// Its part in the ensemble is `Looking` until the next start, so it serves no client again.
    pub(crate) fn on_diverged(&mut self, out: &mut Vec<Output>) {
        (self.serving, self.read_only, self.options.read_only_mode) = (false, false, false);
        self.close_all(out);
    }

    /// A new leader gives each session its whole timeout, less the silence that it knows of, by
    /// [`Replica::grant_some`].
    pub(crate) fn begin_to_lead(&mut self) {
        self.forget_deadlines();
        self.expiry.enter(self.term);
        if !planted!("found-sessions-get-no-deadline") {
            self.rest.ungranted = Some(0);
        }
        self.touched.clear();
        self.config_proposed = false;
        let next_look_ms = self.now.mono_ms.saturating_add(self.options.container_interval_ms);
        self.reaper = Reaper { next_look_ms, ..Reaper::default() };
    }

    pub(crate) fn on_tick(&mut self, out: &mut Vec<Output>) {
        match self.role {
            Role::Leader => {
                self.expire(out);
                self.reap(out);
                self.write_config(out);
            }
            Role::Follower | Role::Observer => self.report_all_touched(out),
            Role::Looking => self.stop_serving(out),
        }
        self.retry_held_pings(out);
        self.sweep_holders();
    }

    fn reap(&mut self, out: &mut Vec<Output>) {
        let now_ms = self.now.mono_ms;
        if self.reaper.look.is_none() && now_ms >= self.reaper.next_look_ms {
            self.reaper.found.clear();
            self.reaper.look = Some(ReapPlace::default());
            self.reaper.next_look_ms = now_ms.saturating_add(self.options.container_interval_ms);
        }
        if let Some(from) = self.reaper.look {
            let found_max = self.options.containers_per_minute_max as usize;
            let limits = ReapLimits {
                found_max: found_max.saturating_sub(self.reaper.found.len()),
                looks_max: LOOKS_MAX,
                never_used_ms: self.options.container_never_used_ms,
            };
            let found = self.state.reapable(self.now.wall_ms, limits, from);
            self.reaper.found.extend(found.due);
            self.reaper.look = found.next.filter(|_| self.reaper.found.len() < found_max);
        }
        if now_ms >= self.reaper.minute_end_ms {
            self.reaper.minute_end_ms = now_ms.saturating_add(60_000);
            self.reaper.left_in_minute = self.options.containers_per_minute_max;
        }
        while self.reaper.left_in_minute > 0 && self.proposals.background() < BACKGROUND_MAX {
            let Some(path) = self.reaper.found.pop_front() else { return };
            self.reaper.left_in_minute -= 1;
            let op = Op::DeleteContainer { path };
            self.propose(ProposalOwner::Reaper, CommandDraft::own(SessionId::NONE, op), out);
        }
    }

    /// Writes `/zookeeper/config` once in a leadership, if it does not say what the configuration
    /// does.
    fn write_config(&mut self, out: &mut Vec<Output>) {
        let Some(term) = self.term else { return };
        if std::mem::replace(&mut self.config_proposed, true) {
            return;
        }
        let Some(text) = self.options.config_text.clone() else { return };
        let written = self.state.data("/zookeeper/config").unwrap_or_default();
        let written = String::from_utf8_lossy(&written);
        let servers = written.rsplit_once("version=").map_or("", |(servers, _)| servers);
        if servers.trim_end() != text.trim_end() {
            let is_first = self.state.last_zxid() == Zxid(0);
            let op = Op::SetConfig { term, text, is_first };
            self.propose(ProposalOwner::Config, CommandDraft::own(SessionId::NONE, op), out);
        }
    }

    /// Without a leader for too long, what this server knows is too old to be served (P9), except
    /// to clients that know that it is old.
    fn stop_serving(&mut self, out: &mut Vec<Output>) {
        if self.read_only {
            return self.expire_read_only(out);
        }
        if !self.is_out_of_date() {
            return;
        }
        if std::mem::take(&mut self.serving) {
            self.close_all(out);
        }
        self.begin_read_only();
    }
}
