//! Frames: a four-byte length and that many bytes (protocol §1.1).

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::DecodeError;
use crate::wire::wire_length;

/// The bytes of the length in front of each frame.
pub const LENGTH_BYTES: usize = 4;

/// The longest frame that a server accepts by default, `jute.maxbuffer` (protocol §1.3), in bytes.
pub const FRAME_BYTES_MAX_DEFAULT: usize = 0xf_ffff;

/// Takes one whole frame off the front of `buffer`; `Ok(None)` means that more bytes must come.
///
/// The length is judged before anything is allocated for it.
pub fn split(buffer: &mut BytesMut, frame_bytes_max: usize) -> Result<Option<Bytes>, DecodeError> {
    let Some(head) = buffer.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let length = i32::from_be_bytes(*head);
    let Ok(bytes) = usize::try_from(length) else {
        return Err(DecodeError::NegativeLength { field: "frame", length });
    };
    if bytes > frame_bytes_max {
        return Err(DecodeError::TooLong { field: "frame", length: bytes, max: frame_bytes_max });
    }
    if buffer.len() < LENGTH_BYTES + bytes {
        return Ok(None);
    }
    buffer.advance(LENGTH_BYTES);
    Ok(Some(buffer.split_to(bytes).freeze()))
}

/// Appends a frame whose payload `payload` writes.
pub fn put(out: &mut BytesMut, payload: impl FnOnce(&mut BytesMut)) {
    let start = out.len();
    out.put_i32(0);
    payload(out);
    let length = wire_length(out.len() - start - LENGTH_BYTES);
    if let Some(head) = out.get_mut(start..start + LENGTH_BYTES) {
        head.copy_from_slice(&length.to_be_bytes());
    }
}
