//! The host as the replication sees it.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use zoolet_jute::{Id, SessionId};
use zoolet_replica::state::{Admitted, DIGEST_VERSION, RestoreError, State};
use zoolet_replica::{Boot, ConnectionId, Input, Levels, ProposalNumber, Silences, Term};
use zoolet_storage::LogPosition;

use crate::host::{ConfigView, Host};
use crate::replication::Machine;
use crate::snapshots::{Chunks, Staged, StateSnapshot};
use crate::transport::BoxFuture;
use crate::witness::Watched;

/// The host, as the log sees it.
#[derive(Debug)]
pub(super) struct HostMachine {
    pub(super) host: Arc<Host>,
    pub(super) watched: Watched,
}

impl Machine for HostMachine {
    fn commit_many(&self, batches: Vec<(LogPosition, Bytes)>) -> BoxFuture<'_, Admitted> {
        Box::pin(async move {
            let last = batches.last().map(|(position, _)| *position);
            if let Some(witness) = self.watched.witness() {
                for (position, batch) in &batches {
                    witness.applied(*position, batch);
                }
            }
            let entries = batches.into_iter().map(|(position, batch)| (Term(position.term), batch));
            let admitted = self.host.commit_in_turns(entries).await;
            if let (Some(witness), Some(last)) = (self.watched.witness(), last) {
                let (zxid, digest) = self.host.digest();
                witness.reached(last, zxid, digest);
            }
            admitted
        })
    }

    fn admitted(&self) -> Admitted {
        self.host.admitted()
    }

    fn started(&self, boot: Boot) -> ProposalNumber {
        self.host.started(boot)
    }

    fn levels(&self) -> Levels {
        self.host.levels()
    }

    fn wall_ms(&self) -> i64 {
        self.host.now().wall_ms
    }

    fn mono_ms(&self) -> u64 {
        self.host.now().mono_ms
    }

    fn digest(&self) -> u64 {
        self.host.digest().1
    }

    fn digest_version(&self) -> u8 {
        DIGEST_VERSION
    }

    fn input(&self, input: Input) {
        self.host.input(input);
    }

    fn touched(&self, sessions: Vec<SessionId>) -> Vec<SessionId> {
        self.host.touched(&sessions)
    }

    fn ended_connections(&self, after: u64, all: bool) -> Silences<u64> {
        self.host.ended_connections(after, all)
    }

    fn silent_connections(&self, after: ConnectionId) -> Silences<ConnectionId> {
        self.host.silent_connections(after)
    }

    fn config_view(&self, identities: &[Id]) -> ConfigView {
        self.host.config_view(identities)
    }

    fn snapshot(&self) -> StateSnapshot {
        let view = self.host.snapshot();
        StateSnapshot {
            zxid: view.last_zxid().0.cast_unsigned(),
            digest: view.digest(),
            chunks: Box::new(view),
        }
    }

    fn stage(&self, chunks: Chunks) -> io::Result<Staged> {
        let state = State::restore(chunks).map_err(|error| match &error {
            RestoreError::Source(_) | RestoreError::Version(_) => io::Error::other(error),
            RestoreError::UnexpectedEnd(_)
            | RestoreError::Invalid(_)
            | RestoreError::Digest { .. } => io::Error::new(io::ErrorKind::InvalidData, error),
        })?;
        let (host, watched) = (Arc::clone(&self.host), self.watched.clone());
        Ok(Staged::new(move || {
            host.restore(state);
            if let Some(witness) = watched.witness() {
                let (zxid, digest) = host.digest();
                witness.restored(zxid, digest);
            }
        }))
    }

    fn zxid(&self) -> u64 {
        self.host.digest().0.0.cast_unsigned()
    }
}
