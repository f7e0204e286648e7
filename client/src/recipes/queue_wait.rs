//! Waiting for one's turn in a queue of numbered znodes.
//!
//! Each waits for one znode in front of it, so that a release wakes one waiter and no herd.

use std::time::Duration;

use tokio::time::sleep;

use crate::{Client, Error, ErrorCode, EventType, OneshotWatcher, Stat};

use super::name::{Sequence, join, nearest_before};
use super::queue_node::{QueueNode, QueueNodeSpec};
use super::retry::{children, fired, is_not_found, retry_transient};
use super::wait_meter::WaitMeter;

/// How often a znode is looked at that may not be read, and so not be watched.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Where a place stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing precedes it that has to be waited for.
    Mine,
    /// This znode has to go first.
    Behind(String),
    /// The place is not in the queue any more: somebody has deleted its znode.
    Gone,
}

/// Where a place stands when those go first that have a number by `blocks` and a lower one than it
/// has itself by `number`.
pub(crate) fn turn(
    names: &[String],
    mine: &str,
    number: impl Fn(&str) -> Option<Sequence>,
    blocks: impl Fn(&str) -> Option<Sequence>,
) -> Turn {
    let Some(own) = number(mine).filter(|_| names.iter().any(|name| name == mine)) else {
        return Turn::Gone;
    };
    match nearest_before(names, own, blocks) {
        None => Turn::Mine,
        Some(before) => Turn::Behind(before.to_owned()),
    }
}

/// Enters a queue and waits until it is this place's turn. Who drops the future leaves the queue.
pub(crate) async fn take_turn(
    client: &Client,
    spec: &QueueNodeSpec<'_>,
    turn: impl Fn(&[String], &str) -> Turn,
) -> Result<QueueNode, Error> {
    take_turn_metered(client, spec, turn, &WaitMeter::default()).await
}

/// The same; adds the time of waits for others to `meter`.
pub(crate) async fn take_turn_metered(
    client: &Client,
    spec: &QueueNodeSpec<'_>,
    turn: impl Fn(&[String], &str) -> Turn,
    meter: &WaitMeter,
) -> Result<QueueNode, Error> {
    loop {
        let (queue_node, listed) = QueueNode::enter(client, spec).await?;
        if wait_turn_metered(&queue_node, listed, &turn, meter).await? {
            return Ok(queue_node);
        }
    }
}

/// Enters a queue and leaves it again unless it is this place's turn at once.
pub(crate) async fn try_turn(
    client: &Client,
    spec: &QueueNodeSpec<'_>,
    turn: impl Fn(&[String], &str) -> Turn,
) -> Result<Option<QueueNode>, Error> {
    let (queue_node, listed) = QueueNode::enter(client, spec).await?;
    let names = match listed {
        Some(names) => names,
        None => children(client, spec.dir).await?,
    };
    if turn(&names, queue_node.name()) == Turn::Mine {
        return Ok(Some(queue_node));
    }
    queue_node.leave().await?;
    Ok(None)
}

/// Takes over the places that this session has in a queue: those whose turn it is. The others, for
/// whom no caller waits any more, leave it.
pub(crate) async fn adopt_turns(
    client: &Client,
    dir: &str,
    number: impl Fn(&str) -> Option<Sequence>,
    turn: impl Fn(&[String], &str) -> Turn,
) -> Result<Vec<QueueNode>, Error> {
    let places = QueueNode::adopt(client, dir, |name| number(name).is_some()).await?;
    let names = children(client, dir).await?;
    let mut held = Vec::new();
    for queue_node in places {
        match turn(&names, queue_node.name()) {
            Turn::Mine => held.push(queue_node),
            Turn::Behind(_) | Turn::Gone => drop(queue_node.leave().await?),
        }
    }
    Ok(held)
}

/// Waits until it is the place's turn; false when it has been deleted meanwhile.
pub(crate) async fn wait_turn(
    queue_node: &QueueNode,
    listed: Option<Vec<String>>,
    turn: impl Fn(&[String], &str) -> Turn,
) -> Result<bool, Error> {
    wait_turn_metered(queue_node, listed, turn, &WaitMeter::default()).await
}

async fn wait_turn_metered(
    queue_node: &QueueNode,
    mut listed: Option<Vec<String>>,
    turn: impl Fn(&[String], &str) -> Turn,
    meter: &WaitMeter,
) -> Result<bool, Error> {
    loop {
        let names = match listed.take() {
            Some(names) => names,
            None => children(queue_node.client(), queue_node.dir()).await?,
        };
        match turn(&names, queue_node.name()) {
            Turn::Mine => return Ok(true),
            Turn::Gone => return Ok(planted!("deleted-place-is-held")),
            Turn::Behind(name) => {
                let path = join(queue_node.dir(), &name);
                if let Some((_, sign)) = look(queue_node.client(), &path).await? {
                    meter.measure(sign.given()).await?;
                }
                if planted!("read-write-wakes-late") && name.contains("__") {
                    sleep(LOOK_AGAIN * 5).await;
                }
            }
        }
    }
}

/// What tells that it is time to look at a znode again.
#[derive(Debug)]
enum Sign {
    Watch(OneshotWatcher),
    /// Nothing does.
    Time,
}

impl Sign {
    /// Waits for it, and returns what has happened, if that is known.
    async fn given(self) -> Result<Option<EventType>, Error> {
        match self {
            Self::Watch(watch) => fired(watch).await,
            Self::Time => {
                sleep(LOOK_AGAIN).await;
                Ok(None)
            }
        }
    }
}

/// Looks at a znode and watches it; not if there is none. The watch is one of `getData`, which
/// leaves none behind on a znode that does not exist. A lock's ACL may forbid to read it: then no
/// server reports its end, and the refusal says only that it is there yet.
async fn look(client: &Client, path: &str) -> Result<Option<(Option<Stat>, Sign)>, Error> {
    match retry_transient(client, || client.get_watched(path)).await {
        Ok((_, stat, watch)) => Ok(Some((Some(stat), Sign::Watch(watch)))),
        Err(error) if is_not_found(&error) => Ok(None),
        Err(error) if error.code() == Some(ErrorCode::NoAuth) => Ok(Some((None, Sign::Time))),
        Err(error) => Err(error),
    }
}

/// Waits until a znode is written or deleted; not at all if there is none.
pub(crate) async fn wait_changed(client: &Client, path: &str) -> Result<(), Error> {
    match look(client, path).await? {
        Some((_, sign)) => sign.given().await.map(drop),
        None => Ok(()),
    }
}

/// Waits until a znode is not the one any more that this transaction has created: it is deleted,
/// and somebody else may have the name since.
pub(crate) async fn wait_gone(client: &Client, path: &str, czxid: i64) -> Result<(), Error> {
    loop {
        match look(client, path).await? {
            Some((stat, sign)) if stat.is_none_or(|stat| stat.czxid.0 == czxid) => {
                if sign.given().await? == Some(EventType::NodeDeleted) {
                    return Ok(());
                }
            }
            Some(_) | None => return Ok(()),
        }
    }
}

/// Waits until a znode does not exist.
pub(crate) async fn wait_deleted(client: &Client, path: &str) -> Result<(), Error> {
    while let Some((_, sign)) = look(client, path).await? {
        sign.given().await?;
    }
    Ok(())
}
