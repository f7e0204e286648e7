//! A file that refuses writes of a holder who has lost the lock.
//!
//! The highest token is in a file beside it. A writer holds the system's lock on that file
//! while it compares and writes; the new content comes by a rename, so that a reader sees the old
//! or the new one.
//!
//! `cargo run -p zoolet-client --example fence_file -- 127.0.0.1:2181`

#![allow(clippy::print_stdout, reason = "an example prints what happens")]

mod fencing;

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use fencing::Holders;
use zoolet_client::recipes::FencingToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::temp_dir().join(format!("zoolet-fence-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let report = FencedFile { path: directory.join("report") };
    let holders = Holders::meet("/examples/fence-file").await?;

    let (current, paused) = (holders.current.token(), holders.paused.token());
    assert!(report.write(b"new", current)?, "the holder writes");
    println!("token {current} has written");
    assert!(!report.write(b"old", paused)?, "a write under a lost lock is refused");
    println!("token {paused} was refused");

    assert_eq!(fs::read(&report.path)?, b"new");
    holders.current.release().await?;
    fs::remove_dir_all(directory)?;
    println!("fenced");
    Ok(())
}

struct FencedFile {
    path: PathBuf,
}

impl FencedFile {
    /// Returns whether the file accepted the write.
    fn write(&self, content: &[u8], token: FencingToken) -> io::Result<bool> {
        let fence = self.path.with_extension("token");
        let mut fence =
            File::options().read(true).write(true).create(true).truncate(false).open(fence)?;
        // Until the file is closed.
        fence.lock()?;
        if token.get() < highest(&mut fence)? {
            return Ok(false);
        }
        // The token first: a crash in between refuses too much rather than too little.
        fence.rewind()?;
        fence.write_all(format!("{:020}", token.get()).as_bytes())?;
        fence.sync_all()?;
        replace(&self.path, content)?;
        Ok(true)
    }
}

/// The highest token that has written; zero before the first.
fn highest(fence: &mut File) -> io::Result<i64> {
    let mut text = String::new();
    fence.read_to_string(&mut text)?;
    match text.as_str() {
        "" => Ok(0),
        number => number.parse().map_err(io::Error::other),
    }
}

fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = File::create(&new)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(new, path)
}
