//! Whose directory this is. Written at the first start, and once more when the server has become
//! part of an ensemble; checked at every later start, so that no server ever runs on the data of
//! another.

use std::path::{Path, PathBuf};

use crc32c::crc32c;

use super::data_dir::DataDir;
use super::disk::Disk;
use super::error::StorageError;
use super::small_file::{read_small_file, replace_small_file};

const FORMAT_VERSION: u32 = 2;

/// The format without the last two fields. Directories that have it are read.
const FORMAT_WITHOUT_DIRECTORY: u32 = 1;
const FIRST_WORDS: &str = "zoolet data format";

/// The file in a directory.
pub(super) const FILE_NAME: &str = "identity";

/// Longer files are not read.
const FILE_BYTES_MAX: u64 = 4096;

/// The ensemble and the server that a directory belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    pub cluster_id: u64,
    pub server_id: u64,
    /// The directory's own random id. A disk that was replaced has another one; zero for a
    /// directory of format 1.
    pub directory_id: u64,
    /// The random id of the founding of the ensemble that the server has become part of; zero
    /// before that.
    pub founding: u64,
}

impl Identity {
    /// What the directory says; `None` before the first start.
    pub fn read(directory: &DataDir) -> Result<Option<Self>, StorageError> {
        Self::peek(&*directory.disk(), directory.path())
    }

    /// Returns what a directory says that may be in use by a server; `None` before its first start.
    pub fn peek(disk: &dyn Disk, directory: &Path) -> Result<Option<Self>, StorageError> {
        let path = directory.join(FILE_NAME);
        let text = read_small_file(disk, &path, FILE_BYTES_MAX)?;
        text.map(|text| decode(&text, &path)).transpose()
    }

    /// Makes the directory this server's at the first start, and refuses one that is another's.
    pub fn claim(self, directory: &DataDir) -> Result<(), StorageError> {
        let Some(found) = Self::read(directory)? else {
            refuse_data_without_identity(directory)?;
            return self.write(directory);
        };
        let path = directory.identity_path();
        if found.cluster_id != self.cluster_id {
            let (found, expected) = (found.cluster_id, self.cluster_id);
            return Err(StorageError::WrongCluster { path, found, expected });
        }
        if found.server_id != self.server_id {
            let (found, expected) = (found.server_id, self.server_id);
            return Err(StorageError::WrongServer { path, found, expected });
        }
        if found.directory_id != self.directory_id {
            let (found, expected) = (found.directory_id, self.directory_id);
            return Err(StorageError::WrongDirectory { path, found, expected });
        }
        Ok(())
    }

    /// Writes the identity, in place of the one that is there. It is durable when this returns.
    pub fn write(self, directory: &DataDir) -> Result<(), StorageError> {
        let text = self.encode();
        replace_small_file(&*directory.disk(), directory.path(), FILE_NAME, text.as_bytes())
    }

    /// Text, for the eyes of an operator.
    fn encode(self) -> String {
        let fields = format!(
            "{FIRST_WORDS} {FORMAT_VERSION}\ncluster {:#018x}\nserver {}\ndirectory {:#018x}\n\
             founding {:#018x}\n",
            self.cluster_id, self.server_id, self.directory_id, self.founding
        );
        let checksum = crc32c(fields.as_bytes());
        format!("{fields}checksum {checksum:08x}\n")
    }
}

fn decode(text: &[u8], path: &Path) -> Result<Identity, StorageError> {
    let corrupt = |what: &str| StorageError::corrupt(path, 0, what);
    let text = std::str::from_utf8(text).map_err(|_| corrupt("it is not text"))?;
    let version = text.lines().next().and_then(|line| field(line, FIRST_WORDS));
    let version: u32 = version.ok_or_else(|| corrupt("it does not name its format"))?;
    if version > FORMAT_VERSION {
        let (path, supported) = (PathBuf::from(path), FORMAT_VERSION);
        return Err(StorageError::NewerFormat { path, found: version, supported });
    }
    let mut lines = text.lines().skip(1);
    let mut next = || lines.next().unwrap_or_default();
    let cluster_id = hex(next(), "cluster");
    let cluster_id = cluster_id.ok_or_else(|| corrupt("it does not name its cluster"))?;
    let server_id = field(next(), "server");
    let server_id = server_id.ok_or_else(|| corrupt("it does not name its server"))?;
    if version == FORMAT_WITHOUT_DIRECTORY {
        let fields =
            format!("{FIRST_WORDS} {version}\ncluster {cluster_id:#018x}\nserver {server_id}\n");
        let checksum = crc32c(fields.as_bytes());
        let is_whole = text == format!("{fields}checksum {checksum:08x}\n");
        let identity = Identity { cluster_id, server_id, directory_id: 0, founding: 0 };
        return is_whole.then_some(identity).ok_or_else(|| corrupt("its checksum is wrong"));
    }
    let directory_id = hex(next(), "directory");
    let directory_id = directory_id.ok_or_else(|| corrupt("it does not name its directory"))?;
    let founding = hex(next(), "founding");
    let founding = founding.ok_or_else(|| corrupt("it does not name its founding"))?;
    let identity = Identity { cluster_id, server_id, directory_id, founding };
    if identity.encode() == text { Ok(identity) } else { Err(corrupt("its checksum is wrong")) }
}

fn hex(line: &str, name: &str) -> Option<u64> {
    let digits = line.strip_prefix(name)?.strip_prefix(" 0x")?;
    u64::from_str_radix(digits, 16).ok()
}

fn field<T: std::str::FromStr>(line: &str, name: &str) -> Option<T> {
    line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok()
}

/// A log whose identity is lost must not become another server's.
fn refuse_data_without_identity(directory: &DataDir) -> Result<(), StorageError> {
    let disk = directory.disk();
    for data in [directory.wal_path(), directory.snapshot_path()] {
        let exists = disk.exists(&data).map_err(StorageError::io("look for", &data))?;
        if exists && !disk.list(&data).map_err(StorageError::io("list", &data))?.is_empty() {
            let what = "it is missing, but the directory holds a server's data: after an import or \
                        a restore that was interrupted, empty the directory and repeat it; a server \
                        that has served needs the file back";
            return Err(StorageError::corrupt(&directory.identity_path(), 0, what));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Disk, Image, MemoryDisk};

    const OURS: Identity = Identity {
        cluster_id: 0x1234_5678_9abc_def0,
        server_id: 3,
        directory_id: 0xabcd,
        founding: 0,
    };

    fn open(disk: &MemoryDisk) -> DataDir {
        DataDir::open(Arc::new(disk.clone()), Path::new("data")).unwrap()
    }

    fn claimed() -> Image {
        let disk = MemoryDisk::with_faults();
        OURS.claim(&open(&disk)).unwrap();
        disk.image()
    }

    #[test]
    fn the_first_start_claims_and_later_ones_check() {
        let disk = MemoryDisk::with_faults();
        let directory = open(&disk);
        assert_eq!(Identity::read(&directory).unwrap(), None);
        OURS.claim(&directory).unwrap();
        OURS.claim(&directory).unwrap();
        assert_eq!(Identity::read(&directory).unwrap(), Some(OURS));

        let error = Identity { server_id: 4, ..OURS }.claim(&directory).unwrap_err();
        assert_eq!(error.to_string(), "data/identity belongs to server 3, but this is server 4");
        let error = Identity { cluster_id: 1, ..OURS }.claim(&directory).unwrap_err();
        assert_eq!(
            error.to_string(),
            "data/identity belongs to cluster 0x123456789abcdef0, \
             but this server is of cluster 0x0000000000000001"
        );
    }

    #[test]
    fn a_directory_learns_its_founding_and_keeps_its_id() {
        let disk = MemoryDisk::new();
        let directory = open(&disk);
        OURS.claim(&directory).unwrap();
        let founded = Identity { founding: 7, ..OURS };
        founded.write(&directory).unwrap();
        OURS.claim(&directory).unwrap();
        assert_eq!(Identity::read(&directory).unwrap(), Some(founded));
        let error = Identity { directory_id: 1, ..OURS }.claim(&directory).unwrap_err();
        assert!(matches!(error, StorageError::WrongDirectory { .. }), "{error}");
    }

    #[test]
    fn a_directory_of_format_1_is_read() {
        let disk = MemoryDisk::new();
        let directory = open(&disk);
        let fields = "zoolet data format 1\ncluster 0x0000000000000007\nserver 2\n";
        let text = format!("{fields}checksum {:08x}\n", crc32c(fields.as_bytes()));
        let file = disk.create(Path::new("data/identity")).unwrap();
        file.write_all_at(text.as_bytes(), 0).unwrap();
        let expected = Identity { cluster_id: 7, server_id: 2, directory_id: 0, founding: 0 };
        assert_eq!(Identity::read(&directory).unwrap(), Some(expected));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let image = claimed();
        let path = Path::new("data/identity");
        for offset in 0..image.contents(path).unwrap().len() as u64 {
            for bit in 0..8 {
                let mut damaged = image.clone();
                damaged.flip(path, offset, 1 << bit).unwrap();
                let directory = open(&MemoryDisk::from_image(damaged));
                OURS.claim(&directory).unwrap_err();
            }
        }
    }

    #[test]
    fn a_later_format_is_refused_by_name() {
        let disk = MemoryDisk::new();
        let directory = open(&disk);
        let file = disk.create(Path::new("data/identity")).unwrap();
        file.write_all_at(b"zoolet data format 3\nsomething else\n", 0).unwrap();
        let error = Identity::read(&directory).unwrap_err().to_string();
        assert!(error.contains("format version 3, this release reads up to 2"), "{error}");
    }

    #[test]
    fn a_power_cut_leaves_the_old_identity_or_the_new_one() {
        use crate::Survival;
        for change in 1..12 {
            let disk = MemoryDisk::with_faults();
            disk.fail_change(change, crate::Fault::Io);
            let claim = DataDir::open(Arc::new(disk.clone()), Path::new("data"))
                .and_then(|directory| OURS.claim(&directory));
            for seed in 0..50 {
                let after = disk.image().after_power_cut(Survival::Torn { seed });
                let directory = open(&MemoryDisk::from_image(after));
                let found = Identity::read(&directory).unwrap();
                assert!(found == Some(OURS) || found.is_none() && claim.is_err(), "seed {seed}");
            }
        }
    }

    #[test]
    fn data_without_an_identity_is_refused() {
        let disk = MemoryDisk::new();
        let directory = open(&disk);
        disk.create_dir_all(&directory.wal_path()).unwrap();
        disk.create(&directory.wal_path().join("0000000000000001.wal")).unwrap();
        assert!(OURS.claim(&directory).unwrap_err().to_string().contains("is missing"));
    }
}
