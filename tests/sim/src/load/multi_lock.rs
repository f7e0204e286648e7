//! Contenders for several locks at a time.

use std::time::Duration;

use zoolet_client::recipes::{
    Lockable, MultiLock, Mutex, ReadWriteLock, SemaphoreMutex, SimpleLock, WriteLock,
};
use zoolet_client::{Client, Error};

use super::contender::Contender;
use super::locks::Recipe;
use crate::history::LockStep;

/// Locks that are held together, and who contends for them.
#[derive(Debug)]
pub(super) struct Several {
    lock: MultiLock,
    first: Contender,
    others: Vec<Contender>,
}

impl Several {
    /// Two mutexes, of which the second is the first of other contenders.
    pub(super) fn mutexes(client: &Client, first: Contender, number: u64) -> Self {
        let second = Recipe::Multi.path(number + 1);
        let lock = MultiLock::mutexes(client, [first.lock.as_str(), second.as_str()]);
        let others = vec![Contender { lock: second, ..first.clone() }];
        Self { lock, first, others }
    }

    /// A mutex, and locks of three other kinds.
    pub(super) fn mixed(client: &Client, first: Contender, number: u64) -> Self {
        let simple = format!("/simple-mixed-{number}");
        let semaphore = format!("/locks/mixed-semaphore-{number}");
        let write = format!("/locks/mixed-write-{number}");
        let locks: Vec<Box<dyn Lockable>> = vec![
            Box::new(Mutex::new(client, &first.lock)),
            Box::new(SimpleLock::new(client, &simple)),
            Box::new(SemaphoreMutex::new(client, &semaphore)),
            Box::new(WriteLock(ReadWriteLock::new(client, &write))),
        ];
        let others = [simple, semaphore, write];
        let others = others.map(|lock| Contender { lock, ..first.clone() }).into();
        Self { lock: MultiLock::new(locks), first, others }
    }

    /// Takes all of them, holds them and gives them back; some only try it. What is noted of the first
    /// one goes for the others as well.
    pub(super) async fn hold(
        &self,
        (limit, tries): (Duration, bool),
        span: Duration,
    ) -> Result<(), Error> {
        let Self { lock, first, others } = self;
        let all = || std::iter::once(first).chain(others);
        for contender in all() {
            contender.waits("multi");
        }
        let take =
            async { if tries { lock.try_acquire().await } else { lock.acquire().await.map(Some) } };
        let taken = first.acquire(limit, take).await.map(Option::flatten);
        let Ok(Some(held)) = taken else {
            if tries {
                // A try has an end without the locks, and without an error.
                first.note(LockStep::GaveUp);
            }
            for contender in others {
                contender.note(LockStep::GaveUp);
            }
            return taken.map(drop);
        };
        let mut tokens = Vec::new();
        for (contender, guard) in all().zip(held.guards()) {
            let token = guard.token().get();
            contender.granted(token, guard.path(), guard.client().session().id);
            tokens.push(token);
        }
        let Some((&token, of_others)) = tokens.split_first() else { return Ok(()) };
        let was_lost = first.hold(token, span, async { _ = held.lost().await }).await;
        for (contender, &token) in others.iter().zip(of_others) {
            contender.note(if was_lost {
                LockStep::Lost { token }
            } else {
                LockStep::Releases { token }
            });
        }
        first.release(token, was_lost, held.release()).await
    }
}
