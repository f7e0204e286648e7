//! Waiting for one's turn in a queue of numbered znodes.
//!
//! Each waits for one znode in front of it, so that a release wakes one waiter and no herd.

use crate::{Client, Error};

use super::name::{Sequence, join, nearest_before};
use super::place::{Place, Ticket};
use super::retry::{children, fired, insist, is_no_node};

/// Where a place stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nothing stands in front that has to be waited for.
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
    ticket: &Ticket<'_>,
    turn: impl Fn(&[String], &str) -> Turn,
) -> Result<Place, Error> {
    loop {
        let (place, listed) = Place::enter(client, ticket).await?;
        if wait_turn(&place, listed, &turn).await? {
            return Ok(place);
        }
    }
}

/// Enters a queue and leaves it again unless it is this place's turn at once.
pub(crate) async fn try_turn(
    client: &Client,
    ticket: &Ticket<'_>,
    turn: impl Fn(&[String], &str) -> Turn,
) -> Result<Option<Place>, Error> {
    let (place, listed) = Place::enter(client, ticket).await?;
    let names = match listed {
        Some(names) => names,
        None => children(client, ticket.dir).await?,
    };
    if turn(&names, place.name()) == Turn::Mine {
        return Ok(Some(place));
    }
    place.leave().await?;
    Ok(None)
}

/// Waits until it is the place's turn; false when it has been deleted meanwhile.
pub(crate) async fn wait_turn(
    place: &Place,
    mut listed: Option<Vec<String>>,
    turn: impl Fn(&[String], &str) -> Turn,
) -> Result<bool, Error> {
    loop {
        let names = match listed.take() {
            Some(names) => names,
            None => children(place.client(), place.dir()).await?,
        };
        match turn(&names, place.name()) {
            Turn::Mine => return Ok(true),
            Turn::Gone => return Ok(false),
            Turn::Behind(name) => {
                let path = join(place.dir(), &name);
                wait_changed(place.client(), &path).await?;
            }
        }
    }
}

/// Waits until a znode is written or deleted; not at all if there is none. The watch is one of
/// `getData`, which leaves none behind on a znode that does not exist.
pub(crate) async fn wait_changed(client: &Client, path: &str) -> Result<(), Error> {
    match insist(|| client.get_watched(path)).await {
        Ok((_, _, watch)) => fired(watch).await,
        Err(error) if is_no_node(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Waits until a znode does not exist.
pub(crate) async fn wait_deleted(client: &Client, path: &str) -> Result<(), Error> {
    loop {
        match insist(|| client.get_watched(path)).await {
            Ok((_, _, watch)) => fired(watch).await?,
            Err(error) if is_no_node(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
