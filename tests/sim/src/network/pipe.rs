//! One direction of a connection.

use std::io;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::ReadBuf;

use super::lanes::lane_of;
use super::link::RETRANSMIT_MS;
use super::{Arrival, MachineId, State};
use crate::SimTime;

/// How much of a connection is under way or unread at most, in bytes.
const WINDOW_BYTES: usize = 128 << 10;
/// How often the wait before it is sent again doubles, at most: to 6.4 s, and 120 s in Linux, which is
/// longer than a run.
const DOUBLED_MAX: u32 = 5;

/// A pipe, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PipeId(pub(super) u64);

/// A machine, and its life in which a connection was made.
type End = (MachineId, u64);

#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each end goes and breaks for itself")]
pub(super) struct Pipe {
    writer: End,
    reader: End,
    /// The pipe of the other direction.
    pub(super) other: PipeId,
    /// The number of its lane, if it leads to a peer port.
    pub(super) lane: Option<u8>,
    has_written: bool,
    /// Where its opening arrives as well.
    repeated: Option<PipeId>,
    /// What has arrived.
    readable: BytesMut,
    /// What is under way.
    sent: usize,
    /// Nothing follows what has arrived.
    has_ended: bool,
    is_broken: bool,
    /// The program has closed its end.
    writer_gone: bool,
    reader_gone: bool,
    reading: Option<Waker>,
    writing: Option<Waker>,
    /// When the last thing arrives that is under way: what follows does not overtake it.
    pub(super) last_arrival: SimTime,
    /// How often something was sent again because it had met a machine without power.
    retransmissions: u32,
    /// Something will be sent again.
    has_timer: bool,
}

impl Pipe {
    pub(super) fn new(writer: End, reader: End, other: PipeId) -> Self {
        Self {
            writer,
            reader,
            other,
            lane: None,
            has_written: false,
            repeated: None,
            readable: BytesMut::new(),
            sent: 0,
            has_ended: false,
            is_broken: false,
            writer_gone: false,
            reader_gone: false,
            reading: None,
            writing: None,
            last_arrival: SimTime::default(),
            retransmissions: 0,
            has_timer: false,
        }
    }

    /// The machine that writes.
    pub(super) fn writer(&self) -> MachineId {
        self.writer.0
    }

    /// The bytes that have arrived and were not read.
    pub(super) fn unread(&self) -> usize {
        self.readable.len()
    }
}

impl Arrival {
    /// The pipe of whose order this is a part.
    pub(super) fn pipe(&self) -> Option<PipeId> {
        match self {
            Self::Bytes(pipe, _)
            | Self::End(pipe)
            | Self::Reset(pipe)
            | Self::Retransmission(pipe) => Some(*pipe),
            Self::Call { .. }
            | Self::Answer { .. }
            | Self::Refusal { .. }
            | Self::CallAgain { .. }
            | Self::RetransmitTimer(_) => None,
        }
    }
}

impl State {
    /// Something arrives at the reader of a pipe.
    pub(super) fn arrive_at_pipe(&mut self, arrival: Arrival) {
        let Some(id) = arrival.pipe() else { return };
        let Some(pipe) = self.pipes.get(&id) else { return };
        let ((machine, life), writer, other) = (pipe.reader, pipe.writer.0, pipe.other);
        let (is_lost, is_open) = (pipe.retransmissions > 0, !pipe.reader_gone);
        let is_reset = matches!(arrival, Arrival::Reset(_));
        if !self.is_up(machine) {
            if !is_reset {
                return self.retransmit_later(id);
            }
            // A reset is sent once, and neither side has the connection any more.
            self.forget(id);
            return self.forget(other);
        }
        let is_retransmission = matches!(arrival, Arrival::Retransmission(_));
        if is_lost && !is_reset && !is_retransmission {
            // It waits until what is sent again has an answer, which is a reset.
            return;
        }
        let is_known = self.lives(machine) == life;
        if !is_known || !is_open {
            if is_reset {
                // Neither side has it any more.
                self.forget(id);
                self.forget(other);
            } else if !(is_known && matches!(arrival, Arrival::End(_))) {
                // The system of a machine that knows nothing of the connection says so.
                self.send(machine, writer, Arrival::Reset(other));
            }
            if is_retransmission {
                // The answer may be lost with the machine's power.
                self.retransmit_later(id);
            }
            return;
        }
        let mut wakers = Vec::new();
        if let Some(pipe) = self.pipes.get_mut(&id) {
            match arrival {
                Arrival::Bytes(_, bytes) => {
                    pipe.sent = pipe.sent.saturating_sub(bytes.len());
                    pipe.readable.extend_from_slice(&bytes);
                }
                Arrival::End(_) => pipe.has_ended = true,
                Arrival::Reset(_) => pipe.is_broken = true,
                Arrival::Call { .. }
                | Arrival::Answer { .. }
                | Arrival::Refusal { .. }
                | Arrival::CallAgain { .. }
                | Arrival::RetransmitTimer(_)
                | Arrival::Retransmission(_) => {}
            }
            wakers.extend(pipe.reading.take());
        }
        if is_reset {
            self.break_pipe(other);
        }
        self.wakers.extend(wakers);
    }

    /// Something has met a machine without power. Its system will know nothing of the connection, so
    /// what was sent matters no more, but only that it is sent again, after a wait that doubles each time.
    fn retransmit_later(&mut self, id: PipeId) {
        let Some(pipe) = self.pipes.get_mut(&id) else { return };
        if pipe.has_timer {
            return;
        }
        let doubled = pipe.retransmissions.min(DOUBLED_MAX);
        pipe.has_timer = true;
        pipe.retransmissions += 1;
        let at = self.now + Duration::from_millis(RETRANSMIT_MS << doubled);
        let number = self.number();
        self.arrivals.insert((at, number), Arrival::RetransmitTimer(id));
    }

    /// The system of the writer sends again, if it has neither lost its power itself nor had a reset.
    pub(super) fn retransmit(&mut self, id: PipeId) {
        let Some(pipe) = self.pipes.get_mut(&id) else { return };
        pipe.has_timer = false;
        let ((machine, life), reader, is_broken) = (pipe.writer, pipe.reader.0, pipe.is_broken);
        if self.lives(machine) == life && !is_broken {
            self.send(machine, reader, Arrival::Retransmission(id));
        }
    }

    /// Nothing can be written any more.
    fn break_pipe(&mut self, id: PipeId) {
        if let Some(pipe) = self.pipes.get_mut(&id) {
            pipe.is_broken = true;
            self.wakers.extend(pipe.writing.take());
        }
    }

    /// Reads what has arrived.
    pub(super) fn read(
        &mut self,
        id: PipeId,
        context: &Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(pipe) = self.pipes.get_mut(&id) else { return Poll::Ready(Ok(())) };
        if pipe.is_broken {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if pipe.readable.is_empty() {
            if pipe.has_ended {
                return Poll::Ready(Ok(()));
            }
            pipe.reading = Some(context.waker().clone());
            return Poll::Pending;
        }
        let length = pipe.readable.len().min(buffer.remaining());
        buffer.put_slice(pipe.readable.get(..length).unwrap_or_default());
        pipe.readable.advance(length);
        self.wakers.extend(pipe.writing.take());
        Poll::Ready(Ok(()))
    }

    /// Sends as much as there is room for.
    pub(super) fn write(
        &mut self,
        id: PipeId,
        context: &Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Some(pipe) = self.pipes.get_mut(&id) else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        if pipe.is_broken || pipe.writer_gone {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = WINDOW_BYTES.saturating_sub(pipe.sent + pipe.readable.len());
        if room == 0 {
            pipe.writing = Some(context.waker().clone());
            return Poll::Pending;
        }
        let length = room.min(bytes.len());
        let piece = Bytes::copy_from_slice(bytes.get(..length).unwrap_or_default());
        pipe.sent += length;
        if !std::mem::replace(&mut pipe.has_written, true) {
            pipe.lane = lane_of(&piece);
        }
        let (from, to, repeated) = (pipe.writer.0, pipe.reader.0, pipe.repeated.take());
        if let Some(again) = repeated
            && let Some(pipe) = self.pipes.get_mut(&again)
        {
            let opening = opening(&piece);
            pipe.sent += opening.len();
            self.send(from, to, Arrival::Bytes(again, opening));
        }
        self.send(from, to, Arrival::Bytes(id, piece));
        Poll::Ready(Ok(length))
    }

    /// The opening of what is written to a pipe arrives on another connection as well, of which the
    /// caller knows nothing, and not before a time.
    pub(super) fn repeat(
        &mut self,
        id: PipeId,
        (there, back): (PipeId, PipeId),
        not_before: SimTime,
    ) {
        if let Some(pipe) = self.pipes.get_mut(&id) {
            pipe.repeated = Some(there);
        }
        if let Some(pipe) = self.pipes.get_mut(&there) {
            pipe.writer_gone = true;
            pipe.last_arrival = not_before;
        }
        if let Some(pipe) = self.pipes.get_mut(&back) {
            pipe.reader_gone = true;
        }
    }

    /// The program has no more to write.
    pub(super) fn end(&mut self, id: PipeId) {
        let Some(pipe) = self.pipes.get_mut(&id) else { return };
        if pipe.writer_gone || pipe.is_broken {
            return;
        }
        pipe.writer_gone = true;
        let (from, to) = (pipe.writer.0, pipe.reader.0);
        self.send(from, to, Arrival::End(id));
    }

    /// The program has closed its end: what it writes and what it reads.
    pub(super) fn close(&mut self, write: PipeId, read: PipeId) {
        let end = self.pipes.get(&write).map(|pipe| pipe.writer);
        let end = end.or_else(|| self.pipes.get(&read).map(|pipe| pipe.reader));
        let Some((machine, life)) = end else { return };
        if self.lives(machine) != life {
            return self.forget_both(write, read);
        }
        let unread = self.pipes.get(&read).is_some_and(|pipe| pipe.unread() > 0);
        if unread {
            // As TCP does where not everything was read.
            self.give_up(write);
        } else {
            self.end(write);
        }
        if let Some(pipe) = self.pipes.get_mut(&read) {
            pipe.reader_gone = true;
        }
        self.forget_both(write, read);
    }

    /// Breaks a connection for the other side.
    pub(super) fn give_up(&mut self, write: PipeId) {
        let Some(pipe) = self.pipes.get_mut(&write) else { return };
        let (from, to) = (pipe.writer.0, pipe.reader.0);
        pipe.writer_gone = true;
        self.send(from, to, Arrival::Reset(write));
    }

    /// Forgets the pipes of a connection that neither side has any more.
    fn forget_both(&mut self, one: PipeId, other: PipeId) {
        let is_gone = |state: &Self, id: PipeId| {
            state.pipes.get(&id).is_none_or(|pipe| {
                pipe.reader_gone || {
                    let (machine, life) = pipe.reader;
                    state.lives(machine) != life
                }
            })
        };
        if is_gone(self, one) && is_gone(self, other) {
            self.forget(one);
            self.forget(other);
        }
    }

    fn forget(&mut self, id: PipeId) {
        self.pipes.remove(&id);
    }

    /// Breaks connections between two machines for both ends.
    pub(super) fn reset(&mut self, one: MachineId, other: MachineId, permille: u64) -> u64 {
        let between = |pipe: &Pipe| (pipe.writer.0, pipe.reader.0) == (one, other);
        let ids: Vec<(PipeId, PipeId)> = self
            .pipes
            .iter()
            .filter(|(_, pipe)| between(pipe) && !pipe.is_broken)
            .map(|(id, pipe)| (*id, pipe.other))
            .collect();
        let mut broken = 0;
        for (id, back) in ids {
            if !self.chance.permille(permille) {
                continue;
            }
            broken += 1;
            for id in [id, back] {
                if let Some(pipe) = self.pipes.get_mut(&id) {
                    pipe.is_broken = true;
                    self.wakers.extend(pipe.reading.take());
                    self.wakers.extend(pipe.writing.take());
                }
            }
        }
        self.figures.resets += broken;
        broken
    }
}

/// The part of a first piece that opens a connection: a client's request for a session without what it
/// has sent behind it, which no network does twice. All of a piece that does not begin with its length.
fn opening(piece: &Bytes) -> Bytes {
    let length = piece.first_chunk().map(|length| u32::from_be_bytes(*length));
    let length = length.and_then(|length| usize::try_from(length).ok()?.checked_add(4));
    piece.slice(..length.map_or(piece.len(), |length| length.min(piece.len())))
}
