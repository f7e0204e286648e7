//! Waiting for a sign, and waiting for each other.

use std::time::Duration;

use zoolet_jute::{Acl, CreateMode, ErrorCode, EventType};

use crate::{Client, Error, ErrorKind};

use super::line::wait_deleted;
use super::local_address::local_address;
use super::name::join;
use super::place::{Place, Shape, Ticket};
use super::retry::{
    children, children_now, delete_created, ensure_persistent, exists_now, insist, within,
};

/// The znode that tells the members of a [`DoubleBarrier`] that all are there.
const READY: &str = "ready";

/// A barrier that holds everybody up while its znode exists: Curator's `DistributedBarrier`.
#[derive(Clone, Debug)]
pub struct Barrier {
    client: Client,
    path: String,
}

impl Barrier {
    /// The barrier at this path.
    pub fn new(client: &Client, path: &str) -> Self {
        Self { client: client.clone(), path: path.to_owned() }
    }

    /// Sets the barrier up; one that stands already stays.
    pub async fn set(&self) -> Result<(), Error> {
        ensure_persistent(&self.client, &self.path, local_address().as_bytes()).await
    }

    /// Takes the barrier away: the one that stands when this is called, and no later one.
    pub async fn remove(&self) -> Result<(), Error> {
        delete_created(&self.client, &self.path, None).await.map(drop)
    }

    /// Waits until no barrier stands.
    pub async fn wait(&self) -> Result<(), Error> {
        wait_deleted(&self.client, &self.path).await
    }

    /// The same, for so long at most; answers whether that was enough.
    pub async fn wait_timeout(&self, limit: Duration) -> Result<bool, Error> {
        Ok(within(limit, self.wait()).await?.is_some())
    }
}

/// A barrier that a number of members enter together and leave together: Curator's
/// `DistributedDoubleBarrier`.
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    client: Client,
    path: String,
    members: usize,
}

impl DoubleBarrier {
    /// The barrier at this path, for a number of members.
    pub fn new(client: &Client, path: &str, members: usize) -> Self {
        Self { client: client.clone(), path: path.to_owned(), members }
    }

    /// Enters, and waits until all members have. Who drops the future leaves; the others may have
    /// counted it until then.
    pub async fn enter(&self) -> Result<Entered, Error> {
        let ready = join(&self.path, READY);
        let address = local_address();
        let ticket = Ticket {
            dir: &self.path,
            shape: Shape::Plain,
            data: address.as_bytes(),
            acl: &Acl::open(),
            held: &[],
        };
        let (place, mut listed) = Place::enter(&self.client, &ticket).await?;
        loop {
            let (stat, watch) = insist(|| self.client.exists_watched(&ready)).await?;
            if stat.is_some() {
                return Ok(Entered { place });
            }
            let names = match listed.take() {
                Some(names) => names,
                None => children(&self.client, &self.path).await?,
            };
            if names.iter().filter(|name| *name != READY).count() >= self.members {
                self.make_ready(&ready).await?;
                return Ok(Entered { place });
            }
            match watch.changed().await {
                // A slow leaver of the round before may have deleted it since.
                Ok(event) if event.event_type == EventType::NodeCreated => {
                    return Ok(Entered { place });
                }
                Err(error) if *error.kind() != ErrorKind::WatchEnded => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// The same, for so long at most; `None` when that was not enough.
    pub async fn enter_timeout(&self, limit: Duration) -> Result<Option<Entered>, Error> {
        within(limit, self.enter()).await
    }

    async fn make_ready(&self, ready: &str) -> Result<(), Error> {
        let address = local_address();
        let mode = CreateMode::Persistent;
        match insist(|| self.client.create(ready, address.as_bytes(), mode)).await {
            Err(error) if error.code() != Some(ErrorCode::NodeExists) => Err(error),
            _ => Ok(()),
        }
    }
}

/// A member that has entered a [`DoubleBarrier`]. Dropping it leaves without waiting for others.
#[derive(Debug)]
#[must_use = "a member that is dropped has left"]
pub struct Entered {
    place: Place,
}

impl Entered {
    /// Leaves, and waits until all members have.
    ///
    /// Those who are inside now are waited for, and nobody who enters afterwards: the fast members
    /// of a barrier that is used again are in the next round while the slow ones still leave.
    pub async fn leave(self) -> Result<(), Error> {
        let client = self.place.client().clone();
        let dir = self.place.dir().to_owned();
        let mine = self.place.name().to_owned();
        let ready = join(&dir, READY);
        let ready_czxid = exists_now(&client, &ready).await?.map(|stat| stat.czxid.0);
        let mut round = members(&client, &dir).await?;
        // The member with the lowest name leaves last: the others wait for it, and it for them.
        while let (Some(first), Some(last)) = (round.first(), round.last())
            && *first == mine
            && *last != mine
        {
            wait_deleted(&client, &join(&dir, last)).await?;
            keep_inside(&client, &dir, &mut round).await?;
        }
        self.place.leave().await?;
        round.retain(|name| *name != mine);
        while let Some(first) = round.first() {
            wait_deleted(&client, &join(&dir, first)).await?;
            keep_inside(&client, &dir, &mut round).await?;
        }
        match ready_czxid {
            Some(_) => delete_created(&client, &ready, ready_czxid).await.map(drop),
            None => Ok(()),
        }
    }

    /// The same, waiting for so long at most; answers whether all have left.
    pub async fn leave_timeout(self, limit: Duration) -> Result<bool, Error> {
        Ok(within(limit, self.leave()).await?.is_some())
    }
}

/// Strikes those off the list who have left.
async fn keep_inside(client: &Client, dir: &str, round: &mut Vec<String>) -> Result<(), Error> {
    let inside = members(client, dir).await?;
    round.retain(|name| inside.contains(name));
    Ok(())
}

/// The names of those who are inside, in order.
async fn members(client: &Client, dir: &str) -> Result<Vec<String>, Error> {
    let mut names = children_now(client, dir).await?;
    names.retain(|name| name != READY);
    names.sort();
    Ok(names)
}
