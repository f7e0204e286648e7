//! Files that change on a disk, or are lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zoolet_storage::{Image, LogState, MemoryDisk, Survival, Wal, WalMode, WalOptions};

use super::{Fault, Files, Lost};
use crate::world::Server;

/// The unit in which a disk writes, in bytes.
const SECTOR_BYTES: usize = 512;

/// Returns whether a server has the files that a fault damages.
#[allow(clippy::wildcard_enum_match_arm, reason = "the others need no files")]
pub(super) fn has_files(server: &Server, fault: &Fault) -> bool {
    let image = server.disk().image().after_power_cut(Survival::Nothing);
    let files = match fault {
        Fault::BitRot { files, .. } => *files,
        Fault::LostFile { lost: Lost::Snapshot { .. }, .. } => Files::NewestSnapshot,
        Fault::LostFile { lost: Lost::LogEnd { .. }, .. } => {
            return server.machine.runs() || used_sectors(&image).is_some();
        }
        Fault::LostFile { .. } => Files::Log,
        _ => return true,
    };
    !named(&image, files).is_empty()
}

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

/// Loses files. Returns true if the log lacks durable data afterwards.
pub(super) fn lose(image: &mut Image, lost: Lost) -> bool {
    let before = log_state(image);
    match lost {
        Lost::Snapshot { cut_at } => lose_snapshot(image, cut_at),
        Lost::LogEnd { sectors, is_cut } => lose_end(image, sectors, is_cut),
        Lost::Segments => remove_files(image, |path| has_extension(path, "wal")),
        Lost::AllButIdentity => remove_files(image, |path| !path.ends_with("identity")),
    }
    before.is_some() && log_state(image) != before
}

/// Returns the state of the log; `None` if it is damaged.
fn log_state(image: &Image) -> Option<LogState> {
    let Some((path, _)) = named(image, Files::Log).pop() else { return Some(LogState::default()) };
    let disk = Arc::new(MemoryDisk::from_image(image.clone()));
    let options = WalOptions { mode: WalMode::Manual, segment_bytes: 0, ..Default::default() };
    let (_, recovered) = Wal::open(disk, path.parent()?, options).ok()?;
    Some(recovered.state)
}

/// Loses the last sectors in use of a log that was closed cleanly.
fn lose_end(image: &mut Image, sectors: u64, is_cut: bool) {
    let Some((path, used)) = used_sectors(image) else { return };
    // The first sector is the header.
    let from = used.saturating_sub(sectors).max(1) * SECTOR_BYTES as u64;
    let end = used * SECTOR_BYTES as u64;
    // It exists, and is longer.
    let _ = if is_cut { image.cut(&path, from) } else { image.zero(&path, from..end) };
}

/// Returns the last segment and the number of its sectors in use if the log was closed cleanly: only end
/// marks follow the batch that the file `end` names as the final one (`docs/storage.md`).
fn used_sectors(image: &Image) -> Option<(PathBuf, u64)> {
    let (path, _) = named(image, Files::Log).pop()?;
    let log = image.contents(&path).ok()?;
    let end = image.contents(&path.with_file_name("end")).ok()?;
    let (sectors, _) = log.as_chunks::<SECTOR_BYTES>();
    let used = sectors.iter().rposition(|sector| *sector != [0; SECTOR_BYTES])? + 1;
    let is_mark = |sector: &&[u8; SECTOR_BYTES]| {
        sector.starts_with(b"BTCH") && sector.get(20..24) == Some(&[0; 4])
    };
    let first_mark = sectors.get(..used)?.iter().rev().take_while(is_mark).last()?;
    let number =
        |bytes: &[u8], at: usize| Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
    let is_closed = *end.get(1)? == 1 && number(&end, 2)? + 1 == number(first_mark, 8)?;
    is_closed.then_some((path, used as u64))
}

fn remove_files(image: &mut Image, is_lost: impl Fn(&Path) -> bool) {
    for (path, _) in image.files().into_iter().filter(|(path, _)| is_lost(path)) {
        // It exists.
        let _ = image.lose_file(&path);
    }
}

/// Cuts the newest snapshot, or removes it.
fn lose_snapshot(image: &mut Image, cut_at: Option<u64>) {
    for (path, bytes) in named(image, Files::NewestSnapshot) {
        // It exists, and is longer.
        let _ = match cut_at.and_then(|at| at.checked_rem(bytes)) {
            Some(at) => image.cut(&path, at),
            None => image.lose_file(&path),
        };
    }
}

/// The files of a kind that are not empty, with their lengths.
fn named(image: &Image, files: Files) -> Vec<(PathBuf, u64)> {
    let mut all: Vec<_> = image.files().into_iter().filter(|(_, bytes)| *bytes > 0).collect();
    match files {
        Files::Any => {}
        Files::Log => all.retain(|(path, _)| has_extension(path, "wal")),
        Files::NewestSnapshot => {
            all.retain(|(path, _)| has_extension(path, "snap"));
            // Their names begin with term and index.
            all = all.pop().into_iter().collect();
        }
    }
    all
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

#[cfg(test)]
mod tests {
    use zoolet_storage::{Disk, Entry, LogIndex, LogPosition};

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
            assert_eq!(image.after_power_cut(Survival::Nothing).files(), expected);
        }
    }
    /// A log of three batches of one entry, on a disk with an identity.
    fn log(is_closed: bool) -> Image {
        let disk = MemoryDisk::with_faults();
        disk.create_dir_all(Path::new("data")).unwrap();
        disk.create(Path::new("data/identity")).unwrap().write_all_at(b"1", 0).unwrap();
        let options =
            WalOptions { mode: WalMode::Inline, segment_bytes: 8192, ..Default::default() };
        let (wal, _) = Wal::open(Arc::new(disk.clone()), Path::new("data/wal"), options).unwrap();
        for index in 0..3 {
            let position = LogPosition { term: 1, node: 1, index: LogIndex(index) };
            let entry = Entry { position, kind: 0, body: vec![7; 100].into() };
            wal.append(vec![entry], Box::new(|_| ())).unwrap();
        }
        let killed = disk.image();
        drop(wal);
        let mut image = if is_closed { disk.image() } else { killed };
        image.settle();
        image
    }

    #[test]
    fn the_end_of_a_log_is_lost_after_a_clean_close_alone() {
        let lost = |sectors, is_cut| Lost::LogEnd { sectors, is_cut };
        assert!(!lose(&mut log(true), lost(1, false)), "only the end mark is lost");
        for (sectors, is_cut) in [(2, false), (2, true), (3, false), (100, false)] {
            assert!(lose(&mut log(true), lost(sectors, is_cut)), "{sectors} {is_cut}");
            let mut killed = log(false);
            let contents = killed.files();
            assert!(!lose(&mut killed, lost(sectors, is_cut)), "{sectors} {is_cut}");
            assert_eq!(killed.files(), contents);
        }
    }

    #[test]
    fn a_log_vanishes_and_the_identity_is_left() {
        let names = |image: &Image| {
            let names = image.files().into_iter();
            names.map(|(path, _)| path.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let mut image = log(true);
        assert!(lose(&mut image, Lost::Segments));
        assert_eq!(names(&image), ["data/identity", "data/wal/end"]);
        assert!(!lose(&mut image, Lost::AllButIdentity), "there was no log any more");
        assert_eq!(names(&image), ["data/identity"]);
    }
}
