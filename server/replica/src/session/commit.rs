//! What comes back from the log: events first, then the reply, then the reads behind it.

use zoolet_jute::{ErrorCode, Reply, SessionId};

use super::client::CommandReply;
use crate::progress::{Applying, Current};
use crate::proposals::ProposalOwner;
use crate::state::{Change, Owner, State};
use crate::watch::Jump;
use crate::{
    Batch, ConnectionId, DecodedEntry, Output, ProposalNumber, Replica, Role, Stamp, Term,
};

type CommandResult = Result<Reply, ErrorCode>;

impl Replica {
    pub(crate) fn on_commit(&mut self, term: Term, entry: DecodedEntry, out: &mut Vec<Output>) {
        let DecodedEntry { batch, length, first_bytes } = entry;
        let Batch { origin, now_ms, commands } = match batch {
            Ok(batch) => batch,
            Err(error) => {
                // Another server may read it, and then this one's state would be another from here
                // on.
                let after = self.state.last_zxid();
                let why = format!(
                    "an entry of the log behind zxid {after} cannot be read: {error} \
                     ({length} bytes, first {first_bytes:x?})"
                );
                out.push(Output::Fail { why });
                return;
            }
        };
        let known = self.options.level_of_release;
        if let Some(level) = commands.iter().map(|command| command.op.level()).max()
            && level > known
        {
            let why = format!(
                "an entry of the log needs feature level {level}, and this release has {known}: \
                 start a newer release, or lower feature_level_max on the other servers before \
                 this one is downgraded"
            );
            out.push(Output::Fail { why });
            return;
        }
        // The host hands an entry over when the one before is done.
        self.finish(out);
        self.begin_step();
        self.spend(length / 256);
        let Some(first) = commands.first().map(|command| command.number) else { return };
        let before = self.digest();
        if !self.state.admit(origin, first, commands.len() as u64) {
            return;
        }
        let ours = self.options.boot_is_certain && Owner::from(origin) == self.owner();
        let now_ms =
            if planted!("each-server-takes-its-own-time") { self.now.wall_ms } else { now_ms };
        let stamp = Stamp { term, now_ms };
        let commands = commands.into_iter();
        self.applying = Some(Applying { stamp, origin, ours, commands, before, current: None });
        self.go_on(out);
    }

    /// The current command is applied, and watchers are notified.
    pub(crate) fn end_command(&mut self, out: &mut Vec<Output>) {
        self.note_level();
        let Some(applying) = &mut self.applying else { return };
        let ours = applying.ours;
        let Some(current) = applying.current.take() else { return };
        let Current { number, sessions, result: Some(result), audit, .. } = current else { return };
        if self.options.history {
            self.history.end(self.state.last_zxid());
        }
        if let Some(event) = audit.and_then(|audit| audit.finish(self.state.last_zxid(), &result)) {
            out.push(Output::Audit(event));
        }
        if let Some(exceeded) = self.state.take_quota_exceeded()
            && self.role == Role::Leader
        {
            out.push(Output::QuotaExceeded(exceeded));
        }
        self.follow_sessions(&sessions, out);
        if ours {
            self.note_hung_up_early(number, &sessions);
            self.resolve(number, result, out);
        }
        if ours || !planted!("followers-keep-ended-sessions") {
            self.close_ended(&ended_sessions(&sessions), out);
        }
    }

    /// Answers some of the requests that precede the next command in the queue of its connection, if
    /// this server proposed it: they must not see it. They are answered even if the client has not
    /// read earlier replies. Returns whether there was anything to answer.
    pub(crate) fn answer_before(&mut self, out: &mut Vec<Output>) -> bool {
        let next =
            self.applying.as_ref().filter(|applying| applying.ours && applying.current.is_none());
        let next = next.and_then(|applying| applying.commands.as_slice().first());
        let Some(connection) = next.and_then(|next| self.proposals.connection_of(next.number))
        else {
            return false;
        };
        let (synced, mut answered) = (self.synced, false);
        while self.budget > 0
            && let Some(pending) =
                self.connections.get_mut(&connection).and_then(|asking| asking.pop_due(synced))
        {
            self.spend(2);
            self.answer(pending, out);
            answered = true;
        }
        answered
    }

    /// Keeps connections and deadlines in step with the sessions that began or moved.
    fn follow_sessions(&mut self, changes: &[Change], out: &mut Vec<Output>) {
        for change in changes {
            match change {
                Change::SessionOpened(session) => {
                    self.silent.forget(*session);
                    self.grant(*session);
                }
                Change::SessionResumed { session, .. } => {
                    // Also without the lead: what was decided is about the time before.
                    self.expiry.forget(*session);
                    self.forget_old_silence(*session);
                    self.grant(*session);
                    // The connection that held it here has lost it, to another server or to a
                    // newer connection, whose handshake is finished next.
                    self.close_session(*session, out);
                }
                Change::SessionClosed(session) => {
                    self.expiry.forget(*session);
                    self.silent.forget(*session);
                    self.holders.forget(*session);
                }
                Change::Created { .. }
                | Change::Deleted { .. }
                | Change::DataChanged { .. }
                | Change::AclChanged { .. } => {}
            }
        }
    }

    /// Closes the connections of sessions that have ended, without a word (§7.4). A client that
    /// has closed its session itself has its reply already.
    fn close_ended(&mut self, ended: &[SessionId], out: &mut Vec<Output>) {
        for session in ended {
            self.close_session(*session, out);
        }
    }

    fn close_session(&mut self, session: SessionId, out: &mut Vec<Output>) {
        if let Some(connection) = self.sessions.get(&session).copied() {
            self.close(connection, out);
        }
    }

    /// One of this server's own commands is applied.
    fn resolve(&mut self, number: ProposalNumber, result: CommandResult, out: &mut Vec<Output>) {
        while let Some((popped, waiting)) = self.proposals.pop_through(number) {
            if popped < number {
                // The replay filter drops what was overtaken.
                self.lose(popped, waiting, out);
                continue;
            }
            match waiting {
                ProposalOwner::Connection(connection)
                | ProposalOwner::Resume { connection, .. } => {
                    self.answer_write(connection, number, result, out);
                }
                // What is refused was decided too early or in another term, and is judged anew.
                ProposalOwner::Expiry(session) => {
                    if result.is_err() && self.role == Role::Leader {
                        self.expiry.revoke(session, number);
                    }
                }
                ProposalOwner::Reaper | ProposalOwner::Config | ProposalOwner::Level => {
                    if result.is_err() {
                        self.lose(number, waiting, out);
                    }
                }
            }
            return;
        }
    }

    pub(crate) fn answer_write(
        &mut self,
        connection: ConnectionId,
        number: ProposalNumber,
        result: CommandResult,
        out: &mut Vec<Output>,
    ) {
        let Some(asking) = self.connections.get_mut(&connection) else { return };
        let Some((reply_to, answer)) = asking.pop_proposed(number) else {
            // It would have to be at the front: whatever has happened, this client must not be
            // answered out of order.
            self.close(connection, out);
            return;
        };
        match answer {
            CommandReply::Handshake { response, last_zxid_seen } => {
                let behind = last_zxid_seen > self.state.last_zxid();
                self.finish_handshake(connection, response, behind, result.err(), out);
            }
            CommandReply::Result | CommandReply::ReplyThenClose if lost_session(&result) => {
                self.close(connection, out);
            }
            CommandReply::Result => self.reply(reply_to, result, out),
            CommandReply::ReplyThenClose => {
                self.reply(reply_to, result.map(|_| Reply::Empty), out);
                self.close(connection, out);
            }
        }
        self.drain(connection, out);
    }

    pub(crate) fn on_synced(&mut self, through: u64, out: &mut Vec<Output>) {
        self.synced = self.synced.max(through);
        while let Some(connection) = self.pop_sync(through) {
            self.drain(connection, out);
        }
    }

    pub(crate) fn on_sync_lost(&mut self, through: u64, out: &mut Vec<Output>) {
        while let Some(connection) = self.pop_sync(through) {
            self.close_soon(connection, out);
        }
    }

    fn pop_sync(&mut self, through: u64) -> Option<ConnectionId> {
        let (number, connection) = *self.syncs.front()?;
        if number > through {
            return None;
        }
        self.syncs.pop_front();
        Some(connection)
    }

    /// The state is replaced by a snapshot's, which is newer. What was proposed and is in it has
    /// an outcome that this server will never learn.
    pub(crate) fn on_restore(&mut self, state: State, out: &mut Vec<Output>) {
        self.finish(out);
        self.begin_step();
        let before = std::mem::replace(&mut self.state, state);
        if self.options.history {
            self.history.skip(before.last_zxid(), self.state.last_zxid());
        }
        self.note_level();
        let owner = self.owner();
        let admitted = self.state.admitted(owner.server);
        if self.options.boot_is_certain && admitted.boot == owner.boot {
            self.on_lost(admitted.last, out);
        }
        let generation = |state: &State, session| state.session(session).map(|it| it.generation);
        self.expiry.retain_decided(|session| {
            let was = generation(&before, session);
            was.is_some() && was == generation(&self.state, session)
        });
        self.silent.follow(&self.state);
        let lost: Vec<_> = self
            .sessions
            .iter()
            .filter(|(session, connection)| {
                let attachment = self.connections.get(connection).map(|known| known.attachment);
                self.state.session(**session).is_none_or(|session| {
                    session.owner != owner || Some(session.attachment) != attachment
                })
            })
            .map(|(_, connection)| *connection)
            .collect();
        for connection in lost {
            self.close_soon(connection, out);
        }
        self.begin_serving();
        self.jump = Some(Jump::new(before, &self.watches));
        self.go_on(out);
        if self.role == Role::Leader {
            self.begin_to_lead();
        }
    }

    /// Who owns the sessions of this server's connections.
    pub(super) fn owner(&self) -> Owner {
        Owner { server: self.options.server, boot: self.options.boot }
    }
}

/// Whether the session was not this connection's any more. The wire has codes for it that no client
/// handles: the connection is closed instead, and the client learns the rest when it connects
/// again (§7.4, §7.6).
fn lost_session(result: &CommandResult) -> bool {
    matches!(result, Err(ErrorCode::SessionExpired | ErrorCode::SessionMoved))
}

fn ended_sessions(changes: &[Change]) -> Vec<SessionId> {
    let ended = changes.iter().filter_map(|change| match change {
        Change::SessionClosed(session) => Some(*session),
        Change::Created { .. }
        | Change::Deleted { .. }
        | Change::DataChanged { .. }
        | Change::AclChanged { .. }
        | Change::SessionOpened(_)
        | Change::SessionResumed { .. } => None,
    });
    ended.collect()
}
