//! What a step gives to clients, on its way into their outboxes.

use zoolet_jute::{
    ConnectResponse, Encode, ReplyHeader, SessionId, WatcherEvent, Xid, Zxid, frame,
};
use zoolet_replica::ConnectionId;

use super::Inner;
use super::answer::Answer;
use super::flow_control::Connection;
use crate::clock::Now;
use crate::metrics::Answered;
use crate::outbox::{Accepted, Closing};

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

    pub(super) fn reply(&mut self, now: Now, connection: ConnectionId, answer: Answer) {
        let Some(entry) = self.connections.get_mut(&connection) else { return };
        let answered = entry.answered(answer.xid == Xid::PING);
        self.requests_in_flight -= usize::from(answered.is_some());
        self.bytes_in_flight -= answered.as_ref().map_or(0, |answered| answered.bytes);
        self.figures.sent += 1;
        self.figures.latency.record(answer.took_ms);
        let queued = entry.in_flight() as u64;
        let op = answered.and_then(|answered| answered.op);
        if !entry.outbox.could_hold(answer.bulk_bytes()) {
            self.wakers.extend(entry.outbox.close(Closing::TooLong));
            return;
        }
        self.wakers.extend(entry.outbox.push(|out| {
            let Answer { xid, zxid, took_ms, .. } = answer;
            answer.encode(out);
            let now_ms = now.mono_ms;
            out.traffic.answered(Answered { op, xid, zxid, took_ms, now_ms });
            out.traffic.queued = queued;
        }));
    }

    pub(super) fn notify(&mut self, connection: ConnectionId, zxid: Zxid, event: &WatcherEvent) {
        let Some(entry) = self.connections.get_mut(&connection) else { return };
        self.figures.sent += 1;
        self.wakers.extend(entry.outbox.push_event(|out| {
            let header = ReplyHeader { xid: Xid::NOTIFICATION, zxid, err: None };
            frame::put(out.tail, |out| {
                header.encode(out);
                event.encode(out);
            });
            out.traffic.sent += 1;
        }));
    }

    pub(super) fn close(&mut self, connection: ConnectionId) {
        if let Some(entry) = self.forget(connection) {
            self.wakers.extend(entry.outbox.close(Closing::Finished));
        }
    }

    /// Takes a connection and what it has in flight out of the books.
    pub(super) fn forget(&mut self, connection: ConnectionId) -> Option<Connection> {
        let entry = self.connections.remove(&connection)?;
        self.requests_in_flight -= entry.in_flight();
        self.bytes_in_flight -= entry.bytes_in_flight();
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
