//! The three sequences of parts that end with a marker: of a multi, of a multiRead, of results.
#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use zoolet_jute::{Decode, Encode, MultiOp, MultiReadOp, MultiResult, Parts};

fn again<T>(bytes: &[u8])
where
    Parts<T>: Decode + Encode + PartialEq + std::fmt::Debug,
{
    let Ok(parts) = Parts::<T>::decode(&mut Bytes::copy_from_slice(bytes), "parts") else { return };
    let mut out = BytesMut::new();
    parts.encode(&mut out);
    assert_eq!(Parts::<T>::decode(&mut out.freeze(), "parts"), Ok(parts));
}

fuzz_target!(|bytes: &[u8]| {
    again::<MultiOp>(bytes);
    again::<MultiReadOp>(bytes);
    again::<MultiResult>(bytes);
});
