//! Watches as values.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_core::{FusedStream, Stream};
use tokio::sync::{mpsc, oneshot, watch};
use zoolet_jute::WatcherType;

use crate::chroot::Chroot;
use crate::session::calls::Calls;
use crate::{Error, ErrorKind, SessionState, WatchedEvent};

/// Where a watcher's events come from.
#[derive(Debug)]
pub(crate) struct Source {
    /// A dropped watcher notifies the session's task here.
    pub(crate) calls: Arc<Calls>,
    pub(crate) state: watch::Receiver<SessionState>,
    pub(crate) chroot: Chroot,
    pub(crate) kind: WatcherType,
    /// As servers know it.
    pub(crate) path: String,
}

impl Source {
    fn forget(&mut self) {
        self.calls.forget(self.kind, std::mem::take(&mut self.path));
    }

    /// The event as the client calls its path.
    fn translate(&self, event: WatchedEvent) -> WatchedEvent {
        let path = self.chroot.to_client_or_as_it_is(event.path);
        WatchedEvent { path, ..event }
    }

    /// Why no events come any more.
    fn end(&self) -> Error {
        let state = *self.state.borrow();
        let kind = if state.is_terminal() { state.end() } else { ErrorKind::WatchEnded };
        Error::from(kind).at(&self.chroot.to_client_or_as_it_is(self.path.clone()))
    }
}

/// A watch that fires once: a future of its event. Dropping it removes it, from the server too unless
/// another watcher of this session waits for the same.
///
/// It lives on over reconnects: what happened meanwhile is found out and reported.
#[derive(Debug)]
#[must_use = "dropping a watcher removes its watch, and no event is reported"]
pub struct OneshotWatcher {
    receiver: oneshot::Receiver<WatchedEvent>,
    source: Source,
}

impl OneshotWatcher {
    pub(crate) fn new(receiver: oneshot::Receiver<WatchedEvent>, source: Source) -> Self {
        Self { receiver, source }
    }

    /// Waits until the watch fires. An error means that the session has ended before, or that the
    /// watch has: [`ErrorKind::WatchEnded`].
    ///
    /// The watcher is a future of the same.
    pub async fn changed(self) -> Result<WatchedEvent, Error> {
        self.await
    }
}

impl Future for OneshotWatcher {
    type Output = Result<WatchedEvent, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.receiver.is_terminated() {
            // It has fired before.
            return Poll::Pending;
        }
        let event = ready!(Pin::new(&mut self.receiver).poll(context));
        Poll::Ready(event.map(|event| self.source.translate(event)).map_err(|_| self.source.end()))
    }
}

impl Drop for OneshotWatcher {
    fn drop(&mut self) {
        let waits = !self.receiver.is_terminated() && self.receiver.is_empty();
        self.receiver.close();
        if waits {
            self.source.forget();
        }
    }
}

/// A watch that stays until it is dropped: a stream of its events. Dropping it removes it, from the
/// server too unless another watcher of this session watches the same.
///
/// It lives on over reconnects, but servers do not report what happened meanwhile: after each of
/// them, look at what is watched.
#[derive(Debug)]
#[must_use = "dropping a watcher removes its watch, and no further event is reported"]
pub struct PersistentWatcher {
    receiver: mpsc::Receiver<WatchedEvent>,
    source: Source,
    /// Whether the stream has reported its end.
    has_ended: bool,
}

impl PersistentWatcher {
    pub(crate) fn new(receiver: mpsc::Receiver<WatchedEvent>, source: Source) -> Self {
        Self { receiver, source, has_ended: false }
    }

    /// Waits for the next event. An error means that the session has ended, or that the watch has:
    /// [`ErrorKind::WatchEnded`], also when more than 16,384 events wait to be taken.
    pub async fn changed(&mut self) -> Result<WatchedEvent, Error> {
        match self.receiver.recv().await {
            Some(event) => Ok(self.source.translate(event)),
            None => Err(self.source.end()),
        }
    }

    /// Returns the next event, if it has come.
    pub(crate) fn changed_now(&mut self) -> Option<WatchedEvent> {
        self.receiver.try_recv().ok().map(|event| self.source.translate(event))
    }

    /// Passes over the events that have come.
    pub(crate) fn discard(&mut self) {
        while self.receiver.try_recv().is_ok() {}
    }
}

/// The last item is the error that [`changed`](PersistentWatcher::changed) answers from then on.
impl Stream for PersistentWatcher {
    type Item = Result<WatchedEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.has_ended {
            return Poll::Ready(None);
        }
        let next = ready!(self.receiver.poll_recv(context));
        self.has_ended = next.is_none();
        Poll::Ready(Some(match next {
            Some(event) => Ok(self.source.translate(event)),
            None => Err(self.source.end()),
        }))
    }
}

impl FusedStream for PersistentWatcher {
    fn is_terminated(&self) -> bool {
        self.has_ended
    }
}

impl Drop for PersistentWatcher {
    fn drop(&mut self) {
        self.receiver.close();
        self.source.forget();
    }
}
