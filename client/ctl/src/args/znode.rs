//! The commands that the shell and the command line have in common: zkCli's.

use std::ffi::OsString;
use std::num::ParseIntError;
use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use zoolet_client::Version;

use super::{Cp, Diff, Edit, Find, Mv, Revoke, Txn};

/// The commands of the shell and of the command line alike, with zkCli's names and flags.
#[derive(Debug, Subcommand)]
pub(crate) enum ZnodeCommand {
    /// Add an identity to the session.
    #[command(name = "addauth")]
    AddAuth(AddAuth),
    /// Watch a znode, or everything below it, until it is removed or the session ends.
    #[command(name = "addWatch", alias = "addwatch")]
    AddWatch(AddWatch),
    /// Print the ensemble's configuration.
    Config(Config),
    /// Copy a znode, or a subtree, also to another ensemble.
    ///
    /// Containers and znodes with a time to live become persistent ones: servers show neither in a
    /// Stat. Ephemeral znodes are left out.
    Cp(Cp),
    /// Create a znode.
    Create(Create),
    /// Delete a znode that has no children.
    Delete(Delete),
    /// Delete a znode and everything below it.
    #[command(name = "deleteall", alias = "rmr")]
    DeleteAll(DeleteAll),
    /// Take limits of a quota away, or all of it.
    #[command(name = "delquota")]
    DeleteQuota(DeleteQuota),
    /// Print what differs between two subtrees, also of two ensembles.
    Diff(Diff),
    /// Change the data of a znode in an editor.
    Edit(Edit),
    /// Print the znodes of a subtree that fit.
    Find(Find),
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
    /// Print a quota and how much of it is used.
    #[command(name = "listquota")]
    ListQuota(PathArgs),
    /// List the children of a znode.
    Ls(Ls),
    /// Move a znode and everything below it, by one transaction.
    ///
    /// Containers and znodes with a time to live become persistent ones: servers show neither in a
    /// Stat.
    Mv(Mv),
    /// Change the ensemble.
    Reconfig(Reconfig),
    /// Remove watches of this session.
    #[command(name = "removewatches")]
    RemoveWatches(RemoveWatches),
    /// Ask the holder of a lock to release it.
    Revoke(Revoke),
    /// Write the data of a znode.
    Set(Set),
    /// Write the ACL of a znode.
    #[command(name = "setAcl", alias = "setacl")]
    SetAcl(SetAcl),
    /// Limit what there may be below a znode.
    #[command(name = "setquota")]
    SetQuota(SetQuota),
    /// Print the Stat of a znode.
    Stat(StatArgs),
    /// Wait until the server has everything that was written before.
    Sync(PathArgs),
    /// Draw a znode and everything below it.
    Tree(Tree),
    /// Write several znodes all together or not at all.
    Txn(Txn),
    /// List the identities of the session.
    Whoami,
}

#[derive(Debug, Args)]
pub(crate) struct AddWatch {
    #[arg(short, ignore_case = true, default_value = "PERSISTENT_RECURSIVE")]
    pub(crate) mode: WatchMode,
    pub(crate) path: String,
}

/// How far a watch sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WatchMode {
    /// The znode, and its children's coming and going.
    #[value(name = "PERSISTENT")]
    Persistent,
    /// The znode and everything below it.
    #[value(name = "PERSISTENT_RECURSIVE")]
    PersistentRecursive,
}

#[allow(clippy::struct_excessive_bools, reason = "each stands for a flag that zkCli has")]
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("kind").multiple(false)))]
pub(crate) struct RemoveWatches {
    /// Those of children.
    #[arg(short, group = "kind")]
    pub(crate) children: bool,
    /// Those of data.
    #[arg(short, group = "kind")]
    pub(crate) data: bool,
    /// All of them; the default.
    #[arg(short, group = "kind")]
    pub(crate) any: bool,
    /// Persistent ones.
    #[arg(short, group = "kind")]
    pub(crate) persistent: bool,
    /// Persistent recursive ones.
    #[arg(short, group = "kind")]
    pub(crate) recursive: bool,
    /// Here alone, if no server can be reached: they are not registered again.
    #[arg(short)]
    pub(crate) local: bool,
    pub(crate) path: String,
}

#[derive(Debug, Args)]
pub(crate) struct Config {
    /// Print the client addresses alone, as a connect string.
    #[arg(short)]
    pub(crate) connect: bool,
    /// Watch it.
    #[arg(short)]
    pub(crate) watch: bool,
    /// Print the Stat too.
    #[arg(short)]
    pub(crate) stat: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Reconfig {
    /// Print the Stat too.
    #[arg(short)]
    pub(crate) stat: bool,
    /// Only if the configuration has this version, hexadecimal as `config` prints it.
    #[arg(short, value_name = "VERSION", default_value = "-1", allow_hyphen_values = true,
          value_parser = config_version)]
    pub(crate) version: Version<i64>,
    /// Servers that join: server.4=host:2888:3888:participant;2181.
    #[arg(long, value_name = "SERVERS")]
    pub(crate) add: Vec<String>,
    /// The ids of servers that leave.
    #[arg(long, value_name = "IDS")]
    pub(crate) remove: Vec<String>,
    /// All servers of the new ensemble.
    #[arg(long, value_name = "SERVERS", conflicts_with_all = ["add", "remove", "file"])]
    pub(crate) members: Option<String>,
    /// All servers of the new ensemble, from a configuration file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["add", "remove"])]
    pub(crate) file: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("limits").required(true).multiple(true)))]
pub(crate) struct SetQuota {
    /// How many znodes, itself included; the server logs more.
    #[arg(short = 'n', value_name = "ZNODES", group = "limits")]
    pub(crate) count: Option<u64>,
    /// How many bytes of data; the server logs more.
    #[arg(short = 'b', value_name = "BYTES", group = "limits")]
    pub(crate) bytes: Option<u64>,
    /// How many znodes; the server refuses more.
    #[arg(short = 'N', value_name = "ZNODES", group = "limits")]
    pub(crate) count_hard: Option<u64>,
    /// How many bytes of data; the server refuses more.
    #[arg(short = 'B', value_name = "BYTES", group = "limits")]
    pub(crate) bytes_hard: Option<u64>,
    pub(crate) path: String,
}

#[allow(clippy::struct_excessive_bools, reason = "each stands for a flag that zkCli has")]
#[derive(Debug, Args)]
pub(crate) struct DeleteQuota {
    /// The limit on znodes.
    #[arg(short = 'n')]
    pub(crate) count: bool,
    /// The limit on bytes.
    #[arg(short = 'b')]
    pub(crate) bytes: bool,
    /// The hard limit on znodes.
    #[arg(short = 'N')]
    pub(crate) count_hard: bool,
    /// The hard limit on bytes.
    #[arg(short = 'B')]
    pub(crate) bytes_hard: bool,
    pub(crate) path: String,
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
    /// How many deletes are under way at a time; 64 by default.
    #[arg(short, value_name = "DELETES",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub(crate) batch: Option<usize>,
    pub(crate) path: String,
}

/// The word behind a path with which old shells asked for a watch: `ls PATH watch`.
#[derive(Debug, Args)]
pub(crate) struct OldWatch {
    #[arg(hide = true, value_parser = ["watch", "true"])]
    old_watch: Option<String>,
}

impl OldWatch {
    pub(crate) fn is_wanted(&self) -> bool {
        self.old_watch.is_some()
    }
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
    /// Print the Stat; with -R that of each znode behind its path.
    #[arg(short)]
    pub(crate) stat: bool,
    /// Only if the ACL has this version.
    #[arg(short, value_name = "VERSION", default_value = "-1", allow_negative_numbers = true,
          value_parser = expected_version)]
    pub(crate) version: Version,
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
    pub(crate) ttl_ms: Option<u64>,
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
    #[arg(short, value_name = "VERSION", default_value = "-1", allow_negative_numbers = true,
          value_parser = expected_version)]
    pub(crate) version: Version,
    pub(crate) path: String,
    /// Old shells had it behind the path.
    #[arg(hide = true, conflicts_with = "version", allow_negative_numbers = true,
          value_parser = expected_version)]
    pub(crate) old_version: Option<Version>,
}

#[allow(clippy::struct_excessive_bools, reason = "each stands for a flag, zkCli's but one")]
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Print the Stat too.
    #[arg(short)]
    pub(crate) stat: bool,
    /// Print the data in base64.
    #[arg(short, conflicts_with = "raw")]
    pub(crate) base64: bool,
    /// Print the bytes as hexadecimal numbers, 16 a line, and as text beside them.
    #[arg(short = 'x', conflicts_with_all = ["raw", "base64"])]
    pub(crate) hexdump: bool,
    /// Print the bytes as they are, and nothing else.
    #[arg(long, conflicts_with_all = ["stat", "watch", "old_watch"])]
    pub(crate) raw: bool,
    /// Watch it: report the next change.
    #[arg(short)]
    pub(crate) watch: bool,
    pub(crate) path: String,
    #[command(flatten)]
    pub(crate) old: OldWatch,
}

#[derive(Debug, Args)]
pub(crate) struct Ls {
    /// Print the Stat too.
    #[arg(short)]
    pub(crate) stat: bool,
    /// Print the paths of everything below.
    #[arg(short = 'R')]
    pub(crate) recursive: bool,
    /// Watch it: report the next change of its children; with -R of the children of all that are
    /// listed.
    #[arg(short)]
    pub(crate) watch: bool,
    pub(crate) path: String,
    #[command(flatten)]
    pub(crate) old: OldWatch,
}

#[derive(Debug, Args)]
pub(crate) struct Set {
    /// Print the Stat.
    #[arg(short)]
    pub(crate) stat: bool,
    /// Only if the data has this version.
    #[arg(short, value_name = "VERSION", default_value = "-1", allow_negative_numbers = true,
          value_parser = expected_version)]
    pub(crate) version: Version,
    /// The data is in base64.
    #[arg(short, conflicts_with = "file")]
    pub(crate) base64: bool,
    pub(crate) path: String,
    #[command(flatten)]
    pub(crate) data: Data,
    /// Old shells had it behind the data.
    #[arg(hide = true, conflicts_with = "version", allow_negative_numbers = true,
          value_parser = expected_version)]
    pub(crate) old_version: Option<Version>,
}

#[derive(Debug, Args)]
pub(crate) struct StatArgs {
    /// Watch it: report the next change, its creation too.
    #[arg(short)]
    pub(crate) watch: bool,
    pub(crate) path: String,
    #[command(flatten)]
    pub(crate) old: OldWatch,
}

/// A version of the configuration: hexadecimal, as the servers write it, or −1.
fn config_version(text: &str) -> Result<Version<i64>, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    match i64::from_str_radix(digits, 16) {
        Ok(-1) => Ok(Version::Any),
        version => version.map(Version::Exactly).map_err(|error| error.to_string()),
    }
}

/// A version as zkCli takes it: −1 is any.
pub(super) fn expected_version(text: &str) -> Result<Version, ParseIntError> {
    Ok(match text.parse()? {
        -1 => Version::Any,
        version => Version::Exactly(version),
    })
}
