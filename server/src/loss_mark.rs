//! The mark of a directory whose log lacks what its server has acknowledged. The server has forgotten
//! what it promised, so it must not go on, nor start again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zoolet_storage::{Disk, StorageError, read_small_file, replace_small_file};

use crate::fatal::Fatal;
use crate::process::blocking;

/// The file, beside the log.
const FILE_NAME: &str = "lost-entries";
/// More of it is not read, in bytes.
const FILE_BYTES_MAX: u64 = 4096;

/// Makes the mark.
#[derive(Clone, Debug)]
pub(crate) struct LossMark {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    fatal: Fatal,
}

impl LossMark {
    /// For the directory of a log.
    pub(crate) fn new(disk: Arc<dyn Disk>, directory: &Path, fatal: Fatal) -> Self {
        Self { disk, directory: directory.to_owned(), fatal }
    }

    /// Marks the directory, and ends the server.
    pub(crate) async fn make(self, why: String) {
        let (disk, directory, text) = (self.disk, self.directory, why.clone());
        let writing =
            blocking(move || replace_small_file(&*disk, &directory, FILE_NAME, text.as_bytes()));
        // If it cannot be written, the server ends all the same.
        if let Ok(Err(error)) = writing.await {
            tracing::error!(%error, "cannot note that the log is damaged");
        }
        self.fatal.report(why);
    }
}

/// Returns the mark of a directory and what it says, if there is one.
pub(crate) fn read(
    disk: &dyn Disk,
    directory: &Path,
) -> Result<Option<(PathBuf, String)>, StorageError> {
    let path = directory.join(FILE_NAME);
    let text = read_small_file(disk, &path, FILE_BYTES_MAX)?;
    Ok(text.map(|text| (path, String::from_utf8_lossy(&text).into_owned())))
}

#[cfg(test)]
mod tests {
    use zoolet_storage::{MemoryDisk, Survival};

    use super::*;

    #[tokio::test]
    async fn a_mark_outlives_a_power_cut_and_ends_the_server() {
        let (disk, directory) = (MemoryDisk::with_faults(), Path::new("data"));
        disk.create_dir_all(directory).unwrap();
        assert_eq!(read(&disk, directory).unwrap(), None);
        let fatal = Fatal::default();
        let mark = LossMark::new(Arc::new(disk.clone()), directory, fatal.clone());
        mark.make("entry 7 is gone".to_owned()).await;
        assert_eq!(fatal.watch().borrow().as_deref(), Some("entry 7 is gone"));
        let after = MemoryDisk::from_image(disk.image().after_power_cut(Survival::Nothing));
        let (path, text) = read(&after, directory).unwrap().unwrap();
        assert_eq!((path.to_str(), text.as_str()), (Some("data/lost-entries"), "entry 7 is gone"));
    }
}
