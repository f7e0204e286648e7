//! Shows the queue on a terminal while a lock is waited for.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::sleep;
use zoolet_client::SessionId;
use zoolet_survey::locks::{Lock, Member};

use crate::connection::Connection;
use crate::format::name_text;
use crate::locks::{self, data_shown};
use crate::progress::Progress;

/// How often the queue is looked at. It is shown only if stderr is a terminal, and
/// otherwise it is not looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Does the work, which acquires the lock at a path, and shows its place in the queue meanwhile.
pub(super) async fn shown<T>(
    path: &str,
    connection: &Connection,
    work: impl Future<Output = T>,
) -> T {
    let progress = Progress::spinner(&format!("{}: waiting", name_text(path)));
    if progress.is_hidden() {
        return work.await;
    }
    tokio::select! {
        biased;
        done = work => done,
        never = show_queue(path, connection, &progress) => match never {},
    }
}

async fn show_queue(path: &str, connection: &Connection, progress: &Progress) -> Infallible {
    loop {
        // The acquire reports what goes wrong.
        if let Ok(Some(lock)) = locks::at(path, connection).await {
            let standing = standing(&lock, connection.client.session().id);
            progress.set_message(format!("{}: {standing}", name_text(path)));
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Who has a lock, and how many precede a session in its queue.
fn standing(lock: &Lock, session: SessionId) -> String {
    let is_own = |member: &Member| member.stat.ephemeral_owner == session;
    let waiting = match lock.members.iter().position(is_own) {
        Some(in_front) => format!("waiting behind {in_front}"),
        None => "waiting".to_owned(),
    };
    let mut holders = lock.members.iter().filter(|member| member.holds && !is_own(member));
    let Some(first) = holders.next() else { return waiting };
    let name = match data_shown(first) {
        data if data.is_empty() => format!("session {}", first.stat.ephemeral_owner),
        data => data,
    };
    match holders.count() {
        0 => format!("{waiting}, held by {name}"),
        others => format!("{waiting}, held by {name} and {others} more"),
    }
}
