//! The calls that were made and not yet sent, in the order in which they were made.
//!
//! A call has its place from the moment it is made, not from when its future is first polled. The
//! future owns what waits: one that is dropped before its request was sent takes the request with
//! it. So no more waits here than callers hold on to, and a program that gives up on a call while
//! no server can be reached does not find it carried out later.

use std::collections::{BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::sync::{Notify, oneshot};
use zoolet_jute::{Request, WatcherType, Xid};

use super::pending::{Answer, Effect};
use crate::{Error, ErrorKind};

/// A call on its way to the session's task.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) request: Request,
    pub(crate) effect: Option<Effect>,
    pub(crate) answer: oneshot::Sender<Answer>,
    /// Is set when it is taken to be sent.
    pub(crate) sent: Option<Arc<AtomicBool>>,
}

/// How the session is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The servers are asked to close it, after what was asked before.
    Close,
    /// The servers are not asked to: another program resumes it.
    Detach,
}

/// What is to do without a connection.
#[derive(Debug)]
pub(crate) enum Unserved {
    /// Nothing more to do: the session is left to others, or it is to be closed and nothing
    /// was asked that is not done. The servers will end it.
    Abandoned,
    /// No watcher waits for these watches any more.
    Forgotten(BTreeSet<(WatcherType, String)>),
}

#[derive(Debug, Default)]
struct Waiting {
    /// Each with its number; the numbers rise.
    queue: VecDeque<(u64, Operation)>,
    next_number: u64,
    /// Watchers that were dropped, until the task takes them.
    forgotten: BTreeSet<(WatcherType, String)>,
    ending: Option<Ending>,
    /// Why calls are no longer taken.
    over: Option<ErrorKind>,
}

/// The bytes that a request which leaves a watch may need more when the watch is registered anew.
const WATCH_BYTES: usize = 32;

/// The queue between the handles and the task.
#[derive(Debug)]
pub(crate) struct Calls {
    request_bytes_max: usize,
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

impl Calls {
    /// A queue of requests with a limit in bytes.
    pub(crate) fn new(request_bytes_max: usize) -> Self {
        Self { request_bytes_max, waiting: Mutex::default(), arrived: Notify::new() }
    }

    /// The longest request that is taken, in bytes.
    pub(crate) fn request_bytes_max(&self) -> usize {
        self.request_bytes_max
    }

    /// Gives a call its place, unless it is too long, or the session is over or is about to be.
    pub(crate) fn push(
        self: &Arc<Self>,
        request: Request,
        effect: Option<Effect>,
    ) -> Result<Asked, Error> {
        self.check_length(&request, effect.as_ref())?;
        let (answer, receiver) = oneshot::channel();
        let mut waiting = self.waiting();
        let over = waiting.over.clone().or(waiting.ending.map(|_| ErrorKind::Closed));
        if let Some(kind) = over {
            return Err(Error::unsent(kind));
        }
        let number = waiting.next_number;
        waiting.next_number += 1;
        if request == Request::CloseSession {
            waiting.ending = Some(Ending::Close);
        }
        waiting.queue.push_back((number, Operation { request, effect, answer, sent: None }));
        drop(waiting);
        self.arrived.notify_one();
        Ok(Asked { calls: Arc::clone(self), number, receiver })
    }

    /// Refuses a request for which servers would close the connection, which would lose all
    /// other calls under way.
    fn check_length(&self, request: &Request, effect: Option<&Effect>) -> Result<(), Error> {
        let mut frame = BytesMut::new();
        request.encode_with(Xid(0), &mut frame);
        let reserve = if matches!(effect, Some(Effect::Register(_))) { WATCH_BYTES } else { 0 };
        let (bytes, bytes_max) = (frame.len() + reserve, self.request_bytes_max);
        if bytes > bytes_max {
            return Err(Error::unsent(ErrorKind::RequestTooLong { bytes, bytes_max }));
        }
        Ok(())
    }

    /// Notes that no watcher waits for a watch any more.
    pub(crate) fn forget(&self, kind: WatcherType, path: String) {
        let mut waiting = self.waiting();
        if waiting.over.is_none() {
            waiting.forgotten.insert((kind, path));
            self.arrived.notify_one();
        }
    }

    /// Asks for the end of the session; the first one decides how.
    pub(crate) fn end(&self, ending: Ending) {
        self.waiting().ending.get_or_insert(ending);
        self.arrived.notify_one();
    }

    /// Whether the session is to end, and how.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.waiting().ending
    }

    /// Waits until something new has come; may end early.
    async fn changed(&self) {
        self.arrived.notified().await;
    }

    /// Waits until there is something to take.
    pub(crate) async fn ready(&self) {
        while !self.waiting().is_ready() {
            self.changed().await;
        }
    }

    /// Takes the next call.
    pub(crate) fn take(&self) -> Option<Operation> {
        let mut waiting = self.waiting();
        let (_, operation) = waiting.queue.pop_front()?;
        if let Some(sent) = &operation.sent {
            sent.store(true, Ordering::Relaxed);
        }
        Some(operation)
    }

    /// Sets a mark when a call is taken to be sent.
    fn mark(&self, number: u64, sent: &Arc<AtomicBool>) {
        let mut waiting = self.waiting();
        match waiting.queue.binary_search_by_key(&number, |(number, _)| *number) {
            Ok(position) => {
                if let Some((_, operation)) = waiting.queue.get_mut(position) {
                    operation.sent = Some(Arc::clone(sent));
                }
            }
            Err(_) => sent.store(true, Ordering::Relaxed),
        }
    }

    /// Takes the watches without waiting watchers, while the session is served.
    pub(crate) fn take_forgotten(&self) -> BTreeSet<(WatcherType, String)> {
        std::mem::take(&mut self.waiting().forgotten)
    }

    /// Waits, in the time without a connection, until there is something to do all the same.
    pub(crate) async fn unserved(&self) -> Unserved {
        loop {
            {
                let mut waiting = self.waiting();
                match waiting.ending {
                    Some(Ending::Detach) => return Unserved::Abandoned,
                    Some(Ending::Close) if waiting.queue.is_empty() => return Unserved::Abandoned,
                    Some(Ending::Close) | None => {}
                }
                if !waiting.forgotten.is_empty() {
                    return Unserved::Forgotten(std::mem::take(&mut waiting.forgotten));
                }
            }
            self.changed().await;
        }
    }

    /// Takes calls no more, and fails those that wait, with the reason of the first end.
    pub(crate) fn stop(&self, kind: &ErrorKind) {
        let queue = {
            let mut waiting = self.waiting();
            waiting.over.get_or_insert_with(|| kind.clone());
            waiting.forgotten.clear();
            std::mem::take(&mut waiting.queue)
        };
        for (_, operation) in queue {
            // The receiver is gone if the caller has dropped its future.
            let _ = operation.answer.send(Err(Error::unsent(kind.clone())));
        }
    }

    fn withdraw(&self, number: u64) {
        let mut waiting = self.waiting();
        if let Ok(position) = waiting.queue.binary_search_by_key(&number, |(number, _)| *number) {
            waiting.queue.remove(position);
            drop(waiting);
            // It may have been the last thing to do.
            self.arrived.notify_one();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn is_ready(&self) -> bool {
        !self.queue.is_empty() || !self.forgotten.is_empty() || self.ending.is_some()
    }
}

/// A call that was made. Dropping it before the request was sent takes the request back; a
/// `closeSession` stays.
#[derive(Debug)]
pub(crate) struct Asked {
    calls: Arc<Calls>,
    number: u64,
    receiver: oneshot::Receiver<Answer>,
}

impl Asked {
    /// Sets a mark when the request is taken to be sent. One that is dropped before is not marked.
    pub(crate) fn mark(&self, sent: &Arc<AtomicBool>) {
        self.calls.mark(self.number, sent);
    }

    /// Looks for the answer; `Closed` when the task is gone with its runtime.
    pub(crate) fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<Answer> {
        let answer = Pin::new(&mut self.receiver).poll(context);
        answer.map(|answer| answer.unwrap_or_else(|_| Err(ErrorKind::Closed.into())))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.receiver.is_terminated() {
            self.calls.withdraw(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(calls: &Calls) -> Vec<Request> {
        std::iter::from_fn(|| calls.take()).map(|operation| operation.request).collect()
    }

    #[test]
    fn a_call_that_is_dropped_before_it_was_sent_is_not_made() {
        let calls = Arc::new(Calls::new(1000));
        let first = calls.push(Request::WhoAmI, None);
        let second = calls.push(Request::Ping, None);
        let third = calls.push(Request::WhoAmI, None);
        drop(second);
        assert_eq!(requests(&calls), [Request::WhoAmI, Request::WhoAmI]);
        drop((first, third));
        assert!(calls.push(Request::WhoAmI, None).is_ok());
        assert_eq!(requests(&calls), [], "it was dropped at once");
    }

    #[test]
    fn a_call_is_marked_when_it_is_taken_and_not_when_it_is_dropped() {
        let calls = Arc::new(Calls::new(1000));
        let marks: Vec<Arc<AtomicBool>> = (0..3).map(|_| Arc::default()).collect();
        let mut asked: Vec<_> =
            (0..3).map(|_| calls.push(Request::WhoAmI, None).unwrap()).collect();
        asked[0].mark(&marks[0]);
        asked[1].mark(&marks[1]);
        drop(asked.remove(1));
        assert_eq!(requests(&calls).len(), 2);
        asked[1].mark(&marks[2]);
        let marks: Vec<bool> = marks.iter().map(|mark| mark.load(Ordering::Relaxed)).collect();
        assert_eq!(marks, [true, false, true]);
    }

    #[test]
    fn a_session_that_is_over_takes_no_calls() {
        let calls = Arc::new(Calls::new(1000));
        let mut waits = calls.push(Request::WhoAmI, None).unwrap();
        calls.stop(&ErrorKind::SessionExpired);
        let refused = calls.push(Request::WhoAmI, None).unwrap_err();
        let failed = waits.receiver.try_recv().unwrap().unwrap_err();
        for error in [refused, failed] {
            assert_eq!(error.kind(), &ErrorKind::SessionExpired);
            assert!(!error.may_have_happened());
        }
        calls.forget(WatcherType::Data, "/a".into());
        assert!(calls.take_forgotten().is_empty());
    }

    #[tokio::test]
    async fn dropped_watchers_pile_up_nowhere_without_a_connection() {
        let calls = Arc::new(Calls::new(1000));
        calls.forget(WatcherType::Data, "/a".into());
        let Unserved::Forgotten(watches) = calls.unserved().await else { panic!("abandoned") };
        assert_eq!(watches, [(WatcherType::Data, "/a".to_owned())].into());
        assert!(calls.take_forgotten().is_empty());
        calls.end(Ending::Detach);
        assert!(matches!(calls.unserved().await, Unserved::Abandoned));
    }

    #[test]
    fn the_first_end_of_the_calls_gives_the_reason() {
        let calls = Arc::new(Calls::new(1000));
        calls.stop(&ErrorKind::SessionExpired);
        calls.stop(&ErrorKind::Closed);
        let error = calls.push(Request::WhoAmI, None).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::SessionExpired);
    }

    #[test]
    fn nothing_is_asked_behind_a_close() {
        let calls = Arc::new(Calls::new(1000));
        let close = calls.push(Request::CloseSession, None).unwrap();
        let refused = calls.push(Request::WhoAmI, None).unwrap_err();
        assert_eq!(refused.kind(), &ErrorKind::Closed);
        drop(close);
        assert_eq!(calls.ending(), Some(Ending::Close), "the session ends all the same");
    }

    #[test]
    fn the_first_who_ends_the_session_decides_how() {
        let calls = Arc::new(Calls::new(1000));
        assert_eq!(calls.ending(), None);
        calls.end(Ending::Detach);
        calls.end(Ending::Close);
        assert_eq!(calls.ending(), Some(Ending::Detach));
    }
}
