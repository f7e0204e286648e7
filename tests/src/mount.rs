//! File systems of a suite's own; mounting them needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::{ToolError, run};

/// A mounted file system; unmounted when it is dropped.
#[derive(Debug)]
pub struct Mount {
    pub directory: PathBuf,
}

impl Mount {
    /// The file system in an image.
    pub fn image(image: &Path, directory: &Path) -> Result<Self, ToolError> {
        Self::of(Command::new("mount").args(["-o", "loop"]).arg(image), directory)
    }

    /// An empty file system in memory, of `bytes` bytes.
    pub fn memory(bytes: usize, directory: &Path) -> Result<Self, ToolError> {
        let size = format!("size={bytes}");
        Self::of(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]), directory)
    }

    fn of(command: &mut Command, directory: &Path) -> Result<Self, ToolError> {
        let failed = |source| ToolError::Io { op: "create", path: directory.to_owned(), source };
        fs::create_dir_all(directory).map_err(failed)?;
        run(command.arg(directory))?;
        Ok(Self { directory: directory.to_owned() })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: a server that was just killed may still be letting go of its files.
        let _ = Command::new("umount").arg("-l").arg(&self.directory).status();
    }
}
