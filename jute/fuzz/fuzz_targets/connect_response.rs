//! The handshake of a server.
#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use zoolet_jute::{Decode, Encode, ConnectResponse};

fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = ConnectResponse::decode(&mut Bytes::copy_from_slice(bytes), "input") else { return };
    let mut out = BytesMut::new();
    value.encode(&mut out);
    let again = ConnectResponse::decode(&mut out.freeze(), "again").expect("own bytes are decoded");
    assert_eq!(value, again);
});
