//! Writes that happen once, lost replies notwithstanding.
//!
//! A write that is repeated because its reply was lost may happen twice: an item would be queued
//! twice, a count would rise by two. A witness is an ephemeral znode of the writer. Each
//! transaction writes its number there; so after a lost reply the witness shows whether it
//! happened. Witnesses are in the container `<path>-witness`, out of the way of other clients.
//!
//! A witness serves one transaction at a time, so a writer has several: each is created by the first
//! transaction that needs it, in which it is a part, and serves others when that is done.
//!
//! A session that may not create the container has no witnesses. Its writes are made once: a lost
//! reply is an error whose outcome is unknown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use tracing::debug;
use zoolet_jute::{Acl, CreateMode, ErrorCode};

use crate::{Client, Error, ErrorKind, Transaction, Version};

use super::queue_node::QueueNode;
use super::retry::{back_off, ensure_containers, is_not_found, retry_transient};

/// The most witnesses of one writer, and so the most of its transactions that are under way.
const WITNESSES_MAX: usize = 32;

/// One witness: an ephemeral znode and the number of the last transaction that was to write it.
#[derive(Debug)]
struct Witness {
    queue_node: QueueNode,
    path: String,
    /// Whether its znode was created.
    exists: bool,
    number: u64,
}

/// How an attempt at a transaction ended that is to be repeated.
enum Again {
    /// Nothing was committed.
    Now,
    /// The container for the witness is missing.
    WithContainer,
    /// The session may not create witnesses.
    WithoutWitness,
}

/// The znodes of one writer.
#[derive(Debug)]
pub(crate) struct WriteMarker {
    client: Client,
    dir: String,
    free: Mutex<Vec<Witness>>,
    turns: Semaphore,
    is_refused: AtomicBool,
}

impl WriteMarker {
    /// The witness for writes to a path.
    pub(crate) fn new(client: &Client, path: &str) -> Self {
        Self {
            client: client.clone(),
            dir: format!("{path}-witness"),
            free: Mutex::default(),
            turns: Semaphore::new(WITNESSES_MAX),
            is_refused: AtomicBool::new(false),
        }
    }

    /// Commits the parts that `parts` adds, once. Errors of the parts are the caller's. Where the
    /// session may not have a witness a lost reply is an error as well: then the outcome is unknown,
    /// see [`Error::may_have_happened`].
    pub(crate) async fn commit(
        &self,
        parts: impl for<'a> Fn(Transaction<'a>) -> Transaction<'a>,
    ) -> Result<(), Error> {
        // Turns come in order: writes that are asked for together are sent in the order of asking.
        let _turn = self.turns.acquire().await.map_err(|_| Error::from(ErrorKind::Closed))?;
        if self.is_refused.load(Ordering::Relaxed) {
            return self.commit_alone(&parts).await;
        }
        let free = self.free().pop();
        let mut witness = match free {
            Some(witness) => witness,
            None => self.planned_witness()?,
        };
        witness.number += 1;
        loop {
            let outcome = self.commit_numbered(&mut witness, &parts).await;
            let again = match outcome {
                Ok(None) => {
                    self.free().push(witness);
                    return Ok(());
                }
                Ok(Some(again)) => again,
                Err(error) => {
                    self.free().push(witness);
                    return Err(error);
                }
            };
            match again {
                Again::Now => {}
                Again::WithContainer => match ensure_containers(&self.client, &self.dir).await {
                    Err(error) if is_refusal(&error) => {
                        return self.refused(witness, &parts).await;
                    }
                    ensured => ensured?,
                },
                Again::WithoutWitness => return self.refused(witness, &parts).await,
            }
        }
    }

    /// Commits without a witness, from now on.
    async fn refused(
        &self,
        mut witness: Witness,
        parts: &impl for<'a> Fn(Transaction<'a>) -> Transaction<'a>,
    ) -> Result<(), Error> {
        debug!(dir = self.dir, "no witness may be created: a lost reply leaves a write in doubt");
        self.is_refused.store(true, Ordering::Relaxed);
        witness.queue_node.disarm();
        self.commit_alone(parts).await
    }

    /// Commits without a witness. What was surely not carried out is repeated.
    async fn commit_alone(
        &self,
        parts: &impl for<'a> Fn(Transaction<'a>) -> Transaction<'a>,
    ) -> Result<(), Error> {
        let mut tries = 0;
        loop {
            match parts(self.client.transaction()).commit().await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_transient() && !error.may_have_happened() => {
                    back_off(&self.client, &error, &mut tries).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn planned_witness(&self) -> Result<Witness, Error> {
        let queue_node = QueueNode::planned(&self.client, &self.dir, "witness")?;
        let path = queue_node.paths().pop().unwrap_or_default();
        Ok(Witness { queue_node, path, exists: false, number: 0 })
    }

    /// Commits the parts and the witness's number; `None` when that is done.
    async fn commit_numbered(
        &self,
        witness: &mut Witness,
        parts: &impl for<'a> Fn(Transaction<'a>) -> Transaction<'a>,
    ) -> Result<Option<Again>, Error> {
        let number = witness.number.to_string();
        let mut tries = 0;
        loop {
            let held = if witness.exists { std::slice::from_ref(&witness.path) } else { &[] };
            let transaction = parts(self.client.transaction().while_held(held));
            let of_witness = transaction.parts();
            let (path, data) = (witness.path.as_str(), number.as_bytes());
            let transaction = if witness.exists {
                transaction.set_data(path, data, Version::Any)
            } else {
                transaction.create(path, data, Acl::open(), CreateMode::Ephemeral)
            };
            let committed = transaction.commit().marking(witness.queue_node.sent()).await;
            let Err(error) = committed else {
                witness.exists = true;
                return Ok(None);
            };
            if error.is_transient() {
                back_off(&self.client, &error, &mut tries).await;
                if error.may_have_happened() {
                    let seen = self.has_seen(witness, data).await;
                    // Without an answer of the witness the transaction stays in doubt.
                    if seen.map_err(|error| error.with_doubt(true))? {
                        return Ok(None);
                    }
                }
            } else if *error.kind() == ErrorKind::LockLost {
                // Somebody has deleted the witness: with it, nothing was committed.
                witness.exists = false;
                return Ok(Some(Again::Now));
            } else if error.part() == Some(of_witness) && !witness.exists {
                return match error.code() {
                    Some(ErrorCode::NoNode) => Ok(Some(Again::WithContainer)),
                    Some(ErrorCode::NodeExists) => {
                        witness.exists = true;
                        Ok(Some(Again::Now))
                    }
                    _ if is_refusal(&error) => Ok(Some(Again::WithoutWitness)),
                    _ => Err(error),
                };
            } else {
                return Err(error);
            }
        }
    }

    /// Whether the witness shows that the transaction happened; notes whether there is one.
    async fn has_seen(&self, witness: &mut Witness, number: &[u8]) -> Result<bool, Error> {
        let path = witness.path.as_str();
        retry_transient(&self.client, || self.client.sync(path)).await?;
        match retry_transient(&self.client, || self.client.get(path)).await {
            Ok((data, _)) => {
                witness.exists = true;
                Ok(data.as_ref() == number && !planted!("lost-reply-adds-twice"))
            }
            Err(error) if is_not_found(&error) => {
                witness.exists = false;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<Witness>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the session may not create a znode here, or a quota is used up.
fn is_refusal(error: &Error) -> bool {
    matches!(
        error.code(),
        Some(ErrorCode::NoAuth | ErrorCode::QuotaExceeded | ErrorCode::NoChildrenForEphemerals)
    )
}
