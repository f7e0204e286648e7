//! Bits that change on a disk.

use std::path::Path;

use zoolet_storage::Image;

use super::Files;

/// Changes a bit of what is stored.
pub(super) fn rot(image: &mut Image, files: Files, place: u64) {
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
    let files = all;
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
