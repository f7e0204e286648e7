//! What is counted, and how it is summed up.

use zoolet_jute::{OpCode, Xid, Zxid};

/// How long requests took, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    count: u64,
    sum_ms: u64,
    min_ms: u64,
    max_ms: u64,
}

impl Latency {
    /// One more request.
    pub fn record(&mut self, took_ms: u64) {
        self.min_ms = if self.count == 0 { took_ms } else { self.min_ms.min(took_ms) };
        self.max_ms = self.max_ms.max(took_ms);
        self.sum_ms += took_ms;
        self.count += 1;
    }

    /// The shortest; zero if there was none.
    pub fn min_ms(&self) -> u64 {
        self.min_ms
    }

    /// The longest.
    pub fn max_ms(&self) -> u64 {
        self.max_ms
    }

    /// The mean; zero if there was none.
    #[allow(clippy::cast_precision_loss, reason = "four decimals are shown")]
    pub fn average_ms(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ms as f64 / self.count as f64 }
    }
}

/// What went over one connection since the last `crst`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Frames from the client.
    pub received: u64,
    /// Frames to the client.
    pub sent: u64,
    /// Requests that are not answered yet.
    pub queued: u64,
    /// The last answered operation; `None` before the handshake's answer.
    pub last_op: Option<LastOp>,
    /// The last ordinary request's number; pings and the like do not count.
    pub last_cxid: Option<Xid>,
    /// The zxid of the last reply.
    pub last_zxid: Zxid,
    /// When the last reply was made, on the monotonic clock.
    pub last_response_ms: u64,
    /// How long the last request took.
    pub last_latency_ms: u64,
    /// How long all of them took.
    pub latency: Latency,
}

/// A reply, as it is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    /// The operation, if it was one.
    pub(crate) op: Option<OpCode>,
    pub(crate) xid: Xid,
    pub(crate) zxid: Zxid,
    /// How long it took, and when it was made, on the monotonic clock.
    pub(crate) took_ms: u64,
    pub(crate) now_ms: u64,
}

/// What a connection did last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastOp {
    /// It opened or resumed its session.
    Session,
    /// A request.
    Request(OpCode),
}

impl Traffic {
    /// One more reply.
    pub(crate) fn answered(&mut self, answered: Answered) {
        self.sent += 1;
        self.last_op = answered.op.map(LastOp::Request);
        if answered.xid.0 >= 0 {
            self.last_cxid = Some(answered.xid);
        }
        self.last_zxid = answered.zxid;
        self.last_response_ms = answered.now_ms;
        self.last_latency_ms = answered.took_ms;
        self.latency.record(answered.took_ms);
    }

    /// Notes that the handshake is answered, which counts as the request 0.
    pub fn opened(&mut self, zxid: Zxid, now_ms: u64) {
        self.last_op = Some(LastOp::Session);
        self.last_cxid = Some(Xid(0));
        self.last_zxid = zxid;
        self.last_response_ms = now_ms;
    }

    /// Forgets the counts; what was last is still known.
    pub fn reset(&mut self) {
        self.received = 0;
        self.sent = 0;
        self.last_op = None;
        self.last_cxid = None;
        self.last_zxid = Zxid::default();
        self.last_response_ms = 0;
        self.last_latency_ms = 0;
        self.latency = Latency::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_latency_is_not_the_zero_it_starts_with() {
        let mut latency = Latency::default();
        assert_eq!((latency.min_ms(), latency.max_ms(), latency.average_ms()), (0, 0, 0.0));
        latency.record(7);
        latency.record(3);
        latency.record(5);
        assert_eq!((latency.min_ms(), latency.max_ms(), latency.average_ms()), (3, 7, 5.0));
    }
}
