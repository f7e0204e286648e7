//! Contenders for mutexes with options, and for semaphores of other kinds.

use std::time::Duration;

use zoolet_client::recipes::{
    LockGuard, LockOptions, Mutex, Semaphore, SemaphoreMutex, SharedCount,
};
use zoolet_client::{Client, Error};

use super::contender::Contender;

/// Waits for a mutex with these options, for so long at most; asks its holder for it before, if it is to.
pub(super) async fn mutex(
    client: &Client,
    options: LockOptions,
    contender: &Contender,
    (limit, asks): (Duration, bool),
) -> Result<Option<LockGuard>, Error> {
    let lock = Mutex::with_options(client, &contender.lock, options);
    let waits = async {
        if asks {
            ask(client, &lock).await?;
        }
        lock.acquire().await
    };
    contender.acquire(limit, waits).await
}

/// Waits for a semaphore of one permit.
pub(super) async fn semaphore_mutex(
    client: &Client,
    options: LockOptions,
    contender: &Contender,
    limit: Duration,
) -> Result<Option<LockGuard>, Error> {
    contender.waits("semaphore 1");
    let lock = SemaphoreMutex::with_options(client, &contender.lock, options);
    contender.acquire(limit, lock.acquire()).await
}

/// Waits for a permit of a semaphore that has a znode for their number.
pub(super) async fn shared_semaphore(
    client: &Client,
    permits: usize,
    contender: &Contender,
    limit: Duration,
) -> Result<Option<LockGuard>, Error> {
    contender.waits(&format!("semaphore {permits}"));
    let seed = i32::try_from(permits).unwrap_or(i32::MAX);
    let count = SharedCount::new(client, &format!("{}-permits", contender.lock), seed);
    let lock = Semaphore::shared(client, &contender.lock, count);
    contender.acquire(limit, lock.acquire()).await
}

/// Asks the holder for the lock.
async fn ask(client: &Client, lock: &Mutex) -> Result<(), Error> {
    let Some(holder) = lock.participants().await?.into_iter().next() else { return Ok(()) };
    match Mutex::request_revocation(client, &holder).await {
        Err(error) if error.ends_session() => Err(error),
        // It may have given the lock back.
        Ok(()) | Err(_) => Ok(()),
    }
}
