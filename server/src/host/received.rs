//! A request as it came off the wire, decoded before the host's lock is taken.

use bytes::Bytes;
use zoolet_jute::{Decode, DecodeError, MultiOp, MultiReadOp, OpCode, Request, RequestHeader, Xid};
use zoolet_replica::{BadRequest, SaslStep};

use crate::large_requests::LARGE_BYTES_MIN;

/// One frame of a connection whose handshake is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The client's number.
    pub xid: Xid,
    /// The operation, if it is one.
    pub op: Option<OpCode>,
    /// The request, or what is wrong with it.
    pub request: Result<Request, BadRequest>,
    /// What it leads to, if it is a token of a login.
    pub sasl: Option<SaslStep>,
    /// The bytes of the frame, and of the memory of its parts.
    pub bytes: usize,
    /// Whether the outbox has a grant for it; see [`LargeRequests`](crate::large_requests::LargeRequests).
    pub is_large: bool,
    /// When it came, on the monotonic clock, in milliseconds.
    pub since_ms: u64,
}

impl Received {
    /// Reads the payload of a frame that came at `since_ms` of the monotonic clock. Only a payload
    /// without room for the header is an error, which ends the connection; everything else is for
    /// the replica to answer (protocol §1.3).
    pub fn decode(mut payload: Bytes, since_ms: u64) -> Result<Self, DecodeError> {
        let bytes = payload.len();
        let is_large = bytes > LARGE_BYTES_MIN;
        #[cfg(test)]
        testing::DECODED.set(testing::decoded_bytes() + bytes as u64);
        let header = RequestHeader::decode(&mut payload, "header")?;
        let op = OpCode::from_i32(header.op);
        let request = match op {
            Some(op) if for_clients(op) => {
                Request::decode(op, &mut payload).map_err(|_| BadRequest::Body)
            }
            Some(_) | None => Err(BadRequest::Op),
        };
        let bytes = bytes + request.as_ref().map_or(0, parts_bytes);
        Ok(Self { xid: header.xid, op, request, sasl: None, bytes, is_large, since_ms })
    }

    /// Whether it may be refused for its wait: not pings and closeSession, as in Apache; nor auth,
    /// which never waits there; nor setWatches, whose refusal no client looks at, so that watches
    /// would be lost without a word.
    pub(super) fn is_throttlable(&self) -> bool {
        !matches!(
            self.op,
            None | Some(
                OpCode::Ping
                    | OpCode::CloseSession
                    | OpCode::Auth
                    | OpCode::Sasl
                    | OpCode::SetWatches
                    | OpCode::SetWatches2
            )
        )
    }
}

/// Returns the memory of the parts of a request without their texts and data, in bytes. It is several
/// times their length in the frame.
fn parts_bytes(request: &Request) -> usize {
    /// The head of the allocation of a part's path.
    const ALLOCATION: usize = 16;
    if let Request::Multi(parts) = request {
        parts.0.len() * (size_of::<MultiOp>() + ALLOCATION)
    } else if let Request::MultiRead(parts) = request {
        parts.0.len() * (size_of::<MultiReadOp>() + ALLOCATION)
    } else {
        0
    }
}

/// Whether a client may ask for it at top level (protocol §2, §2.11, §2.17).
fn for_clients(op: OpCode) -> bool {
    match op {
        OpCode::Notification
        | OpCode::Check
        | OpCode::DeleteContainer
        | OpCode::CreateSession
        | OpCode::Error => false,
        OpCode::Create
        | OpCode::Delete
        | OpCode::Exists
        | OpCode::GetData
        | OpCode::SetData
        | OpCode::GetAcl
        | OpCode::SetAcl
        | OpCode::GetChildren
        | OpCode::Sync
        | OpCode::Ping
        | OpCode::GetChildren2
        | OpCode::Multi
        | OpCode::Create2
        | OpCode::Reconfig
        | OpCode::CheckWatches
        | OpCode::RemoveWatches
        | OpCode::CreateContainer
        | OpCode::CreateTtl
        | OpCode::MultiRead
        | OpCode::Auth
        | OpCode::SetWatches
        | OpCode::Sasl
        | OpCode::GetEphemerals
        | OpCode::GetAllChildrenNumber
        | OpCode::SetWatches2
        | OpCode::AddWatch
        | OpCode::WhoAmI
        | OpCode::CloseSession => true,
    }
}

/// A count for tests of turns.
#[cfg(test)]
pub(crate) mod testing {
    use std::cell::Cell;

    thread_local! {
        pub(super) static DECODED: Cell<u64> = const { Cell::new(0) };
    }

    /// Returns the bytes of the requests that were decoded on this thread.
    pub(crate) fn decoded_bytes() -> u64 {
        DECODED.get()
    }
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, BytesMut};
    use zoolet_jute::{Encode, Parts, PathVersionRequest, PathWatchRequest};

    use super::*;

    fn frame(xid: i32, op: i32, body: &[u8]) -> Bytes {
        let mut out = BytesMut::new();
        RequestHeader { xid: Xid(xid), op }.encode(&mut out);
        out.put_slice(body);
        out.freeze()
    }

    #[test]
    fn a_payload_without_room_for_the_header_ends_the_connection() {
        let whole = frame(1, 11, &[]);
        for length in 0..whole.len() {
            assert!(Received::decode(whole.slice(..length), 0).is_err(), "{length} bytes");
        }
        assert_eq!(Received::decode(whole, 0).unwrap().request, Ok(Request::Ping));
    }

    #[test]
    fn a_body_cut_anywhere_is_a_bad_body_and_not_a_bad_frame() {
        let mut body = BytesMut::new();
        PathWatchRequest { path: "/a".into(), watch: true }.encode(&mut body);
        for length in 0..body.len() {
            let received = Received::decode(frame(3, 4, &body[..length]), 0).unwrap();
            assert_eq!((received.xid, received.request), (Xid(3), Err(BadRequest::Body)));
        }
        assert!(Received::decode(frame(3, 4, &body), 0).unwrap().request.is_ok());
        body.put_slice(b"what stands behind is ignored");
        assert!(Received::decode(frame(3, 4, &body), 0).unwrap().request.is_ok());
    }

    /// 256 MiB of requests took 1.7 GB, because short parts take more memory than bytes of a frame.
    #[test]
    fn the_parts_of_a_multi_count_with_their_memory() {
        let check = MultiOp::Check(PathVersionRequest { path: "/".into(), version: 0 });
        let mut body = BytesMut::new();
        Parts(vec![check; 1000]).encode(&mut body);
        let frame = frame(1, 14, &body);
        let received = Received::decode(frame.clone(), 0).unwrap();
        assert!(received.bytes > frame.len() + 1000 * size_of::<MultiOp>(), "{}", received.bytes);
    }

    #[test]
    fn operations_that_no_client_may_ask_for_are_not_bad_bodies() {
        for op in [0, -1, 10, 13, 20, -10, 23, 99, 108, i32::MIN, i32::MAX] {
            let received = Received::decode(frame(1, op, &[]), 0).unwrap();
            assert_eq!(received.request, Err(BadRequest::Op), "operation {op}");
        }
    }
}
