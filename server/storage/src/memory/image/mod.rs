//! What is on a memory disk: for each file and directory the durable state, and beside it every
//! later effect that a power cut may or may not keep.

#[cfg(feature = "faults")]
mod damage;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Sectors are what a disk writes as a whole, in bytes.
pub(super) const SECTOR_BYTES: usize = 512;

pub(super) type Sector = Arc<[u8; SECTOR_BYTES]>;

/// Everything on a memory disk at one moment. Cloning it is cheap: sectors are shared.
#[derive(Debug, Clone, Default)]
#[cfg_attr(not(feature = "faults"), allow(unreachable_pub, reason = "public with the feature"))]
pub struct Image {
    files: BTreeMap<u64, FileImage>,
    directories: BTreeMap<PathBuf, Directory>,
    next_file: u64,
    /// Every change is durable when its call returns.
    durable_at_once: bool,
}

/// A file: what is durable, and what was done since the last sync.
#[derive(Debug, Clone, Default)]
struct FileImage {
    durable: Content,
    /// Versions of a sector that were written since the last sync, oldest first. Never empty.
    dirty: BTreeMap<u64, Vec<Sector>>,
    /// What a failed sync left in the cache: it is read back, but no later sync writes it.
    ghosts: BTreeMap<u64, Sector>,
    /// Lengths since the last sync, oldest first.
    lengths: Vec<u64>,
}

/// Sectors that are not there are zeros.
#[derive(Debug, Clone, Default)]
struct Content {
    bytes: u64,
    sectors: BTreeMap<u64, Sector>,
}

#[derive(Debug, Clone, Default)]
struct Directory {
    durable: BTreeMap<String, u64>,
    visible: BTreeMap<String, u64>,
    changes: Vec<DirectoryChange>,
}

#[derive(Debug, Clone)]
enum DirectoryChange {
    Link { name: String, file: u64 },
    Unlink { name: String },
    Rename { from: String, to: String, file: u64 },
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

fn split(path: &Path) -> io::Result<(PathBuf, String)> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    Ok((path.parent().unwrap_or(Path::new("")).to_path_buf(), name))
}

impl Image {
    pub(super) fn durable_at_once() -> Self {
        Self { durable_at_once: true, ..Self::default() }
    }

    pub(super) fn create_dir_all(&mut self, path: &Path) {
        for directory in path.ancestors() {
            self.directories.entry(directory.to_path_buf()).or_default();
        }
    }

    pub(super) fn exists(&self, path: &Path) -> bool {
        self.directories.contains_key(path) || self.find(path).is_ok()
    }

    pub(super) fn find(&self, path: &Path) -> io::Result<u64> {
        let (directory, name) = split(path)?;
        let directory = self.directories.get(&directory).ok_or_else(not_found)?;
        directory.visible.get(&name).copied().ok_or_else(not_found)
    }

    pub(super) fn create(&mut self, path: &Path) -> io::Result<u64> {
        if let Ok(file) = self.find(path) {
            self.set_len(file, 0);
            return Ok(file);
        }
        let file = self.next_file;
        let name = split(path)?.1;
        self.change(path, DirectoryChange::Link { name, file })?;
        self.next_file += 1;
        self.files.insert(file, FileImage::default());
        Ok(file)
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.find(from)?;
        let ((old_directory, from), (new_directory, to)) = (split(from)?, split(to)?);
        if old_directory != new_directory {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        self.change(&old_directory.join(&to), DirectoryChange::Rename { from, to, file })
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.find(path)?;
        let name = split(path)?.1;
        self.change(path, DirectoryChange::Unlink { name })
    }

    pub(super) fn list(&self, directory: &Path) -> io::Result<Vec<(String, u64)>> {
        let directory = self.directories.get(directory).ok_or_else(not_found)?;
        let visible = directory.visible.iter();
        Ok(visible.map(|(name, file)| (name.clone(), self.bytes(*file))).collect())
    }

    pub(super) fn sync_dir(&mut self, directory: &Path) -> io::Result<()> {
        let directory = self.directories.get_mut(directory).ok_or_else(not_found)?;
        directory.durable = directory.visible.clone();
        directory.changes.clear();
        Ok(())
    }

    fn change(&mut self, path: &Path, change: DirectoryChange) -> io::Result<()> {
        let directory = split(path)?.0;
        let entries = self.directories.get_mut(&directory).ok_or_else(not_found)?;
        change.apply(&mut entries.visible);
        entries.changes.push(change);
        if self.durable_at_once { self.sync_dir(&directory) } else { Ok(()) }
    }

    pub(super) fn bytes(&self, file: u64) -> u64 {
        self.files.get(&file).map_or(0, FileImage::bytes)
    }

    fn linked_files(&self) -> impl Iterator<Item = u64> {
        self.directories.values().flat_map(|directory| directory.visible.values().copied())
    }

    pub(super) fn write(&mut self, file: u64, bytes: &[u8], offset: u64) {
        if let Some(file) = self.files.get_mut(&file) {
            file.write(bytes, offset);
            if self.durable_at_once {
                file.sync();
            }
        }
    }

    pub(super) fn read(&self, file: u64, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.files.get(&file).ok_or_else(not_found)?.read(buffer, offset)
    }

    pub(super) fn set_len(&mut self, file: u64, bytes: u64) {
        if let Some(file) = self.files.get_mut(&file) {
            file.set_len(bytes);
            if self.durable_at_once {
                file.sync();
            }
        }
    }

    pub(super) fn sync_data(&mut self, file: u64) {
        if let Some(file) = self.files.get_mut(&file) {
            file.sync();
        }
    }

    /// What a failed sync does on most systems: the cache keeps the bytes, forgets that they are
    /// unsynced, and the next sync succeeds without writing them.
    pub(super) fn fail_sync_data(&mut self, file: u64) {
        if let Some(file) = self.files.get_mut(&file) {
            for (sector, mut versions) in std::mem::take(&mut file.dirty) {
                if let Some(newest) = versions.pop() {
                    file.ghosts.insert(sector, newest);
                }
            }
        }
    }

    /// Frees the files without a name, except those that somebody has open.
    pub(super) fn forget_unlinked(&mut self, is_open: impl Fn(u64) -> bool) {
        let linked: Vec<u64> = self.linked_files().collect();
        self.files.retain(|file, _| linked.contains(file) || is_open(*file));
    }
}

impl DirectoryChange {
    fn apply(&self, entries: &mut BTreeMap<String, u64>) {
        match self {
            Self::Link { name, file } => {
                entries.insert(name.clone(), *file);
            }
            Self::Unlink { name } => {
                entries.remove(name);
            }
            Self::Rename { from, to, file } => {
                entries.remove(from);
                entries.insert(to.clone(), *file);
            }
        }
    }
}

impl FileImage {
    fn bytes(&self) -> u64 {
        self.lengths.last().copied().unwrap_or(self.durable.bytes)
    }

    fn sector(&self, number: u64) -> Option<&Sector> {
        let newest = self.dirty.get(&number).and_then(|versions| versions.last());
        newest.or_else(|| self.ghosts.get(&number)).or_else(|| self.durable.sectors.get(&number))
    }

    fn put(&mut self, number: u64, sector: Sector) {
        let is_zero = *sector == [0; SECTOR_BYTES];
        if is_zero && self.sector(number).is_none() {
            return;
        }
        self.dirty.entry(number).or_default().push(sector);
    }

    fn write(&mut self, bytes: &[u8], offset: u64) {
        let end = offset + bytes.len() as u64;
        for (number, range, from) in sectors(offset, bytes.len()) {
            let mut sector = self.sector(number).map_or([0; SECTOR_BYTES], |sector| **sector);
            if let (Some(to), Some(from)) =
                (sector.get_mut(range.clone()), bytes.get(from..from + range.len()))
            {
                to.copy_from_slice(from);
            }
            self.put(number, Arc::new(sector));
        }
        if end > self.bytes() {
            self.lengths.push(end);
        }
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        if offset + buffer.len() as u64 > self.bytes() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (number, range, to) in sectors(offset, buffer.len()) {
            let Some(to) = buffer.get_mut(to..to + range.len()) else { continue };
            match self.sector(number).and_then(|sector| sector.get(range)) {
                Some(from) => to.copy_from_slice(from),
                None => to.fill(0),
            }
        }
        Ok(())
    }

    fn set_len(&mut self, bytes: u64) {
        let old = self.bytes();
        if bytes < old {
            // What is cut off must not come back when the file grows again.
            let zeros = vec![0; usize::try_from(old - bytes).unwrap_or(0)];
            self.write(&zeros, bytes);
        }
        if bytes != old {
            self.lengths.push(bytes);
        }
    }

    fn sync(&mut self) {
        for (number, mut versions) in std::mem::take(&mut self.dirty) {
            self.ghosts.remove(&number);
            if let Some(newest) = versions.pop() {
                self.durable.sectors.insert(number, newest);
            }
        }
        if let Some(bytes) = self.lengths.pop() {
            self.durable.bytes = bytes;
            self.lengths.clear();
        }
    }
}

/// The sectors that `length` bytes at `offset` touch: number, range inside the sector, and where
/// that range begins in the caller's bytes.
fn sectors(
    offset: u64,
    length: usize,
) -> impl Iterator<Item = (u64, std::ops::Range<usize>, usize)> {
    let sector_bytes = SECTOR_BYTES as u64;
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == length {
            return None;
        }
        let at = offset + done as u64;
        let start = usize::try_from(at % sector_bytes).unwrap_or(0);
        let taken = (SECTOR_BYTES - start).min(length - done);
        let part = (at / sector_bytes, start..start + taken, done);
        done += taken;
        Some(part)
    })
}
