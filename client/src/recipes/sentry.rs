//! Watching the znodes of a lock that is held.

use std::future::{Future, pending};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::warn;
use zoolet_jute::EventType;

use crate::{Client, Error, ErrorCode};

use super::queue_wait::{LOOK_AGAIN, wait_gone};
use super::retry::{fired, is_not_found, retry_transient};

/// What a client writes on a lock's znode to ask its holder for it, as Curator's `Revoker` does.
pub(crate) const REVOKE_MESSAGE: &[u8] = b"__REVOKE__";

/// What was seen of the znodes.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    asked: bool,
    gone: bool,
}

/// A task that watches the znodes of a hold, for all who wait for their end or for a request. It
/// ends when this is dropped, and so do the waits for the end.
#[derive(Debug)]
pub(crate) struct Sentry {
    seen: watch::Receiver<Seen>,
    /// Whether the end of the hold was logged as a loss, or is its holder's doing.
    is_settled: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Sentry {
    /// Begins to watch one or two znodes that a transaction has created.
    pub(crate) fn begin(runtime: &Handle, client: &Client, paths: Vec<String>, czxid: i64) -> Self {
        let (sender, seen) = watch::channel(Seen::default());
        let client = client.clone();
        let is_settled = Arc::new(AtomicBool::new(false));
        let settled = Arc::clone(&is_settled);
        let task = runtime.spawn(async move {
            tokio::select! {
                () = watch_first(&client, paths.first(), czxid, &sender) => {}
                () = watch_second(&client, paths.get(1), czxid) => {}
            }
            if !settled.swap(true, Ordering::Relaxed) {
                warn_of_loss(&client, paths.first());
            }
            sender.send_modify(|seen| seen.gone = true);
        });
        Self { seen, is_settled, task }
    }

    /// Notes that the holder releases the lock. Returns whether its loss was logged before.
    pub(crate) fn settle(&self) -> bool {
        self.is_settled.swap(true, Ordering::Relaxed)
    }

    /// Waits until one of the znodes is gone, or the lock was released. The end of a session is not
    /// waited for.
    pub(crate) fn gone(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut seen = self.seen.clone();
        async move {
            if planted!("deleted-lock-is-not-reported") {
                return pending().await;
            }
            // An error reports that the task has ended, with the hold.
            let _ = seen.wait_for(|seen| seen.gone).await;
        }
    }

    /// Waits until the znode carries a request for the lock.
    pub(crate) fn asked(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut seen = self.seen.clone();
        async move {
            if seen.wait_for(|seen| seen.asked).await.is_err() {
                pending::<()>().await;
            }
        }
    }
}

/// Logs that a lock was lost whose session lives on. The loss of a session is logged by the session,
/// once for all of its locks.
pub(crate) fn warn_of_loss(client: &Client, path: Option<&String>) {
    let session = client.session().id;
    warn!(%session, path, "the lock is lost: its znode was deleted");
}

impl Drop for Sentry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Watches the znode on which requests are written, until it is gone.
async fn watch_first(
    client: &Client,
    path: Option<&String>,
    czxid: i64,
    seen: &watch::Sender<Seen>,
) {
    let Some(path) = path else { return pending().await };
    while let Ok(stays) = look(client, path, czxid, seen).await {
        if !stays {
            return;
        }
    }
    // The session has ended, or a server has refused the look.
    pending::<()>().await;
}

/// Looks at the znode and waits until it is time to look again; false when it is gone.
async fn look(
    client: &Client,
    path: &str,
    czxid: i64,
    seen: &watch::Sender<Seen>,
) -> Result<bool, Error> {
    match retry_transient(client, || client.get_watched(path)).await {
        Ok((_, stat, _)) if stat.czxid.0 != czxid => return Ok(false),
        Ok((data, _, watch)) => {
            seen.send_modify(|seen| {
                seen.asked = data.as_ref() == REVOKE_MESSAGE && !planted!("requests-are-ignored");
            });
            return fired(watch).await.map(|event| event != Some(EventType::NodeDeleted));
        }
        Err(error) if is_not_found(&error) => return Ok(false),
        // It is there and may not be read, and so not be watched.
        Err(error) if error.code() == Some(ErrorCode::NoAuth) => sleep(LOOK_AGAIN).await,
        Err(error) => return Err(error),
    }
    Ok(true)
}

async fn watch_second(client: &Client, path: Option<&String>, czxid: i64) {
    match path {
        Some(path) if wait_gone(client, path, czxid).await.is_ok() => {}
        _ => pending().await,
    }
}
