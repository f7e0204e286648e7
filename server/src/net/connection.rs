//! One connection: its handshake, then frames in and frames out, until one side ends it.

mod frames;
mod handshake;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, timeout};
use zoolet_jute::Id;
use zoolet_replica::{ConnectionId, Limit};

use self::frames::Large;
use super::context::PortContext;
use super::drain::Drain;
use super::error::ConnectionError;
use super::outgoing::{CHUNKS_MAX, Outgoing};
use super::registry::ConnectionPermit;
use super::tls::Opened;
use crate::host::{Admission, Received, Turn};
use crate::large_requests::LargeRequest;
use crate::outbox::{Closing, Outbox, Taken};
use crate::outbox_budget::Excess;
use crate::sasl::Login;
use crate::transport::Stream;

/// The room for each read: small for the many that are idle, more for the busy. With the least, what
/// is read is copied from the stack.
const READ_BYTES_MIN: usize = 2 << 10;
const READ_BYTES_MAX: usize = 64 << 10;

/// How many bytes are read in a unit of a turn.
const READ_BYTES_PER_UNIT: u64 = 2 << 10;

/// A client that has been silent for its session timeout is closed at the next such multiple.
const IDLE_ROUNDING_MS: u64 = 10_000;

/// A connection with a large request looks this often whether it keeps others from theirs; no deadline
/// is looked at more often.
const LARGE_INTERVAL: Duration = Duration::from_secs(1);

/// How long a client may take to close its side after its last frame.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection, and the buffers between its socket and the host.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    peer: SocketAddr,
    /// What the connection itself has proved.
    proved: Arc<[Id]>,
    /// The login by SASL, as far as it is.
    login: Login,
    outbox: Arc<Outbox>,
    permit: ConnectionPermit,
    context: Arc<PortContext>,
    incoming: BytesMut,
    read_bytes: usize,
    large: Large,
    /// Whether the host takes no more requests.
    is_closed: bool,
    /// Whether the handshake is answered, so that frames are handled.
    is_accepted: bool,
    /// Frames that the host does not take yet.
    received: VecDeque<Received>,
    /// The budget of this task until it yields to others.
    turn: Turn,
    /// What the socket does not take yet.
    outgoing: Outgoing,
    /// Whether the stream may hold on to what was written.
    is_unflushed: bool,
    read_at: Instant,
    /// The same on the host's clock.
    read_ms: u64,
    wrote_at: Instant,
    drain: Drain,
}

/// What a connection waited for.
enum Event {
    /// Bytes came in; none are the end.
    Read(usize),
    /// Everything so far is written.
    Written,
    /// The client has read enough for the host to go on with its replies.
    Room,
    /// The large request that comes next may be read.
    Granted(LargeRequest),
    /// The next turn of this task has begun.
    Turn,
    /// It is to end.
    Closing(Closing),
    /// It is time to look at the clocks.
    Deadline,
}

impl Connection {
    pub(super) fn new(
        opened: Opened,
        peer: SocketAddr,
        outbox: Arc<Outbox>,
        permit: ConnectionPermit,
        context: Arc<PortContext>,
    ) -> Self {
        let now = Instant::now();
        let read_ms = context.host.now().mono_ms;
        Self {
            stream: opened.stream,
            peer,
            proved: opened.proved,
            login: Login::default(),
            outbox,
            permit,
            context,
            incoming: opened.read.as_slice().into(),
            read_bytes: READ_BYTES_MIN,
            large: Large::default(),
            is_closed: false,
            is_accepted: false,
            received: VecDeque::new(),
            turn: Turn::default(),
            outgoing: Outgoing::default(),
            is_unflushed: false,
            read_at: now,
            read_ms,
            wrote_at: now,
            drain: Drain::default(),
        }
    }

    /// Serves the client until one side ends the connection. Called once.
    pub(super) async fn run(&mut self) -> Result<(), ConnectionError> {
        // What is awaited once is boxed: an idle connection needs room for serving only.
        let Some(connection) = Box::pin(self.open()).await? else { return Ok(()) };
        let served = self.serve(connection).await;
        self.context.host.disconnect(connection);
        match served {
            Ok(()) => Ok(()),
            Err(error) => Err(Box::pin(self.end(error)).await),
        }
    }

    /// Ends a connection for the client's fault. A client that reads gets what was written to it
    /// before: its bad bytes are unread, mostly.
    async fn end(&mut self, error: ConnectionError) -> ConnectionError {
        if error.leaves_a_reader() {
            // That the client is gone matters no more.
            let _ = self.finish().await;
        }
        error
    }

    async fn serve(&mut self, connection: ConnectionId) -> Result<(), ConnectionError> {
        let mut deadline = Box::pin(sleep(Duration::from_millis(IDLE_ROUNDING_MS)));
        loop {
            let split = self.split_frames();
            let mut has_more = self.offer(connection);
            if let Err(error) = split {
                // Requests received before the malformed frame are still served.
                while has_more {
                    Box::pin(self.next_turn()).await;
                    has_more = self.offer(connection);
                }
                return Err(error);
            }
            let may_take_next =
                self.received.is_empty() && self.large.wanted.is_none() && !self.is_closed;
            has_more |= may_take_next && self.next_frame().is_some();
            if std::mem::take(&mut self.large.is_new) {
                deadline.as_mut().reset(Instant::now() + LARGE_INTERVAL);
            }
            let event =
                poll_fn(|context| self.poll_event(context, has_more, deadline.as_mut())).await?;
            match event {
                Event::Read(0) => return Ok(()),
                Event::Read(bytes) => self.note_read(bytes),
                Event::Written | Event::Turn => {}
                Event::Room => self.context.host.room(connection),
                Event::Granted(granted) => {
                    (self.large.granted, self.large.wanted) = (Some(granted), None);
                }
                Event::Closing(Closing::Finished) => {
                    if self.outbox.accepted().is_none() {
                        self.context.count_error(ConnectionError::NOT_ACCEPTED);
                    }
                    return Box::pin(self.finish()).await;
                }
                Event::Closing(Closing::Full) => return Err(self.evicted(Limit::OutboxBytes)),
                Event::Closing(Closing::Evicted(Excess::Address(_))) => {
                    return Err(self.evicted(Limit::OutboxBytesPerAddress));
                }
                Event::Closing(Closing::Evicted(Excess::Total)) => {
                    return Err(self.evicted(Limit::OutboxBytesTotal));
                }
                Event::Closing(Closing::TooLong) => return Err(ConnectionError::ReplyTooLong),
                Event::Deadline => {
                    if self.large.wanted.is_some() {
                        self.context.host.alive(connection);
                    }
                    let next = self.check_deadlines()?;
                    deadline.as_mut().reset(next);
                }
            }
            // The replies that there were are written by then.
            if has_more {
                Box::pin(self.next_turn()).await;
            }
        }
    }

    /// Offers the received requests to the host. Returns whether some are left for the next turn.
    fn offer(&mut self, connection: ConnectionId) -> bool {
        if self.received.is_empty() {
            return false;
        }
        // Replies to reads are in the outbox before this returns, and are taken out right after.
        self.outbox.forget_waker();
        let host = &self.context.host;
        let admission = host.requests(connection, &mut self.received, &mut self.turn);
        if admission == Admission::Closed {
            self.is_closed = true;
            self.received.clear();
            self.outbox.end_all_large();
        }
        if self.received.is_empty() {
            self.received = VecDeque::new();
        }
        admission == Admission::Turn
    }

    async fn next_turn(&mut self) {
        self.context.host.next_turn(&mut self.turn).await;
    }

    /// Busy connections read more at once; those that are not any more give the room back.
    fn note_read(&mut self, bytes: usize) {
        self.read_at = Instant::now();
        self.read_ms = self.context.host.now().mono_ms;
        // At least one: a long frame is decoded in a turn that has just begun.
        self.turn.spend(1 + bytes as u64 / READ_BYTES_PER_UNIT);
        self.read_bytes = if bytes >= self.read_bytes {
            (self.read_bytes * 2).min(READ_BYTES_MAX)
        } else if bytes < self.read_bytes / 8 {
            (self.read_bytes / 2).max(READ_BYTES_MIN)
        } else {
            self.read_bytes
        };
    }

    /// Writes what there is, and reads unless earlier requests are left. `has_more` means that these are
    /// to be offered now, in a new turn.
    fn poll_event(
        &mut self,
        context: &mut Context<'_>,
        has_more: bool,
        deadline: Pin<&mut Sleep>,
    ) -> Poll<Result<Event, ConnectionError>> {
        let mut wrote = false;
        loop {
            if self.outbox.take_room() {
                return Poll::Ready(Ok(Event::Room));
            }
            if self.outgoing.make_front() {
                match self.poll_write(context) {
                    Poll::Ready(Ok(())) => wrote = true,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                    Poll::Pending => {
                        if let Poll::Ready(closing) = self.outbox.poll_end(context) {
                            return Poll::Ready(Ok(Event::Closing(closing)));
                        }
                        break;
                    }
                }
                continue;
            }
            self.poll_flush(context)?;
            match self.outbox.poll_take(context, &mut self.outgoing.0) {
                Poll::Ready(Taken::Frames) => {}
                Poll::Ready(Taken::Closing(closing)) => {
                    return Poll::Ready(Ok(Event::Closing(closing)));
                }
                Poll::Pending if wrote && self.has_unhandled() => {
                    self.drain.emptied();
                    return Poll::Ready(Ok(Event::Written));
                }
                Poll::Pending => {
                    self.drain.emptied();
                    break;
                }
            }
        }
        if has_more {
            return Poll::Ready(Ok(Event::Turn));
        }
        if let Some(wanted) = &mut self.large.wanted {
            if let Poll::Ready(Ok(granted)) = pin!(wanted).poll(context) {
                return Poll::Ready(Ok(Event::Granted(granted)));
            }
        } else if self.received.is_empty()
            && !self.is_closed
            && (self.is_accepted || self.incoming.is_empty())
            && let Poll::Ready(read) = self.poll_read(context)
        {
            return Poll::Ready(Ok(Event::Read(read?)));
        }
        if deadline.poll(context).is_pending() {
            // Others run while this task waits.
            self.turn.renew();
            return Poll::Pending;
        }
        Poll::Ready(Ok(Event::Deadline))
    }

    /// Whether something has come in that more can be done about once something was written.
    fn has_unhandled(&self) -> bool {
        !self.received.is_empty() || !self.is_accepted && !self.incoming.is_empty()
    }

    fn poll_write(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut slices = [IoSlice::new(&[]); CHUNKS_MAX];
        let count = self.outgoing.fill(&mut slices);
        let slices = slices.get(..count).unwrap_or(&[]);
        let Poll::Ready(written) = Pin::new(&mut self.stream).poll_write_vectored(context, slices)
        else {
            self.drain.blocked(self.outbox.held_bytes());
            return Poll::Pending;
        };
        let written = written?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.drain.took(written);
        self.is_unflushed = true;
        self.wrote_at = Instant::now();
        let counted = self.outgoing.advance(written);
        self.outbox.written(written, counted);
        Poll::Ready(Ok(()))
    }

    /// Sends what the stream holds on to, as far as the socket takes it. A socket holds on to nothing.
    fn poll_flush(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if self.is_unflushed
            && let Poll::Ready(flushed) = Pin::new(&mut self.stream).poll_flush(context)
        {
            self.is_unflushed = false;
            flushed?;
        }
        Ok(())
    }

    /// Reads what there is. An idle connection has no buffer while it waits.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.read_bytes > READ_BYTES_MIN {
            self.incoming.reserve(self.read_bytes);
            return pin!(self.stream.read_buf(&mut self.incoming)).poll(context);
        }
        if self.incoming.is_empty() {
            self.incoming = BytesMut::new();
        }
        let mut bytes = [const { MaybeUninit::uninit() }; READ_BYTES_MIN];
        let mut read = ReadBuf::uninit(&mut bytes);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut read))?;
        self.incoming.extend_from_slice(read.filled());
        Poll::Ready(Ok(read.filled().len()))
    }

    /// Ends a connection whose client is silent or does not read; else returns when to look again.
    fn check_deadlines(&mut self) -> Result<Instant, ConnectionError> {
        let now = Instant::now();
        let Some(accepted) = self.outbox.accepted() else {
            return Ok(now + Duration::from_millis(IDLE_ROUNDING_MS));
        };
        let timeout_ms = u64::try_from(accepted.timeout_ms).unwrap_or(0);
        let idle_ms = (timeout_ms / IDLE_ROUNDING_MS + 1) * IDLE_ROUNDING_MS;
        let idle_at = self.read_at + Duration::from_millis(idle_ms);
        // A connection that is not read because the host is busy is not silent.
        let is_read = self.received.is_empty() && self.large.wanted.is_none();
        if is_read && now >= idle_at {
            return Err(ConnectionError::Idle(idle_ms));
        }
        let slow_reader_at = self.wrote_at + Duration::from_millis(timeout_ms);
        if (!self.outgoing.0.is_empty() || self.is_unflushed) && now >= slow_reader_at {
            return Err(ConnectionError::SlowReader);
        }
        let window = Duration::from_millis(self.context.options.drain_window_ms);
        if self.drain.is_too_slow(now, window, self.outbox.held_bytes()) {
            return Err(ConnectionError::SlowReader);
        }
        // A client that does not read keeps what it has sent from being answered.
        let is_blocked = self.outbox.is_full() || !self.outgoing.0.is_empty();
        let unread = self.outbox.oldest_large(LargeRequest::since).filter(|_| is_blocked);
        let unsent = self.large.granted.as_ref().filter(|_| is_blocked || self.received.is_empty());
        let since = unread.or(unsent.map(LargeRequest::since));
        if since.is_some_and(|since| self.context.large.must_yield(self.peer.ip(), since)) {
            self.large.granted = None;
            self.outbox.end_all_large();
            return Err(self.evicted(Limit::LargeRequestBytes));
        }
        let next = idle_at.min(now + Duration::from_millis(timeout_ms)).min(now + window);
        Ok(if self.has_large() { now + LARGE_INTERVAL } else { next.max(now + LARGE_INTERVAL) })
    }

    /// Returns whether the client has a grant for a large request, or waits for one.
    fn has_large(&self) -> bool {
        self.large.granted.is_some()
            || self.large.wanted.is_some()
            || self.outbox.oldest_large(|_| ()).is_some()
    }

    /// Counts and logs that a limit ends this connection.
    fn evicted(&self, limit: Limit) -> ConnectionError {
        let now_ms = self.context.host.now().mono_ms;
        let connection =
            format_args!("the connection of {}, which is too slow, is closed", self.peer);
        self.context.host.limit_table().refuse(limit, now_ms, connection);
        ConnectionError::Evicted(limit.setting())
    }

    /// Sends what the stream holds on to. A client that does not read has as long as any other.
    async fn flush(&mut self) -> Result<(), ConnectionError> {
        let Some(accepted) = self.outbox.accepted().filter(|_| self.is_unflushed) else {
            return Ok(());
        };
        let limit = Duration::from_millis(u64::try_from(accepted.timeout_ms).unwrap_or(0));
        match timeout(limit, self.stream.flush()).await {
            Ok(flushed) => Ok(flushed?),
            Err(_) => Err(ConnectionError::SlowReader),
        }
    }

    /// Closes the connection after writing everything. Later bytes of the client are read and dropped:
    /// closing a socket with unread bytes resets the connection, and the client may lose replies.
    async fn finish(&mut self) -> Result<(), ConnectionError> {
        self.flush().await?;
        let linger = async {
            self.stream.shutdown().await?;
            loop {
                self.incoming.clear();
                if self.stream.read_buf(&mut self.incoming).await? == 0 {
                    return io::Result::Ok(());
                }
            }
        };
        match timeout(LINGER_TIMEOUT, linger).await {
            Ok(ended) => Ok(ended?),
            Err(_) => Ok(()),
        }
    }
}
