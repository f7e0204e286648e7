//! What may become of an image: a power cut, damage, and a look at what is there.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::{Directory, FileImage, Image, SECTOR_BYTES};
use crate::memory::survival::{Dice, Survival};

impl Image {
    /// The lengths of all files that have a name, together.
    pub fn used_bytes(&self) -> u64 {
        self.linked_files().map(|file| self.bytes(file)).sum()
    }

    /// Makes everything durable: the disk of a server that was stopped in good order.
    pub fn settle(&mut self) {
        let directories: Vec<PathBuf> = self.directories.keys().cloned().collect();
        for directory in directories {
            // Only a missing directory fails, and these are there.
            let _ = self.sync_dir(&directory);
        }
        for file in self.files.values_mut() {
            file.dirty
                .extend(std::mem::take(&mut file.ghosts).into_iter().map(|(n, s)| (n, vec![s])));
            file.sync();
        }
        self.forget_unlinked(|_| false);
    }

    /// The disk after a power cut: what was synced, and of the rest what `survival` keeps.
    pub fn after_power_cut(&self, survival: Survival) -> Self {
        let mut dice = Dice::new(survival.seed());
        let mut after = self.clone();
        for directory in after.directories.values_mut() {
            directory.lose_power(survival, &mut dice);
        }
        for file in after.files.values_mut() {
            file.lose_power(survival, &mut dice);
        }
        after.forget_unlinked(|_| false);
        after
    }

    /// The paths and lengths of all files, sorted.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let directories = self.directories.iter();
        let files = directories.flat_map(|(directory, entries)| {
            let files = entries.visible.iter();
            files.map(|(name, file)| (directory.join(name), self.bytes(*file)))
        });
        files.collect()
    }

    /// The bytes of a file.
    pub fn contents(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.find(path)?;
        let bytes = usize::try_from(self.bytes(file)).map_err(io::Error::other)?;
        let mut contents = vec![0; bytes];
        self.read(file, &mut contents, 0)?;
        Ok(contents)
    }

    /// Rot: turns over the bits of `mask` in one byte of a file, durably.
    pub fn flip(&mut self, path: &Path, offset: u64, mask: u8) -> io::Result<()> {
        let file = self.find(path)?;
        let mut byte = [0];
        self.read(file, &mut byte, offset)?;
        self.write(file, &[byte[0] ^ mask], offset);
        self.sync_data(file);
        Ok(())
    }

    /// Replaces lost bytes of a file with zeros, durably.
    pub fn zero(&mut self, path: &Path, bytes: Range<u64>) -> io::Result<()> {
        let file = self.find(path)?;
        let length = usize::try_from(bytes.end - bytes.start).map_err(io::Error::other)?;
        self.write(file, &vec![0; length], bytes.start);
        self.sync_data(file);
        Ok(())
    }

    /// Cuts a file to a length, durably.
    pub fn cut(&mut self, path: &Path, bytes: u64) -> io::Result<()> {
        let file = self.find(path)?;
        self.set_len(file, bytes);
        self.sync_data(file);
        Ok(())
    }

    /// Removes a file, durably.
    pub fn lose_file(&mut self, path: &Path) -> io::Result<()> {
        self.remove(path)?;
        self.sync_dir(path.parent().unwrap_or(Path::new("")))
    }
}

impl Directory {
    fn lose_power(&mut self, survival: Survival, dice: &mut Dice) {
        for change in std::mem::take(&mut self.changes) {
            if survival.keeps(dice) {
                change.apply(&mut self.durable);
            }
        }
        self.visible = self.durable.clone();
    }
}

impl FileImage {
    fn lose_power(&mut self, survival: Survival, dice: &mut Dice) {
        let lengths = std::mem::take(&mut self.lengths);
        for bytes in lengths {
            if survival.keeps(dice) {
                self.durable.bytes = bytes;
            }
        }
        for (number, ghost) in std::mem::take(&mut self.ghosts) {
            self.dirty.entry(number).or_default().insert(0, ghost);
        }
        for (number, versions) in std::mem::take(&mut self.dirty) {
            for version in versions {
                let old = self.durable.sectors.get(&number);
                if let Some(after) = survival.sector(dice, old, &version) {
                    self.durable.sectors.insert(number, after);
                }
            }
        }
        let bytes = self.durable.bytes;
        self.durable.sectors.retain(|number, _| number * (SECTOR_BYTES as u64) < bytes);
    }
}
