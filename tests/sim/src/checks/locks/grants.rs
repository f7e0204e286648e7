//! The grants of a run, put together from what contenders have noted.

use std::collections::BTreeMap;

use zoolet_jute::{SessionId, Zxid};

use crate::SimTime;
use crate::checks::Run;
use crate::history::{ClientNumber, Connection, LockStep, What};

/// A grant, and how it has ended.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) client: ClientNumber,
    pub(super) lock: String,
    pub(super) mode: String,
    pub(super) token: i64,
    pub(super) znode: String,
    pub(super) session: SessionId,
    pub(super) at: SimTime,
    /// The newest zxid that the session had seen; `None` if its requests are not recorded.
    pub(super) seen: Option<Zxid>,
    /// When the holder has begun to give it back, or has given it back.
    pub(super) released: Option<SimTime>,
    /// When its loss was reported.
    pub(super) lost: Option<SimTime>,
    /// When its program ended.
    pub(super) died: Option<SimTime>,
}

/// Someone who waits for a lock.
#[derive(Clone, Debug)]
pub(super) struct Wait {
    pub(super) since: SimTime,
    pub(super) mode: String,
}

/// A write to a guarded resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guarded {
    pub(super) at: SimTime,
    pub(super) client: ClientNumber,
    pub(super) token: i64,
    pub(super) accepted: bool,
}

/// What contenders have noted.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The grants, in their order.
    pub(super) grants: Vec<Grant>,
    /// Who waits at the end.
    pub(super) waits: BTreeMap<(ClientNumber, String), Wait>,
    /// The writes to each lock's resource, in order.
    pub(super) guarded: BTreeMap<String, Vec<Guarded>>,
    /// When something has happened to each lock last.
    pub(super) last: BTreeMap<String, SimTime>,
    seen: BTreeMap<SessionId, Zxid>,
    open: BTreeMap<(ClientNumber, String, i64), usize>,
}

impl Grant {
    /// When its holder has stopped to believe in it.
    pub(super) fn over(&self) -> Option<SimTime> {
        [self.released, self.lost, self.died].into_iter().flatten().min()
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "the grant of {} ({}) to client {} at {}, token {:#x}, {}",
            self.lock, self.mode, self.client.0, self.at, self.token, self.znode
        )
    }
}

impl Notes {
    pub(super) fn of(run: &Run<'_>) -> Self {
        let mut notes = Self::default();
        for record in &run.history.records {
            match &record.what {
                What::Returned { call, zxid, .. } => {
                    if let Some(call) = run.calls.get(call) {
                        notes.saw(run, call.connection, *zxid);
                    }
                }
                What::Notified { connection, zxid, .. } => notes.saw(run, *connection, *zxid),
                What::Lock { client, lock, step } => {
                    notes.step(record.at, (*client, lock), step);
                }
                What::ClientDied { client } => notes.died(*client, record.at),
                What::Connected { .. }
                | What::Disconnected { .. }
                | What::Called { .. }
                | What::Complained { .. }
                | What::Recipe { .. } => {}
            }
        }
        notes
    }

    fn saw(&mut self, run: &Run<'_>, connection: Connection, zxid: Zxid) {
        let link = run.links.get(&connection).and_then(|link| link.granted);
        if let Some(granted) = link {
            let seen = self.seen.entry(granted.session).or_default();
            *seen = zxid.max(*seen);
        }
    }

    fn step(&mut self, at: SimTime, (client, lock): (ClientNumber, &String), step: &LockStep) {
        let key = (client, lock.clone());
        if matches!(step, LockStep::Waits { .. }) {
            self.last.entry(lock.clone()).or_default();
        } else if !matches!(step, LockStep::Wrote { .. }) {
            self.last.insert(lock.clone(), at);
        }
        match step {
            LockStep::Waits { mode } => {
                self.waits.insert(key, Wait { since: at, mode: mode.clone() });
            }
            LockStep::Granted { token, znode, session } => {
                let mode = self.waits.remove(&key).map(|wait| wait.mode).unwrap_or_default();
                self.open.insert((client, lock.clone(), *token), self.grants.len());
                self.grants.push(Grant {
                    client,
                    lock: lock.clone(),
                    mode,
                    token: *token,
                    znode: znode.clone(),
                    session: *session,
                    at,
                    seen: self.seen.get(session).copied(),
                    released: None,
                    lost: None,
                    died: None,
                });
            }
            LockStep::Releases { token } | LockStep::Released { token } => {
                if let Some(grant) = self.grant(client, lock, *token) {
                    grant.released = grant.released.or(Some(at));
                }
            }
            LockStep::Lost { token } => {
                if let Some(grant) = self.grant(client, lock, *token) {
                    grant.lost = grant.lost.or(Some(at));
                }
            }
            LockStep::GaveUp => drop(self.waits.remove(&key)),
            LockStep::Wrote { token, accepted } => {
                let (token, accepted) = (*token, *accepted);
                let write = Guarded { at, client, token, accepted };
                self.guarded.entry(lock.clone()).or_default().push(write);
            }
        }
    }

    fn grant(&mut self, client: ClientNumber, lock: &str, token: i64) -> Option<&mut Grant> {
        let at = self.open.get(&(client, lock.to_owned(), token))?;
        self.grants.get_mut(*at)
    }

    fn died(&mut self, client: ClientNumber, at: SimTime) {
        self.waits.retain(|(other, _), _| *other != client);
        for ((other, ..), grant) in &self.open {
            if *other == client
                && let Some(grant) = self.grants.get_mut(*grant)
            {
                grant.died = grant.died.or(Some(at));
            }
        }
        self.open.retain(|(other, ..), _| *other != client);
    }
}
