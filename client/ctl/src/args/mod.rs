//! The command line.

mod action;
mod flags;
mod history;
mod locks;
mod subtree;
mod values;
mod znode;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::bench::Mix;
use crate::digest::Algorithm;

pub(crate) use crate::options::Options;
pub(crate) use action::*;
pub(crate) use flags::Flags;
pub(crate) use history::History;
pub(crate) use locks::*;
pub(crate) use subtree::*;
pub(crate) use values::{Identity, Secret, count, duration};
pub(crate) use znode::*;

/// Reads and changes what a ZooKeeper-protocol ensemble holds. Without a command it is a shell.
#[derive(Debug, Parser)]
#[command(name = "zooletctl", version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) flags: Flags,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Znode(ZnodeCommand),
    /// Measure how fast the servers answer.
    Bench(Bench),
    /// Print what ACLs and superDigest have for a user and a password. It asks no server.
    Digest(Digest),
    /// Print the completions of a shell: bash, elvish, fish, powershell or zsh.
    Completions {
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Lead while a command runs, or until a signal comes.
    Elect(Elect),
    /// Show what has happened to a znode, a session or a lock, and who did it.
    History(History),
    /// Hold a lock while a command runs, or until a signal comes.
    Lock(Lock),
    /// Show who holds what below a path, and who waits.
    Locks(Locks),
    /// Save a backup of the ensemble by the HTTP port of a server, or look at one.
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Write a man page of each command into a directory.
    #[command(hide = true)]
    ManPages {
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Show all servers of the ensemble, and whether they serve.
    Status(Status),
    /// Hurt clients and servers, and see whether the locks keep their promises.
    Torture(Torture),
    /// Print the version of this program.
    Version,
    /// Run a command each time that a znode changes.
    Watch(WatchRun),
}

/// What to do with backups.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Save the state of one moment to a file. Needs the identity of the superuser: --auth-file.
    Save(SnapshotSave),
    /// Print what is in a backup, and whether it is whole.
    Status(SnapshotStatus),
    /// Check a backup, and say how it is restored: on stopped servers, with `zoolet restore`. It
    /// changes nothing, and ends with 2.
    Restore(SnapshotRestore),
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotRestore {
    pub(crate) file: PathBuf,
    /// As `etcdctl` and `etcdutl` have it. It has no effect.
    #[arg(long, value_name = "DIR", hide = true)]
    pub(crate) data_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotSave {
    /// The HTTP ports of servers, which are asked in turn: HOST:PORT,…, http://HOST:PORT/commands or
    /// https://HOST:PORT with --trust-store.
    pub(crate) from: String,
    pub(crate) file: PathBuf,
    /// Replace the file if it exists.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotStatus {
    pub(crate) file: PathBuf,
}

/// The most data of a znode in a bench: servers take a MiB with what is around it.
const SIZE_MAX: usize = 1_000_000;

fn size(text: &str) -> Result<usize, String> {
    let size = text.parse().ok().filter(|size| *size <= SIZE_MAX);
    size.ok_or_else(|| format!("it is a number of bytes, {SIZE_MAX} at most"))
}

#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// What to do: get, set, mix:READS of a hundred, create (and delete), lock (and release), and
    /// handoff, one lock that all want.
    #[arg(long, value_delimiter = ',', default_value = "get,set,mix:70,create,lock,handoff")]
    pub(crate) mix: Vec<Mix>,
    /// How many sessions.
    #[arg(long, default_value = "8", value_parser = count::<10_000>)]
    pub(crate) connections: NonZeroUsize,
    /// How many operations are under way at a time on each; handoff has one.
    #[arg(long, default_value = "16", value_parser = count::<10_000>)]
    pub(crate) depth: NonZeroUsize,
    /// How long each mix is measured, behind a fifth as much that is not.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub(crate) duration: Duration,
    /// The bytes of data.
    #[arg(long, default_value_t = 100, value_parser = size)]
    pub(crate) size: usize,
    /// How many znodes are read and written.
    #[arg(long, default_value = "1000", value_parser = count::<10_000_000>)]
    pub(crate) keys: NonZeroUsize,
    /// Other servers to measure as well and to compare with.
    #[arg(long, value_name = "CONNECT")]
    pub(crate) against: Option<String>,
    /// Below which znode to work; nothing is left there.
    #[arg(long, default_value = "/")]
    pub(crate) path: String,
}

#[derive(Debug, Args)]
pub(crate) struct Digest {
    /// The user. The password is read from standard input, and a terminal does not show it.
    #[arg(value_name = "USER")]
    pub(crate) identity: Identity,
    /// How it is hashed: as the servers' digestAlg says.
    #[arg(long, value_enum, default_value_t = Algorithm::Sha1)]
    pub(crate) algorithm: Algorithm,
}

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Look at the servers of the connect string alone, without a session; the exit code is 0 if
    /// each of them serves. For the health check of one server.
    #[arg(long)]
    pub(crate) named: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Torture {
    /// What to torture: all, or a list of mutex, bilingual, semaphore-mutex, read-write, semaphore,
    /// multi, simple, latch, selector, queue, counter, barrier.
    #[arg(long, default_value = "all")]
    pub(crate) recipe: String,
    /// How many contend, each with a session of its own.
    #[arg(long, default_value = "5", value_parser = count::<1_000>)]
    pub(crate) clients: NonZeroUsize,
    /// How many locks of each recipe there are.
    #[arg(long, default_value = "1", value_parser = count::<1_000>)]
    pub(crate) locks: NonZeroUsize,
    /// How long the faults go on.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub(crate) secs: Duration,
    /// What decides the schedule of the faults; the default is random and printed.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// The session timeout of the contenders; servers grant 2 of their ticks at least.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = duration)]
    pub(crate) session: Duration,
    /// The directory of a running `zoolet up` on this machine, whose servers are killed and
    /// stopped. Without it the servers are left in peace.
    #[arg(long, value_name = "DIR")]
    pub(crate) up_dir: Option<PathBuf>,
    /// Write the result as JSON to a file.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Draw the holders of one lock over time into a file.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Lock {
    pub(crate) path: String,
    /// A read lock: many hold it, beside no --exclusive.
    #[arg(long, conflicts_with_all = ["exclusive", "permits"])]
    pub(crate) shared: bool,
    /// The write lock that goes with --shared. Without either, the lock is a mutex.
    #[arg(long, conflicts_with = "permits")]
    pub(crate) exclusive: bool,
    /// A semaphore with N permits. All of its users have to give the same number.
    #[arg(long, value_name = "N", value_parser = count::<1_000_000_000>)]
    pub(crate) permits: Option<NonZeroUsize>,
    /// How long to wait for it; 0 does not wait. The exit code is 124 when that was not enough.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// The text that shows others who has it; the address of this machine by default.
    #[arg(long, value_name = "TEXT")]
    pub(crate) data: Option<String>,
    /// How long the command gets to end after SIGTERM when the lock is lost or about to be, before
    /// SIGKILL; a twentieth of the session timeout by default.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) kill_after: Option<Duration>,
    /// What to run; it finds the fencing token in `ZOOLET_TOKEN`, unless others may hold beside it.
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct Elect {
    pub(crate) path: String,
    /// What the others know this contender by; the address of this machine by default.
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// How long to wait for the leadership; 0 does not wait.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// Contend again after the leadership was lost.
    #[arg(long)]
    pub(crate) again: bool,
    /// How long the command gets to end after SIGTERM when the leadership is lost.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) kill_after: Option<Duration>,
    /// What to run; it finds the fencing token in `ZOOLET_TOKEN`.
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// One line of the shell.
#[derive(Debug, Parser)]
#[command(
    no_binary_name = true,
    disable_help_subcommand = true,
    disable_version_flag = true,
    bin_name = ""
)]
pub(crate) struct ShellLine {
    /// Print the result as JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: ShellCommand,
}

/// What can be said in the shell.
#[derive(Debug, Subcommand)]
pub(crate) enum ShellCommand {
    #[command(flatten)]
    Znode(ZnodeCommand),
    /// End the session; its ephemeral znodes go.
    Close,
    /// Open a new session, with the same servers or with others.
    Connect { servers: Option<String> },
    /// Explain all commands, or one.
    Help { command: Option<String> },
    /// Number the lines that were entered.
    History,
    /// Show who holds what below a path, and who waits.
    Locks(Locks),
    /// End the session and the shell.
    #[command(visible_alias = "exit")]
    Quit,
    /// Turn the printing of watch events on or off, or show whether it is on.
    #[command(name = "printwatches")]
    PrintWatches { switch: Option<Switch> },
    /// Carry out a line of the history again.
    Redo { number: usize },
    /// Print the version of this program.
    Version,
}

/// A word for a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

/// The long options that zkCli and `find` write with one dash, and what they are here.
const ONE_DASH: [(&str, &str); 9] = [
    ("-server", "--servers"),
    ("-add", "--add"),
    ("-remove", "--remove"),
    ("-members", "--members"),
    ("-file", "--file"),
    ("-help", "--help"),
    // Those of `find` elsewhere.
    ("-name", "--name"),
    ("-mindepth", "--min-depth"),
    ("-maxdepth", "--max-depth"),
];

/// The words of a command line with zkCli's long options written as ours.
pub(crate) fn as_zkcli_users_write(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut ours = Vec::new();
    // What follows -- is not an option.
    let mut ended = false;
    for word in words {
        ended |= word == "--";
        let known = ONE_DASH.iter().find(|(theirs, _)| !ended && word == *theirs);
        ours.push(known.map_or(word, |(_, ours)| OsString::from(ours)));
    }
    ours
}

/// Whether a command line that cannot be read has --json, before what belongs to another program.
pub(crate) fn is_json_wanted(words: impl IntoIterator<Item = OsString>) -> bool {
    words.into_iter().take_while(|word| word != "--").any(|word| word == "--json")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
        ShellLine::command().debug_assert();
    }

    #[test]
    fn passwords_are_in_no_debug_output() {
        let line = ["zooletctl", "--auth", "digest:alice:wonderland", "ls", "/"];
        let arguments = Arguments::try_parse_from(line).unwrap();
        assert_eq!(arguments.flags.auth[0].0, "digest:alice:wonderland");
        assert!(!format!("{arguments:?}").contains("wonderland"));
    }
}
