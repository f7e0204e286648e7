//! Bytes of a file, read in order: big-endian numbers, texts and buffers behind their length, with
//! the offset for errors and the running Adler-32 that Apache `ZooKeeper` ends its snapshots with.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use adler2::Adler32;
use bytes::Bytes;
use zoolet_jute::{Acl, Id};

use crate::MigrateError;

/// The longest buffer, in bytes: more than any server takes in one request.
const BUFFER_BYTES_MAX: usize = 256 << 20;

/// How much is allocated before the bytes are there.
const STEP_BYTES: usize = 64 << 10;

pub(crate) struct Source<R> {
    path: PathBuf,
    reader: R,
    offset: u64,
    checksum: Adler32,
    /// A byte that was looked at.
    peeked: Option<u8>,
}

impl<R: Read> Source<R> {
    pub(crate) fn new(path: &Path, reader: R) -> Self {
        Self::at(path, reader, 0)
    }

    /// Begins at an offset, which counts in errors only.
    pub(crate) fn at(path: &Path, reader: R, offset: u64) -> Self {
        let (path, checksum) = (path.to_owned(), Adler32::new());
        Self { path, reader, offset, checksum, peeked: None }
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The Adler-32 of all bytes so far.
    pub(crate) fn checksum(&self) -> i64 {
        i64::from(self.checksum.checksum())
    }

    pub(crate) fn damaged(&self, offset: u64, what: impl Into<String>) -> MigrateError {
        MigrateError::Damaged { path: self.path.clone(), offset, what: what.into() }
    }

    fn fill(&mut self, out: &mut [u8], field: &'static str) -> Result<(), MigrateError> {
        let mut done = 0;
        if let (Some(first), Some(byte)) = (out.first_mut(), self.peeked.take()) {
            *first = byte;
            done = 1;
        }
        while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.reader.read(rest) {
                Ok(0) => return Err(self.cut_off(done, field)),
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(done, field, error)),
            }
        }
        self.checksum.write_slice(out);
        self.offset += out.len() as u64;
        Ok(())
    }

    fn cut_off(&self, done: usize, field: &'static str) -> MigrateError {
        let offset = self.offset + done as u64;
        MigrateError::CutOff { path: self.path.clone(), offset, field }
    }

    fn failed(&self, done: usize, field: &'static str, error: io::Error) -> MigrateError {
        // What a decompressor says about its input.
        let is_content = matches!(
            error.kind(),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other
        );
        if error.kind() == io::ErrorKind::UnexpectedEof {
            self.cut_off(done, field)
        } else if is_content {
            self.damaged(self.offset + done as u64, error.to_string())
        } else {
            MigrateError::io("read", &self.path)(error)
        }
    }

    /// Whether nothing follows.
    pub(crate) fn is_at_end(&mut self) -> Result<bool, MigrateError> {
        if self.peeked.is_some() {
            return Ok(false);
        }
        let mut byte = [0];
        loop {
            match self.reader.read(&mut byte) {
                Ok(0) => return Ok(true),
                Ok(_) => {
                    self.peeked = Some(byte[0]);
                    return Ok(false);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(0, "its end", error)),
            }
        }
    }

    /// Reads to the end. False if there is anything but zeros.
    pub(crate) fn is_zero_to_end(&mut self) -> Result<bool, MigrateError> {
        let mut is_zero = self.peeked.take().is_none_or(|byte| byte == 0);
        let (mut bytes, zeros) = (vec![0; STEP_BYTES], vec![0; STEP_BYTES]);
        loop {
            match self.reader.read(&mut bytes) {
                Ok(0) => return Ok(is_zero),
                Ok(read) => is_zero &= zeros.starts_with(bytes.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(0, "the end of the log", error)),
            }
        }
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], MigrateError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes, field)?;
        Ok(bytes)
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, MigrateError> {
        Ok(u8::from_be_bytes(self.array(field)?))
    }

    pub(crate) fn i32(&mut self, field: &'static str) -> Result<i32, MigrateError> {
        Ok(i32::from_be_bytes(self.array(field)?))
    }

    pub(crate) fn i64(&mut self, field: &'static str) -> Result<i64, MigrateError> {
        Ok(i64::from_be_bytes(self.array(field)?))
    }

    pub(crate) fn flag(&mut self, field: &'static str) -> Result<bool, MigrateError> {
        let offset = self.offset;
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(self.damaged(offset, format!("{field} is {other}, not 0 or 1"))),
        }
    }

    /// A number of things that follow; each is at least a byte long, so a wrong one ends with the
    /// file.
    pub(crate) fn count(&mut self, field: &'static str) -> Result<u32, MigrateError> {
        let offset = self.offset;
        let count = self.i32(field)?;
        u32::try_from(count).map_err(|_| self.damaged(offset, format!("{field} is {count}")))
    }

    /// Bytes behind their length; `None` for null. What is allocated is bounded by what comes.
    pub(crate) fn buffer(&mut self, field: &'static str) -> Result<Option<Bytes>, MigrateError> {
        let offset = self.offset;
        let length = self.i32(field)?;
        if length == -1 {
            return Ok(None);
        }
        let bytes = usize::try_from(length).ok().filter(|length| *length <= BUFFER_BYTES_MAX);
        let bytes = bytes
            .ok_or_else(|| self.damaged(offset, format!("the length of {field} is {length}")))?;
        let mut out = Vec::with_capacity(bytes.min(STEP_BYTES));
        while out.len() < bytes {
            let from = out.len();
            out.resize(bytes.min(from + STEP_BYTES), 0);
            if let Some(step) = out.get_mut(from..) {
                self.fill(step, field)?;
            }
        }
        Ok(Some(out.into()))
    }

    pub(crate) fn optional_text(
        &mut self,
        field: &'static str,
    ) -> Result<Option<String>, MigrateError> {
        let offset = self.offset;
        let text = self.buffer(field)?.map(|bytes| String::from_utf8(bytes.into()));
        text.transpose().map_err(|_| self.damaged(offset, format!("{field} is not UTF-8")))
    }

    pub(crate) fn text(&mut self, field: &'static str) -> Result<String, MigrateError> {
        let offset = self.offset;
        let text = self.optional_text(field)?;
        text.ok_or_else(|| self.damaged(offset, format!("{field} is null")))
    }

    pub(crate) fn acl(&mut self) -> Result<Vec<Acl>, MigrateError> {
        let mut acl = Vec::new();
        let offset = self.offset;
        // Null is an empty vector, as in Apache's readers.
        let count = match self.i32("an ACL")? {
            -1 => 0,
            count => u32::try_from(count)
                .map_err(|_| self.damaged(offset, format!("an ACL has {count} entries")))?,
        };
        for _ in 0..count {
            let perms = self.i32("the permissions of an ACL")?;
            let scheme = self.optional_text("the scheme of an ACL")?;
            let id = self.optional_text("the id of an ACL")?;
            acl.push(Acl { perms, id: Id { scheme, id } });
        }
        Ok(acl)
    }
}

impl<'a> Source<&'a [u8]> {
    /// What was not read yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.reader
    }

    /// Leaves out this many bytes of the rest.
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.reader = self.reader.get(bytes..).unwrap_or_default();
        self.offset += bytes as u64;
    }
}
