//! Our own bytes, in files and between servers: big-endian numbers, and bytes behind their length.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Reads our bytes; running out of them is an error.
#[derive(Debug)]
pub(crate) struct Reader(pub Bytes);

pub(crate) fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Reader {
    pub(crate) fn u8(&mut self) -> io::Result<u8> {
        self.0.try_get_u8().map_err(|_| malformed("too short"))
    }

    pub(crate) fn u32(&mut self) -> io::Result<u32> {
        self.0.try_get_u32().map_err(|_| malformed("too short"))
    }

    pub(crate) fn u64(&mut self) -> io::Result<u64> {
        self.0.try_get_u64().map_err(|_| malformed("too short"))
    }

    pub(crate) fn bytes(&mut self) -> io::Result<Bytes> {
        let length = self.u32()? as usize;
        if length > self.0.len() {
            return Err(malformed("too short"));
        }
        Ok(self.0.split_to(length))
    }

    /// A copy, for what outlives the message: the log keeps an entry for long, and a slice would
    /// keep all of the buffer that the message was read into.
    pub(crate) fn kept_bytes(&mut self) -> io::Result<Bytes> {
        Ok(Bytes::copy_from_slice(&self.bytes()?))
    }

    pub(crate) fn string(&mut self) -> io::Result<String> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| malformed("not UTF-8"))
    }
}

pub(crate) fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    put_length(out, bytes.len());
    out.put_slice(bytes);
}

pub(crate) fn put_length(out: &mut BytesMut, length: usize) {
    out.put_u32(u32::try_from(length).expect("frames are bounded"));
}
