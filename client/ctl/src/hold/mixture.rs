//! Locks of several kinds on one path, which do not exclude each other: they are refused.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use zoolet_client::ErrorCode;
use zoolet_client::recipes::LockGuard;
use zoolet_survey::locks::{Family, Role, parse};

use super::Plan;
use crate::connection::Connection;
use crate::error::{CtlError, Exit};
use crate::path;

/// How long to wait before a look that was not answered is repeated.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The kinds of lock. Those of different kinds do not exclude each other on one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Mutex,
    ReadWrite,
    Semaphore,
    /// One that `lock` cannot acquire.
    Foreign,
}

/// Refuses a path on which a lock of another kind stands: it and this one would both be held.
pub(super) async fn refuse_any(plan: &Plan<'_>, connection: &Connection) -> Result<(), CtlError> {
    match others(plan, connection).await?.first() {
        Some(name) => Err(mixture(plan.path, name)),
        None => Ok(()),
    }
}

/// Refuses a lock that was acquired beside an older one of another kind. Two of different kinds that
/// start together both find the path empty. Of their znodes one was created later; its owner sees
/// the older one in this second look, which comes behind its own create. A look that a lost connection
/// ends is repeated until it is too late for the caller: the lock stays held meanwhile.
pub(super) async fn refuse_older(
    plan: &Plan<'_>,
    guard: &LockGuard,
    connection: &Connection,
    until: Option<Instant>,
) -> Result<(), CtlError> {
    until_answered(until, async || look_for_older(plan, guard, connection).await).await
}

/// Repeats a look until it is answered; none begins past the given moment.
async fn until_answered(
    until: Option<Instant>,
    mut look: impl AsyncFnMut() -> Result<(), CtlError>,
) -> Result<(), CtlError> {
    loop {
        match look().await {
            Err(error)
                if error.is_transient && until.is_none_or(|until| Instant::now() < until) =>
            {
                sleep(LOOK_AGAIN).await;
            }
            looked => return looked,
        }
    }
}

/// Looks once for a lock of another kind that is older than a grant.
async fn look_for_older(
    plan: &Plan<'_>,
    guard: &LockGuard,
    connection: &Connection,
) -> Result<(), CtlError> {
    for name in others(plan, connection).await? {
        let path = path::join(plan.path, &name);
        let znodes = if kind_of(&name) == Some(Kind::Semaphore) {
            // The container of the permits may be older than all of them.
            let names = children(&path, connection).await?;
            names.iter().map(|name| path::join(&path, name)).collect()
        } else {
            vec![path]
        };
        for znode in znodes {
            let stat = connection.ask(&znode, connection.client.exists(&znode)).await?;
            if stat.is_some_and(|stat| stat.czxid.0 < guard.token().get()) {
                return Err(mixture(plan.path, &name));
            }
        }
    }
    Ok(())
}

/// The children of a path that belong to locks of other kinds.
async fn others(plan: &Plan<'_>, connection: &Connection) -> Result<Vec<String>, CtlError> {
    let mut names = children(plan.path, connection).await?;
    names.retain(|name| kind_of(name).is_some_and(|kind| kind != plan.kind));
    Ok(names)
}

/// The children of a znode; none if it does not exist.
async fn children(path: &str, connection: &Connection) -> Result<Vec<String>, CtlError> {
    match connection.ask(path, connection.client.children(path)).await {
        Ok((names, _)) => Ok(names),
        Err(error) if error.code == Some(ErrorCode::NoNode) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn mixture(path: &str, name: &str) -> CtlError {
    let message = format!("{path}: {name} exists, and this lock would not exclude its owner");
    CtlError::new(Exit::InvalidInput, message)
        .hint("`zooletctl locks PATH` shows it; ask for a lock of its kind")
}

/// The kind of lock that a child belongs to; `None` for other znodes.
fn kind_of(name: &str) -> Option<Kind> {
    if name == "leases" {
        return Some(Kind::Semaphore);
    }
    let place = parse(name)?;
    Some(match (place.family, place.role) {
        (Family::JavaRecipes | Family::CRecipes, _) | (_, Role::Election | Role::Permit) => {
            Kind::Foreign
        }
        // A kazoo reader is in the queue of kazoo's locks.
        (Family::Kazoo, _) | (_, Role::Mutex) => Kind::Mutex,
        (_, Role::Read | Role::Write) => Kind::ReadWrite,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One lost connection behind the grant gave the lock back that had been waited for.
    #[tokio::test(start_paused = true)]
    async fn a_look_that_is_not_answered_is_repeated() {
        let mut failures = vec![
            CtlError::of_call(&zoolet_client::ErrorKind::ConnectionLoss.into()),
            CtlError::of_call(&ErrorCode::SessionMoved.into()),
            CtlError::unanswered("no answer within 5000 ms"),
        ];
        let looked = until_answered(None, async || failures.pop().map_or(Ok(()), Err)).await;
        assert!(looked.is_ok() && failures.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_is_repeated_for_as_long_as_the_caller_waits() {
        let began = Instant::now();
        let until = began.checked_add(Duration::from_secs(1));
        let failure = || CtlError::of_call(&zoolet_client::ErrorKind::ConnectionLoss.into());
        let looked = until_answered(until, async || Err(failure())).await;
        assert_eq!(looked.unwrap_err().exit, Exit::Connection);
        let took = began.elapsed();
        assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(2), "{took:?}");
    }

    /// The kinds of failure without a server's code were taken for lost connections, all of them.
    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_session_ends_the_looks() {
        let expired = || CtlError::of_call(&zoolet_client::ErrorKind::SessionExpired.into());
        let looks = until_answered(None, async || Err(expired()));
        let looked = tokio::time::timeout(Duration::from_mins(1), looks).await;
        assert_eq!(looked.unwrap().unwrap_err().exit, Exit::Connection);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_not_repeated() {
        let mut failures = vec![mixture("/lock", "leases")];
        let looked = until_answered(None, async || failures.pop().map_or(Ok(()), Err)).await;
        assert_eq!(looked.unwrap_err().exit, Exit::InvalidInput);
    }
}
