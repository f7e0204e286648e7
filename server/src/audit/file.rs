//! The file of the audit log, put aside when it has become too long.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zoolet_storage::{Disk, DiskFile};

use super::AuditOptions;

/// A file that only grows, by whole lines.
#[derive(Debug)]
pub(super) struct AuditFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    bytes_max: u64,
    retained: usize,
    open: Option<Open>,
    /// Whether another file may have the name meanwhile. Then none is put aside under it.
    is_renamed: bool,
}

#[derive(Debug)]
struct Open {
    file: Arc<dyn DiskFile>,
    /// Where the next line begins.
    end: u64,
}

impl AuditFile {
    pub(super) fn new(disk: Arc<dyn Disk>, path: PathBuf, options: &AuditOptions) -> Self {
        let (bytes_max, retained) = (options.file_bytes_max, options.files_retained);
        Self { disk, path, bytes_max, retained, open: None, is_renamed: false }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file of this name, or creates it. A line that a power cut has torn gets an end.
    pub(super) fn open(&mut self) -> io::Result<()> {
        let is_there = self.disk.exists(&self.path)?;
        let file =
            if is_there { self.disk.open(&self.path)? } else { self.disk.create(&self.path)? };
        let mut end = file.bytes()?;
        if let Some(last_at) = end.checked_sub(1) {
            let mut last = [0];
            file.read_exact_at(&mut last, last_at)?;
            if last != *b"\n" {
                file.write_all_at(b"\n", end)?;
                end += 1;
            }
        }
        self.close();
        self.open = Some(Open { file, end });
        self.is_renamed = false;
        Ok(())
    }

    /// Opens the file of this name, after the one that is in use was renamed. If that fails, the one
    /// in use stays so, however long it becomes.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        self.is_renamed = true;
        self.open()
    }

    /// Whether the file in use was renamed, and none of its name is open yet.
    pub(super) fn is_renamed(&self) -> bool {
        self.is_renamed
    }

    /// Adds lines. If that fails, the file is cut where it ended before, and opened again by the next
    /// call.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let length = lines.len() as u64;
        if self.open.is_none() {
            self.open()?;
        }
        let is_full = |open: &Open| open.end > 0 && open.end + length > self.bytes_max;
        if !self.is_renamed && self.open.as_ref().is_some_and(is_full) {
            self.put_aside()?;
            self.open()?;
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        if let Err(error) = open.file.write_all_at(lines, open.end) {
            // What stays of a line is ended when the file is opened.
            let _ = open.file.set_len(open.end);
            self.open = None;
            return Err(error);
        }
        open.end += length;
        Ok(())
    }

    /// Makes durable what is written.
    pub(super) fn close(&mut self) {
        if let Some(open) = self.open.take() {
            // The lines are there for everything but a power cut.
            let _ = open.file.sync_data();
        }
    }

    /// Renames the file to `….1`, and the older ones to the next number each.
    fn put_aside(&mut self) -> io::Result<()> {
        self.close();
        let numbered = |number: usize| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        if self.retained == 0 {
            return self.disk.remove(&self.path);
        }
        for number in (1..self.retained).rev() {
            let from = numbered(number);
            if self.disk.exists(&from)? {
                self.disk.rename(&from, &numbered(number + 1))?;
            }
        }
        self.disk.rename(&self.path, &numbered(1))
    }
}
