//! The handle that programs hold.

mod background;
mod bodies;
mod call;
mod connect;
mod ensemble;
mod quota;
mod reads;
mod transaction;
mod watching;
mod weak;
mod znodes;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::{Instrument, field, info_span};
use zoolet_jute::{OpCode, Reply, Request, Zxid};

use self::background::Background;
pub use self::call::Call;
pub use self::ensemble::ConfigChange;
pub use self::quota::Quota;
pub use self::reads::{Read, Reads};
pub use self::transaction::Transaction;
use crate::chroot::Chroot;
use crate::error::Concerning;
use crate::hosts::Hosts;
use crate::session::calls::{Calls, Ending};
use crate::session::core::{Core, Published};
use crate::session::lease::Lease;
use crate::session::pending::{Answer, Effect};
use crate::session::route::{Failures, Route};
use crate::session::task::Task;
use crate::session::{SessionInfo, SessionState};
use crate::{ClientOptions, ConnectString, Error, ErrorKind, Version};

/// A session with an ensemble. Clones are handles of the same session and cost next to nothing; it
/// is closed when the last of them is dropped.
///
/// Calls keep the order in which they were made, also those of several handles: see [`Call`].
/// Reads of one session see its own earlier writes. Data, ACLs and all other parts of a request
/// must fit into a frame of the servers' `jute.maxbuffer`, 1 MiB by default: see
/// [`request_bytes_max`](ClientOptions::request_bytes_max).
#[derive(Clone, Debug)]
#[must_use = "dropping the last handle closes the session, and its ephemeral znodes are deleted"]
pub struct Client {
    handle: Arc<Handle>,
    state: watch::Receiver<SessionState>,
    chroot: Chroot,
}

/// What the clones share.
#[derive(Debug)]
struct Handle {
    calls: Arc<Calls>,
    info: Arc<Mutex<SessionInfo>>,
    lease: Lease,
    background: Background,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.calls.end(Ending::Close);
    }
}

impl Client {
    /// Connects with the default options; see [`ClientOptions::connect`].
    pub async fn connect(connect_string: &str) -> Result<Self, Error> {
        ClientOptions::new().connect(connect_string).await
    }

    pub(crate) async fn start(connect_string: &str, options: ClientOptions) -> Result<Self, Error> {
        let connect_timeout = options.connect_timeout;
        let seed = if options.seed == 0 { random_seed() } else { options.seed };
        let (addresses, chroot) = connect_string.parse::<ConnectString>()?.into_parts();
        let info = options.resume.clone().unwrap_or_else(|| SessionInfo {
            id: zoolet_jute::SessionId::NONE,
            password: Bytes::new(),
            timeout_ms: u64::try_from(options.session_timeout.as_millis()).unwrap_or(u64::MAX),
            last_zxid: Zxid(0),
        });
        let (sender, state) = watch::channel(SessionState::Disconnected);
        let (info, lease) = (Arc::new(Mutex::new(info)), Lease::new());
        let published = Published { state: sender, info: Arc::clone(&info), lease: lease.clone() };
        let core = Core::new(&options, published, Instant::now());
        let calls = Arc::new(Calls::new(options.request_bytes_max));
        let failures = Failures::default();
        let route = Route::new(Hosts::new(addresses, seed), options.connector, failures.clone());
        // It outlives the span in which the program connects.
        let span = info_span!(parent: None, "session", id = field::Empty);
        tokio::spawn(Task::new(route, Arc::clone(&calls), core).run().instrument(span));
        let handle = Arc::new(Handle { calls, info, lease, background: Background::default() });
        let mut client = Self { handle, state, chroot };
        client.wait_served(connect_timeout, &failures).await?;
        Ok(client)
    }

    async fn wait_served(&mut self, limit: Duration, failures: &Failures) -> Result<(), Error> {
        let timeout_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let reached = |state: &SessionState| state.is_served() || state.is_terminal();
        match tokio::time::timeout(limit, self.state.wait_for(reached)).await {
            Err(_) => Err(Error::because(ErrorKind::Timeout(timeout_ms), failures.to_text())),
            Ok(Err(_)) => Err(ErrorKind::Closed.into()),
            Ok(Ok(state)) if state.is_terminal() => Err(Error::unsent(state.end())),
            Ok(Ok(_)) => Ok(()),
        }
    }

    /// A handle of the same session that takes the znode at `path` for the root: it precedes
    /// every path that goes in, and is taken off every one that comes out. The client does not create
    /// that znode; while it does not exist nothing can be created below it. A connect string can end in such a path, too: `host:2181,host:2181/app`.
    pub fn chrooted(&self, path: &str) -> Result<Self, Error> {
        let wrong = || Error::from(ErrorKind::Protocol(format!("invalid path {path:?}")));
        Ok(Self { chroot: self.chroot.below(path).ok_or_else(wrong)?, ..self.clone() })
    }

    /// The znode that this handle takes for the root, as the servers call it.
    pub fn chroot(&self) -> &str {
        self.chroot.path()
    }

    /// The session's id, password and timeout, with which another client can
    /// [resume](ClientOptions::resume) it.
    pub fn session(&self) -> SessionInfo {
        self.handle.info.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The state of the session, now and as it changes. A receiver that looks too seldom sees the latest
    /// state alone.
    pub fn state(&self) -> watch::Receiver<SessionState> {
        self.state.clone()
    }

    /// The longest request that is sent, in bytes.
    pub(crate) fn request_bytes_max(&self) -> usize {
        self.handle.calls.request_bytes_max()
    }

    /// For how long no server can have ended the session, by this client's clock: four fifths of
    /// the timeout, counted from when the last ping was sent that has been answered, or the request
    /// for the session. Zero when the session may have ended. This holds while the clocks of client
    /// and server run at rates that are wrong by less than 11 % each, no machine sleeps, and no
    /// server answers pings that its leader has not counted, as a follower of Apache `ZooKeeper`
    /// does that is cut off.
    pub fn remaining(&self) -> Duration {
        let is_over = self.state.borrow().is_terminal();
        if is_over { Duration::ZERO } else { self.handle.lease.remaining() }
    }

    /// Waits until the session has ended or may have: see [`remaining`](Self::remaining).
    pub async fn lost(&self) {
        let mut state = self.state.clone();
        let out_of_time = async {
            while !self.handle.lease.remaining().is_zero() {
                sleep_until(self.handle.lease.end()).await;
            }
        };
        tokio::select! {
            // An error means that the session's task has ended, and the session with it.
            _ = state.wait_for(|state| state.is_terminal()) => {}
            () = out_of_time => {}
        }
    }

    /// Ends the session, after all calls that were made before; its ephemeral znodes are deleted.
    /// For all handles: further calls fail with [`ErrorKind::Closed`].
    ///
    /// While no server can be reached this waits, as every call does. After a
    /// [`ConnectionLoss`](ErrorKind::ConnectionLoss) the session ends by its timeout at the latest.
    pub fn close(self) -> Call<()> {
        self.ask_for(Request::CloseSession, |_| Ok(()))
    }

    /// Leaves the session to another client, in this process or another, that
    /// [resumes](ClientOptions::resume) it: its ephemeral znodes stay, if that is done before the
    /// session timeout has passed. Calls that are not answered yet fail; watches end.
    #[must_use = "no client can resume the session without the returned value"]
    pub async fn detach(self) -> SessionInfo {
        self.handle.calls.end(Ending::Detach);
        // An error means that the task has ended, which has the same effect.
        let _ = self.state.clone().wait_for(|state| state.is_terminal()).await;
        self.session()
    }

    /// Any request of the protocol; returns the zxid of the reply's header, and the reply. Its
    /// paths are the servers': no chroot precedes them. A watch that it leaves has no
    /// watcher. The client itself sends pings and registers watches anew, so such requests are
    /// refused.
    pub fn call(&self, request: Request) -> Call<(Zxid, Reply)> {
        let op = request.op_code();
        if matches!(op, OpCode::Ping | OpCode::SetWatches | OpCode::SetWatches2) {
            let why = format!("{op} is sent by the client itself, and cannot be called");
            let concerning = Concerning::request(&request, &Chroot::default());
            return Call::new(Err(ErrorKind::Protocol(why).into()), concerning, |answer| answer);
        }
        self.unrooted().ask(request, None, |answer| answer)
    }

    /// Makes a call; `read` reads its reply.
    pub(crate) fn ask<T>(
        &self,
        request: Request,
        effect: Option<Effect>,
        read: impl FnOnce(Answer) -> Result<T, Error> + Send + 'static,
    ) -> Call<T> {
        let concerning = Concerning::request(&request, &self.chroot);
        Call::new(self.handle.calls.push(request, effect), concerning, read)
    }

    /// The same of a call whose answer is the body of a reply.
    pub(crate) fn ask_for<T>(
        &self,
        request: Request,
        read: impl FnOnce(Reply) -> Result<T, Error> + Send + 'static,
    ) -> Call<T> {
        self.ask(request, None, |answer| read(answer?.1))
    }

    /// The same of a call that expects a version.
    pub(crate) fn ask_at<N, T>(
        &self,
        version: Version<N>,
        request: impl FnOnce(N) -> Request,
        read: impl FnOnce(Reply) -> Result<T, Error> + Send + 'static,
    ) -> Call<T>
    where
        N: Copy + PartialEq + From<i8> + fmt::Display,
    {
        match version.number() {
            Ok(version) => self.ask_for(request(version), read),
            Err(kind) => {
                let concerning = Concerning::request(&request(N::from(-1)), &self.chroot);
                Call::new(Err(Error::unsent(kind)), concerning, |answer| read(answer?.1))
            }
        }
    }

    /// Whether both are handles of one session with one chroot, so that a path means one znode.
    pub(crate) fn is_handle_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle) && self.chroot == other.chroot
    }

    /// A path as servers know it.
    pub(crate) fn path(&self, path: &str) -> String {
        self.chroot.to_server(path)
    }

    pub(crate) fn root(&self) -> &Chroot {
        &self.chroot
    }

    /// The same session without a chroot.
    fn unrooted(&self) -> Self {
        Self { chroot: Chroot::default(), ..self.clone() }
    }
}

/// A number that differs between clients; zero if the system has none.
fn random_seed() -> u64 {
    let mut bytes = [0; 8];
    // Without chance all clients try the servers in the same order, which works.
    let _ = getrandom::fill(&mut bytes);
    u64::from_be_bytes(bytes)
}
