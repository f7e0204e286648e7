//! Files that change on a disk, or are lost.

use std::path::{Path, PathBuf};

use zoolet_storage::Image;

use super::Files;

/// Changes a bit of what is stored.
pub(super) fn rot(image: &mut Image, files: Files, place: u64) {
    let files = named(image, files);
    let total: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    let Some(mut at) = place.checked_rem(total) else { return };
    for (path, bytes) in files {
        if at < bytes {
            // It exists, and is long enough.
            let _ = image.flip(&path, at, 1 << (place % 8));
            return;
        }
        at -= bytes;
    }
}

/// Cuts the newest snapshot, or removes it.
pub(super) fn lose_snapshot(image: &mut Image, cut_at: Option<u64>) {
    for (path, bytes) in named(image, Files::NewestSnapshot) {
        // It exists, and is longer.
        let _ = match cut_at.and_then(|at| at.checked_rem(bytes)) {
            Some(at) => image.cut(&path, at),
            None => image.lose_file(&path),
        };
    }
}

/// The files of a kind that are not empty, with their lengths.
pub(super) fn named(image: &Image, files: Files) -> Vec<(PathBuf, u64)> {
    let ends_with = |path: &Path, end: &str| path.extension().is_some_and(|found| found == end);
    let mut all: Vec<_> = image.files().into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    match files {
        Files::Any => {}
        Files::Log => all.retain(|(path, _)| ends_with(path, "wal")),
        Files::NewestSnapshot => {
            all.retain(|(path, _)| ends_with(path, "snap"));
            // Their names begin with term and index.
            all = all.pop().into_iter().collect();
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use zoolet_storage::{Disk, MemoryDisk};

    use super::*;

    fn image() -> Image {
        let disk = MemoryDisk::with_faults();
        disk.create_dir_all(Path::new("data")).unwrap();
        for name in ["1-1.snap", "1-2.snap", "1-3.snap.tmp", "9.wal"] {
            let file = disk.create(&Path::new("data").join(name)).unwrap();
            file.write_all_at(&[7; 100], 0).unwrap();
        }
        let mut image = disk.image();
        image.settle();
        image
    }

    #[test]
    fn the_newest_snapshot_is_cut_or_lost_and_nothing_else() {
        let of = |name: &str, bytes: u64| (Path::new("data").join(name), bytes);
        let others = [of("1-1.snap", 100), of("1-3.snap.tmp", 100), of("9.wal", 100)];
        for cut_at in [None, Some(130), Some(200)] {
            let mut image = image();
            lose_snapshot(&mut image, cut_at);
            let mut expected = others.to_vec();
            expected.extend(cut_at.map(|at| of("1-2.snap", at % 100)));
            expected.sort();
            assert_eq!(image.after_power_cut(zoolet_storage::Survival::Nothing).files(), expected);
        }
    }
}
