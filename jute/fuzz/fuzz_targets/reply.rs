//! The payload of any frame that a server answers with. Which operation it answers is known from
//! the request; here the first byte says it.
#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use zoolet_jute::{Decode, Encode, OpCode, Reply, ReplyHeader};

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, payload)) = bytes.split_first() else { return };
    let op = OpCode::ALL[usize::from(*choice) % OpCode::ALL.len()];
    let mut input = Bytes::copy_from_slice(payload);
    let Ok(header) = ReplyHeader::decode(&mut input, "header") else { return };
    let Ok(reply) = Reply::decode(op, &mut input) else { return };
    let mut out = BytesMut::new();
    header.encode(&mut out);
    reply.encode(&mut out);
    let mut again = out.freeze();
    assert_eq!(ReplyHeader::decode(&mut again, "header"), Ok(header));
    assert_eq!(Reply::decode(op, &mut again), Ok(reply));
});
