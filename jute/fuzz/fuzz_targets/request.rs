//! The payload of any frame that a client sends after its handshake.
#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use zoolet_jute::{Decode, OpCode, Request, RequestHeader};

fuzz_target!(|bytes: &[u8]| {
    let mut input = Bytes::copy_from_slice(bytes);
    let Ok(header) = RequestHeader::decode(&mut input, "header") else { return };
    let Some(op) = OpCode::from_i32(header.op) else { return };
    let Ok(request) = Request::decode(op, &mut input) else { return };
    assert_eq!(request.op_code(), op);
    let mut out = BytesMut::new();
    request.encode_with(header.xid, &mut out);
    let mut again = out.freeze();
    assert_eq!(RequestHeader::decode(&mut again, "header"), Ok(header));
    assert_eq!(Request::decode(op, &mut again), Ok(request));
    assert!(again.is_empty());
});
