//! One machine of a run: a server's process, its disk and its files.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{ChaosError, seen};
use crate::faults::netns::Network;
use crate::mount::Mount;
use crate::process::ServerProcess;
use crate::tools;

/// The size of a disk: more than a run fills.
const DISK_BYTES: u64 = 192 << 20;
/// How much of what a server has written a message shows.
const LINES_SHOWN: usize = 12;

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
        let machine = Self { place, id, home, process: None, disk, lives: 0 };
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
    pub(super) fn start(&mut self, network: &Network) -> Result<(), ChaosError> {
        if self.process.is_some() {
            return Ok(());
        }
        self.lives += 1;
        let output = File::options().create(true).append(true).open(self.home.join("output"))?;
        let mut command = network.on(self.place);
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

    /// Whether its server has ended by itself. It is forgotten then.
    pub(super) fn has_ended(&mut self) -> io::Result<bool> {
        let Some(process) = &mut self.process else { return Ok(false) };
        let has_ended = process.exited()?.is_some();
        if has_ended {
            self.process = None;
        }
        Ok(has_ended)
    }

    /// Its files, and how many lives the server had.
    pub(super) fn seen(&self) -> (&Path, u32) {
        (&self.home, self.lives)
    }

    /// The last lines that the server has written.
    pub(super) fn said(&self) -> String {
        let said = fs::read_to_string(self.home.join("output")).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let shown = lines.get(lines.len().saturating_sub(LINES_SHOWN)..).unwrap_or_default();
        shown.join("\n")
    }
}
