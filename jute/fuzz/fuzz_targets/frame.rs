//! Frames that come in pieces: whatever the bytes, the splitter takes what is whole and waits for
//! the rest, and no frame is longer than allowed.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use zoolet_jute::frame;

const FRAME_BYTES_MAX: usize = 4096;

fuzz_target!(|bytes: &[u8]| {
    let mut whole = BytesMut::from(bytes);
    let mut frames = Vec::new();
    while let Ok(Some(payload)) = frame::split(&mut whole, FRAME_BYTES_MAX) {
        assert!(payload.len() <= FRAME_BYTES_MAX);
        frames.push(payload);
    }
    let mut pieces = BytesMut::new();
    let mut again = Vec::new();
    for byte in bytes {
        pieces.extend_from_slice(&[*byte]);
        match frame::split(&mut pieces, FRAME_BYTES_MAX) {
            Ok(Some(payload)) => again.push(payload),
            Ok(None) => {}
            Err(_) => break,
        }
    }
    // A frame without payload ends with its length, so a piece never holds more than one frame.
    assert_eq!(frames, again);
});
