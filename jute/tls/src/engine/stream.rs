//! The bytes of a TLS connection.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustls::Connection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A TLS connection over a stream. What is written is sent as far as the stream takes it; the rest is
/// sent by a flush or by the next write. Reading may send, too, so one task must do both: then it does
/// not matter which of the two it is woken for.
pub struct TlsStream<S> {
    io: S,
    session: Box<Connection>,
    /// Whether the notice that this side is done was made.
    is_closing: bool,
}

impl<S: fmt::Debug> fmt::Debug for TlsStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsStream").field("io", &self.io).finish_non_exhaustive()
    }
}

/// A stream as the blocking calls of rustls see it: it never blocks.
struct Polled<'a, 'b, S> {
    io: &'a mut S,
    context: &'a mut Context<'b>,
}

impl<S: AsyncRead + Unpin> Read for Polled<'_, '_, S> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(bytes);
        match Pin::new(&mut *self.io).poll_read(self.context, &mut buffer) {
            Poll::Ready(read) => read.map(|()| buffer.filled().len()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl<S: AsyncWrite + Unpin> Write for Polled<'_, '_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        would_block(Pin::new(&mut *self.io).poll_write(self.context, bytes))
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        would_block(Pin::new(&mut *self.io).poll_write_vectored(self.context, slices))
    }

    fn flush(&mut self) -> io::Result<()> {
        would_block(Pin::new(&mut *self.io).poll_flush(self.context))
    }
}

fn would_block<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(done) => done,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream<S> {
    pub(crate) fn new(io: S, session: Box<Connection>) -> Self {
        Self { io, session, is_closing: false }
    }

    /// Writes as [`AsyncWrite::poll_write_vectored`] does, and begins a record with each slice: no
    /// record has bytes of two of them.
    pub fn poll_write_records(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_encrypt(context, |writer| {
            let mut written = 0;
            for slice in slices {
                let bytes = writer.write(slice)?;
                written += bytes;
                if bytes < slice.len() {
                    break;
                }
            }
            Ok(written)
        })
    }

    pub(crate) fn session(&self) -> &Connection {
        &self.session
    }

    /// Sends everything that a session has to send.
    pub(crate) async fn send_all(io: &mut S, session: &mut Connection) -> io::Result<()> {
        poll_fn(|context| poll_send(io, session, context)).await
    }

    /// Reads what the stream has, and decrypts it. Returns the bytes that were read; none are the end.
    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut polled = Polled { io: &mut self.io, context: &mut *context };
        let bytes = match self.session.read_tls(&mut polled) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            Err(error) => return Poll::Ready(Err(error)),
        };
        if let Err(error) = self.session.process_new_packets() {
            // The alert is a courtesy: the connection ends either way.
            let _ = poll_send(&mut self.io, &mut self.session, context);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        Poll::Ready(Ok(bytes))
    }

    /// Encrypts, once what was encrypted before is sent, and sends what the stream takes.
    fn poll_encrypt(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(&mut rustls::Writer<'_>) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        ready!(poll_send(&mut self.io, &mut self.session, context))?;
        let written = write(&mut self.session.writer())?;
        if let Poll::Ready(Err(error)) = poll_send(&mut self.io, &mut self.session, context) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(written))
    }
}

fn poll_send<S: AsyncWrite + Unpin>(
    io: &mut S,
    session: &mut Connection,
    context: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while session.wants_write() {
        match session.write_tls(&mut Polled { io: &mut *io, context: &mut *context }) {
            Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
    Poll::Ready(Ok(()))
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if buffer.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            let mut reader = this.session.reader();
            // Copied, and not read into the room: that would have to be filled with zeros each time.
            match reader.fill_buf() {
                Ok(decrypted) => {
                    let bytes = decrypted.len().min(buffer.remaining());
                    buffer.put_slice(decrypted.get(..bytes).unwrap_or_default());
                    reader.consume(bytes);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Many programs end a connection without the notice that TLS has for that. Every
                // message has its length, so that the end of one cannot be taken for another.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Ok(()));
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
            ready!(this.poll_receive(context))?;
            // What the other side demands, such as new keys, is sent with the next write at the latest.
            if let Poll::Ready(Err(error)) = poll_send(&mut this.io, &mut this.session, context) {
                return Poll::Ready(Err(error));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_encrypt(context, |writer| writer.write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_encrypt(context, |writer| writer.write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(poll_send(&mut this.io, &mut this.session, context))?;
        Pin::new(&mut this.io).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !std::mem::replace(&mut this.is_closing, true) {
            this.session.send_close_notify();
        }
        ready!(poll_send(&mut this.io, &mut this.session, context))?;
        Pin::new(&mut this.io).poll_shutdown(context)
    }
}
