//! Why a server can no longer work, and the watch over the tasks and threads that it cannot do
//! without: a panic, or an end that was not asked for, is such a reason.
//!
//! A release build of `zoolet` aborts at a panic. A program that embeds a server may unwind, and
//! without this the rest of the server would go on without the task that is gone.

use std::future::{Future, pending, poll_fn};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use zoolet_storage::{caught_now, panicked};

/// How long the end of a task waits for a better reason: mostly it follows from something else that
/// has failed, which is reported within this time.
const END_GRACE: Duration = Duration::from_millis(500);

/// The first reason why a server can no longer work, once there is one. Clones are of the same
/// server.
#[derive(Clone, Debug, Default)]
pub struct Fatal {
    reason: watch::Sender<Option<String>>,
}

impl Fatal {
    /// Reports a reason. Only the first one is kept.
    pub fn report(&self, why: impl Into<String>) {
        self.reason.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert_with(|| why.into());
            is_first
        });
    }

    /// Follows the reason; `None` as long as the server works.
    pub fn watch(&self) -> watch::Receiver<Option<String>> {
        self.reason.subscribe()
    }

    /// Carries out a task that ends with the server only, by being dropped. Its panic is reported,
    /// and so is its end.
    pub async fn endless(self, task: &'static str, work: impl Future<Output = ()>) {
        if let Err(panic) = caught(work).await {
            return self.report(panicked(task, &panic));
        }
        sleep(END_GRACE).await;
        self.report(format!("the task \"{task}\" has ended"));
    }

    /// Carries out a task that may end. Its panic is reported.
    pub async fn finite(self, task: &'static str, work: impl Future<Output = ()>) {
        if let Err(panic) = caught(work).await {
            self.report(panicked(task, &panic));
        }
    }

    /// Carries out a part of a task under a name of its own. Its panic is reported, and then it does
    /// not end.
    pub(crate) async fn part<T>(self, part: &'static str, work: impl Future<Output = T>) -> T {
        match caught(work).await {
            Ok(value) => value,
            Err(panic) => {
                self.report(panicked(part, &panic));
                pending().await
            }
        }
    }
}

/// Carries out `work`. An error is the message of its panic.
pub(crate) fn caught<T>(work: impl Future<Output = T>) -> impl Future<Output = Result<T, String>> {
    // An async function would keep room for it twice: as its argument, and pinned.
    let mut work = Box::pin(work);
    // After a panic the work is polled no more, so it is never seen half changed.
    poll_fn(move |context| match caught_now(|| work.as_mut().poll(context)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Err(panic) => Poll::Ready(Err(panic)),
    })
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    async fn reason(fatal: &Fatal) -> String {
        fatal.watch().wait_for(Option::is_some).await.unwrap().clone().unwrap()
    }

    #[tokio::test]
    async fn a_panic_is_reported_with_its_message_and_the_first_reason_stays() {
        let fatal = Fatal::default();
        let number = 7;
        let work = async move { panic!("number {number}") };
        fatal.clone().finite("counting", work).await;
        fatal.report("later");
        assert_eq!(reason(&fatal).await, panicked("counting", "number 7"));
    }

    #[tokio::test]
    async fn the_end_of_an_endless_task_is_reported_unless_its_cause_is() {
        let fatal = Fatal::default();
        fatal.clone().finite("short", async {}).await;
        assert_eq!(*fatal.watch().borrow(), None);
        fatal.clone().endless("long", async {}).await;
        assert_eq!(reason(&fatal).await, "the task \"long\" has ended");

        let fatal = Fatal::default();
        let ending = tokio::spawn(fatal.clone().endless("long", async {}));
        sleep(END_GRACE / 2).await;
        fatal.report("the disk has failed");
        ending.await.unwrap();
        assert_eq!(reason(&fatal).await, "the disk has failed");
    }

    #[tokio::test]
    async fn a_part_of_a_task_that_panics_is_reported_by_its_own_name() {
        let fatal = Fatal::default();
        assert_eq!(fatal.clone().part("counting", async { 7 }).await, 7);
        let part = fatal.clone().part("counting", async { panic!("the test's panic") });
        let task = fatal.clone().endless("supervisor", part);
        assert!(timeout(END_GRACE * 2, task).await.is_err(), "the task has ended");
        assert_eq!(reason(&fatal).await, panicked("counting", "the test's panic"));
    }

    #[tokio::test]
    async fn a_task_that_is_dropped_reports_nothing() {
        let fatal = Fatal::default();
        let task = tokio::spawn(fatal.clone().endless("long", pending()));
        tokio::task::yield_now().await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert_eq!(*fatal.watch().borrow(), None);
    }
}
