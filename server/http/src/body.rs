//! The bodies of answers: most are in memory as a whole, a snapshot is made while it is sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use thiserror::Error;
use tokio::sync::mpsc;
use zoolet_console::ConsoleBody;

/// A body that is sent.
#[derive(Debug)]
pub(crate) enum AnswerBody {
    Whole(Full<Bytes>),
    Streamed(Streamed),
    Console(ConsoleBody),
}

/// A body whose pieces come from another thread.
#[derive(Debug)]
pub(crate) struct Streamed {
    pieces: mpsc::Receiver<Piece>,
    is_whole: bool,
}

/// A part of a body. A body that has no end was cut.
#[derive(Debug)]
pub(crate) enum Piece {
    Bytes(Bytes),
    End,
}

/// A snapshot that is being made.
#[derive(Debug)]
pub(crate) struct Sending {
    /// The last transaction in it.
    pub(crate) zxid: u64,
    pub(crate) pieces: mpsc::Receiver<Piece>,
}

/// What made the body has ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the answer was cut")]
pub(crate) struct Cut;

impl AnswerBody {
    /// A body of the pieces that come, up to `Piece::End`. What is behind it in the channel is lost.
    pub(crate) fn streamed(pieces: mpsc::Receiver<Piece>) -> Self {
        Self::Streamed(Streamed { pieces, is_whole: false })
    }
}

impl From<Bytes> for AnswerBody {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(Full::new(bytes))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        match self.get_mut() {
            Self::Whole(whole) => {
                let frame = Pin::new(whole).poll_frame(context);
                frame.map_err(|never: Infallible| match never {})
            }
            Self::Console(console) => {
                let frame = Pin::new(console).poll_frame(context);
                frame.map_err(|never: Infallible| match never {})
            }
            Self::Streamed(streamed) if streamed.is_whole => Poll::Ready(None),
            Self::Streamed(streamed) => {
                streamed.pieces.poll_recv(context).map(|piece| match piece {
                    Some(Piece::Bytes(bytes)) => Some(Ok(Frame::data(bytes))),
                    Some(Piece::End) => {
                        streamed.is_whole = true;
                        None
                    }
                    None => Some(Err(Cut)),
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_end_stream(),
            Self::Console(console) => console.is_end_stream(),
            Self::Streamed(streamed) => streamed.is_whole,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(whole) => whole.size_hint(),
            Self::Console(console) => console.size_hint(),
            Self::Streamed(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Collected};

    use super::*;

    async fn collected(pieces: Vec<Piece>) -> Result<Bytes, Cut> {
        let (sender, receiver) = mpsc::channel(8);
        for piece in pieces {
            sender.send(piece).await.unwrap();
        }
        drop(sender);
        AnswerBody::streamed(receiver).collect().await.map(Collected::to_bytes)
    }

    #[tokio::test]
    async fn a_body_without_its_end_is_an_error() {
        let piece = || Piece::Bytes(Bytes::from_static(b"ab"));
        assert_eq!(collected(vec![piece(), piece(), Piece::End]).await, Ok("abab".into()));
        assert_eq!(collected(vec![piece(), piece()]).await, Err(Cut));
        assert_eq!(collected(vec![]).await, Err(Cut));
    }
}
