//! How a reply gets into an outbox.

use bytes::{BufMut, Bytes};
use zoolet_jute::{Encode, ErrorCode, OpCode, Reply, ReplyHeader, Stat, Zxid, frame};
use zoolet_replica::ReplyTo;
use zoolet_replica::state::{LongReply, SHARED_BYTES_MIN};

use crate::outbox::OutboxWriter;

/// A reply on its way to the outbox.
#[derive(Debug)]
pub(super) struct OutgoingReply {
    pub(super) to: ReplyTo,
    pub(super) zxid: Zxid,
    pub(super) result: Result<ReplyBody, ErrorCode>,
}

/// What is in it.
#[derive(Debug)]
pub(super) enum ReplyBody {
    Short(Reply),
    Long(LongReply),
}

impl ReplyBody {
    /// See [`Reply::bulk_bytes`].
    fn bulk_bytes(&self) -> usize {
        match self {
            Self::Short(reply) => reply.bulk_bytes(),
            Self::Long(body) => body.bytes(),
        }
    }
}

impl OutgoingReply {
    pub(super) fn bulk_bytes(&self) -> usize {
        self.result.as_ref().map_or(0, ReplyBody::bulk_bytes)
    }

    pub(super) fn encode(self, out: &mut OutboxWriter<'_>) {
        let header = ReplyHeader {
            xid: self.to.xid,
            zxid: self.zxid,
            err: self.result.as_ref().err().copied(),
        };
        match self.result {
            Ok(ReplyBody::Long(body)) => {
                let bytes = body.bytes();
                let length = i32::try_from(HEADER_BYTES + bytes).expect("the outbox could hold it");
                out.tail.put_i32(length);
                header.encode(out.tail);
                let (pins, copied) = (out.pin(body.data_of_state()), body.copied_bytes());
                out.put_later(bytes, (pins, copied), Box::new(body));
            }
            Ok(ReplyBody::Short(Reply::Data(Some(data), stat)))
                if data.len() >= SHARED_BYTES_MIN =>
            {
                put_shared_data(out, header, data, &stat);
            }
            Ok(ReplyBody::Short(reply)) => {
                frame::put(out.tail, |out| reply.encode_with(header, out));
            }
            // Java's client takes every reply within a login for a token, an error too.
            Err(_) if self.to.in_flight.op == Some(OpCode::Sasl) => {
                frame::put(out.tail, |out| Reply::Sasl(None).encode_with(header, out));
            }
            Err(_) => frame::put(out.tail, |out| header.encode(out)),
        }
    }
}

/// The bytes of a `ReplyHeader`, and of a Stat (protocol §1.5, §1.6).
const HEADER_BYTES: usize = 16;
const STAT_BYTES: usize = 68;

/// The frame of a getData's reply, without a copy of the data.
fn put_shared_data(out: &mut OutboxWriter<'_>, header: ReplyHeader, data: Bytes, stat: &Stat) {
    let length = HEADER_BYTES + frame::LENGTH_BYTES + data.len() + STAT_BYTES;
    out.tail.put_i32(i32::try_from(length).expect("data came in a frame"));
    header.encode(out.tail);
    out.tail.put_i32(i32::try_from(data.len()).expect("data came in a frame"));
    out.put_of_state(data);
    stat.encode(out.tail);
}
