//! `lock` and `elect`: something that is held, and a command that runs meanwhile.

mod child;
mod descendants;
mod mixture;
mod waiting;

use std::ffi::OsString;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use zoolet_client::recipes::{
    LockGuard, LockOptions, Lockable, Loss, Mutex, ReadLock, ReadWriteLock, Semaphore, WriteLock,
};

use crate::args::{Elect, Lock, Options};
use crate::connection::Connection;
use crate::error::{CtlError, Exit};
use crate::format::name_text;
use crate::output::Output;
use crate::path;
use crate::signals::Signals;
use child::RunningCommand;
use mixture::Kind;

/// Which part of the session timeout a command gets to end by itself before its lock may be lost. It
/// comes before the end of the lease, at four fifths of the timeout: what is left is killed by then,
/// so that what holds of the lease, clocks that are wrong by up to 11 % included, holds of the
/// command. A connection is given up at two thirds, which leaves time for another one.
const GRACE_PART: u32 = 20;

/// How long a session whose lock is lost may take to end. It ends by itself as well.
const CLOSE_MAX: Duration = Duration::from_secs(1);

/// How long one that has lost the leadership waits before it contends again.
const CONTEND_AGAIN: Duration = Duration::from_secs(1);

/// What is to be held, and what for.
struct Plan<'a> {
    path: &'a str,
    kind: Kind,
    timeout: Option<Duration>,
    kill_after: Option<Duration>,
    command: &'a [OsString],
    /// Whether others may hold beside it. Then its token is not the highest, and a resource that
    /// compares tokens would refuse those who hold rightly.
    is_shared: bool,
}

/// `lock PATH [--shared|--exclusive|--permits N] [--timeout T] [-- CMD]`.
pub(crate) async fn lock(arguments: &Lock, options: &Options) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    let plan = Plan {
        path: &arguments.path,
        kind: match arguments {
            Lock { permits: Some(_), .. } => Kind::Semaphore,
            Lock { shared: true, .. } | Lock { exclusive: true, .. } => Kind::ReadWrite,
            Lock { .. } => Kind::Mutex,
        },
        timeout: arguments.timeout,
        kill_after: arguments.kill_after,
        command: &arguments.command,
        is_shared: arguments.shared || arguments.permits.is_some(),
    };
    let mut signals = Signals::receive()?;
    let make = |connection: &Connection| recipe(arguments, connection);
    hold_once(&plan, options, &mut signals, make).await
}

fn recipe(arguments: &Lock, connection: &Connection) -> Box<dyn Lockable> {
    let (client, path) = (&connection.client, arguments.path.as_str());
    let mut lock_options = LockOptions::new();
    if let Some(data) = &arguments.data {
        lock_options = lock_options.data(data.as_bytes());
    }
    if let Some(permits) = arguments.permits {
        return Box::new(Semaphore::with_options(client, path, permits.get(), lock_options));
    }
    if arguments.shared || arguments.exclusive {
        let lock = ReadWriteLock::with_options(client, path, lock_options);
        return if arguments.shared { Box::new(ReadLock(lock)) } else { Box::new(WriteLock(lock)) };
    }
    Box::new(Mutex::with_options(client, path, lock_options.bilingual()))
}

/// `elect PATH [--id ID] [--again] [-- CMD]`.
pub(crate) async fn elect(arguments: &Elect, options: &Options) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    let plan = Plan {
        path: &arguments.path,
        kind: Kind::Mutex,
        timeout: arguments.timeout,
        kill_after: arguments.kill_after,
        command: &arguments.command,
        is_shared: false,
    };
    let mut signals = Signals::receive()?;
    let make = |connection: &Connection| -> Box<dyn Lockable> {
        let mut lock_options = LockOptions::new().bilingual();
        if let Some(id) = &arguments.id {
            lock_options = lock_options.data(id.as_bytes());
        }
        Box::new(Mutex::with_options(&connection.client, &arguments.path, lock_options))
    };
    let mut has_led = false;
    loop {
        let ended = hold_once(&plan, options, &mut signals, make).await;
        let error = match ended {
            Err(error) if arguments.again => error,
            ended => return ended,
        };
        has_led |= error.exit == Exit::Lost;
        // A program that has led once waits for servers that do not answer.
        if error.exit != Exit::Lost && !(has_led && error.exit == Exit::Connection) {
            return Err(error);
        }
        let output = Output { json: options.json };
        output.note(&format!("{}; contending again", name_text(&error.message)));
        tokio::select! {
            () = sleep(CONTEND_AGAIN) => {}
            signal = signals.end() => return Err(CtlError::ended_by(signal)),
        }
    }
}

/// Opens a session, acquires the lock, runs the command, gives the lock back and ends the session.
async fn hold_once(
    plan: &Plan<'_>,
    options: &Options,
    signals: &mut Signals,
    make: impl Fn(&Connection) -> Box<dyn Lockable>,
) -> Result<(), CtlError> {
    let connection = tokio::select! {
        connection = Connection::open(options) => connection?,
        signal = signals.end() => return Err(CtlError::ended_by(signal)),
    };
    let lock = make(&connection);
    let acquiring = acquire(plan, lock.as_ref(), &connection);
    let result = tokio::select! {
        guard = waiting::shown(plan.path, &connection, acquiring) => guard,
        signal = signals.end() => Err(CtlError::ended_by(signal)),
    };
    let result = match result {
        Ok(guard) => use_lock(plan, options, guard, signals).await,
        Err(error) => Err(error),
    };
    if result.as_ref().is_err_and(|error| error.exit == Exit::Lost) {
        // The servers may be out of reach; the caller waits for the end.
        let _ = timeout(CLOSE_MAX, connection.close()).await;
    } else {
        connection.close().await;
    }
    result
}

async fn acquire(
    plan: &Plan<'_>,
    lock: &dyn Lockable,
    connection: &Connection,
) -> Result<LockGuard, CtlError> {
    mixture::refuse_any(plan, connection).await?;
    // A lock that does not wait has the time of one request for the look behind it.
    let limit = plan.timeout.map(|limit| if limit.is_zero() { connection.limit } else { limit });
    let until = limit.and_then(|limit| Instant::now().checked_add(limit));
    let acquired = match plan.timeout {
        // Servers that vanish answer no try.
        Some(Duration::ZERO) => Ok(connection.ask(plan.path, lock.try_acquire_boxed()).await?),
        Some(limit) => timeout(limit, lock.acquire_boxed()).await.unwrap_or(Ok(None)),
        None => lock.acquire_boxed().await,
    };
    let guard = acquired.map_err(|error| CtlError::of(&error, plan.path))?.ok_or_else(|| {
        let waited = plan.timeout.unwrap_or_default().as_millis();
        let message = format!("{}: lock not acquired within {waited} ms", plan.path);
        CtlError::new(Exit::NotInTime, message).hint("`zooletctl locks PATH` shows its holder")
    })?;
    tokio::select! {
        biased;
        loss = guard.lost() => Err(lost_error(plan.path, loss, "")),
        looked = mixture::refuse_older(plan, &guard, connection, until) => looked.map(|()| guard),
    }
}

/// Runs the command while the lock is held; without one, holds it until a signal comes.
async fn use_lock(
    plan: &Plan<'_>,
    options: &Options,
    guard: LockGuard,
    signals: &mut Signals,
) -> Result<(), CtlError> {
    let held = if plan.command.is_empty() {
        show(plan, options, &guard)?;
        tokio::select! {
            loss = guard.lost() => Err(lost_error(plan.path, loss, "")),
            _ = signals.end() => Ok(None),
        }
    } else {
        run(plan, options, &guard, signals).await.map(Some)
    };
    let exit = held?;
    let released = timeout(options.timeout, guard.release()).await;
    match (released, exit) {
        (Ok(Ok(false)), _) => Err(lost_error(plan.path, Loss::Deleted, "before the command ended")),
        (Ok(Err(error)), _) if error.ends_session() => {
            Err(lost_error(plan.path, Loss::Session, "before the command ended"))
        }
        (Ok(Err(_)) | Err(_), exit) => {
            Output { json: options.json }.note(&format!(
                "{}: cannot release the lock: it is released when the session ends",
                name_text(plan.path)
            ));
            passed(exit)
        }
        (Ok(Ok(true)), exit) => passed(exit),
    }
}

/// Prints what is held.
fn show(plan: &Plan<'_>, options: &Options, guard: &LockGuard) -> Result<(), CtlError> {
    let output = Output { json: options.json };
    let (path, token) = (guard.path(), guard.token());
    if plan.is_shared {
        return output.result(|| name_text(path), || json!({ "path": path }));
    }
    let json = || json!({ "path": path, "token": token.to_string() });
    output.result(|| format!("{} token {token}", name_text(path)), json)
}

/// Runs the command, and ends it when the lock is lost or about to be.
async fn run(
    plan: &Plan<'_>,
    options: &Options,
    guard: &LockGuard,
    signals: &mut Signals,
) -> Result<Exit, CtlError> {
    let part = Duration::from_millis(guard.client().session().timeout_ms) / GRACE_PART;
    let grace = plan.kill_after.unwrap_or(part);
    let token = (!plan.is_shared).then(|| guard.token().to_string());
    let environment =
        [("ZOOLET_TOKEN", token), ("ZOOLET_LOCK_PATH", Some(guard.path().to_owned()))];
    let mut command = RunningCommand::start(plan.command, environment)?;
    let loss = tokio::select! {
        biased;
        exit = command.wait(signals, async || is_held(guard).await) => return exit,
        loss = guard.lost() => loss,
        () = running_out(guard, grace.min(part)) => Loss::Session,
    };
    if !command.end(grace).await {
        let text = "not everything that the command has started could be killed";
        Output { json: options.json }.note(text);
    }
    Err(lost_error(plan.path, loss, ": the command was killed"))
}

/// Waits until the lease is nearly over: so much is left of it.
async fn running_out(guard: &LockGuard, margin: Duration) {
    loop {
        let left = guard.remaining().saturating_sub(margin);
        if left.is_zero() {
            return;
        }
        sleep(left).await;
    }
}

/// Whether the lock is held, as the servers know it. A lock that cannot be looked at is none.
async fn is_held(guard: &LockGuard) -> bool {
    guard.guarded().commit().await.is_ok()
}

/// The command's exit code becomes this program's.
fn passed(exit: Option<Exit>) -> Result<(), CtlError> {
    match exit {
        None | Some(Exit::Of(0)) => Ok(()),
        Some(exit) => Err(CtlError::new(exit, "")),
    }
}

fn lost_error(path: &str, loss: Loss, then: &str) -> CtlError {
    let why = match loss {
        Loss::Session => "the session has ended or may have",
        Loss::Deleted => "its znode is gone",
        _ => "it is not held any more",
    };
    let separator = if then.is_empty() || then.starts_with(':') { "" } else { " " };
    CtlError::new(Exit::Lost, format!("{path}: lost, {why}{separator}{then}"))
}
