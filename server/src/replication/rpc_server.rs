//! What a server answers to its peers' calls.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::sync::{OwnedMutexGuard, oneshot, watch};
use tokio::task::yield_now;
use tokio::time::Instant;
use zoolet_replica::{Batch, Input, Term};
use zoolet_storage::{LogIndex, LogPosition, SnapshotName, SnapshotWriter, Wal};

use super::blocking::blocking;
use super::bootstrap::Agreement;
use super::committed::Committed;
use super::directory::DirectoryIdentity;
use super::divergence::{self, Divergence};
use super::founding;
use super::handle::ConsensusHandle;
use super::leader_contact::LeaderContact;
use super::levels::{Ceiling, LevelAdmission, encode_level};
use super::machine::Machine;
use super::patience::Patience;
use super::reconfig::Reconfigurer;
use super::silences::Touch;
use super::state_age::StateAge;
use super::touches::encode_sessions;
use crate::consensus::{Append, LaterAnswer, LeaderVote};
use crate::node_id::NodeId;
use crate::peer::{Answer, Call, PeerIdentity, RpcKind, SNAPSHOT_DAMAGED, SNAPSHOT_LATER, Service};
use crate::process;
use crate::raft::{PeerSignals, append_refusal, founding_of, last_of};
use crate::snapshots::{ReceiveError, Snapshots};
use crate::transport::BoxFuture;
use crate::wire::{Reader, malformed};

/// How often all other tasks that are ready have their turn before a peer is answered that its
/// proposal is committed.
const ANSWER_TURNS: usize = 3;

/// Handles the calls of peers.
#[derive(Debug)]
pub(super) struct RpcServer {
    pub handle: ConsensusHandle,
    pub machine: Arc<dyn Machine>,
    pub snapshots: Snapshots,
    pub applied: watch::Receiver<Option<LogPosition>>,
    pub leader_contact: Arc<LeaderContact>,
    pub patience: Arc<Patience>,
    pub state_age: Arc<StateAge>,
    pub identity: DirectoryIdentity,
    pub agreement: Arc<Agreement>,
    /// What may be logged.
    pub ceiling: Ceiling,
    pub changes: Arc<Reconfigurer>,
    pub divergence: Arc<Divergence>,
    pub wal: Arc<Wal>,
    pub committed: Arc<Committed>,
    pub signals: Arc<PeerSignals>,
    pub receiving: tokio::sync::Mutex<Option<Receiving>>,
    /// Held while one is read and installed: each takes the room of a whole state.
    pub installing: Arc<tokio::sync::Mutex<()>>,
    pub refusals: Arc<SnapshotRefusals>,
}

/// The pause before a server logs again that it cannot keep what it receives.
const REFUSAL_PAUSE: Duration = Duration::from_secs(10);

/// Snapshots that cannot be kept, because the disk is full, mostly. A leader sends them again and again.
#[derive(Debug, Default)]
pub(super) struct SnapshotRefusals {
    logged_at: Mutex<Option<Instant>>,
}

impl SnapshotRefusals {
    /// Returns the answer to a snapshot of this peer that cannot be kept. It is logged now and then.
    fn refuse(&self, peer: u64, error: &impl fmt::Display) -> Bytes {
        if self.is_due(Instant::now()) {
            tracing::warn!(
                peer,
                %error,
                "a received snapshot cannot be kept: the leader sends it again"
            );
        }
        Bytes::from_static(SNAPSHOT_LATER)
    }

    fn is_due(&self, now: Instant) -> bool {
        let mut logged_at = self.logged_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = logged_at.is_none_or(|at| now - at >= REFUSAL_PAUSE);
        if is_due {
            *logged_at = Some(now);
        }
        is_due
    }
}

/// A snapshot on its way in.
#[derive(Debug)]
pub(super) struct Receiving {
    from: u64,
    vote: LeaderVote,
    name: SnapshotName,
    writer: SnapshotWriter,
}

impl Service for RpcServer {
    fn call(&self, call: Call) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            let (peer, kind) = (call.from.server, call.kind);
            match self.answer(call).await {
                Ok(answer) => answer,
                Err(error) => {
                    // Once per connection: it ends with this, and its calls fail at once.
                    tracing::warn!(peer, kind, %error, "cannot answer a peer");
                    Answer::Close
                }
            }
        })
    }
}

impl RpcServer {
    async fn answer(&self, call: Call) -> io::Result<Answer> {
        let (from, mut body) = (call.from.server, Reader(call.body));
        let Some(kind) = RpcKind::from_code(call.kind) else {
            return Err(malformed("unknown kind of call"));
        };
        if !matches!(kind, RpcKind::Status | RpcKind::Found) {
            self.join(&call.from).await?;
        }
        Ok(match kind {
            RpcKind::Append => Answer::Later(self.append(from, body)?),
            RpcKind::Vote | RpcKind::PreVote => {
                Answer::Later(self.vote(&call.from, body, kind == RpcKind::PreVote)?)
            }
            RpcKind::TransferLeader => self.take_over(body)?,
            RpcKind::Propose => {
                self.signals.note_proposal(from);
                let _place = self.ceiling.place().await;
                match self.may_be_logged(from, &body.0)? {
                    LevelAdmission::AnyTerm => Answer::Later(self.propose(body.0, None).await),
                    LevelAdmission::Term(term) => {
                        Answer::Later(self.propose(body.0, Some(term)).await)
                    }
                    LevelAdmission::Refused => Answer::Now(Bytes::from_static(&[0])),
                }
            }
            RpcKind::Level => Answer::Now(encode_level(self.machine.levels().offered)),
            RpcKind::ReadIndex => Answer::Later(self.read_index()),
            RpcKind::Touch => Answer::Now(self.touch(body.0)?),
            RpcKind::Digest => {
                let applied = self.applied_index();
                Answer::Now(divergence::answer(body, &self.divergence, &self.wal, applied)?)
            }
            RpcKind::Removed => {
                self.signals.note_removal(LogIndex(body.u64()?));
                Answer::Now(Bytes::new())
            }
            RpcKind::Status => {
                self.agreement.called_by(&call.from);
                let mut out = BytesMut::new();
                out.put_u64(self.identity.founding());
                out.put_u64(self.identity.node().directory());
                Answer::Now(out.freeze())
            }
            RpcKind::Found => {
                let request = founding::Request::decode(body.0)?;
                Answer::Now(self.agreement.answer(request).await?.encode())
            }
            RpcKind::Reconfig => {
                let changes = Arc::clone(&self.changes);
                Answer::Later(Box::pin(async move { changes.answer(body.0).await }))
            }
            RpcKind::SnapshotBegin => self.begin_snapshot(from, body).await?,
            RpcKind::SnapshotChunk => self.take_chunk(from, body.0).await?,
            RpcKind::SnapshotEnd => self.end_snapshot(from, body).await?,
        })
    }

    /// Takes the silences of a touch, and as leader its signs of life.
    fn touch(&self, body: Bytes) -> io::Result<Bytes> {
        let Touch { sessions, term, mut silences } = Touch::decode(body)?;
        // An open connection's silence is over with the first sign of life that any leader counts.
        let known = self.handle.leadership().map(|known| known.term);
        silences.retain(|silence| silence.has_ended || known == Some(term));
        if !silences.is_empty() {
            self.machine.input(Input::Silences { silences });
        }
        let leads = self.handle.is_leader();
        Ok(if leads { encode_sessions(&self.machine.touched(sessions)) } else { Bytes::new() })
    }

    /// An empty server becomes part of the founding of the first server that has it in its
    /// membership, and of no other. It is durable before anything is taken from there.
    async fn join(&self, from: &PeerIdentity) -> io::Result<()> {
        if from.founding == 0 {
            return Err(io::Error::other("a caller without an ensemble"));
        }
        Ok(self.identity.join(from.founding).await?)
    }

    /// The leader hands over: nothing waits for it from now on.
    fn take_over(&self, body: Reader) -> io::Result<Answer> {
        let (term, answer) = self.handle.take_over(body)?;
        self.patience.waive(term);
        if self.divergence.is_found() {
            return Ok(Answer::Now(Bytes::new()));
        }
        Ok(Answer::Later(answer))
    }

    fn read_index(&self) -> LaterAnswer {
        let handle = self.handle.clone();
        Box::pin(async move {
            let mut out = BytesMut::new();
            let index = handle.read_index().await;
            out.put_u8(u8::from(index.is_some()));
            out.put_u64(index.unwrap_or_default().0);
            Some(out.freeze())
        })
    }

    fn applied_index(&self) -> Option<LogIndex> {
        self.applied.borrow().as_ref().map(|last| last.index)
    }

    fn append(&self, from: u64, body: Reader) -> io::Result<LaterAnswer> {
        let Append { term, suspects_quorum, committed, echo, positions, take } =
            self.handle.append(body)?;
        if self.committed.contradicts((from, term), positions).is_some() {
            return Ok(Box::pin(async { Some(append_refusal()) }));
        }
        let (handle, applied) = (self.handle.clone(), self.applied.clone());
        let (leader_contact, patience, state_age) = (
            Arc::clone(&self.leader_contact),
            Arc::clone(&self.patience),
            Arc::clone(&self.state_age),
        );
        Ok(Box::pin(async move {
            let known = handle.leadership().map(|known| known.term);
            if Some(term) >= known {
                patience.note_message(Instant::now(), term);
            }
            if !suspects_quorum && Some(term) >= known {
                leader_contact.renew();
                // Until a leader has committed an entry of its term, it may not know of all commits.
                if let Some(last) = committed.filter(|last| last.term == term.0) {
                    let applied = applied.borrow().map(|last| last.index);
                    state_age.announced(last.index, echo, applied);
                }
            }
            take(state_age.stamp()).await
        }))
    }

    /// Returns the index of the last committed membership if the node is not in it.
    fn removed_at(&self, node: NodeId) -> Option<LogIndex> {
        let membership = self.handle.view().membership;
        let at = membership.index();
        let is_removed = at <= self.applied_index()
            && !membership.voters().is_empty()
            && membership.node(node).is_none();
        if is_removed { at } else { None }
    }

    fn vote(
        &self,
        from: &PeerIdentity,
        body: Reader,
        is_pre_vote: bool,
    ) -> io::Result<LaterAnswer> {
        // It may have missed that it was removed, and would ask for votes for ever.
        let removed_at = self.removed_at(NodeId::new(from.server, from.directory));
        let voted = self.handle.vote(body, is_pre_vote, self.waits_for_leader())?;
        Ok(Box::pin(async move {
            let mut answer = BytesMut::from(voted.await?);
            answer.put_u64(removed_at.unwrap_or_default().0);
            Some(answer.freeze())
        }))
    }

    /// Returns whether this server still waits for the present leader, which may be this server.
    fn waits_for_leader(&self) -> bool {
        let (now, view) = (Instant::now(), self.handle.view());
        let Some(leader) = view.leader else { return false };
        if leader == self.handle.node() {
            let gives_way = !self.handle.leads_on() || self.signals.gives_way();
            let silent_for = view.quorum_silent_for.filter(|_| !gives_way);
            silent_for.is_some_and(|time| time < self.patience.lease(now))
        } else {
            self.patience.trusts(now, view.term, Duration::ZERO)
        }
    }

    /// Whether a peer's batch may be put into the log: every server would have to stop at one that
    /// cannot be read, at every start, and a batch in another server's name would change what is
    /// admitted of that server. One that needs a feature level which is not agreed on, or not yet,
    /// is proposed again.
    fn may_be_logged(&self, from: u64, batch: &Bytes) -> io::Result<LevelAdmission> {
        let batch = Batch::decode(batch.clone()).map_err(io::Error::other)?;
        if u64::from(batch.origin.server.0) != from || batch.commands.is_empty() {
            return Err(malformed("a batch that is not the peer's"));
        }
        Ok(self.ceiling.admits(batch.level()))
    }

    /// The batch has its place when this returns. The answer is 1 if it was committed under this
    /// leader; anything else and the peer proposes it again.
    async fn propose(&self, batch: Bytes, term: Option<Term>) -> LaterAnswer {
        let (done, committed) = oneshot::channel();
        let outcome = Box::new(move |is_committed| {
            // The peer's connection may be gone.
            let _ = done.send(is_committed);
        });
        // A copy: the log would keep the whole buffer that the message was read into.
        let stamped = Batch::stamp(&batch, self.machine.wall_ms());
        let taken = self.handle.propose(stamped, term, outcome).await;
        Box::pin(async move {
            let accepted = taken && committed.await.unwrap_or(false);
            // The peer's clients wait for the commit, which goes to it on another lane, and not for
            // this.
            for _ in 0..ANSWER_TURNS {
                yield_now().await;
            }
            Some(Bytes::copy_from_slice(&[u8::from(accepted)]))
        })
    }

    /// A snapshot is not a sign of a leader to serve under: it does not carry suspicions, and
    /// may come from one that others have replaced. Heartbeats go on beside it.
    async fn begin_snapshot(&self, from: u64, mut body: Reader) -> io::Result<Answer> {
        let vote = LeaderVote::read(&mut body)?;
        let name =
            SnapshotName { term: body.u64()?, index: LogIndex(body.u64()?), zxid: body.u64()? };
        let meta = body.bytes()?;
        // Before it is there: a file of another founding would keep this server from starting.
        let founding = founding_of(&meta)?;
        if founding != 0 && founding != self.identity.founding() {
            return Err(io::Error::other("a snapshot of another founding"));
        }
        let last = LogPosition { term: name.term, node: 0, index: name.index };
        check_snapshot(&self.committed, (from, vote.term), last)?;
        let mut receiving = self.receiving.lock().await;
        if receiving.as_ref().is_some_and(|receiving| receiving.vote.term > vote.term) {
            return Err(io::Error::other("a newer leader is sending a snapshot"));
        }
        // An older one that was not finished is removed when it is dropped.
        *receiving = None;
        let store = self.snapshots.store().clone();
        match blocking("received snapshot", move || store.create(name, &meta)).await {
            Ok(writer) => *receiving = Some(Receiving { from, vote, name, writer }),
            Err(error) => return Ok(Answer::Now(self.refusals.refuse(from, &error))),
        }
        Ok(Answer::Now(Bytes::new()))
    }

    async fn take_chunk(&self, from: u64, chunk: Bytes) -> io::Result<Answer> {
        let mut slot = self.receiving.lock().await;
        let Some(mut taken) = slot.take_if(|receiving| receiving.from == from) else {
            return Err(malformed("a piece of a snapshot that was not begun"));
        };
        let write = move || taken.writer.write(&chunk).map(|()| taken);
        match blocking("received snapshot", write).await {
            Ok(taken) => *slot = Some(taken),
            Err(error) => return Ok(Answer::Now(self.refusals.refuse(from, &error))),
        }
        Ok(Answer::Now(Bytes::new()))
    }

    /// The sender probes this server while it waits: nothing here holds up the calls behind this one.
    async fn end_snapshot(&self, from: u64, mut body: Reader) -> io::Result<Answer> {
        let digest = body.u64()?;
        let taken = self.receiving.lock().await.take_if(|receiving| receiving.from == from);
        let Some(received) = taken else {
            return Err(malformed("the end of a snapshot that was not begun"));
        };
        let Ok(alone) = Arc::clone(&self.installing).try_lock_owned() else {
            return Ok(Answer::Now(Bytes::from_static(SNAPSHOT_LATER)));
        };
        let installing = Installing {
            alone,
            handle: self.handle.clone(),
            machine: Arc::clone(&self.machine),
            snapshots: self.snapshots.clone(),
            committed: Arc::clone(&self.committed),
            refusals: Arc::clone(&self.refusals),
        };
        Ok(Answer::Later(Box::pin(async move {
            Some(installing.install(received, digest).await.unwrap_or_else(|error| {
                tracing::warn!(peer = from, %error, "a received snapshot was not installed");
                Bytes::from_static(SNAPSHOT_LATER)
            }))
        })))
    }
}

/// What it takes to install a snapshot that has been received.
struct Installing {
    alone: OwnedMutexGuard<()>,
    handle: ConsensusHandle,
    machine: Arc<dyn Machine>,
    snapshots: Snapshots,
    committed: Arc<Committed>,
    refusals: Arc<SnapshotRefusals>,
}

impl Installing {
    /// Returns the answer to its sender.
    async fn install(self, received: Receiving, digest: u64) -> io::Result<Bytes> {
        let Self { alone, handle, machine, snapshots, committed, refusals } = self;
        let Receiving { from, vote, name, writer } = received;
        let receiving = process::blocking(move || {
            // It goes on if the connection of its sender ends.
            (snapshots.receive(writer, digest, |chunks| machine.stage(chunks)), alone)
        });
        let (received, alone) = receiving.await?;
        let (reader, staged) = match received {
            Ok(received) => received,
            Err(ReceiveError::Own(error)) => return Ok(refusals.refuse(from, &error)),
            Err(error @ ReceiveError::Content(_)) => {
                tracing::warn!(
                    %error,
                    term = name.term,
                    index = name.index.0,
                    "a received snapshot cannot be used: it is deleted"
                );
                return Ok(Bytes::from_static(SNAPSHOT_DAMAGED));
            }
        };
        if let Some(last) = last_of(&reader)? {
            check_snapshot(&committed, (from, vote.term), last)?;
        }
        let answer = handle.install(vote, reader)?.await;
        // Freed behind the attempt, if it was not installed.
        drop((staged, alone));
        answer.ok_or_else(|| io::Error::other("the server is stopping"))
    }
}

/// openraft would end the process over a snapshot that contradicts what was committed here.
fn check_snapshot(committed: &Committed, from: (u64, Term), last: LogPosition) -> io::Result<()> {
    match committed.contradicts(from, [last]) {
        Some(contradiction) => Err(io::Error::other(format!("its snapshot: {contradiction}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_that_cannot_be_kept_is_logged_every_ten_seconds() {
        let (refusals, begin) = (SnapshotRefusals::default(), Instant::now());
        let due = (0..25).filter(|second| refusals.is_due(begin + Duration::from_secs(*second)));
        assert_eq!(due.collect::<Vec<_>>(), [0, 10, 20]);
    }
}
