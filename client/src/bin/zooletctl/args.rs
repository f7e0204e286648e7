//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

/// Reads and changes what a ZooKeeper-protocol ensemble holds. Without a command it is a shell.
#[derive(Debug, Parser)]
#[command(name = "zooletctl", version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What holds for every command.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The servers: HOST:PORT,HOST:PORT,…; a path behind them becomes the root of all paths.
    #[arg(
        long,
        global = true,
        value_name = "CONNECT",
        env = "ZOOLETCTL_SERVERS",
        overrides_with = "servers",
        default_value = "127.0.0.1:2181"
    )]
    pub(crate) servers: String,
    /// The same, in short, before the command.
    #[arg(short = 's', value_name = "CONNECT", overrides_with = "servers_short", hide = true)]
    pub(crate) servers_short: Option<String>,
    /// An identity, SCHEME:ID such as digest:user:password; may be given several times.
    #[arg(long, global = true, value_name = "SCHEME:ID")]
    pub(crate) auth: Vec<String>,
    /// Print results as JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// How long connecting may take, and each request: 500ms, 5s, 1m. Before the command.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub(crate) timeout: Duration,
    /// The session timeout to ask for. Before the command.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub(crate) session_timeout: Duration,
}

impl Options {
    /// The connect string.
    pub(crate) fn connect_string(&self) -> &str {
        self.servers_short.as_deref().unwrap_or(&self.servers)
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Znode(ZnodeCommand),
}

/// The commands of the shell and of the command line alike, with zkCli's names and flags.
#[derive(Debug, Subcommand)]
pub(crate) enum ZnodeCommand {
    /// Add an identity to the session.
    #[command(name = "addauth")]
    AddAuth(AddAuth),
    /// Create a znode.
    Create(Create),
    /// Delete a znode that has no children.
    Delete(Delete),
    /// Delete a znode and everything below it.
    #[command(name = "deleteall", alias = "rmr")]
    DeleteAll(DeleteAll),
    /// Print the data of a znode.
    Get(Get),
    /// Print the ACL of a znode.
    #[command(name = "getAcl", alias = "getacl")]
    GetAcl(GetAcl),
    /// Count what is below a znode, at any depth.
    #[command(name = "getAllChildrenNumber", alias = "getallchildrennumber")]
    GetAllChildrenNumber(PathArgs),
    /// List the ephemeral znodes of this session.
    #[command(name = "getEphemerals", alias = "getephemerals")]
    GetEphemerals { prefix: Option<String> },
    /// List the children of a znode.
    Ls(Ls),
    /// Write the data of a znode.
    Set(Set),
    /// Write the ACL of a znode.
    #[command(name = "setAcl", alias = "setacl")]
    SetAcl(SetAcl),
    /// Print the Stat of a znode.
    Stat(StatArgs),
    /// Wait until the server has everything that was written before.
    Sync(PathArgs),
    /// Draw a znode and everything below it.
    Tree(Tree),
    /// List the identities of the session.
    Whoami,
}

#[derive(Debug, Args)]
pub(crate) struct AddAuth {
    /// digest, ip, …
    pub(crate) scheme: String,
    /// For digest USER:PASSWORD.
    pub(crate) id: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    pub(crate) path: String,
}

#[derive(Debug, Args)]
pub(crate) struct DeleteAll {
    pub(crate) path: String,
}

#[derive(Debug, Args)]
pub(crate) struct GetAcl {
    /// Print the Stat too.
    #[arg(short)]
    pub(crate) stat: bool,
    pub(crate) path: String,
}

#[derive(Debug, Args)]
pub(crate) struct SetAcl {
    /// Print the Stat.
    #[arg(short, conflicts_with = "recursive")]
    pub(crate) stat: bool,
    /// Only if the ACL has this version.
    #[arg(short, value_name = "VERSION", default_value_t = -1, allow_negative_numbers = true)]
    pub(crate) version: i32,
    /// Everything below it too.
    #[arg(short = 'R')]
    pub(crate) recursive: bool,
    pub(crate) path: String,
    /// SCHEME:ID:PERMISSIONS,…; the permissions are letters of cdrwa.
    pub(crate) acl: String,
}

#[derive(Debug, Args)]
pub(crate) struct Tree {
    /// Print sizes and versions.
    #[arg(short)]
    pub(crate) stat: bool,
    /// Go no deeper than this.
    #[arg(short = 'L', long, value_name = "LEVELS")]
    pub(crate) depth: Option<usize>,
    #[arg(default_value = "/")]
    pub(crate) path: String,
}

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// Ephemeral: it goes with the session, so this is for the shell.
    #[arg(short, conflicts_with_all = ["container", "ttl_ms"])]
    pub(crate) ephemeral: bool,
    /// Sequential: the server appends a number to the path.
    #[arg(short, conflicts_with = "container")]
    pub(crate) sequential: bool,
    /// A container: the server deletes it some time after its last child.
    #[arg(short, conflicts_with = "ttl_ms")]
    pub(crate) container: bool,
    /// A time to live in milliseconds, for servers with extendedTypesEnabled.
    #[arg(short, value_name = "MS")]
    pub(crate) ttl_ms: Option<i64>,
    pub(crate) path: String,
    #[command(flatten)]
    pub(crate) data: Data,
    /// The ACL, SCHEME:ID:PERMISSIONS,…; open to all by default.
    pub(crate) acl: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Data {
    pub(crate) data: Option<OsString>,
    /// Take the data from a file; - is stdin.
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Only if its data has this version.
    #[arg(short, value_name = "VERSION", default_value_t = -1, allow_negative_numbers = true)]
    pub(crate) version: i32,
    pub(crate) path: String,
}

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Print the Stat too.
    #[arg(short)]
    pub(crate) stat: bool,
    /// Print the bytes as they are, and nothing else.
    #[arg(long, conflicts_with_all = ["stat", "json"])]
    pub(crate) raw: bool,
    pub(crate) path: String,
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Print the Stat too.
    #[arg(short, conflicts_with = "recursive")]
    pub(crate) stat: bool,
    /// Print the paths of everything below.
    #[arg(short = 'R')]
    pub(crate) recursive: bool,
    pub(crate) path: String,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Print the Stat.
    #[arg(short)]
    pub(crate) stat: bool,
    /// Only if the data has this version.
    #[arg(short, value_name = "VERSION", default_value_t = -1, allow_negative_numbers = true)]
    pub(crate) version: i32,
    pub(crate) path: String,
    #[command(flatten)]
    pub(crate) data: Data,
}

#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    pub(crate) path: String,
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
    /// End the session and the shell.
    #[command(visible_alias = "exit")]
    Quit,
    /// Carry out a line of the history again.
    Redo { number: usize },
}

/// The long options that zkCli writes with one dash, and what they are here.
const ONE_DASH: [(&str, &str); 7] = [
    ("-server", "--servers"),
    ("-timeout", "--timeout"),
    ("-add", "--add"),
    ("-remove", "--remove"),
    ("-members", "--members"),
    ("-file", "--file"),
    ("-help", "--help"),
];

/// The words of a command line with zkCli's long options written as ours.
pub(crate) fn as_zkcli_users_write(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut ours = Vec::new();
    // Behind -- stands what is nobody's option.
    let mut ended = false;
    for word in words {
        ended |= word == "--";
        let known = ONE_DASH.iter().find(|(theirs, _)| !ended && word == *theirs);
        ours.push(known.map_or(word, |(_, ours)| OsString::from(ours)));
    }
    ours
}

/// A duration: a number and `ms`, `s`, `m` or `h`; seconds when there is only a number.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_s = match unit {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("a duration is written 500ms, 5s, 1m or 2h".into()),
    };
    let number: f64 = number.parse().map_err(|_| "a duration starts with a number".to_owned())?;
    Duration::try_from_secs_f64(number * unit_s).map_err(|error| error.to_string())
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
    fn durations_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_mins(2)));
        for bad in ["", "s", "-1s", "5 s", "5d", "1e9", "1..2", "99999999999999999999999h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
