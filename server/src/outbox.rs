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
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use zoolet_jute::SessionId;

use crate::metrics::Traffic;

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
    Later(Box<dyn Iterator<Item = Bytes> + Send + Sync>),
}

impl Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => f.debug_tuple("Bytes").field(&bytes.len()).finish(),
            Self::Later(_) => f.debug_tuple("Later").finish_non_exhaustive(),
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
    accepted: Option<Accepted>,
    traffic: Traffic,
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
        Self { bytes_max, unwritten, room_wanted, inner: Mutex::default() }
    }

    /// The bytes that are not written yet.
    pub fn unwritten_bytes(&self) -> usize {
        self.unwritten.load(Ordering::SeqCst)
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
        inner.waker.take()
    }

    /// `None` if nothing more goes in.
    fn put(&self, inner: &mut Inner, fill: impl FnOnce(&mut OutboxWriter<'_>)) -> Option<Put> {
        if inner.closing.is_some() {
            return None;
        }
        let Inner { chunks, tail, traffic, accepted, .. } = inner;
        let before = tail.len();
        let mut writer =
            OutboxWriter { chunks, tail, traffic, accepted, finished_bytes: 0, before };
        fill(&mut writer);
        let added = writer.added_bytes();
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
            (Closing::Full | Closing::TooLong, _) => inner.end(closing),
        }
        inner.waker.take()
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

    /// The connection's task is awake and will look into the outbox before it waits again, so what
    /// it puts in itself need not wake it once more.
    pub(crate) fn forget_waker(&self) {
        self.lock().waker = None;
    }

    /// Notes that the socket has taken `bytes`.
    pub(crate) fn written(&self, bytes: usize) {
        self.unwritten.fetch_sub(bytes, Ordering::SeqCst);
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
    /// Bytes that went from the tail into chunks, or straight there.
    finished_bytes: usize,
    before: usize,
}

impl OutboxWriter<'_> {
    /// Appends bytes without copying them.
    pub(crate) fn put_shared(&mut self, bytes: Bytes) {
        self.put_chunk(bytes.len(), Chunk::Bytes(bytes));
    }

    /// Appends bytes that are made later, and counts them now.
    pub(crate) fn put_later(
        &mut self,
        bytes: usize,
        pieces: impl Iterator<Item = Bytes> + Send + Sync + 'static,
    ) {
        self.put_chunk(bytes, Chunk::Later(Box::new(pieces)));
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
mod tests {
    use bytes::BufMut;

    use super::*;

    fn take(outbox: &Outbox) -> (Poll<Taken>, Vec<u8>) {
        let mut chunks = VecDeque::new();
        let taken = outbox.poll_take(&mut Context::from_waker(Waker::noop()), &mut chunks);
        let bytes = chunks.into_iter().flat_map(|chunk| match chunk {
            Chunk::Bytes(bytes) => bytes.to_vec(),
            Chunk::Later(pieces) => pieces.flatten().collect(),
        });
        (taken, bytes.collect())
    }

    #[test]
    fn frames_come_out_in_order_shared_ones_between_copied_ones() {
        let outbox = Outbox::new(100);
        outbox.push(|out| out.tail.put_slice(b"ab"));
        outbox.push(|out| {
            out.tail.put_slice(b"c");
            out.put_shared(Bytes::from_static(b"DEF"));
            out.tail.put_slice(b"g");
        });
        assert_eq!(outbox.unwritten_bytes(), 7);
        assert_eq!(take(&outbox), (Poll::Ready(Taken::Frames), b"abcDEFg".to_vec()));
        outbox.written(7);
        assert_eq!(outbox.unwritten_bytes(), 0);
        assert_eq!(take(&outbox), (Poll::Pending, vec![]));
    }

    #[test]
    fn a_finished_connection_writes_first_what_it_has_and_takes_no_more() {
        let outbox = Outbox::new(100);
        outbox.push(|out| out.tail.put_slice(b"last"));
        outbox.close(Closing::Finished);
        outbox.push(|out| out.tail.put_slice(b"late"));
        assert_eq!(take(&outbox), (Poll::Ready(Taken::Frames), b"last".to_vec()));
        assert_eq!(take(&outbox), (Poll::Ready(Taken::Closing(Closing::Finished)), vec![]));
    }

    #[test]
    fn an_outbox_full_of_events_ends_the_connection_and_frees_its_memory() {
        let outbox = Outbox::new(10);
        outbox.push_event(|out| out.tail.put_slice(&[0; 10]));
        assert_eq!(take(&outbox).1.len(), 10);
        // What was taken still counts until the socket has it.
        outbox.push_event(|out| out.tail.put_slice(&[0; 1]));
        assert_eq!(take(&outbox), (Poll::Ready(Taken::Closing(Closing::Full)), vec![]));
    }

    #[test]
    fn neither_replies_nor_an_event_among_them_make_a_client_slow() {
        let outbox = Outbox::new(10);
        outbox.push_event(|out| out.tail.put_slice(&[0; 9]));
        for _ in 0..3 {
            outbox.push(|out| out.tail.put_slice(&[0; 20]));
        }
        outbox.push_event(|out| out.tail.put_slice(&[0; 1]));
        assert_eq!(take(&outbox).1.len(), 70);
        // Everything is written once, so the events are counted anew.
        outbox.written(70);
        outbox.push(|out| out.tail.put_slice(&[0; 20]));
        outbox.push_event(|out| out.tail.put_slice(&[0; 10]));
        assert_eq!(take(&outbox).1.len(), 30);
        outbox.push_event(|out| out.tail.put_slice(&[0; 1]));
        assert_eq!(take(&outbox), (Poll::Ready(Taken::Closing(Closing::Full)), vec![]));
    }

    #[test]
    fn one_frame_longer_than_the_limit_goes_out() {
        let outbox = Outbox::new(10);
        outbox.push(|out| out.tail.put_slice(&[7; 100]));
        assert_eq!(take(&outbox), (Poll::Ready(Taken::Frames), vec![7; 100]));
        outbox.written(100);
        outbox.push(|out| out.tail.put_slice(&[8; 9]));
        outbox.push(|out| out.tail.put_slice(&[9; 100]));
        assert_eq!(take(&outbox).1.len(), 109);
    }

    #[test]
    fn an_outbox_whose_frames_are_taken_keeps_no_memory() {
        let outbox = Outbox::new(100);
        outbox.push(|out| {
            out.tail.put_slice(b"copied");
            out.put_shared(Bytes::from_static(b"shared"));
            out.tail.put_slice(b"copied");
        });
        assert_eq!(take(&outbox).1.len(), 18);
        let inner = outbox.lock();
        assert_eq!((inner.chunks.capacity(), inner.tail.capacity()), (0, 0));
    }

    #[test]
    fn a_task_that_fills_its_own_outbox_is_not_woken_by_it() {
        let outbox = Outbox::new(100);
        assert!(take(&outbox).0.is_pending());
        outbox.forget_waker();
        assert!(outbox.push(|out| out.tail.put_u8(1)).is_none());
        assert!(take(&outbox).0.is_ready());
    }

    #[test]
    fn only_a_task_that_waits_is_woken_and_only_once() {
        let outbox = Outbox::new(100);
        assert!(outbox.push(|out| out.tail.put_u8(1)).is_none());
        assert!(take(&outbox).0.is_ready());
        assert!(take(&outbox).0.is_pending());
        assert!(outbox.push(|out| out.tail.put_u8(2)).is_some());
        assert!(outbox.push(|out| out.tail.put_u8(3)).is_none());
    }
}
