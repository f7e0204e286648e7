//! Work that dropped waiters and guards leave: a few tasks do it, however much there is.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime;

use super::Client;
use crate::chroot::Chroot;

/// The most tasks of one session at a time; further work waits in its queue.
const TASKS_MAX: usize = 16;

type Working = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Work that gets its client when its turn has come: one that waits does not keep the session open.
type Work = Box<dyn FnOnce(Client) -> Working + Send>;

/// The work of a session that no caller waits for.
#[derive(Default)]
pub(super) struct Background(Mutex<Backlog>);

#[derive(Default)]
struct Backlog {
    waiting: VecDeque<(Chroot, Work)>,
    tasks: usize,
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backlog = self.lock();
        f.debug_struct("Background")
            .field("waiting", &backlog.waiting.len())
            .field("tasks", &backlog.tasks)
            .finish()
    }
}

impl Background {
    fn lock(&self) -> MutexGuard<'_, Backlog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// Does work on a runtime that no caller waits for, after other work of this kind if there is
    /// much of it. It keeps the session open until it is done.
    pub(crate) fn in_background<F>(
        &self,
        runtime: &runtime::Handle,
        work: impl FnOnce(Self) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut backlog = self.handle.background.lock();
        let boxed: Work = Box::new(move |client| Box::pin(work(client)));
        backlog.waiting.push_back((self.chroot.clone(), boxed));
        if backlog.tasks < TASKS_MAX {
            backlog.tasks += 1;
            drop(backlog);
            runtime.spawn(Worker { client: self.clone(), is_done: false }.run());
        }
    }
}

/// One of the tasks. If its runtime ends before it, the work waits for the next one.
struct Worker {
    client: Client,
    is_done: bool,
}

impl Worker {
    async fn run(mut self) {
        while let Some((chroot, work)) = self.next() {
            work(Client { chroot, ..self.client.clone() }).await;
        }
    }

    fn next(&mut self) -> Option<(Chroot, Work)> {
        let mut backlog = self.client.handle.background.lock();
        let next = backlog.waiting.pop_front();
        if next.is_none() {
            backlog.tasks -= 1;
            self.is_done = true;
        }
        next
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.is_done {
            self.client.handle.background.lock().tasks -= 1;
        }
    }
}
