//! A client at one server that writes, and reports each acknowledged write.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use zoolet_jute::{
    Acl, ConnectRequest, CreateRequest, ErrorCode, Request, SessionId, SetDataRequest, Xid, Zxid,
};

use super::real_time::{now, pause};
use crate::raw::{Incoming, RawConnection, new_session};

/// The longest session that the harness' servers grant.
pub(super) const SESSION_MS: i32 = 10_000;
/// Between two writes, so that the writers leave the cores to the servers.
const PAUSE: Duration = Duration::from_millis(1);
/// Before the next attempt to connect.
const RECONNECT_PAUSE: Duration = Duration::from_millis(5);

/// An acknowledged write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ack {
    /// Which writer.
    pub(super) writer: usize,
    pub(super) sent: Instant,
    pub(super) received: Instant,
}

/// A running writer.
#[derive(Debug)]
pub(super) struct Writer {
    stop: Arc<AtomicBool>,
    failed: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts a writer with a session at one server. It resumes the session there whenever the
    /// connection is lost.
    pub(super) fn start(number: usize, server: SocketAddr, acks: Sender<Ack>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let failed = Arc::new(AtomicUsize::new(0));
        let (stopped, failures) = (Arc::clone(&stop), Arc::clone(&failed));
        let thread = thread::spawn(move || {
            let path = format!("/failover-{number}");
            let mut client = Client { server, path, session: new_session(SESSION_MS), xid: 0 };
            while !stopped.load(Ordering::Relaxed) {
                // A lost connection is what is measured.
                if client.write_until(&stopped, number, &acks).is_err() {
                    failures.fetch_add(1, Ordering::Relaxed);
                }
                pause(RECONNECT_PAUSE);
            }
        });
        Self { stop, failed, thread: Some(thread) }
    }

    /// How many requests have failed so far, those to connect again included.
    pub(super) fn failed(&self) -> usize {
        self.failed.load(Ordering::Relaxed)
    }
}

impl Drop for Writer {
    /// Waits for the end of the write that is under way.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}

/// The session of a writer, over all its connections.
struct Client {
    server: SocketAddr,
    path: String,
    session: ConnectRequest,
    xid: i32,
}

impl Client {
    /// Writes on one connection until it is lost or the writer is stopped.
    #[allow(clippy::disallowed_methods, reason = "the bench measures real time")]
    fn write_until(
        &mut self,
        stopped: &AtomicBool,
        number: usize,
        acks: &Sender<Ack>,
    ) -> io::Result<()> {
        let mut connection = self.connect()?;
        let create = Request::Create(CreateRequest {
            path: self.path.clone(),
            data: None,
            acl: Some(Acl::open()),
            flags: 0,
        });
        self.call(&mut connection, &create)?;
        let set = Request::SetData(SetDataRequest {
            path: self.path.clone(),
            data: Some(Bytes::from_static(&[b'x'; 100])),
            version: -1,
        });
        while !stopped.load(Ordering::Relaxed) {
            let sent = now();
            self.call(&mut connection, &set)?;
            let ack = Ack { writer: number, sent, received: now() };
            if acks.send(ack).is_err() {
                break;
            }
            pause(PAUSE);
        }
        Ok(())
    }

    /// Resumes the session, or opens a new one when it has expired.
    fn connect(&mut self) -> io::Result<RawConnection> {
        let connection = RawConnection::handshake(self.server, &self.session)?;
        if connection.session.session_id == SessionId::NONE {
            self.session = new_session(SESSION_MS);
            return Err(io::Error::other("the session has expired"));
        }
        self.session = connection.resume_request(Zxid(0));
        Ok(connection)
    }

    /// Sends a write and waits until it is acknowledged, or until its znode is there.
    fn call(&mut self, connection: &mut RawConnection, request: &Request) -> io::Result<()> {
        self.xid += 1;
        match connection.call(Xid(self.xid), request)?.1 {
            Incoming::Reply(header, _)
                if header.err.is_none() || header.err == Some(ErrorCode::NodeExists) =>
            {
                Ok(())
            }
            other @ (Incoming::Reply(..) | Incoming::Event(..) | Incoming::Closed) => {
                Err(io::Error::other(format!("{other:?}")))
            }
        }
    }
}
