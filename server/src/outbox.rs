//! The outbox of a connection: encoded frames on their way to one client.
//!
//! The host fills it while it holds its lock; the connection's task empties it into the socket.
//! No producer ever waits for room. Above the high-water mark the host admits no further requests of the
//! connection, and answers none that wait behind a write until the client has read: this bounds the
//! replies. Watch events come unasked; if they fill the outbox, the connection
//! ends. A long reply is put in as an iterator over its bytes, which the connection's task runs
//! when the socket has room.

use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use zoolet_jute::SessionId;

use crate::large_requests::LargeRequest;
use crate::metrics::Traffic;
use crate::outbox_budget::{Excess, OutboxShare, Pin};

/// Above this many unwritten bytes, no further request of the connection is admitted.
pub(crate) const HIGH_WATER_BYTES: usize = 1 << 20;

/// The longest frame to a client, in bytes, however large the outbox is: half of what its length
/// can tell.
const FRAME_BYTES_MAX: usize = 1 << 30;

/// What a reply may have in bytes, however small the outbox is.
const REPLY_BYTES_MIN: usize = 16 << 20;

/// A part of what is on its way to a client.
pub(crate) enum Chunk {
    /// Bytes.
    Bytes(Bytes),
    /// Bytes that are made when they are needed.
    Later(Later),
    /// Bytes that take no memory of the outbox: they were made just now, or the state has them.
    Uncounted { _pin: Option<Pin>, bytes: Bytes },
}

/// Bytes that are made when they are needed, and the memory that they are made of.
pub(crate) struct Later {
    // Dropped before what it pins: no other data can have the same place in memory until then.
    _pins: Vec<Pin>,
    pub(crate) pieces: Box<dyn Iterator<Item = Bytes> + Send + Sync>,
    _copied: Option<Copied>,
}

/// Copied bytes, which count in a share until this is dropped.
struct Copied {
    share: Arc<OutboxShare>,
    bytes: usize,
}

impl Drop for Copied {
    fn drop(&mut self) {
        self.share.release(self.bytes);
    }
}

impl Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => f.debug_tuple("Bytes").field(&bytes.len()).finish(),
            Self::Later(_) => f.debug_tuple("Later").finish_non_exhaustive(),
            Self::Uncounted { bytes, .. } => {
                f.debug_tuple("Uncounted").field(&bytes.len()).finish()
            }
        }
    }
}

/// One connection's frames, and what else the host and the connection's task share.
#[derive(Debug)]
pub struct Outbox {
    bytes_max: usize,
    /// Bytes put in and not yet written to the socket.
    unwritten: AtomicUsize,
    /// Whether the host waits for the client to read.
    room_wanted: AtomicBool,
    /// Its part in the memory of all outboxes; none in tests.
    share: Option<Arc<OutboxShare>>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Finished chunks, in front of `tail`.
    chunks: VecDeque<Chunk>,
    tail: BytesMut,
    /// Bytes of events put in since everything was last written.
    event_bytes: usize,
    /// Once it is set, nothing more goes in.
    closing: Option<Closing>,
    /// Of the connection's task, while it waits.
    waker: Option<Waker>,
    /// The same while it waits for the socket alone: only an end without delay wakes it.
    end_waker: Option<Waker>,
    accepted: Option<Accepted>,
    traffic: Traffic,
    /// The grants for requests that were received and are not answered, in order.
    large: VecDeque<LargeRequest>,
}

/// What the handshake came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The session.
    pub session: SessionId,
    /// Its timeout in milliseconds.
    pub timeout_ms: i32,
}

/// Why a connection is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// The replica has said so; what is in front is written first.
    Finished,
    /// The client does not read, and the outbox is full.
    Full,
    /// A reply has no room in an empty outbox.
    TooLong,
    /// All outboxes together, or those of its address, hold too much, and this one holds most.
    Evicted(Excess),
}

/// What an outbox has for the connection's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Frames.
    Frames,
    /// The end; all frames were taken before.
    Closing(Closing),
}

impl Outbox {
    /// An empty outbox for at most `bytes_max` unwritten bytes.
    pub fn new(bytes_max: usize) -> Self {
        let (unwritten, room_wanted) = (AtomicUsize::new(0), AtomicBool::new(false));
        Self { bytes_max, unwritten, room_wanted, share: None, inner: Mutex::default() }
    }

    /// An empty outbox for at most `bytes_max` bytes, which count in this share too.
    pub(crate) fn sharing(bytes_max: usize, share: OutboxShare) -> Self {
        Self { share: Some(Arc::new(share)), ..Self::new(bytes_max) }
    }

    /// Returns its part in the memory of all outboxes.
    pub(crate) fn share(&self) -> Option<&OutboxShare> {
        self.share.as_deref()
    }

    /// Returns its bytes in memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.share.as_ref().map_or(0, |share| share.backlog().held)
    }

    /// The bytes that are not written yet.
    pub fn unwritten_bytes(&self) -> usize {
        self.unwritten.load(Ordering::SeqCst)
    }

    /// Returns whether no further request of the connection is admitted until its client has read.
    /// While memory for all outboxes is scarce, each gets less of it, so that replies alone do not
    /// exhaust it.
    pub(crate) fn is_full(&self) -> bool {
        let is_scarce = self.share.as_deref().is_some_and(OutboxShare::is_scarce);
        let mark = if is_scarce { HIGH_WATER_BYTES / 16 } else { HIGH_WATER_BYTES };
        self.unwritten_bytes() > mark
    }

    /// Whether a reply can be sent at all. One that cannot is not even put together: a few bytes
    /// can ask for more than there is memory, and for more than a frame's length can tell.
    pub fn could_hold(&self, bytes: usize) -> bool {
        bytes <= self.bytes_max.clamp(REPLY_BYTES_MIN, FRAME_BYTES_MAX)
    }

    /// Puts in the reply that `fill` appends. Returns the task to wake, once the caller holds no
    /// lock.
    ///
    /// It goes out whatever waits in front of it: the host bounds what a client can ask for before
    /// it reads, and clients of Apache are used to long replies (protocol §1.3).
    pub(crate) fn push(&self, fill: impl FnOnce(&mut OutboxWriter<'_>)) -> Option<Waker> {
        let mut inner = self.lock();
        self.put(&mut inner, fill)?;
        inner.waker.take()
    }

    /// Puts in the watch event that `fill` appends. Returns the task to wake.
    ///
    /// Full is an outbox that held its limit before, and of events alone: a client that reads what
    /// it has asked for is not closed because an event comes in between.
    pub(crate) fn push_event(&self, fill: impl FnOnce(&mut OutboxWriter<'_>)) -> Option<Waker> {
        let mut inner = self.lock();
        let Put { waiting, added } = self.put(&mut inner, fill)?;
        if waiting.min(inner.event_bytes) >= self.bytes_max {
            inner.end(Closing::Full);
        }
        inner.event_bytes += added;
        inner.take_waker()
    }

    /// `None` if nothing more goes in.
    fn put(&self, inner: &mut Inner, fill: impl FnOnce(&mut OutboxWriter<'_>)) -> Option<Put> {
        if inner.closing.is_some() {
            return None;
        }
        let Inner { chunks, tail, traffic, accepted, .. } = inner;
        let before = tail.len();
        let mut writer = OutboxWriter {
            chunks,
            tail,
            traffic,
            accepted,
            share: self.share.as_ref(),
            finished_bytes: 0,
            uncounted: 0,
            before,
        };
        fill(&mut writer);
        let added = writer.added_bytes();
        if let Some(share) = &self.share {
            share.add(added - writer.uncounted);
        }
        let waiting = self.unwritten.fetch_add(added, Ordering::SeqCst);
        if waiting == 0 {
            inner.event_bytes = 0;
        }
        Some(Put { waiting, added })
    }

    /// Ends the connection. Only after [`Closing::Finished`] what is in the outbox is written first.
    /// Returns the task to wake.
    pub(crate) fn close(&self, closing: Closing) -> Option<Waker> {
        let mut inner = self.lock();
        match (closing, inner.closing) {
            (Closing::Finished, None) => inner.closing = Some(closing),
            (Closing::Finished, Some(_)) => {}
            (Closing::Full | Closing::TooLong | Closing::Evicted(_), _) => inner.end(closing),
        }
        if let (Closing::Evicted(_), Some(share)) = (closing, &self.share) {
            // The connection's task drops the rest as soon as it runs.
            share.release_all();
        }
        inner.take_waker()
    }

    /// Moves all frames to the back of `chunks`, or waits for some.
    pub(crate) fn poll_take(
        &self,
        context: &mut Context<'_>,
        chunks: &mut VecDeque<Chunk>,
    ) -> Poll<Taken> {
        let mut inner = self.lock();
        if inner.finish_tail() {
            // An idle connection keeps no memory for what it may have to write.
            let mut taken = std::mem::take(&mut inner.chunks);
            if chunks.is_empty() {
                *chunks = taken;
            } else {
                chunks.append(&mut taken);
            }
            return Poll::Ready(Taken::Frames);
        }
        if let Some(closing) = inner.closing {
            return Poll::Ready(Taken::Closing(closing));
        }
        match &mut inner.waker {
            Some(waker) => waker.clone_from(context.waker()),
            waker @ None => *waker = Some(context.waker().clone()),
        }
        Poll::Pending
    }

    /// Waits for an end that comes before what is in the outbox is written. The connection's task
    /// asks while the socket takes nothing: it would see such an end only when the client reads.
    pub(crate) fn poll_end(&self, context: &Context<'_>) -> Poll<Closing> {
        let mut inner = self.lock();
        match inner.closing {
            Some(Closing::Finished) | None => {
                inner.end_waker = Some(context.waker().clone());
                Poll::Pending
            }
            Some(closing) => Poll::Ready(closing),
        }
    }

    /// The connection's task is awake and will look into the outbox before it waits again, so what
    /// it puts in itself need not wake it once more.
    pub(crate) fn forget_waker(&self) {
        self.lock().waker = None;
    }

    /// Notes that the socket has taken `bytes`, of which `counted` were in memory until now.
    pub(crate) fn written(&self, bytes: usize, counted: usize) {
        self.unwritten.fetch_sub(bytes, Ordering::SeqCst);
        if let Some(share) = &self.share {
            share.release(counted);
        }
    }

    /// Whether there is room for more replies. If not, the connection's task is to tell the host
    /// when there is; see [`Outbox::take_room`].
    pub(crate) fn want_room(&self) -> bool {
        // Set before the look, and looked at behind each write: one of the two sees the other.
        self.room_wanted.store(true, Ordering::SeqCst);
        self.take_room()
    }

    /// Whether the host waits for room that there is now. True once each time.
    pub(crate) fn take_room(&self) -> bool {
        self.room_wanted.load(Ordering::SeqCst)
            && self.unwritten_bytes() <= HIGH_WATER_BYTES / 2
            && self.room_wanted.swap(false, Ordering::SeqCst)
    }

    /// What the handshake came to, once it is answered.
    pub fn accepted(&self) -> Option<Accepted> {
        self.lock().accepted
    }

    /// Keeps the grant for a request that was received.
    pub(crate) fn begin_large(&self, granted: LargeRequest) {
        self.lock().large.push_back(granted);
    }

    /// Returns the grant for the request that was answered. Grants are returned in the order of the
    /// requests, as replies are.
    pub(crate) fn end_large(&self) {
        let ended = self.lock().large.pop_front();
        drop(ended);
    }

    /// Looks at the grant for the oldest request that has one.
    pub(crate) fn oldest_large<T>(&self, look: impl FnOnce(&LargeRequest) -> T) -> Option<T> {
        self.lock().large.front().map(look)
    }

    /// Returns all grants, for the connection ends.
    pub(crate) fn end_all_large(&self) {
        let ended = std::mem::take(&mut self.lock().large);
        drop(ended);
    }

    /// A copy of the connection's figures.
    pub fn traffic(&self) -> Traffic {
        self.lock().traffic.clone()
    }

    /// Changes the connection's figures.
    pub(crate) fn count(&self, count: impl FnOnce(&mut Traffic)) {
        count(&mut self.lock().traffic);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nothing panics while it fills an outbox")
    }
}

impl Inner {
    /// Makes a chunk of the tail; `false` if there is nothing to take at all.
    fn finish_tail(&mut self) -> bool {
        if !self.tail.is_empty() {
            if self.chunks.is_empty() {
                self.chunks.reserve_exact(1);
            }
            self.chunks.push_back(Chunk::Bytes(std::mem::take(&mut self.tail).freeze()));
        }
        !self.chunks.is_empty()
    }

    /// Returns the task to wake. A task blocked on its socket is woken only by an immediate close.
    fn take_waker(&mut self) -> Option<Waker> {
        let ends = self.closing.is_some_and(|closing| closing != Closing::Finished);
        let of_end = if ends { self.end_waker.take() } else { None };
        self.waker.take().or(of_end)
    }

    fn end(&mut self, closing: Closing) {
        self.closing = Some(closing);
        self.chunks = VecDeque::new();
        self.tail = BytesMut::new();
    }
}

/// What putting a frame in has come to, in bytes.
#[derive(Debug)]
struct Put {
    /// What was not written when it came.
    waiting: usize,
    added: usize,
}

/// The inside of an outbox while something is put in.
#[derive(Debug)]
pub(crate) struct OutboxWriter<'a> {
    chunks: &'a mut VecDeque<Chunk>,
    pub(crate) tail: &'a mut BytesMut,
    pub(crate) traffic: &'a mut Traffic,
    pub(crate) accepted: &'a mut Option<Accepted>,
    share: Option<&'a Arc<OutboxShare>>,
    /// Bytes that went from the tail into chunks, or straight there.
    finished_bytes: usize,
    /// Those among them that take no memory of the outbox.
    uncounted: usize,
    before: usize,
}

impl OutboxWriter<'_> {
    /// Appends bytes that are shared with other outboxes.
    pub(crate) fn put_shared(&mut self, bytes: Bytes) {
        self.put_chunk(bytes.len(), Chunk::Bytes(bytes));
    }

    /// Appends data of the state.
    pub(crate) fn put_of_state(&mut self, data: Bytes) {
        self.uncounted += data.len();
        let pin = self.share.map(|share| share.pin(&data));
        self.put_chunk(data.len(), Chunk::Uncounted { _pin: pin, bytes: data });
    }

    /// Refers to data of the state, for [`OutboxWriter::put_later`].
    pub(crate) fn pin<'d>(&self, data: impl Iterator<Item = &'d Bytes>) -> Vec<Pin> {
        data.filter_map(|data| Some(self.share?.pin(data))).collect()
    }

    /// Appends `bytes` bytes that are made later, of pinned data and of `copied` bytes, which count
    /// now, and until all is made.
    pub(crate) fn put_later(
        &mut self,
        bytes: usize,
        (pins, copied): (Vec<Pin>, usize),
        pieces: Box<dyn Iterator<Item = Bytes> + Send + Sync>,
    ) {
        self.uncounted += bytes;
        let counted = self.share.map(|share| {
            share.add(copied);
            Copied { share: Arc::clone(share), bytes: copied }
        });
        self.put_chunk(bytes, Chunk::Later(Later { _pins: pins, pieces, _copied: counted }));
    }

    fn put_chunk(&mut self, bytes: usize, chunk: Chunk) {
        self.finished_bytes += self.tail.len() + bytes;
        if !self.tail.is_empty() {
            self.chunks.push_back(Chunk::Bytes(self.tail.split().freeze()));
        }
        self.chunks.push_back(chunk);
    }

    /// Returns how many bytes were put in so far.
    pub(crate) fn added_bytes(&self) -> usize {
        (self.finished_bytes + self.tail.len()).saturating_sub(self.before)
    }
}

#[cfg(test)]
mod tests;
