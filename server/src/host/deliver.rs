//! What a step gives to clients, on its way into their outboxes.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use zoolet_jute::{
    ConnectResponse, Encode, EventType, OpCode, ReplyHeader, SessionId, WatcherEvent, Xid, Zxid,
    frame,
};
use zoolet_replica::state::SHARED_BYTES_MIN;
use zoolet_replica::{ConnectionId, ReplyTo, invariant};

use super::flow_control::ConnectionLoad;
use super::outgoing_reply::OutgoingReply;
use super::{Figures, Inner, ReplyBytes, WatchEvents};
use crate::clock::Now;
use crate::metrics::Answered;
use crate::outbox::{Accepted, Closing};
use crate::outbox_budget::OutboxShare;

/// A watch event that many connections get at the same time, encoded once for all of them.
#[derive(Debug)]
pub(super) struct SharedEvent {
    // Kept alive, so that no other event can have its address.
    event: Arc<WatcherEvent>,
    zxid: Zxid,
    bytes: Bytes,
}

impl SharedEvent {
    /// Returns the bytes of an event; encodes it unless `last` is the same one.
    fn of(
        last: &mut Option<Self>,
        (zxid, event): (Zxid, &Arc<WatcherEvent>),
        encode: impl FnOnce(&mut BytesMut),
    ) -> Bytes {
        if let Some(last) = last
            && Arc::ptr_eq(&last.event, event)
            && last.zxid == zxid
        {
            return last.bytes.clone();
        }
        let mut bytes = BytesMut::new();
        encode(&mut bytes);
        let bytes = bytes.freeze();
        *last = Some(Self { event: Arc::clone(event), zxid, bytes: bytes.clone() });
        bytes
    }
}

impl Inner {
    pub(super) fn accept(
        &mut self,
        now: Now,
        connection: ConnectionId,
        response: &ConnectResponse,
    ) {
        let zxid = self.replica.state().last_zxid();
        let Some(entry) = self.connections.get_mut(&connection) else { return };
        let (session, timeout_ms) = (response.session_id, response.timeout_ms);
        let accepted = (session != SessionId::NONE).then_some(Accepted { session, timeout_ms });
        entry.accepted = accepted.is_some();
        self.figures.sent += 1;
        self.wakers.extend(entry.outbox.push(|out| {
            frame::put(out.tail, |out| response.encode(out));
            *out.accepted = accepted;
            out.traffic.sent += 1;
            out.traffic.opened(zxid, now.mono_ms);
        }));
    }

    pub(super) fn reply(&mut self, now: Now, answer: OutgoingReply) {
        let ReplyTo { connection, xid, since_ms, in_flight } = answer.to;
        let Some(entry) = self.connections.get_mut(&connection) else { return };
        entry.answered(in_flight);
        let (count, bytes) = (self.requests_in_flight, self.bytes_in_flight);
        let is_counted = count > 0 && in_flight.bytes <= bytes;
        invariant!(is_counted, "{in_flight:?} is one of {count} requests of {bytes} bytes");
        self.requests_in_flight -= 1;
        self.bytes_in_flight -= in_flight.bytes;
        let took_ms = now.mono_ms.saturating_sub(since_ms);
        self.figures.sent += 1;
        self.figures.latency.record(took_ms);
        if in_flight.op.is_some_and(is_update) {
            self.times.updates.record(took_ms);
        } else {
            self.times.reads.record(took_ms);
        }
        let queued = entry.in_flight() as u64;
        if !entry.outbox.could_hold(answer.bulk_bytes()) {
            self.wakers.extend(entry.outbox.close(Closing::TooLong));
            return;
        }
        let figures = &mut self.figures;
        self.wakers.extend(entry.outbox.push(|out| {
            let (op, zxid, now_ms) = (in_flight.op, answer.zxid, now.mono_ms);
            answer.encode(out);
            figures.replies(out.added_bytes() as u64);
            out.traffic.answered(Answered { op, xid, zxid, took_ms, now_ms });
            out.traffic.queued = queued;
        }));
        self.relieve(connection);
    }

    pub(super) fn notify(
        &mut self,
        connection: ConnectionId,
        zxid: Zxid,
        event: &Arc<WatcherEvent>,
    ) {
        let Some(entry) = self.connections.get_mut(&connection) else { return };
        self.figures.sent += 1;
        self.figures.watch_events.count(event.event_type);
        let header = ReplyHeader { xid: Xid::NOTIFICATION, zxid, err: None };
        let encode = |out: &mut BytesMut| {
            frame::put(out, |out| {
                header.encode(out);
                event.encode(out);
            });
        };
        let is_long = event.path.len() >= SHARED_BYTES_MIN;
        let shared =
            is_long.then(|| SharedEvent::of(&mut self.shared_event, (zxid, event), encode));
        self.wakers.extend(entry.outbox.push_event(|out| {
            match shared {
                Some(shared) => out.put_shared(shared),
                None => encode(out.tail),
            }
            out.traffic.sent += 1;
        }));
        self.relieve(connection);
    }

    /// Closes connections if the memory of all outboxes is exceeded since this one was filled.
    fn relieve(&mut self, connection: ConnectionId) {
        let share = self.connections.get(&connection).and_then(|entry| entry.outbox.share());
        if let Some(excess) = share.and_then(OutboxShare::excess) {
            self.evict(excess);
        }
    }

    pub(super) fn close(&mut self, connection: ConnectionId) {
        if let Some(entry) = self.forget(connection) {
            self.wakers.extend(entry.outbox.close(Closing::Finished));
        }
    }

    /// Takes a connection and what it has in flight out of the books.
    pub(super) fn forget(&mut self, connection: ConnectionId) -> Option<ConnectionLoad> {
        let entry = self.connections.remove(&connection)?;
        self.requests_in_flight -= entry.in_flight();
        self.bytes_in_flight -= entry.bytes_in_flight();
        self.figures.connections_ended += 1;
        self.keep_ending(&entry.outbox);
        Some(entry)
    }

    pub(super) fn count_received(&mut self, connection: ConnectionId, count: u64) {
        self.figures.received += count;
        if let Some(entry) = self.connections.get(&connection) {
            entry.outbox.count(|traffic| {
                traffic.received += count;
                traffic.queued = entry.in_flight() as u64;
            });
        }
    }
}

impl Figures {
    fn replies(&mut self, bytes: u64) {
        let known = self.reply_bytes.unwrap_or(ReplyBytes { last: bytes, min: bytes, max: bytes });
        let (min, max) = (known.min.min(bytes), known.max.max(bytes));
        self.reply_bytes = Some(ReplyBytes { last: bytes, min, max });
    }
}

impl WatchEvents {
    fn count(&mut self, event: EventType) {
        let counted = [
            (EventType::NodeCreated, &mut self.created),
            (EventType::NodeDeleted, &mut self.deleted),
            (EventType::NodeDataChanged, &mut self.changed),
            (EventType::NodeChildrenChanged, &mut self.children),
        ];
        for (known, count) in counted {
            *count += u64::from(known == event);
        }
    }
}

/// Whether an operation goes through the log.
fn is_update(op: OpCode) -> bool {
    matches!(
        op,
        OpCode::Create
            | OpCode::Create2
            | OpCode::CreateContainer
            | OpCode::CreateTtl
            | OpCode::Delete
            | OpCode::SetData
            | OpCode::SetAcl
            | OpCode::Multi
            | OpCode::Reconfig
            | OpCode::CloseSession
    )
}
