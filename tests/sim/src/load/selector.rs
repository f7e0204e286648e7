//! Contenders for a leadership that lasts as long as their work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zoolet_client::recipes::{LeaderSelector, LockGuard, Term};
use zoolet_client::{Client, Error};

use super::contender::Contender;
use super::stop::stopped;
use crate::history::LockStep;

/// Work of a leader. The selector drops it in the middle when the leadership is lost.
struct Work<'a> {
    contender: &'a Contender,
    token: i64,
    is_done: bool,
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        let token = self.token;
        if self.is_done {
            self.contender.note(LockStep::Releases { token });
        } else {
            self.contender.note(LockStep::Lost { token });
            self.contender.write_late(token);
        }
    }
}

/// Leads once.
pub(super) async fn lead(
    contender: &Contender,
    client: &Client,
    limit: Duration,
    span: Duration,
) -> Result<(), Error> {
    contender.waits("selector");
    let id = contender.client.0.to_string();
    let selector = LeaderSelector::with_id(client, &contender.lock, &id);
    let was_granted = AtomicBool::new(false);
    let work = async |guard: LockGuard| {
        was_granted.store(true, Ordering::Relaxed);
        let token = guard.token().get();
        contender.granted(token, guard.path(), guard.client().session().id);
        let mut work = Work { contender, token, is_done: false };
        tokio::select! {
            biased;
            () = contender.work(token, span) => {}
            () = stopped(&contender.stop) => {}
        }
        work.is_done = true;
        token
    };
    let term = contender.finish(selector.lead_timeout(limit, work)).await;
    if !was_granted.load(Ordering::Relaxed) {
        contender.note(LockStep::GaveUp);
    }
    match term {
        Some(Ok(Some(Term::Done(token)))) => contender.note(LockStep::Released { token }),
        Some(Err(error)) => return Err(error),
        Some(Ok(_)) | None => {}
    }
    Ok(())
}
