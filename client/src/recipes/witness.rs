//! Writes that happen once, lost replies notwithstanding.
//!
//! A write that is repeated because its reply was lost may happen twice: an item would be queued
//! twice, a count would rise by two. A witness is an ephemeral znode of the writer. Each
//! transaction writes its number there; so after a lost reply the witness tells whether it
//! happened. It stands in the container `<path>-witness`, out of the way of other clients.

use tokio::sync::Mutex;
use zoolet_jute::Acl;

use crate::{Client, Error, ErrorKind, Transaction};

use super::place::{Place, Shape, Ticket};
use super::retry::{back_off, insist, is_no_node, is_transient};

#[derive(Debug)]
struct Standing {
    place: Place,
    number: u64,
}

/// The znode of one writer, created with its first transaction.
#[derive(Debug)]
pub(crate) struct Witness {
    client: Client,
    dir: String,
    standing: Mutex<Option<Standing>>,
}

impl Witness {
    /// The witness for writes to a path.
    pub(crate) fn new(client: &Client, path: &str) -> Self {
        Self { client: client.clone(), dir: format!("{path}-witness"), standing: Mutex::new(None) }
    }

    /// Commits the parts that `parts` adds, once. Errors of the parts are the caller's.
    pub(crate) async fn commit(
        &self,
        parts: impl for<'a> Fn(Transaction<'a>) -> Transaction<'a>,
    ) -> Result<(), Error> {
        let mut standing = self.standing.lock().await;
        loop {
            let mut current = match standing.take() {
                Some(current) => current,
                None => self.stand().await?,
            };
            current.number += 1;
            let outcome = self.commit_numbered(&current, &parts).await;
            match outcome {
                // Somebody has deleted the witness: with it, nothing was committed.
                Err(error) if *error.kind() == ErrorKind::LockLost => {}
                outcome => {
                    *standing = Some(current);
                    return outcome;
                }
            }
        }
    }

    async fn stand(&self) -> Result<Standing, Error> {
        let ticket = Ticket {
            dir: &self.dir,
            shape: Shape::Protected("witness-"),
            data: b"0",
            acl: &Acl::open(),
            held: &[],
        };
        let (place, _) = Place::enter(&self.client, &ticket).await?;
        Ok(Standing { place, number: 0 })
    }

    async fn commit_numbered(
        &self,
        standing: &Standing,
        parts: &impl for<'a> Fn(Transaction<'a>) -> Transaction<'a>,
    ) -> Result<(), Error> {
        let paths = standing.place.paths();
        let Some(witness) = paths.first() else {
            return Err(ErrorKind::LockLost.into());
        };
        let number = standing.number.to_string();
        let mut tries = 0;
        loop {
            let transaction = self.client.transaction().while_held(&paths);
            let transaction = parts(transaction).set_data(witness, number.as_bytes(), -1);
            match transaction.commit().await {
                Ok(_) => return Ok(()),
                Err(error) if is_transient(&error) => {
                    back_off(&mut tries).await;
                    if self.has_seen(witness, &number).await? {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn has_seen(&self, witness: &str, number: &str) -> Result<bool, Error> {
        insist(|| self.client.sync(witness)).await?;
        match insist(|| self.client.get(witness)).await {
            Ok((data, _)) => Ok(data.as_ref() == number.as_bytes()),
            Err(error) if is_no_node(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
