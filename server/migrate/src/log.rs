//! Reading a transaction log.
//!
//! ```text
//! "ZKLG" · version i32 = 2 · database i64
//! { Adler-32 i64 · length i32 · transaction · 'B' }
//! zeros to the end, which the server has allocated in advance
//! ```

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use adler2::adler32_slice;

use crate::MigrateError;
use crate::snapshot::read_head;
use crate::source::Source;
use crate::txn::{self, Txn};

const MAGIC: [u8; 4] = *b"ZKLG";

/// The mark behind a transaction.
const END_OF_RECORD: u8 = b'B';

/// A log that is open.
pub(crate) struct LogReader<R> {
    source: Source<R>,
}

/// What comes next in a log.
#[derive(Debug)]
pub(crate) enum Next {
    /// A transaction, and where it begins.
    Txn(u64, Txn),
    /// The log ends here.
    End,
    /// A transaction begins here that was not written to its end.
    Torn(u64),
}

impl LogReader<BufReader<File>> {
    /// Opens a log. `None` if the file is empty: the server has ended before it wrote the head.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>, MigrateError> {
        let file = File::open(path).map_err(MigrateError::io("open", path))?;
        Self::of(Source::new(path, BufReader::with_capacity(256 << 10, file)))
    }
}

impl<R: Read> LogReader<R> {
    pub(crate) fn of(mut source: Source<R>) -> Result<Option<Self>, MigrateError> {
        if source.is_at_end()? {
            return Ok(None);
        }
        read_head(&mut source, MAGIC)?;
        Ok(Some(Self { source }))
    }

    /// Reads on. A transaction that is cut off ends the log, as for Apache's servers.
    pub(crate) fn next(&mut self) -> Result<Next, MigrateError> {
        let source = &mut self.source;
        if source.is_at_end()? {
            return Ok(Next::End);
        }
        let begin = source.offset();
        match read_record(source) {
            Ok(Some((at, body))) => {
                let mut fields = Source::at(source.path(), &*body, at);
                let txn = txn::decode(&mut fields).map_err(|error| inside(error, source, at))?;
                Ok(Next::Txn(begin, txn))
            }
            Ok(None) => self.rest_is_zero(begin),
            Err(MigrateError::CutOff { .. }) => Ok(Next::Torn(begin)),
            Err(error) => Err(error),
        }
    }

    /// The end of a log is all zeros: anything else was written behind a hole.
    fn rest_is_zero(&mut self, begin: u64) -> Result<Next, MigrateError> {
        Ok(if self.source.is_zero_to_end()? { Next::End } else { Next::Torn(begin) })
    }
}

/// A transaction whose checksum is right, and which ends before its last field.
fn inside<R: Read>(error: MigrateError, source: &Source<R>, offset: u64) -> MigrateError {
    if let MigrateError::CutOff { field, .. } = error {
        source.damaged(offset, format!("the transaction ends inside {field}"))
    } else {
        error
    }
}

/// The bytes of a transaction, and where they begin; `None` at the log's end.
fn read_record<R: Read>(
    source: &mut Source<R>,
) -> Result<Option<(u64, bytes::Bytes)>, MigrateError> {
    let offset = source.offset();
    let stored = source.i64("a transaction's checksum")?;
    let body = source.buffer("a transaction")?.unwrap_or_default();
    if body.is_empty() {
        let is_end = stored == 0;
        let what = "a transaction without a content has a checksum";
        return if is_end { Ok(None) } else { Err(source.damaged(offset, what)) };
    }
    let at = source.offset() - body.len() as u64;
    let mark = source.u8("the mark behind a transaction")?;
    if mark != END_OF_RECORD {
        // The server was killed before it was written.
        let (path, offset, field) = (source.path().to_owned(), source.offset(), "a transaction");
        return Err(MigrateError::CutOff { path, offset, field });
    }
    let computed = i64::from(adler32_slice(&body));
    if stored != computed {
        let what = format!("the checksum is {stored:#x}, that of the transaction {computed:#x}");
        return Err(source.damaged(offset, what));
    }
    Ok(Some((at, body)))
}
