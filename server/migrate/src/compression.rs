//! The streams in which snapshots are written: plain, gzip, or Snappy in the framing of
//! snappy-java.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::MigrateError;

/// How a file is compressed; its name says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Snappy,
}

/// Opens a file for its uncompressed content.
pub(crate) fn open(
    path: &Path,
    compression: Compression,
) -> Result<Box<dyn Read + Send>, MigrateError> {
    let file = File::open(path).map_err(MigrateError::io("open", path))?;
    let file = BufReader::with_capacity(256 << 10, file);
    Ok(match compression {
        Compression::None => Box::new(file),
        Compression::Gzip => Box::new(BufReader::new(MultiGzDecoder::new(file))),
        Compression::Snappy => Box::new(SnappyBlocks::new(file)),
    })
}

/// The first bytes of a stream of snappy-java; its version and the oldest one that reads it follow.
const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];

/// The only version there is.
const VERSION: u32 = 1;

/// The longest block, in bytes; snappy-java cuts its input into pieces of 32 KiB.
const BLOCK_BYTES_MAX: usize = 16 << 20;

/// The content of a stream of snappy-java: a head, and blocks behind their length.
pub(crate) struct SnappyBlocks<R> {
    reader: R,
    has_head: bool,
    block: Vec<u8>,
    done: usize,
}

impl<R: Read> SnappyBlocks<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, has_head: false, block: Vec::new(), done: 0 }
    }

    fn read_head(&mut self) -> io::Result<()> {
        let (mut magic, mut version) = ([0; 8], [0; 4]);
        self.reader.read_exact(&mut magic)?;
        self.reader.read_exact(&mut version)?;
        self.reader.read_exact(&mut [0; 4])?;
        if magic != MAGIC || u32::from_be_bytes(version) != VERSION {
            return Err(malformed("it is not a stream of snappy-java"));
        }
        self.has_head = true;
        Ok(())
    }

    /// Reads the next block. False at the end.
    fn next_block(&mut self) -> io::Result<bool> {
        let mut length = [0; 4];
        // The end is in front of a block or nowhere.
        if self.reader.by_ref().take(1).read(&mut length)? == 0 {
            return Ok(false);
        }
        let [_, rest @ ..] = &mut length;
        self.reader.read_exact(rest)?;
        let length = u32::from_be_bytes(length) as usize;
        if length > BLOCK_BYTES_MAX {
            return Err(malformed("a Snappy block is too long"));
        }
        let mut compressed = Vec::new();
        self.reader.by_ref().take(length as u64).read_to_end(&mut compressed)?;
        if compressed.len() < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let bytes = snap::raw::decompress_len(&compressed).map_err(io::Error::other)?;
        if bytes > BLOCK_BYTES_MAX {
            return Err(malformed("a Snappy block is too long"));
        }
        let block = snap::raw::Decoder::new().decompress_vec(&compressed);
        self.block = block.map_err(io::Error::other)?;
        self.done = 0;
        Ok(true)
    }
}

fn malformed(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl<R: Read> Read for SnappyBlocks<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if !self.has_head {
            self.read_head()?;
        }
        while self.done >= self.block.len() {
            if !self.next_block()? {
                return Ok(0);
            }
        }
        let mut rest = self.block.get(self.done..).unwrap_or_default();
        let read = rest.read(out)?;
        self.done += read;
        Ok(read)
    }
}
