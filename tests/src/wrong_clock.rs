//! A library that makes the clocks of a program wrong while it runs, see `interop/wrong_clock`: its wall
//! clock by an offset, and all of them by a rate.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::{self, ToolError};

/// Compiles the library once; `LD_PRELOAD` takes it, and `WRONG_CLOCK_FILE` names the file with the
/// difference from the true time in milliseconds, `WRONG_RATE_FILE` that of [`Rate`].
pub fn library() -> Result<PathBuf, ToolError> {
    if tools::find_program("gcc").is_none() {
        return Err(ToolError::Missing { what: "gcc".to_owned() });
    }
    let source = tools::interop_dir("wrong_clock").join("wrong_clock.c");
    let directory = tools::prepare_once("wrong_clock", &[source], |directory| {
        tools::run(
            Command::new("gcc")
                .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-O1"])
                .args(["-o", "wrong_clock.so", "wrong_clock.c"])
                .current_dir(directory),
        )
    })?;
    Ok(directory.join("wrong_clock.so"))
}

/// How far the clocks of a program have gone wrong, and how fast they go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    from_ns: i64,
    shift_ns: i64,
    ppm: i64,
}

impl Rate {
    /// Clocks that go faster from now on, by so much of a million, and keep what they have gone wrong.
    /// `now_ns` is the true monotonic clock.
    pub fn change(self, now_ns: i64, ppm: i64) -> Self {
        let shift_ns = self.shift_ns + (now_ns - self.from_ns) / 1000 * self.ppm / 1000;
        Self { from_ns: now_ns, shift_ns, ppm }
    }

    /// Writes the file, whole at any time.
    pub fn write(self, file: &Path) -> io::Result<()> {
        let Self { from_ns, shift_ns, ppm } = self;
        let new = file.with_extension("new");
        fs::write(&new, format!("{from_ns} {shift_ns} {ppm}\n"))?;
        fs::rename(new, file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_keep_what_they_have_gone_wrong() {
        const SECOND: i64 = 1_000_000_000;
        let fast = Rate::default().change(5 * SECOND, 50_000);
        assert_eq!(fast, Rate { from_ns: 5 * SECOND, shift_ns: 0, ppm: 50_000 });
        let right = fast.change(25 * SECOND, 0);
        assert_eq!(right, Rate { from_ns: 25 * SECOND, shift_ns: SECOND, ppm: 0 });
        assert_eq!(
            right.change(99 * SECOND, -10_000).change(100 * SECOND, 0).shift_ns,
            SECOND / 100 * 99
        );
    }
}
