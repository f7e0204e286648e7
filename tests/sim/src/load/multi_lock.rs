//! Contenders for two mutexes at a time.

use std::time::Duration;

use zoolet_client::recipes::MultiLock;
use zoolet_client::{Client, Error};

use super::contender::Contender;
use crate::history::LockStep;

/// Takes both locks, holds them and gives them back. What is noted of the first one goes for the
/// second as well.
pub(super) async fn hold_both(
    client: &Client,
    [first, second]: [&Contender; 2],
    limit: Duration,
    span: Duration,
) -> Result<(), Error> {
    first.waits("multi");
    second.waits("multi");
    let lock = MultiLock::mutexes(client, [first.lock.as_str(), second.lock.as_str()]);
    let taken = first.acquire(limit, lock.acquire()).await;
    let Ok(Some(both)) = taken else {
        second.note(LockStep::GaveUp);
        return taken.map(drop);
    };
    let mut tokens = Vec::new();
    for (contender, guard) in [first, second].into_iter().zip(both.guards()) {
        let token = guard.token().get();
        contender.granted(token, guard.path(), guard.client().session().id);
        tokens.push(token);
    }
    let &[token, token_of_second] = tokens.as_slice() else { return Ok(()) };
    let was_lost = first.hold(token, span, async { _ = both.lost().await }).await;
    second.note(if was_lost {
        LockStep::Lost { token: token_of_second }
    } else {
        LockStep::Releases { token: token_of_second }
    });
    first.release(token, was_lost, both.release()).await
}
