//! One machine of a run: a server's process, its disk and its files.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use super::{ChaosError, Kind, clock, seen};
use crate::faults::netns::Network;
use crate::mount::Mount;
use crate::process::ServerProcess;
use crate::slow_disk;
use crate::tools::{self, ToolError};
use crate::wrong_clock::{self, Rate};

/// The size of a disk: more than a run fills.
const DISK_BYTES: u64 = 96 << 20;
/// How much of what a server has written a message shows.
const LINES_SHOWN: usize = 12;

/// The files of its clocks.
const WALL: &str = "wrong-clock";
const RATE: &str = "wrong-rate";

/// The libraries that are preloaded into servers; none where the plan has no fault for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Libraries {
    slow_disk: Option<PathBuf>,
    wrong_clock: Option<PathBuf>,
}

impl Libraries {
    /// Those for some kinds of faults.
    pub(super) fn of(kinds: &[Kind]) -> Result<Self, ToolError> {
        let has_clocks = kinds.contains(&Kind::ClockJump) || kinds.contains(&Kind::ClockRate);
        Ok(Self {
            slow_disk: kinds.contains(&Kind::SlowDisk).then(slow_disk::library).transpose()?,
            wrong_clock: has_clocks.then(wrong_clock::library).transpose()?,
        })
    }

    /// The words in front of a server's program.
    fn words(&self, home: &Path) -> Vec<OsString> {
        let variable = |name: &str, path: PathBuf| {
            let mut word = OsString::from(format!("{name}="));
            word.push(path);
            word
        };
        let libraries: Vec<&Path> = [&self.slow_disk, &self.wrong_clock]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
            .collect();
        let Some((first, others)) = libraries.split_first() else { return Vec::new() };
        let mut preload = variable("LD_PRELOAD", (*first).to_owned());
        for library in others {
            preload.push(":");
            preload.push(library);
        }
        vec![
            "env".into(),
            preload,
            variable("SLOW_DISK_FILE", home.join(slow_disk::FILE)),
            variable("WRONG_CLOCK_FILE", home.join(WALL)),
            variable("WRONG_RATE_FILE", home.join(RATE)),
        ]
    }
}

/// A machine.
#[derive(Debug)]
pub(super) struct Machine {
    /// Its place from 0, and the server's number.
    place: usize,
    pub(super) id: u8,
    home: PathBuf,
    // Before the disk that it uses.
    process: Option<ServerProcess>,
    disk: Mount,
    wall_offset_ms: i64,
    rate: Rate,
    /// How often the server was started.
    lives: u32,
}

impl Machine {
    /// A machine whose server does not run yet.
    pub(super) fn new(home: &Path, place: usize) -> Result<Self, ChaosError> {
        let id = u8::try_from(place + 1).unwrap_or(u8::MAX);
        let home = home.join(format!("server-{id}"));
        fs::create_dir_all(&home)?;
        let image = home.join("disk.img");
        File::create(&image)?.set_len(DISK_BYTES)?;
        tools::run(Command::new("mkfs.ext4").arg("-q").arg("-F").arg(&image))?;
        let disk = Mount::image(&image, &home.join("disk"))?;
        let rate = Rate::default();
        let machine =
            Self { place, id, home, process: None, disk, wall_offset_ms: 0, rate, lives: 0 };
        machine.make_data()?;
        Ok(machine)
    }

    fn data(&self) -> PathBuf {
        self.disk.directory.join("data")
    }

    fn make_data(&self) -> io::Result<()> {
        let data = self.data();
        fs::create_dir_all(&data)?;
        fs::write(data.join("myid"), format!("{}\n", self.id))
    }

    /// Writes the configuration.
    pub(super) fn configure(&self, settings: &str, members: &str) -> io::Result<()> {
        let data = self.data();
        let text = format!("{settings}dataDir={}\n{members}", data.display());
        fs::write(self.home.join("zoo.cfg"), text)
    }

    /// Starts the server, unless it runs.
    pub(super) fn start(
        &mut self,
        network: &Network,
        libraries: &Libraries,
    ) -> Result<(), ChaosError> {
        if self.process.is_some() {
            return Ok(());
        }
        self.lives += 1;
        let output = File::options().create(true).append(true).open(self.home.join("output"))?;
        let mut command = network.on(self.place);
        command.args(libraries.words(&self.home));
        command.arg(std::env::current_exe()?).arg("serve");
        command.arg(self.home.join("zoo.cfg")).arg(seen::path(&self.home, self.lives));
        command.stdout(output.try_clone()?).stderr(output);
        self.process = Some(ServerProcess::spawn(&mut command)?);
        Ok(())
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) -> io::Result<()> {
        match self.process.take() {
            Some(mut process) => process.kill(),
            None => Ok(()),
        }
    }

    /// Sends a signal, if it runs.
    pub(super) fn signal(&self, name: &str) -> io::Result<()> {
        self.process.as_ref().map_or(Ok(()), |process| process.signal(name))
    }

    /// Loses its data. The server must not run.
    pub(super) fn wipe(&self) -> io::Result<()> {
        fs::remove_dir_all(self.data())?;
        self.make_data()
    }

    /// How its server has ended, if it has and was not killed. It is forgotten then.
    pub(super) fn has_ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let Some(process) = &mut self.process else { return Ok(None) };
        let ended = process.exited()?;
        if ended.is_some() {
            self.process = None;
        }
        Ok(ended)
    }

    /// Has each sync take so long, or no longer than it does.
    pub(super) fn slow_disk(&self, each: Option<Duration>) -> io::Result<()> {
        match each {
            Some(each) => slow_disk::slow(&self.home, each),
            None => slow_disk::fast(&self.home),
        }
    }

    /// Takes all room on its disk.
    pub(super) fn fill(&self) -> io::Result<()> {
        let mut file = File::options().create(true).append(true).open(self.filler())?;
        for size in [1 << 20, 4096, 1] {
            let block = vec![1; size];
            loop {
                match file.write_all(&block) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Gives the room back.
    pub(super) fn clear(&self) -> io::Result<()> {
        match fs::remove_file(self.filler()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn filler(&self) -> PathBuf {
        self.disk.directory.join("filler")
    }

    /// Sets its wall clock forward or back.
    pub(super) fn jump(&mut self, by_ms: i64) -> io::Result<()> {
        self.wall_offset_ms += by_ms;
        fs::write(self.home.join(WALL), self.wall_offset_ms.to_string())
    }

    /// Has its clocks go faster or slower by so much of a million.
    pub(super) fn set_rate(&mut self, ppm: i64) -> io::Result<()> {
        let now_ns = i64::try_from(clock::machine_us()).unwrap_or(i64::MAX).saturating_mul(1000);
        self.rate = self.rate.change(now_ns, ppm);
        self.rate.write(&self.home.join(RATE))
    }

    /// Its files, and how many lives the server had.
    pub(super) fn seen(&self) -> (&Path, u32) {
        (&self.home, self.lives)
    }

    /// All that the server has written, over all its lives.
    pub(super) fn log(&self) -> String {
        let log = fs::read(self.home.join("output")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// The last lines that the server has written.
    pub(super) fn said(&self) -> String {
        let said = self.log();
        let lines: Vec<&str> = said.lines().collect();
        let shown = lines.get(lines.len().saturating_sub(LINES_SHOWN)..).unwrap_or_default();
        shown.join("\n")
    }
}
