//! A watch event.
#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use zoolet_jute::{Decode, Encode, WatcherEvent};

fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = WatcherEvent::decode(&mut Bytes::copy_from_slice(bytes), "input") else { return };
    let mut out = BytesMut::new();
    value.encode(&mut out);
    let again = WatcherEvent::decode(&mut out.freeze(), "again").expect("own bytes are decoded");
    assert_eq!(value, again);
});
