//! The handshake of a client.
#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use zoolet_jute::{Decode, Encode, ConnectRequest};

fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = ConnectRequest::decode(&mut Bytes::copy_from_slice(bytes), "input") else { return };
    let mut out = BytesMut::new();
    value.encode(&mut out);
    let again = ConnectRequest::decode(&mut out.freeze(), "again").expect("own bytes are decoded");
    assert_eq!(value, again);
});
