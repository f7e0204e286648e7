//! The requests that wait for their replies, in the order in which they went out.

use std::collections::VecDeque;

use tokio::sync::oneshot;
use tokio::time::Instant;
use zoolet_jute::{OpCode, Reply, ReplyHeader, WatcherType, Xid, Zxid};

use super::watches::Registration;
use crate::{Error, ErrorKind};

/// What a call gets back: the zxid of the reply's header, and its body.
pub(crate) type Answer = Result<(Zxid, Reply), Error>;

/// What a request does to the watches of the session if it succeeds.
#[derive(Debug)]
pub(crate) enum Effect {
    /// A watch is left.
    Register(Registration),
    /// All watches of this kind and path are gone.
    Remove(WatcherType, String),
    /// Watches are registered again after a reconnect: the lasting ones, or those that fire once.
    /// If it fails, they are gone.
    Restore {
        /// Which of the two.
        lasting: bool,
    },
}

/// One request that was sent.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) xid: Xid,
    pub(crate) op: OpCode,
    pub(crate) effect: Option<Effect>,
    pub(crate) answer: Option<oneshot::Sender<Answer>>,
    /// When it was sent, behind how many pings, and what it counts in the windows.
    pub(crate) sent: Sent,
}

/// What is known of a request that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    pub(crate) behind_pings: u64,
    pub(crate) request_bytes: usize,
    pub(crate) reply_bytes: usize,
}

impl Pending {
    pub(crate) fn answer(self, answer: Answer) {
        // The receiver is gone if the caller has dropped its future.
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
        self.queue.iter().any(|pending| match &pending.effect {
            Some(Effect::Register(registration)) => registration.watched() == (kind, path),
            Some(Effect::Remove(..) | Effect::Restore { .. }) | None => false,
        })
    }

    /// Takes the request that a reply answers; a reply out of order breaks the connection.
    pub(crate) fn take(&mut self, header: &ReplyHeader) -> Result<Pending, Error> {
        match self.queue.pop_front() {
            Some(pending) if pending.xid == header.xid || planted!("any-reply-answers") => {
                Ok(pending)
            }
            Some(pending) => {
                let why = format!("xid {} was answered before {}", header.xid, pending.xid);
                self.queue.push_front(pending);
                Err(ErrorKind::Protocol(why).into())
            }
            None => Err(ErrorKind::Protocol(format!(
                "a reply that was not asked for, xid {}",
                header.xid
            ))
            .into()),
        }
    }

    /// Takes all of them: their replies will not come.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Pending> {
        self.queue.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(xid: i32) -> ReplyHeader {
        ReplyHeader { xid: Xid(xid), zxid: Zxid(1), err: None }
    }

    fn pending(xid: i32) -> Pending {
        let sent = Sent { at: Instant::now(), behind_pings: 0, request_bytes: 0, reply_bytes: 0 };
        Pending { xid: Xid(xid), op: OpCode::Exists, effect: None, answer: None, sent }
    }

    #[test]
    fn replies_belong_to_requests_in_order() {
        let mut queue = PendingQueue::default();
        queue.push(pending(1));
        queue.push(pending(2));
        assert_eq!(queue.take(&header(1)).unwrap().xid, Xid(1));
        assert!(queue.take(&header(3)).unwrap_err().to_string().contains("answered before 2"));
        assert_eq!(queue.drain().count(), 1, "the request that was passed over is unanswered");
        assert!(queue.take(&header(2)).unwrap_err().to_string().contains("that was not asked for"));
    }
}
