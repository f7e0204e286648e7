//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use zoolet_console::HttpAddresses;
use zoolet_server::embed::config::StartMode;

use crate::supervised::SessionNumber;

/// A small ZooKeeper-compatible coordination server.
#[derive(Debug, Parser)]
#[command(name = "zoolet", version, about)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// What to log: off, error, warn, info, debug, trace, or a filter as `RUST_LOG` takes it, which
    /// this overrides: a level, and TARGET=LEVEL for parts of the program, with commas. Of the
    /// consensus library only errors are logged unless the filter names it. Without either, `up` and
    /// its servers log warnings, and all else info.
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) log: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start an ensemble of server processes on this machine and print its connect string.
    Up(UpArgs),
    /// Stop, start, pause or cut off servers of a running `zoolet up`, or expire a session: for tests of
    /// programs. See docs/fixtures.md.
    Ctl(CtlArgs),
    /// Run one server from a cluster.toml or from ZooKeeper's zoo.cfg.
    Serve(ServeArgs),
    /// Serve the web console of an ensemble, zoolet's or Apache ZooKeeper's: servers, tree, sessions,
    /// locks, history. See docs/console.md.
    Console(ConsoleArgs),
    /// Check a configuration and the machine that it is for: keys, directories, disk, ports, names,
    /// other servers, certificates, limits. The exit code is 0 if all is well, 1 with warnings, 2
    /// with errors.
    Doctor(DoctorArgs),
    /// Read the data directory of an Apache ZooKeeper server (3.4 to 3.9) into the empty directory of
    /// a configured server. Neither may run. Start that server, and the others empty: it takes them
    /// in. See docs/migration.md.
    Import(ImportArgs),
    /// Write the data of a configured server, which must not run, as a data directory that Apache
    /// ZooKeeper starts from.
    Export(ExportArgs),
    /// Write a backup (zooletctl snapshot save) into the empty directory of a configured server, as
    /// the whole of a new ensemble. Start that server, and the others empty with --join: it takes
    /// them in. See docs/runbook.md.
    Restore(RestoreArgs),
    /// DANGER: for when a majority is lost for good. Make a new ensemble of a configured server,
    /// which must not run, with the data that it has. See docs/runbook.md.
    Recover(RecoverArgs),
    /// Print the completions of a shell: bash, elvish, fish, powershell or zsh.
    Completions {
        #[arg(value_name = "SHELL")]
        shell: Shell,
    },
    /// Write a man page of each command into a directory.
    #[command(hide = true)]
    ManPages {
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The backup, or a snapshot file of a server (snapshots/*.snap).
    #[arg(long, value_name = "FILE")]
    pub(crate) from: PathBuf,
    /// The cluster.toml or zoo.cfg of the server. Its data directory must be empty or missing.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Which of the configured servers gets the data; takes the place of the myid file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8))]
    pub(crate) id: Option<u8>,
    /// Have zxids begin above this epoch, the upper half of a zxid, which has to be above the newest
    /// one in the backup. By default they begin above any that a server can have used.
    #[arg(long, value_name = "N")]
    pub(crate) epoch: Option<u32>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct RecoverArgs {
    /// The cluster.toml or zoo.cfg of the server.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Which of the configured servers it is; take the one with the longest log.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8))]
    pub(crate) id: Option<u8>,
    /// Yes, make a new ensemble. Whatever this server lacks of what was acknowledged is gone, and the
    /// servers of the old ensemble are refused until their directories are emptied.
    #[arg(long, required = true)]
    pub(crate) force_new_ensemble: bool,
    /// Have zxids begin above this epoch, the upper half of a zxid, which has to be above the newest
    /// one in the directory. By default they begin above any that a server can have used.
    #[arg(long, value_name = "N")]
    pub(crate) epoch: Option<u32>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ConsoleArgs {
    /// Servers of the ensemble, host:port with commas between them; a path at the end is taken for the
    /// root.
    #[arg(long, value_name = "SERVERS", default_value = "127.0.0.1:2181")]
    pub(crate) connect: String,
    /// Where to listen; with port 0 the system chooses.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081")]
    pub(crate) listen: String,
    /// The HTTP ports of the servers, in the order of --connect, host:port with commas between them;
    /// https:// before those that speak TLS, an empty one for a server without a port. They have syncs
    /// of files, history, and more.
    #[arg(long, value_name = "ADDRESSES")]
    pub(crate) http: Option<HttpAddresses>,
    /// Take no logins: nothing can be changed.
    #[arg(long)]
    pub(crate) read_only: bool,
    /// The name of a proxy that speaks TLS in front of this console. Browsers send the cookie of a login
    /// by TLS alone then.
    #[arg(long, value_name = "HOST")]
    pub(crate) behind_tls: Option<String>,
    /// Speak TLS with the servers: the file with the certificates of the authorities that they have
    /// theirs from, PEM (.pem), PKCS#12 (.p12) or JKS (.jks).
    #[arg(long, value_name = "FILE")]
    pub(crate) trust_store: Option<PathBuf>,
    /// The file with the console's own key and certificates, for servers that ask for them. All who
    /// reach the console look at the ensemble under that name.
    #[arg(long, value_name = "FILE", requires = "trust_store")]
    pub(crate) key_store: Option<PathBuf>,
    /// A file with the password of both.
    #[arg(long, value_name = "FILE", requires = "trust_store")]
    pub(crate) store_password_file: Option<PathBuf>,
    /// Do not compare the name in a server's certificate with the host of --connect.
    #[arg(long, requires = "trust_store")]
    pub(crate) any_server_name: bool,
    /// Speak TLS with browsers: the file with the key of the console's port and its certificates, PEM
    /// (.pem), PKCS#12 (.p12) or JKS (.jks). It is loaded again when it changes.
    #[arg(long, value_name = "FILE", conflicts_with = "behind_tls")]
    pub(crate) tls_key_store: Option<PathBuf>,
    /// The file with the certificates of the authorities that browsers must have theirs from. It decides
    /// who reaches the console: the servers do not see these certificates.
    #[arg(long, value_name = "FILE", requires = "tls_key_store")]
    pub(crate) tls_trust_store: Option<PathBuf>,
    /// A file with lists of revoked certificates of browsers, PEM or DER, one of each authority.
    #[arg(long, value_name = "FILE", requires = "tls_trust_store")]
    pub(crate) tls_crl_file: Option<PathBuf>,
    /// A file with the password of both stores.
    #[arg(long, value_name = "FILE", requires = "tls_key_store")]
    pub(crate) tls_password_file: Option<PathBuf>,
    /// Stop when standard input ends: then nothing outlives the program that started this.
    #[arg(long)]
    pub(crate) until_stdin_ends: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorArgs {
    /// A cluster.toml, or a zoo.cfg with its myid and dynamic configuration files.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Which of the configured servers runs on this machine; takes the place of the myid file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8))]
    pub(crate) id: Option<u8>,
    /// Print the findings as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ImportArgs {
    /// Apache ZooKeeper's dataDir, or a copy of it.
    #[arg(long, value_name = "DIR")]
    pub(crate) from: PathBuf,
    /// Its dataLogDir, if that is another directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) log_from: Option<PathBuf>,
    /// The cluster.toml or zoo.cfg of the new server. Its data directory must be empty or missing.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Which of the configured servers gets the data; takes the place of the myid file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8))]
    pub(crate) id: Option<u8>,
    /// Do not compare the digests that ZooKeeper 3.6 and later write with the tree that was read:
    /// for data whose digests ZooKeeper itself reports as mismatches.
    #[arg(long)]
    pub(crate) ignore_digests: bool,
    /// Have zxids begin above this epoch, the upper half of a zxid, which has to be above the newest
    /// one in the data. By default they begin above any that a server can have used.
    #[arg(long, value_name = "N")]
    pub(crate) epoch: Option<u32>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ExportArgs {
    /// The cluster.toml or zoo.cfg of the server.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Which of the configured servers it is; take the one with the longest log.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8))]
    pub(crate) id: Option<u8>,
    /// The dataDir to write, without data so far.
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,
    /// Have zxids begin in this epoch, the upper half of a zxid, which has to be above the newest one
    /// in the data. By default they begin above any that a server can have used.
    #[arg(long, value_name = "N")]
    pub(crate) epoch: Option<u32>,
}

#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct UpArgs {
    /// How many servers to start, 3 by default; an odd number, because 3 and 4 both
    /// survive the loss of one. With --config the first N of its servers.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=254))]
    pub(crate) servers: Option<u8>,
    /// Start the servers of this cluster.toml, with its settings. The other options go before
    /// what it says. Without --data-dir, up.json and up.lock are written beside it.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The first server's client port, 2181 by default; the others have the ones behind
    /// it. With 0 the system chooses a free port for each server.
    #[arg(long, value_name = "PORT")]
    pub(crate) client_port: Option<u16>,
    /// The first server's HTTP port on 127.0.0.1, for metrics, health and commands; the others have
    /// the ones behind it, or free ones with 0. Without it, only servers whose file names an HTTP port
    /// have one.
    #[arg(long, value_name = "PORT")]
    pub(crate) http_port: Option<u16>,
    /// Where the servers keep their files, for the next start too, which goes on as this one: with its
    /// servers, ports and TLS. Without it, and without --config, a temporary directory with small
    /// files, which is removed at the end.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Make throwaway certificates, in the directory tls beside the servers' files, and speak TLS:
    /// between the servers, and to the clients that want it, on the same ports as plain text.
    #[arg(long, conflicts_with = "config")]
    pub(crate) tls: bool,
    /// Change what the directory was started with so far to the ports and TLS that are given here.
    /// Without it a difference is an error.
    #[arg(long, requires = "data_dir", conflicts_with = "config")]
    pub(crate) change: bool,
    /// Print one line of JSON when the ensemble serves, in place of the text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Stop when standard input ends: then nothing outlives the program that started this.
    #[arg(long)]
    pub(crate) until_stdin_ends: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CtlArgs {
    /// The socket of the `zoolet up`, as its --json line names it.
    #[arg(long, value_name = "SOCKET", conflicts_with = "data_dir")]
    pub(crate) control: Option<PathBuf>,
    /// The directory of the `zoolet up`, instead of its socket.
    #[arg(long, value_name = "DIR", required_unless_present = "control")]
    pub(crate) data_dir: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) order: CtlOrder,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub(crate) enum CtlOrder {
    /// Print the state of all servers as one line of JSON.
    Status,
    /// Stop a server in good order. It stays down until it is started.
    Stop { server: u8 },
    /// Kill a server. It stays down until it is started.
    Kill { server: u8 },
    /// Start a server that is down. Returns when it serves, or at once if no majority runs.
    Start { server: u8 },
    /// Freeze a server: its connections stay open, and nothing is read, written or timed.
    Pause { server: u8 },
    /// Let a paused server go on.
    Resume { server: u8 },
    /// Cut a server off from the other servers: nothing arrives or leaves, and no connection breaks.
    /// The cut ends with `heal`, or when the server ends.
    Cut {
        server: u8,
        /// Cut it off from its clients as well.
        #[arg(long)]
        clients: bool,
    },
    /// End the cuts of a server.
    Heal { server: u8 },
    /// End a session as if its timeout were over, though its client is alive.
    Expire { session: SessionNumber },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    /// A cluster.toml, or a zoo.cfg with its myid and dynamic configuration files.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Which of the configured servers this is; takes the place of the myid file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8))]
    pub(crate) id: Option<u8>,
    /// Wait until the ensemble takes this server in, and never found one: for a server whose data is
    /// lost while the others have theirs, as an addition to what it finds out by itself.
    #[arg(long, conflicts_with = "force_new_ensemble")]
    pub(crate) join: bool,
    /// DANGER: make a new ensemble of this server alone, with the data that it has, for when a
    /// majority is lost for good. Whatever it lacks of what was acknowledged is gone. The servers of
    /// the old ensemble are refused from then on; empty their directories, and they are taken in.
    /// For one start only. `zoolet recover` does the same without a start, and prints what there is.
    #[arg(long)]
    pub(crate) force_new_ensemble: bool,
    /// The form of the log's lines.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// Where to log, instead of standard error. Lines are added at the end; SIGHUP opens the file
    /// again after it was renamed.
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
    /// Stop when standard input ends: how a supervisor makes sure that no server outlives it.
    #[arg(long, hide = true)]
    pub(crate) until_stdin_ends: bool,
}

/// The form of a log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people: time, level, message and fields.
    #[default]
    Text,
    /// One JSON object in each line.
    Json,
}

impl ServeArgs {
    /// Returns what this start may do about the founding of the ensemble.
    pub(crate) fn start_mode(&self) -> StartMode {
        if self.force_new_ensemble {
            StartMode::ForceNew
        } else if self.join {
            StartMode::Join
        } else {
            StartMode::FoundOrJoin
        }
    }
}
