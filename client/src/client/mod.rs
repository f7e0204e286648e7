//! The handle that programs hold.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a reply of any other kind, new ones too, is one that was not asked for"
)]

mod ensemble;
mod quota;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep_until;
use zoolet_jute::{
    Acl, AddWatchMode, AddWatchRequest, CreateMode, CreateRequest, CreateTtlRequest, ErrorCode,
    PathRequest, PathVersionRequest, PathWatchRequest, Reply, Request, SetAclRequest,
    SetDataRequest, Stat, WatcherType, WatchesRequest,
};

pub use self::ensemble::ConfigChange;
pub use self::quota::Quota;
use crate::hosts::Hosts;
use crate::session::lease::Lease;
use crate::session::pending::Answer;
use crate::session::task::{Call, Operation, Task};
use crate::session::watches::{Registration, watcher_type};
use crate::session::{SessionInfo, SessionState};
use crate::watcher::Forgetting;
use crate::{
    ClientOptions, Error, ErrorKind, OneshotWatcher, PersistentWatcher, Reads, Transaction,
    WatchedEvent,
};

/// The most calls that wait for the task at a time; further ones wait in their futures.
const CALLS_MAX: usize = 1024;

/// The most events that wait in one persistent watcher; a slower one ends.
const WATCH_EVENTS_MAX: usize = 16 * 1024;

/// A session with an ensemble; clones share it. The session is closed when the last one is dropped.
#[derive(Clone, Debug)]
pub struct Client {
    calls: mpsc::Sender<Call>,
    state: watch::Receiver<SessionState>,
    info: Arc<Mutex<SessionInfo>>,
    lease: Lease,
}

impl Client {
    /// Connects with the default options; see [`ClientOptions`].
    pub async fn connect(connect_string: &str) -> Result<Self, Error> {
        ClientOptions::new().connect(connect_string).await
    }

    pub(crate) async fn start(connect_string: &str, options: ClientOptions) -> Result<Self, Error> {
        let connect_timeout = options.connect_timeout;
        let seed = if options.seed == 0 { u64::from(std::process::id()) } else { options.seed };
        let hosts = Hosts::parse(connect_string, seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))?;
        let (calls, receiver) = mpsc::channel(CALLS_MAX);
        let (state_sender, state) = watch::channel(SessionState::Disconnected);
        let info = Arc::new(Mutex::new(SessionInfo {
            id: options.resume.as_ref().map_or_else(Default::default, |session| session.id),
            password: options.resume.as_ref().map_or_else(Bytes::new, |old| old.password.clone()),
            timeout_ms: u64::try_from(options.session_timeout.as_millis()).unwrap_or(u64::MAX),
            last_zxid: options.last_zxid_seen,
        }));
        let lease = Lease::new();
        let shared = (Arc::clone(&info), lease.clone());
        let task = Task::new(hosts, options, receiver, state_sender, shared);
        tokio::spawn(task.run());
        let mut client = Self { calls, state, info, lease };
        client.wait_connected(connect_timeout).await?;
        Ok(client)
    }

    async fn wait_connected(&mut self, limit: Duration) -> Result<(), Error> {
        let timeout_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let reached =
            |state: &SessionState| *state == SessionState::Connected || state.is_terminal();
        match tokio::time::timeout(limit, self.state.wait_for(reached)).await {
            Err(_) => Err(ErrorKind::Timeout(timeout_ms).into()),
            Ok(Err(_)) => Err(ErrorKind::Closed.into()),
            Ok(Ok(state)) => match *state {
                SessionState::Expired => Err(ErrorKind::SessionExpired.into()),
                SessionState::AuthFailed => Err(ErrorKind::AuthFailed.into()),
                SessionState::Closed => Err(ErrorKind::Closed.into()),
                SessionState::Connected | SessionState::Disconnected => Ok(()),
            },
        }
    }

    /// The session's id, password and timeout, with which another client can resume it.
    pub fn session(&self) -> SessionInfo {
        self.info.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where the session stands, now and as it changes.
    pub fn state(&self) -> watch::Receiver<SessionState> {
        self.state.clone()
    }

    /// For how long no server can have ended the session, by this client's clock: four fifths of
    /// the timeout, counted from when the last request was sent that has been answered. Zero when
    /// the session may have ended. This holds while the clocks of client and server run at rates
    /// that are wrong by less than 11 % each.
    pub fn remaining(&self) -> Duration {
        if self.state.borrow().is_terminal() { Duration::ZERO } else { self.lease.remaining() }
    }

    /// Waits until the session has ended or may have: see [`remaining`](Self::remaining).
    pub async fn lost(&self) {
        let mut state = self.state.clone();
        let out_of_time = async {
            while !self.lease.remaining().is_zero() {
                sleep_until(self.lease.end()).await;
            }
        };
        tokio::select! {
            // An error tells that the session's task is gone, and the session with it.
            _ = state.wait_for(|state| state.is_terminal()) => {}
            () = out_of_time => {}
        }
    }

    /// Creates a znode; answers its path, with the number of a sequential mode, and its Stat.
    pub async fn create(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
    ) -> Result<(String, Stat), Error> {
        self.create_with_acl(path, data, Acl::open(), mode).await
    }

    /// Creates a znode with an ACL of its own.
    pub async fn create_with_acl(
        &self,
        path: &str,
        data: &[u8],
        acl: Vec<Acl>,
        mode: CreateMode,
    ) -> Result<(String, Stat), Error> {
        let body = CreateRequest {
            path: path.to_owned(),
            data: Some(Bytes::copy_from_slice(data)),
            acl: Some(acl),
            flags: mode as i32,
        };
        let request = match mode {
            CreateMode::Container => Request::CreateContainer(body),
            CreateMode::Persistent
            | CreateMode::Ephemeral
            | CreateMode::PersistentSequential
            | CreateMode::EphemeralSequential
            | CreateMode::PersistentWithTtl
            | CreateMode::PersistentSequentialWithTtl => Request::Create2(body),
        };
        match self.call(request).await?.1 {
            Reply::PathStat(path, stat) => Ok((path, stat)),
            other => Err(unexpected(&other)),
        }
    }

    /// Creates a znode that servers delete when it has had no child and no write for a time, 1 ms to
    /// 2⁴⁰ − 1 ms; `mode` is one of those with a time to live. Servers refuse it with
    /// [`ErrorCode::Unimplemented`] unless their extended types are enabled.
    pub async fn create_with_ttl(
        &self,
        path: &str,
        data: &[u8],
        acl: Vec<Acl>,
        mode: CreateMode,
        ttl: Duration,
    ) -> Result<(String, Stat), Error> {
        let body = create_ttl(path, data, acl, mode, ttl);
        match self.call(Request::CreateTtl(body)).await?.1 {
            Reply::PathStat(path, stat) => Ok((path, stat)),
            other => Err(unexpected(&other)),
        }
    }

    /// Deletes a znode of this version; −1 for any.
    pub async fn delete(&self, path: &str, version: i32) -> Result<(), Error> {
        let body = PathVersionRequest { path: path.to_owned(), version };
        self.call(Request::Delete(body)).await.map(|_| ())
    }

    /// The Stat of a znode; `None` if there is none.
    pub async fn exists(&self, path: &str) -> Result<Option<Stat>, Error> {
        no_node_is_none(self.call(Request::Exists(path_watch(path, false))).await)
    }

    /// The same, with a watch that fires when the znode is created, written or deleted.
    pub async fn exists_watched(
        &self,
        path: &str,
    ) -> Result<(Option<Stat>, OneshotWatcher), Error> {
        let (sender, receiver) = oneshot::channel();
        let registration = Registration::Exists(path.to_owned(), sender);
        let request = Request::Exists(path_watch(path, true));
        let stat = no_node_is_none(self.call_registering(request, Some(registration)).await)?;
        Ok((stat, self.oneshot(receiver, WatcherType::Data, path)))
    }

    /// The data and Stat of a znode. Null data is answered as empty.
    pub async fn get(&self, path: &str) -> Result<(Bytes, Stat), Error> {
        match self.call(Request::GetData(path_watch(path, false))).await?.1 {
            Reply::Data(data, stat) => Ok((data.unwrap_or_default(), stat)),
            other => Err(unexpected(&other)),
        }
    }

    /// The same, with a watch that fires when the znode is written or deleted.
    pub async fn get_watched(&self, path: &str) -> Result<(Bytes, Stat, OneshotWatcher), Error> {
        let (sender, receiver) = oneshot::channel();
        let registration = Registration::Data(path.to_owned(), sender);
        let request = Request::GetData(path_watch(path, true));
        match self.call_registering(request, Some(registration)).await?.1 {
            Reply::Data(data, stat) => {
                let watcher = self.oneshot(receiver, WatcherType::Data, path);
                Ok((data.unwrap_or_default(), stat, watcher))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Writes the data of a znode of this version; −1 for any.
    pub async fn set_data(&self, path: &str, data: &[u8], version: i32) -> Result<Stat, Error> {
        let body = SetDataRequest {
            path: path.to_owned(),
            data: Some(Bytes::copy_from_slice(data)),
            version,
        };
        match self.call(Request::SetData(body)).await?.1 {
            Reply::Stat(stat) => Ok(stat),
            other => Err(unexpected(&other)),
        }
    }

    /// The names of a znode's children, in no order that means anything, and its Stat.
    pub async fn children(&self, path: &str) -> Result<(Vec<String>, Stat), Error> {
        match self.call(Request::GetChildren2(path_watch(path, false))).await?.1 {
            Reply::ChildrenStat(children, stat) => Ok((children, stat)),
            other => Err(unexpected(&other)),
        }
    }

    /// The same, with a watch that fires when a child comes or goes, or the znode is deleted.
    pub async fn children_watched(
        &self,
        path: &str,
    ) -> Result<(Vec<String>, Stat, OneshotWatcher), Error> {
        let (sender, receiver) = oneshot::channel();
        let registration = Registration::Children(path.to_owned(), sender);
        let request = Request::GetChildren2(path_watch(path, true));
        match self.call_registering(request, Some(registration)).await?.1 {
            Reply::ChildrenStat(children, stat) => {
                Ok((children, stat, self.oneshot(receiver, WatcherType::Children, path)))
            }
            other => Err(unexpected(&other)),
        }
    }

    /// The ACL of a znode.
    pub async fn acl(&self, path: &str) -> Result<(Vec<Acl>, Stat), Error> {
        let request = Request::GetAcl(PathRequest { path: path.to_owned() });
        match self.call(request).await?.1 {
            Reply::Acl(acl, stat) => Ok((acl, stat)),
            other => Err(unexpected(&other)),
        }
    }

    /// Writes the ACL of a znode of this ACL version; −1 for any.
    pub async fn set_acl(&self, path: &str, acl: Vec<Acl>, version: i32) -> Result<Stat, Error> {
        let body = SetAclRequest { path: path.to_owned(), acl: Some(acl), version };
        match self.call(Request::SetAcl(body)).await?.1 {
            Reply::Stat(stat) => Ok(stat),
            other => Err(unexpected(&other)),
        }
    }

    /// How many znodes there are below a znode, at any depth.
    pub async fn all_children_number(&self, path: &str) -> Result<u64, Error> {
        let request = Request::GetAllChildrenNumber(PathRequest { path: path.to_owned() });
        match self.call(request).await?.1 {
            Reply::Count(number) => Ok(u64::try_from(number).unwrap_or_default()),
            other => Err(unexpected(&other)),
        }
    }

    /// Begins several reads in one request.
    pub fn reads(&self) -> Reads<'_> {
        Reads::new(self)
    }

    /// Begins a transaction.
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(self)
    }

    /// Watches a znode, or everything below it, until the session ends.
    pub async fn add_watch(
        &self,
        path: &str,
        mode: AddWatchMode,
    ) -> Result<PersistentWatcher, Error> {
        let (sender, receiver) = mpsc::channel::<WatchedEvent>(WATCH_EVENTS_MAX);
        let registration = Registration::Persistent(path.to_owned(), mode, sender);
        let request = Request::AddWatch(AddWatchRequest { path: path.to_owned(), mode });
        self.call_registering(request, Some(registration)).await?;
        Ok(PersistentWatcher::new(receiver, self.forgetting(watcher_type(mode), path)))
    }

    /// Whether the server holds a watch of this kind on exactly this path for this session.
    pub async fn check_watches(&self, path: &str, kind: WatcherType) -> Result<bool, Error> {
        let body = WatchesRequest { path: path.to_owned(), watcher_type: kind };
        found(self.call(Request::CheckWatches(body)).await)
    }

    /// Removes all watches of this kind on exactly this path that this session has, whoever holds
    /// their watchers; answers whether there were any. To end one watch, drop its watcher.
    pub async fn remove_watches(&self, path: &str, kind: WatcherType) -> Result<bool, Error> {
        let body = WatchesRequest { path: path.to_owned(), watcher_type: kind };
        let found = found(self.call(Request::RemoveWatches(body)).await)?;
        if found && self.calls.send(Call::Removed(kind, path.to_owned())).await.is_err() {
            return Err(self.terminal_error());
        }
        Ok(found)
    }

    /// Ends the session: its ephemeral znodes are deleted.
    pub async fn close(self) -> Result<(), Error> {
        self.call(Request::CloseSession).await.map(|_| ())
    }

    /// Any request of the protocol; answers the zxid of the reply's header, and the reply.
    pub async fn call(&self, request: Request) -> Answer {
        self.call_registering(request, None).await
    }

    fn oneshot(
        &self,
        receiver: oneshot::Receiver<WatchedEvent>,
        kind: WatcherType,
        path: &str,
    ) -> OneshotWatcher {
        OneshotWatcher::new(receiver, self.forgetting(kind, path))
    }

    fn forgetting(&self, kind: WatcherType, path: &str) -> Forgetting {
        Forgetting { calls: self.calls.downgrade(), kind, path: path.to_owned() }
    }

    async fn call_registering(
        &self,
        request: Request,
        registration: Option<Registration>,
    ) -> Answer {
        let (answer, receiver) = oneshot::channel();
        let operation = Operation { request, registration, answer };
        if self.calls.send(Call::Operation(operation)).await.is_err() {
            return Err(self.terminal_error());
        }
        receiver.await.unwrap_or_else(|_| Err(self.terminal_error()))
    }

    /// Why the task has ended.
    fn terminal_error(&self) -> Error {
        match *self.state.borrow() {
            SessionState::Expired => ErrorKind::SessionExpired.into(),
            SessionState::AuthFailed => ErrorKind::AuthFailed.into(),
            SessionState::Closed | SessionState::Connected | SessionState::Disconnected => {
                ErrorKind::Closed.into()
            }
        }
    }
}

/// The body of a create with a time to live.
pub(crate) fn create_ttl(
    path: &str,
    data: &[u8],
    acl: Vec<Acl>,
    mode: CreateMode,
    ttl: Duration,
) -> CreateTtlRequest {
    CreateTtlRequest {
        path: path.to_owned(),
        data: Some(Bytes::copy_from_slice(data)),
        acl: Some(acl),
        flags: mode as i32,
        ttl_ms: i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX),
    }
}

fn path_watch(path: &str, watch: bool) -> PathWatchRequest {
    PathWatchRequest { path: path.to_owned(), watch }
}

fn no_node_is_none(answer: Answer) -> Result<Option<Stat>, Error> {
    match answer {
        Ok((_, Reply::Stat(stat))) => Ok(Some(stat)),
        Ok((_, other)) => Err(unexpected(&other)),
        Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}

fn found(answer: Answer) -> Result<bool, Error> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(ErrorCode::NoWatcher) => Ok(false),
        Err(error) => Err(error),
    }
}

fn unexpected(reply: &Reply) -> Error {
    ErrorKind::Protocol(format!("a request was answered otherwise: {reply:?}")).into()
}
