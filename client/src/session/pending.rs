//! The requests that wait for their replies, in the order in which they went out.

use std::collections::VecDeque;

use tokio::sync::oneshot;
use tokio::time::Instant;
use zoolet_jute::{OpCode, Reply, ReplyHeader, WatcherType, Xid, Zxid};

use super::watches::Registration;
use crate::{Error, ErrorKind};

/// What a call gets back: the zxid of the reply's header, and its body.
pub(crate) type Answer = Result<(Zxid, Reply), Error>;

/// One request that was sent.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) xid: Xid,
    pub(crate) op: OpCode,
    /// When it went to the connection's buffer, which is before the server can have seen it.
    pub(crate) sent_at: Instant,
    pub(crate) registration: Option<Registration>,
    pub(crate) answer: Option<oneshot::Sender<Answer>>,
}

impl Pending {
    pub(crate) fn answer(self, answer: Answer) {
        // Nobody waits if the caller has dropped its future.
        if let Some(sender) = self.answer {
            let _ = sender.send(answer);
        }
    }
}

/// The queue of them. Servers answer in order, so a reply belongs to its head.
#[derive(Debug, Default)]
pub(crate) struct PendingQueue {
    queue: VecDeque<Pending>,
}

impl PendingQueue {
    pub(crate) fn push(&mut self, pending: Pending) {
        self.queue.push_back(pending);
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether a request is under way that will leave the same watch.
    pub(crate) fn registers(&self, kind: WatcherType, path: &str) -> bool {
        let same = |registration: &Registration| registration.watched() == (kind, path);
        self.queue.iter().any(|pending| pending.registration.as_ref().is_some_and(same))
    }

    /// Takes the request that a reply answers; a reply out of order breaks the connection.
    pub(crate) fn take(&mut self, header: &ReplyHeader) -> Result<Pending, Error> {
        match self.queue.pop_front() {
            Some(pending) if pending.xid == header.xid => Ok(pending),
            Some(pending) => {
                let why = format!("xid {} was answered before {}", header.xid, pending.xid);
                pending.answer(Err(ErrorKind::ConnectionLoss.into()));
                Err(ErrorKind::Protocol(why).into())
            }
            None => {
                Err(ErrorKind::Protocol(format!("nobody asked for the reply {}", header.xid))
                    .into())
            }
        }
    }

    /// Fails all of them.
    pub(crate) fn fail(&mut self, kind: &ErrorKind) {
        for pending in self.queue.drain(..) {
            pending.answer(Err(kind.clone().into()));
        }
    }
}
