//! Frames of a client, as they are taken from the bytes that were received.

use bytes::Bytes;
use tokio::sync::oneshot;
use zoolet_jute::{DecodeError, frame};

use super::{Connection, ConnectionError};
use crate::host::Received;
use crate::large_requests::{LARGE_BYTES_MIN, LargeRequest};

/// How many bytes are decoded in a unit of a turn. Short parts of a multi, and short paths of a
/// setWatches, take longest.
const DECODED_BYTES_PER_UNIT: u64 = 256;

/// The grant for the large request that is being received.
#[derive(Debug, Default)]
pub(super) struct Large {
    pub(super) granted: Option<LargeRequest>,
    /// The awaited grant.
    pub(super) wanted: Option<oneshot::Receiver<LargeRequest>>,
    /// Whether a grant was asked for since the deadline was set.
    pub(super) is_new: bool,
}

impl Connection {
    /// Decodes as many received frames as the turn covers, when the host has taken all earlier ones.
    /// Nothing is decoded before the handshake is answered: a bad frame would end the connection
    /// without the answer.
    pub(super) fn split_frames(&mut self) -> Result<(), ConnectionError> {
        self.is_accepted = self.is_accepted || self.outbox.accepted().is_some();
        if !self.received.is_empty() || self.is_closed {
            return Ok(());
        }
        while self.may_take_next()
            && let Some(bytes) = self.next_frame()
        {
            let work = 1 + bytes as u64 / DECODED_BYTES_PER_UNIT;
            if !self.turn.covers(work) {
                break;
            }
            let Some(payload) = self.split_frame()? else { break };
            self.turn.spend(work);
            if self.received.is_empty() {
                // Most clients wait for each reply.
                self.received.reserve_exact(1);
            }
            let mut received = Received::decode(payload, self.read_ms)?;
            if let Some(granted) = self.large.granted.take() {
                self.outbox.begin_large(granted);
            }
            if let Some(accepted) = self.outbox.accepted() {
                let client = (self.peer, accepted.session);
                self.context.log_in(&mut self.login, &mut received, client);
            }
            self.received.push_back(received);
        }
        Ok(())
    }

    /// Returns whether the next frame may be taken, or read up to its end: a large one needs a grant,
    /// which is asked for here.
    fn may_take_next(&mut self) -> bool {
        let large = LARGE_BYTES_MIN + 1..=self.context.options.frame_bytes_max;
        let Some(bytes) = self.announced().filter(|bytes| large.contains(bytes)) else {
            return true;
        };
        if self.large.granted.is_none() && self.large.wanted.is_none() {
            self.large.is_new = true;
            let mut wanted = self.context.large.ask(self.peer.ip(), bytes);
            match wanted.try_recv() {
                Ok(granted) => self.large.granted = Some(granted),
                Err(_) => self.large.wanted = Some(wanted),
            }
        }
        self.large.granted.is_some()
    }

    /// Returns the length that the next frame announces. A negative one is returned as a huge one.
    fn announced(&self) -> Option<usize> {
        let head = self.incoming.first_chunk().filter(|_| self.is_accepted)?;
        Some(u32::from_be_bytes(*head) as usize)
    }

    /// Returns the length of the next frame to decode, if it has come whole or is refused for it.
    pub(super) fn next_frame(&self) -> Option<usize> {
        let bytes = self.announced()?;
        let is_whole = self.incoming.len() - frame::LENGTH_BYTES >= bytes;
        (is_whole || bytes > self.context.options.frame_bytes_max).then_some(bytes)
    }

    /// Takes the next whole frame. The error for a frame that is too long names the session.
    fn split_frame(&mut self) -> Result<Option<Bytes>, ConnectionError> {
        let frame_bytes_max = self.context.options.frame_bytes_max;
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
}
