//! One connection: its handshake, then frames in and frames out, until one side ends it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, timeout};
use zoolet_jute::{ConnectRequest, Decode, DecodeError, Id, frame};
use zoolet_replica::{ConnectionId, Limit};
use zoolet_tls::is_hello;

use super::context::PortContext;
use super::drain::Drain;
use super::error::ConnectionError;
use super::four_letter;
use super::outgoing::{CHUNKS_MAX, Outgoing};
use super::registry::ConnectionPermit;
use super::tls::Opened;
use crate::host::{Admission, Received};
use crate::outbox::{Closing, Outbox, Taken};
use crate::outbox_budget::Excess;
use crate::sasl::Login;
use crate::transport::Stream;

/// The longest handshake frame: 45 bytes as clients send it, with room for what may come.
const HANDSHAKE_BYTES_MAX: usize = 4 << 10;

/// The room for each read: small for the many that are idle, more for the busy. With the least, what
/// is read is copied from the stack.
const READ_BYTES_MIN: usize = 2 << 10;
const READ_BYTES_MAX: usize = 64 << 10;

/// A client that has been silent for its session timeout is closed at the next such multiple.
const IDLE_ROUNDING_MS: u64 = 10_000;

/// The pause before a full queue of proposals is offered a handshake again.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

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
    /// Whether the handshake is answered, so that frames are handled.
    is_accepted: bool,
    /// Frames that the host does not take yet.
    received: VecDeque<Received>,
    /// What the socket does not take yet.
    outgoing: Outgoing,
    /// Whether the stream may hold on to what was written.
    is_unflushed: bool,
    read_at: Instant,
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
            is_accepted: false,
            received: VecDeque::new(),
            outgoing: Outgoing::default(),
            is_unflushed: false,
            read_at: now,
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

    /// Takes the handshake, and hands it to the host; `None` if a four-letter word came instead.
    async fn open(&mut self) -> Result<Option<ConnectionId>, ConnectionError> {
        let limit_ms = self.context.options.handshake_timeout_ms;
        let gives_way = self.permit.take_gives_way();
        let handshake = timeout(Duration::from_millis(limit_ms), self.handshake());
        let handshake = tokio::select! {
            biased;
            () = gives_way => return Err(ConnectionError::GaveWay),
            handshake = handshake => handshake,
        };
        let Ok(request) = handshake else {
            self.context.registry.count_late();
            return Err(ConnectionError::HandshakeTimeout(limit_ms));
        };
        let request = match request {
            Ok(Some(request)) if self.permit.admitted() => request,
            Ok(Some(_)) => return Err(ConnectionError::GaveWay),
            Ok(None) => return Ok(None),
            Err(error) => return Err(self.end(error).await),
        };
        let connection = self.context.host.number_connection();
        let admitted = timeout(Duration::from_millis(limit_ms), self.admit(connection, &request));
        if admitted.await.is_err() {
            return Err(self.end(ConnectionError::Busy(limit_ms)).await);
        }
        self.permit.shaken();
        Ok(Some(connection))
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

    /// Hands the handshake to the host, once its queue has room.
    async fn admit(&mut self, connection: ConnectionId, request: &ConnectRequest) {
        let (host, peer) = (Arc::clone(&self.context.host), self.peer.ip());
        while host.connect(connection, &self.outbox, (peer, &self.proved), request)
            == Admission::Busy
        {
            sleep(BUSY_PAUSE).await;
        }
    }

    /// Reads the handshake, or replies to a four-letter word.
    async fn handshake(&mut self) -> Result<Option<ConnectRequest>, ConnectionError> {
        while self.incoming.len() < frame::LENGTH_BYTES {
            if self.stream.read_buf(&mut self.incoming).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            self.permit.sent();
        }
        if let Some(word) = self.incoming.first_chunk().and_then(four_letter::Word::of) {
            if word == four_letter::Word::Stmk {
                self.read_trace_mask().await?;
            }
            let answer = four_letter::answer(word, &self.context);
            self.stream.write_all(answer.as_bytes()).await?;
            self.finish().await?;
            return Ok(None);
        }
        if self.incoming.first().copied().is_some_and(is_hello) {
            return Err(ConnectionError::TlsHello);
        }
        if !self.context.host.serving() {
            return Err(ConnectionError::NotServing);
        }
        loop {
            if let Some(mut payload) = frame::split(&mut self.incoming, HANDSHAKE_BYTES_MAX)? {
                return Ok(Some(ConnectRequest::decode(&mut payload, "connect")?));
            }
            if self.stream.read_buf(&mut self.incoming).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    /// Reads the mask that follows `stmk`.
    async fn read_trace_mask(&mut self) -> Result<(), ConnectionError> {
        const MASK: std::ops::Range<usize> = 4..12;
        loop {
            if let Some(mask) = self.incoming.get(MASK).and_then(|mask| mask.first_chunk()) {
                let mask = u64::from_be_bytes(*mask);
                if self.context.options.server_info.words.allow("stmk") {
                    self.context.trace_mask.store(mask, Ordering::Relaxed);
                }
                return Ok(());
            }
            if self.stream.read_buf(&mut self.incoming).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }

    async fn serve(&mut self, connection: ConnectionId) -> Result<(), ConnectionError> {
        let mut deadline = Box::pin(sleep(Duration::from_millis(IDLE_ROUNDING_MS)));
        loop {
            let split = self.split_frames();
            self.offer(connection);
            // What came in front of a bad frame was asked for in good order.
            split?;
            match poll_fn(|context| self.poll_event(context, deadline.as_mut())).await? {
                Event::Read(0) => return Ok(()),
                Event::Read(bytes) => self.note_read(bytes),
                Event::Written => {}
                Event::Room => self.context.host.room(connection),
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
                    let next = self.check_deadlines()?;
                    deadline.as_mut().reset(next);
                }
            }
        }
    }

    /// Decodes every whole frame that has come in since the handshake was answered. Before that a
    /// bad one would end the connection without the answer.
    fn split_frames(&mut self) -> Result<(), ConnectionError> {
        self.is_accepted = self.is_accepted || self.outbox.accepted().is_some();
        if !self.is_accepted {
            return Ok(());
        }
        if self.incoming.len() < frame::LENGTH_BYTES {
            return Ok(());
        }
        let since_ms = self.context.host.now().mono_ms;
        let frame_bytes_max = self.context.options.frame_bytes_max;
        while let Some(payload) = self.split_frame(frame_bytes_max)? {
            if self.received.is_empty() {
                // Most clients wait for each reply.
                self.received.reserve_exact(1);
            }
            let mut received = Received::decode(payload, since_ms)?;
            if let Some(accepted) = self.outbox.accepted() {
                let client = (self.peer, accepted.session);
                self.context.log_in(&mut self.login, &mut received, client);
            }
            self.received.push_back(received);
        }
        Ok(())
    }

    /// Takes the next whole frame; one that is too long is named with its session.
    fn split_frame(&mut self, frame_bytes_max: usize) -> Result<Option<Bytes>, ConnectionError> {
        frame::split(&mut self.incoming, frame_bytes_max).map_err(|error| {
            match (error, self.outbox.accepted()) {
                (DecodeError::TooLong { length: bytes, max: bytes_max, .. }, Some(accepted)) => {
                    let session = accepted.session;
                    ConnectionError::RequestTooLong { session, bytes, bytes_max }
                }
                (error, _) => error.into(),
            }
        })
    }

    /// Offers the host what has come in.
    fn offer(&mut self, connection: ConnectionId) {
        if self.received.is_empty() {
            return;
        }
        // Replies to reads are in the outbox before this returns, and are taken out right after.
        self.outbox.forget_waker();
        let admission = self.context.host.requests(connection, &mut self.received);
        if admission == Admission::Closed {
            self.received.clear();
        }
        if self.received.is_empty() {
            self.received = VecDeque::new();
        }
    }

    /// Busy connections read more at once; those that are not any more give the room back.
    fn note_read(&mut self, bytes: usize) {
        self.read_at = Instant::now();
        self.read_bytes = if bytes >= self.read_bytes {
            (self.read_bytes * 2).min(READ_BYTES_MAX)
        } else if bytes < self.read_bytes / 8 {
            (self.read_bytes / 2).max(READ_BYTES_MIN)
        } else {
            self.read_bytes
        };
    }

    /// Writes what there is, and reads unless the host is busy with what was read before.
    fn poll_event(
        &mut self,
        context: &mut Context<'_>,
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
        if self.received.is_empty()
            && (self.is_accepted || self.incoming.is_empty())
            && let Poll::Ready(read) = self.poll_read(context)
        {
            return Poll::Ready(Ok(Event::Read(read?)));
        }
        ready!(deadline.poll(context));
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
        if self.received.is_empty() && now >= idle_at {
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
        let next = idle_at.min(now + Duration::from_millis(timeout_ms)).min(now + window);
        Ok(next.max(now + Duration::from_secs(1)))
    }

    /// Counts and logs that a limit ends this connection.
    fn evicted(&self, limit: Limit) -> ConnectionError {
        let now_ms = self.context.host.now().mono_ms;
        let connection =
            format_args!("the connection of {}, which does not read, is closed", self.peer);
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
