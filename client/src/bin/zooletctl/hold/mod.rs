//! `lock` and `elect`: something that is held, and a command that runs meanwhile.

mod child;
mod descendants;
mod waiting;

use std::ffi::OsString;
use std::time::Duration;

use serde_json::json;
use tokio::time::{sleep, timeout};
use zoolet_client::ErrorCode;
use zoolet_client::recipes::{
    LockGuard, LockOptions, Lockable, Loss, Mutex, ReadLock, ReadWriteLock, Semaphore, WriteLock,
};

use crate::args::{Elect, Lock, Options};
use crate::connection::Connection;
use crate::error::{CtlError, Exit};
use crate::locks::{Family, Role, parse};
use crate::output::{Output, note};
use crate::path;
use crate::signals::Signals;
use child::RunningCommand;

/// Which part of the session timeout a command gets to end by itself when its lock is lost. The
/// loss is seen at four fifths of it, so that the command is gone before anybody else holds the
/// lock.
const GRACE_PART: u32 = 10;

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
}

/// The kinds of lock. Those of different kinds do not exclude each other on one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Mutex,
    ReadWrite,
    Semaphore,
    /// One that `lock` cannot acquire.
    Foreign,
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
        // Whoever has led once waits for servers that do not answer.
        if error.exit != Exit::Lost && !(has_led && error.exit == Exit::Connection) {
            return Err(error);
        }
        note(&format!("{}; contending again", error.message));
        tokio::select! {
            () = sleep(CONTEND_AGAIN) => {}
            () = signals.end() => return Err(CtlError::new(Exit::Interrupted, "")),
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
        () = signals.end() => return Err(CtlError::new(Exit::Interrupted, "")),
    };
    let lock = make(&connection);
    let acquiring = acquire(plan, lock.as_ref(), &connection);
    let result = tokio::select! {
        guard = waiting::told(plan.path, &connection, acquiring) => guard,
        () = signals.end() => Err(CtlError::new(Exit::Interrupted, "")),
    };
    let result = match result {
        Ok(guard) => use_lock(plan, options, guard, signals).await,
        Err(error) => Err(error),
    };
    if result.as_ref().is_err_and(|error| error.exit == Exit::Lost) {
        // The servers may be out of reach; whoever started this waits for its end.
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
    refuse_mixture(plan, connection).await?;
    let acquired = match plan.timeout {
        // Servers that vanish answer no try.
        Some(Duration::ZERO) => Ok(connection.ask(plan.path, lock.try_acquire_boxed()).await?),
        Some(limit) => timeout(limit, lock.acquire_boxed()).await.unwrap_or(Ok(None)),
        None => lock.acquire_boxed().await,
    };
    acquired.map_err(|error| CtlError::of(&error, plan.path))?.ok_or_else(|| {
        let waited = plan.timeout.unwrap_or_default().as_millis();
        let message = format!("{}: not got within {waited} ms", plan.path);
        CtlError::new(Exit::NotInTime, message).hint("`zooletctl locks PATH` tells who has it")
    })
}

/// Refuses to stand beside a queue of another kind on the same path: both would believe to be alone.
async fn refuse_mixture(plan: &Plan<'_>, connection: &Connection) -> Result<(), CtlError> {
    let path = plan.path;
    let names = match connection.ask(path, connection.client.children(path)).await {
        Ok((names, _)) => names,
        Err(error) if error.code == Some(ErrorCode::NoNode) => return Ok(()),
        Err(error) => return Err(error),
    };
    let other = names.iter().find(|name| kind_of(name).is_some_and(|kind| kind != plan.kind));
    match other {
        None => Ok(()),
        Some(name) => {
            let message = format!("{path}: {name} is there, which this lock would not exclude");
            Err(CtlError::new(Exit::InvalidInput, message)
                .hint("`zooletctl locks PATH` shows it; ask for a lock of its kind"))
        }
    }
}

/// The kind of lock that a child belongs to; `None` for what is no lock.
fn kind_of(name: &str) -> Option<Kind> {
    if name == "leases" {
        return Some(Kind::Semaphore);
    }
    let place = parse(name)?;
    Some(match (place.family, place.role) {
        (Family::JavaRecipes | Family::CRecipes, _) | (_, Role::Election | Role::Permit) => {
            Kind::Foreign
        }
        // A kazoo reader stands in the queue of kazoo's locks.
        (Family::Kazoo, _) | (_, Role::Mutex) => Kind::Mutex,
        (_, Role::Read | Role::Write) => Kind::ReadWrite,
    })
}

/// Runs the command while the lock is held; without one, holds it until a signal comes.
async fn use_lock(
    plan: &Plan<'_>,
    options: &Options,
    guard: LockGuard,
    signals: &mut Signals,
) -> Result<(), CtlError> {
    let (token, lost) = (guard.token(), guard.lost());
    let grace = plan
        .kill_after
        .unwrap_or_else(|| Duration::from_millis(guard.client().session().timeout_ms) / GRACE_PART);
    let environment =
        [("ZOOLET_TOKEN", token.to_string()), ("ZOOLET_LOCK_PATH", guard.path().to_owned())];
    let held = if plan.command.is_empty() {
        let output = Output { json: options.json };
        let json = || json!({ "path": guard.path(), "token": token.get() });
        output.result(|| format!("{} token {token}", guard.path()), json)?;
        tokio::select! {
            loss = lost => Err(lost_error(plan.path, loss, "")),
            () = signals.end() => Ok(None),
        }
    } else {
        let mut command = RunningCommand::start(plan.command, &environment)?;
        tokio::select! {
            biased;
            exit = command.wait(signals, async || is_held(&guard).await) => exit.map(Some),
            loss = lost => {
                command.end(grace).await;
                Err(lost_error(plan.path, loss, ": the command was killed"))
            }
        }
    };
    let exit = held?;
    let released = timeout(options.timeout, guard.release()).await;
    match (released, exit) {
        (Ok(Ok(false)), _) => Err(lost_error(plan.path, Loss::Deleted, "before the command ended")),
        (Ok(Err(error)), _) if error.ends_session() => {
            Err(lost_error(plan.path, Loss::Session, "before the command ended"))
        }
        (Ok(Err(_)) | Err(_), exit) => {
            note(&format!("{}: not released: it goes with the session", plan.path));
            passed(exit)
        }
        (Ok(Ok(true)), exit) => passed(exit),
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
    };
    let separator = if then.is_empty() || then.starts_with(':') { "" } else { " " };
    CtlError::new(Exit::Lost, format!("{path}: lost, {why}{separator}{then}"))
}
