//! What the recipes do about lost connections: they ask again, where asking twice does no harm.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::sleep;
use tracing::debug;

use crate::{
    Client, CreateMode, Error, ErrorCode, ErrorKind, EventType, OneshotWatcher, Stat, Version,
};

use super::name::split;
use super::session;

/// The first wait before a repetition, in ms; it doubles.
const BACKOFF_MS: u64 = 5;

/// How often it doubles.
const DOUBLINGS_MAX: u32 = 6;

/// The first wait before a clean-up that a server has refused is tried again; it doubles.
const CLEAN_AGAIN_MIN: Duration = Duration::from_millis(100);

/// The longest of these waits.
const CLEAN_AGAIN_MAX: Duration = Duration::from_secs(10);

/// Whether the server answered that the znode does not exist.
pub(crate) fn is_not_found(error: &Error) -> bool {
    error.code() == Some(ErrorCode::NoNode)
}

/// Waits before a request that has failed so is repeated: a little, longer each time. The client
/// itself waits until it is connected. A server that only reads is not asked again: this waits for
/// one that writes, or for the end of the session.
pub(crate) async fn back_off(client: &Client, error: &Error, tries: &mut u32) {
    if error.code() == Some(ErrorCode::NotReadOnly) {
        session::resumed(client).await;
    }
    let factor = 1 << (*tries).min(DOUBLINGS_MAX);
    *tries = tries.saturating_add(1);
    sleep(Duration::from_millis(BACKOFF_MS * factor)).await;
}

/// Repeats an operation that does no harm twice, until a server carries it out or the session has
/// ended. If the session ends, an earlier attempt whose reply was lost may have happened.
pub(crate) async fn retry_transient<T, F>(
    client: &Client,
    mut operation: impl FnMut() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let (mut tries, mut in_doubt) = (0, false);
    loop {
        match operation().await {
            Err(error) if error.is_transient() => {
                in_doubt |= error.may_have_happened();
                back_off(client, &error, &mut tries).await;
            }
            Err(error) => {
                let in_doubt = in_doubt && error.ends_session();
                return Err(error.with_doubt(in_doubt));
            }
            done => return done,
        }
    }
}

/// Waits until a watch fires, and returns what has happened, or ends although the session lives on:
/// in both cases it is time to look again.
pub(crate) async fn fired(watch: OneshotWatcher) -> Result<Option<EventType>, Error> {
    match watch.changed().await {
        Ok(event) => Ok(Some(event.event_type)),
        Err(error) if *error.kind() == ErrorKind::WatchEnded => Ok(None),
        Err(error) => Err(error),
    }
}

/// Cleans up in the background, until it is done or the session has ended, which does it as well.
/// After a refusal it is tried again. Meanwhile this holds no handle of the client, so that it does
/// not keep a session open that has no other user: that one ends, with all that is ephemeral in it.
pub(crate) fn clean_up_later<F>(
    client: &Client,
    runtime: &Handle,
    work: impl FnMut(Client) -> F + Send + 'static,
) where
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    clean_up_behind(client, runtime, work, CLEAN_AGAIN_MIN);
}

/// The same; after a refusal, `wait` goes by before the next attempt.
fn clean_up_behind<F>(
    client: &Client,
    runtime: &Handle,
    mut work: impl FnMut(Client) -> F + Send + 'static,
    wait: Duration,
) where
    F: Future<Output = Result<(), Error>> + Send + 'static,
{
    let handle = runtime.clone();
    client.in_background(runtime, move |client| async move {
        let Err(error) = work(client.clone()).await else { return };
        if error.ends_session() {
            debug!(%error, "a clean-up is left to the end of its session");
            return;
        }
        debug!(%error, wait_ms = wait.as_millis(), "a clean-up is tried again");
        let (weak, runtime) = (client.downgrade(), handle.clone());
        handle.spawn(async move {
            sleep(wait).await;
            if let Some(client) = weak.upgrade() {
                let wait = (wait * 2).min(CLEAN_AGAIN_MAX);
                clean_up_behind(&client, &runtime, work, wait);
            }
        });
    });
}

/// Gives a future so much time; `None` when it was not enough.
pub(crate) async fn within<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, Error>>,
) -> Result<Option<T>, Error> {
    match tokio::time::timeout(limit, future).await {
        Ok(answer) => answer.map(Some),
        Err(_) => Ok(None),
    }
}

/// The children of a znode as of now: a `sync` goes in front, so that another server that answers
/// after a reconnect has everything that was committed before. No znode, no children.
pub(crate) async fn children_now(client: &Client, dir: &str) -> Result<Vec<String>, Error> {
    retry_transient(client, || async {
        let (synced, children) = tokio::join!(biased; client.sync(dir), client.children(dir));
        synced?;
        or_empty(children.map(|(names, _)| names))
    })
    .await
}

/// The children of a znode as the server at hand knows them. No znode, no children.
pub(crate) async fn children(client: &Client, dir: &str) -> Result<Vec<String>, Error> {
    or_empty(retry_transient(client, || client.children(dir)).await.map(|(names, _)| names))
}

fn or_empty(children: Result<Vec<String>, Error>) -> Result<Vec<String>, Error> {
    match children {
        Err(error) if is_not_found(&error) => Ok(Vec::new()),
        other => other,
    }
}

/// Deletes a znode, which need not exist. Returns whether there was one; after a lost
/// reply, a znode that is gone counts as deleted here.
pub(crate) async fn delete_if_there(client: &Client, path: &str) -> Result<bool, Error> {
    let (mut tries, mut in_doubt) = (0, false);
    loop {
        match client.delete(path, Version::Any).await {
            Ok(()) => return Ok(true),
            Err(error) if is_not_found(&error) => return Ok(in_doubt),
            Err(error) if error.is_transient() => {
                in_doubt |= error.may_have_happened();
                back_off(client, &error, &mut tries).await;
            }
            Err(error) => return Err(error.with_doubt(in_doubt)),
        }
    }
}

/// The Stat of a znode as of now: a `sync` goes in front, as with [`children_now`].
pub(crate) async fn exists_now(client: &Client, path: &str) -> Result<Option<Stat>, Error> {
    retry_transient(client, || async {
        let (synced, stat) = tokio::join!(biased; client.sync(path), client.exists(path));
        synced?;
        stat
    })
    .await
}

/// Deletes a znode of a name that others create too: the one that this transaction has created, or
/// the one that stands there at first. It is looked at before every delete, since a delete whose
/// reply was lost may have happened, and the next one would end a successor. Returns whether the
/// znode was there, as [`delete_if_there`] does.
pub(crate) async fn delete_created(
    client: &Client,
    path: &str,
    mut czxid: Option<i64>,
) -> Result<bool, Error> {
    let (mut tries, mut in_doubt) = (0, false);
    loop {
        let stat = exists_now(client, path).await;
        match stat.map_err(|error| error.with_doubt(in_doubt))? {
            Some(stat)
                if czxid.is_none_or(|czxid| czxid == stat.czxid.0)
                    || planted!("simple-lock-deletes-unseen") =>
            {
                czxid = Some(stat.czxid.0);
            }
            Some(_) | None => return Ok(in_doubt),
        }
        match client.delete(path, Version::Any).await {
            Ok(()) => return Ok(true),
            Err(error) if is_not_found(&error) => return Ok(in_doubt),
            Err(error) if error.is_transient() => {
                in_doubt |= error.may_have_happened();
                back_off(client, &error, &mut tries).await;
            }
            Err(error) => return Err(error.with_doubt(in_doubt)),
        }
    }
}

/// Creates a znode and everything above it that is missing as containers, as Curator does; servers
/// without containers get persistent znodes.
pub(crate) async fn ensure_containers(client: &Client, path: &str) -> Result<(), Error> {
    if split(path).is_none() {
        // The root is always there: what is missing is the chroot, which is not created.
        return Err(ErrorKind::Server(ErrorCode::NoNode).into());
    }
    loop {
        let mut missing = vec![path];
        // Upwards to the first that exists: its ACL may forbid to try and create it.
        while let Some((parent, _)) = missing.last().and_then(|path| split(path)) {
            if parent == "/" || retry_transient(client, || client.exists(parent)).await?.is_some() {
                break;
            }
            missing.push(parent);
        }
        let mut reaped = false;
        while let Some(next) = missing.pop() {
            match create_container(client, next).await {
                Ok(()) => {}
                // A container above it was reaped meanwhile: from the start. The root is not reaped,
                // so this is a chroot that does not exist.
                Err(error) if is_not_found(&error) => {
                    if split(next).is_some_and(|(parent, _)| parent == "/") {
                        return Err(error);
                    }
                    reaped = true;
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if !reaped {
            return Ok(());
        }
    }
}

/// Creates a persistent znode unless it exists, and what is missing above it as containers.
pub(crate) async fn ensure_persistent(
    client: &Client,
    path: &str,
    data: &[u8],
) -> Result<(), Error> {
    loop {
        match retry_transient(client, || client.create(path, data, CreateMode::Persistent)).await {
            Ok(_) => return Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NodeExists) => return Ok(()),
            Err(error) if is_not_found(&error) => match split(path) {
                Some((parent, _)) => ensure_containers(client, parent).await?,
                None => return Err(error),
            },
            Err(error) => return Err(error),
        }
    }
}

async fn create_container(client: &Client, path: &str) -> Result<(), Error> {
    let mut mode = CreateMode::Container;
    loop {
        match retry_transient(client, || client.create(path, b"", mode)).await {
            Ok(_) => return Ok(()),
            Err(error) => match error.code() {
                Some(ErrorCode::NodeExists) => return Ok(()),
                Some(ErrorCode::Unimplemented) if mode == CreateMode::Container => {
                    mode = CreateMode::Persistent;
                }
                _ => return Err(error),
            },
        }
    }
}
