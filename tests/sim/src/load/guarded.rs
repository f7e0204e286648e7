//! Writes that commit only while a lock is held.

use zoolet_client::recipes::LockGuard;
use zoolet_client::{CreateMode, Version};

use super::contender::Contender;
use crate::history::LockStep;

/// What all holders write to.
pub(crate) const GUARDED: &str = "/guarded";

/// Writes down who writes, which must fail if the lock was lost. Returns whether it is lost by then.
pub(super) async fn write(guard: &LockGuard, contender: &Contender, was_lost: bool) -> bool {
    let token = guard.token().get();
    let writer = format!("{token} {}", guard.path());
    let write = async {
        // Another one may have created it. What the write comes to, the log says.
        let client = guard.client();
        let _ = contender.finish(client.create(GUARDED, b"", CreateMode::Persistent)).await;
        let _ = contender.finish(guard.write(GUARDED, writer.as_bytes(), Version::Any)).await;
    };
    if was_lost {
        write.await;
        return true;
    }
    tokio::select! {
        biased;
        _ = guard.lost() => {
            contender.note(LockStep::Lost { token });
            true
        }
        () = write => false,
    }
}
