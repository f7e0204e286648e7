//! A machine that keeps the commands it was given, behind the same fence as the real state.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::sync::watch;
use zoolet_jute::{ErrorCode, Id, SessionId};
use zoolet_replica::state::Admitted;
use zoolet_replica::{
    Batch, Boot, ConnectionId, FeatureLevel, Input, Levels, Origin, ProposalNumber, Role, Silence,
    Silences, Written,
};
use zoolet_storage::LogPosition;

use super::gate::Gate;
use crate::clock::{Clock, RealClock};
use crate::host::ConfigView;
use crate::replication::Machine;
use crate::snapshots::{Chunks, Staged, StateSnapshot};
use crate::transport::BoxFuture;

/// A command that was applied: which server's start, stream and number.
pub(super) type Applied = (Origin, ProposalNumber);

#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) applied: Vec<Applied>,
    fence: BTreeMap<u8, (u64, u64, ProposalNumber)>,
}

/// Clones are the same machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder {
    record: Arc<Mutex<Record>>,
    /// Grows with everything that happens.
    events: Arc<watch::Sender<u64>>,
    received: Arc<Mutex<Received>>,
    /// While it is closed, nothing is applied.
    pub(super) gate: Gate,
    /// The number of states that are refused.
    pub(super) refusals: Arc<AtomicU64>,
    /// Whose row of the fence is reported.
    pub(super) server: Arc<AtomicU8>,
    /// How far the state has drifted away from what was applied.
    pub(super) drift: Arc<AtomicU64>,
    /// The version of its digest's definition.
    pub(super) digest_version: Arc<AtomicU8>,
    /// The connections that have ended, and whether they were its own.
    pub(super) ended: Arc<Mutex<Vec<(bool, Silence)>>>,
    /// What a client would see of `/zookeeper/config`.
    pub(super) view: Arc<Mutex<ConfigView>>,
    clock: RealClock,
    /// What the transactions are counted from.
    pub(super) zxid_before: Arc<AtomicU64>,
    /// The call in which it panics, once.
    pub(super) panics_in: Arc<Mutex<Option<&'static str>>>,
}

/// What the machine received besides commands.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    pub(super) lost: u64,
    pub(super) synced: u64,
    pub(super) sync_lost: u64,
    pub(super) touched: Vec<SessionId>,
    pub(super) silences: Vec<Silence>,
    pub(super) counted: Vec<(u64, SessionId)>,
    pub(super) removed: u64,
    pub(super) diverged: u64,
    pub(super) restored: u64,
    pub(super) started: Vec<Boot>,
    pub(super) roles: Vec<Role>,
    pub(super) lease_until_ms: u64,
    pub(super) reconfigured: Vec<(u64, Result<Option<Written>, ErrorCode>)>,
    pub(super) reconfig_lost: Vec<u64>,
    pub(super) members: Vec<(String, bool)>,
}

impl Received {
    #[allow(clippy::wildcard_enum_match_arm, reason = "any other input fails the test")]
    fn note(&mut self, input: Input) {
        match input {
            Input::Lost { through } => self.lost = through.0,
            Input::Synced { through } => self.synced = through,
            Input::SyncLost { through } => self.sync_lost = through,
            Input::Counted { through, sessions } => {
                self.counted.extend(sessions.into_iter().map(|session| (through, session)));
            }
            Input::Silences { silences } => self.silences.extend(silences),
            Input::Removed => self.removed += 1,
            Input::Diverged => self.diverged += 1,
            Input::Reconfigured { number, result } => self.reconfigured.push((number, result)),
            Input::ReconfigLost { number } => self.reconfig_lost.push(number),
            Input::Members { text, write } => self.members.push((text, write)),
            Input::Role { role, .. } => self.roles.push(role),
            Input::Lease { until_ms } => self.lease_until_ms = until_ms,
            other => panic!("this does not come from the log: {other:?}"),
        }
    }
}

impl Recorder {
    pub(super) fn new(chunks: Option<Chunks>) -> Arc<Self> {
        let recorder = Self::default();
        if let Some(chunks) = chunks {
            *recorder.record.lock().unwrap() = Record::decode(chunks).unwrap();
        }
        Arc::new(recorder)
    }

    pub(super) fn record(&self) -> Record {
        self.record.lock().unwrap().clone()
    }

    pub(super) fn received(&self) -> Received {
        self.received.lock().unwrap().clone()
    }

    /// Waits until `is_so`.
    pub(super) async fn until(&self, is_so: impl Fn(&Record, &Received) -> bool) {
        let mut events = self.events.subscribe();
        while !is_so(&self.record.lock().unwrap(), &self.received.lock().unwrap()) {
            events.changed().await.unwrap();
        }
    }

    fn may_panic(&self, call: &str) {
        let panics = self.panics_in.lock().unwrap().take_if(|panics| *panics == call).is_some();
        assert!(!panics, "the test's panic");
    }

    fn note(&self, what: impl FnOnce(&mut Received)) {
        what(&mut self.received.lock().unwrap());
        self.events.send_modify(|events| *events += 1);
    }
}

impl Record {
    fn apply(&mut self, batch: &Batch) {
        let Origin { server, boot, stream } = batch.origin;
        let first = batch.commands[0].number;
        let last = ProposalNumber(first.0 + batch.commands.len() as u64 - 1);
        let row = self.fence.entry(server.0).or_default();
        let continues = (row.0, row.1, row.2.0 + 1) == (boot.0, stream, first.0);
        if (boot, stream) > (Boot(row.0), row.1) || continues {
            *row = (boot.0, stream, last);
            let origin = batch.origin;
            self.applied.extend(batch.commands.iter().map(|command| (origin, command.number)));
        }
    }

    fn encode(&self) -> Vec<Bytes> {
        let mut chunks = Vec::new();
        for applied in self.applied.chunks(100) {
            let mut out = BytesMut::new();
            for (origin, number) in applied {
                out.put_u8(origin.server.0);
                out.put_u64(origin.boot.0);
                out.put_u64(origin.stream);
                out.put_u64(number.0);
            }
            chunks.push(out.freeze());
        }
        chunks
    }

    fn decode(chunks: Chunks) -> io::Result<Self> {
        let mut bytes = BytesMut::new();
        for chunk in chunks {
            bytes.extend_from_slice(&chunk?);
        }
        let mut record = Self::default();
        while bytes.has_remaining() {
            let server = zoolet_replica::ServerId(bytes.get_u8());
            let origin = Origin { server, boot: Boot(bytes.get_u64()), stream: bytes.get_u64() };
            let number = ProposalNumber(bytes.get_u64());
            record.fence.insert(server.0, (origin.boot.0, origin.stream, number));
            record.applied.push((origin, number));
        }
        Ok(record)
    }
}

impl Machine for Recorder {
    fn commit_many(&self, batches: Vec<(LogPosition, Bytes)>) -> BoxFuture<'_, Admitted> {
        Box::pin(async move {
            self.may_panic("commit_many");
            tokio::task::block_in_place(|| self.gate.pass());
            let mut record = self.record.lock().unwrap();
            for (_, batch) in batches {
                record.apply(&Batch::decode(batch).unwrap());
            }
            drop(record);
            self.events.send_modify(|events| *events += 1);
            self.admitted()
        })
    }

    fn admitted(&self) -> Admitted {
        let server = self.server.load(Ordering::Relaxed);
        let row = self.record.lock().unwrap().fence.get(&server).copied().unwrap_or_default();
        let (boot, stream, last) = row;
        Admitted { boot: Boot(boot), stream, last }
    }

    fn started(&self, boot: Boot) -> ProposalNumber {
        self.note(|received| received.started.push(boot));
        ProposalNumber::NONE
    }

    fn levels(&self) -> Levels {
        self.may_panic("levels");
        Levels { agreed: FeatureLevel::FIRST, offered: FeatureLevel::FIRST, falls: 0 }
    }

    fn wall_ms(&self) -> i64 {
        self.may_panic("wall_ms");
        1
    }

    fn mono_ms(&self) -> u64 {
        self.clock.now().mono_ms
    }

    fn digest(&self) -> u64 {
        let record = self.record.lock().unwrap();
        let last = record.applied.last().map_or(0, |(_, number)| number.0);
        (record.applied.len() as u64) << 32 | last ^ self.drift.load(Ordering::Relaxed)
    }

    fn digest_version(&self) -> u8 {
        self.digest_version.load(Ordering::Relaxed)
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "the others are noted alone")]
    fn input(&self, input: Input) {
        match &input {
            Input::Synced { .. } => self.may_panic("synced"),
            Input::Role { .. } => self.may_panic("role"),
            Input::Level { level } => panic!("no server has feature level {level}"),
            Input::Members { text, write: true } => {
                self.view.lock().unwrap().text = format!("{text}version=100000001");
            }
            _ => {}
        }
        // It comes all the time, and no test waits for it.
        if let Input::Lease { .. } = input {
            return self.received.lock().unwrap().note(input);
        }
        self.note(|received| received.note(input));
    }

    fn touched(&self, sessions: Vec<SessionId>) -> Vec<SessionId> {
        self.may_panic("touched");
        let refused = sessions.iter().filter(|session| session.0 < 0).copied().collect();
        self.note(|received| received.touched.extend(sessions));
        refused
    }

    fn ended_connections(&self, after: u64, all: bool) -> Silences<u64> {
        let ended = self.ended.lock().unwrap();
        let at = usize::try_from(after).unwrap();
        let next = ended.iter().skip(at).take(1).filter(|(is_own, _)| *is_own || all);
        let silences = next.map(|(_, silence)| *silence).collect();
        let (after, count) = ((after + 1).min(ended.len() as u64), ended.len() as u64);
        Silences { silences, after, has_more: after < count }
    }

    fn silent_connections(&self, after: ConnectionId) -> Silences<ConnectionId> {
        Silences { silences: Vec::new(), after, has_more: false }
    }

    fn config_view(&self, _identities: &[Id]) -> ConfigView {
        self.may_panic("config_view");
        self.view.lock().unwrap().clone()
    }

    fn snapshot(&self) -> StateSnapshot {
        let record = self.record();
        let zxid = record.applied.len() as u64;
        StateSnapshot { zxid, digest: zxid, chunks: Box::new(record.encode().into_iter()) }
    }

    fn stage(&self, chunks: Chunks) -> io::Result<Staged> {
        let record = Record::decode(chunks)?;
        let one_less = |left: u64| left.checked_sub(1);
        if self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the test refuses it"));
        }
        let recorder = self.clone();
        Ok(Staged::new(move || {
            *recorder.record.lock().unwrap() = record;
            recorder.note(|received| received.restored += 1);
        }))
    }

    fn zxid(&self) -> u64 {
        self.may_panic("zxid");
        let counted = self.record.lock().unwrap().applied.len() as u64;
        counted + self.zxid_before.load(Ordering::Relaxed)
    }
}
