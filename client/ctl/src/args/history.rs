//! The arguments of `history`.

use std::num::NonZeroUsize;
use std::time::Duration;

use clap::Args;

/// One of PATH, --below, --session and --lock, or none of them for everything.
#[derive(Debug, Args)]
pub(crate) struct History {
    /// What has happened to this znode.
    #[arg(conflicts_with_all = ["below", "session", "lock"])]
    pub(crate) path: Option<String>,
    /// What has happened to this znode, and to all below it.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["session", "lock"])]
    pub(crate) below: Option<String>,
    /// What a session did, and what has become of its znodes.
    #[arg(long, value_name = "ID", conflicts_with = "lock")]
    pub(crate) session: Option<String>,
    /// Who has held a lock, and who has waited for it; of a semaphore that is not known.
    #[arg(long, value_name = "PATH")]
    pub(crate) lock: Option<String>,
    /// How far to look back: 90s, 15m, 1h, 7d.
    #[arg(long, value_name = "DURATION", value_parser = super::duration)]
    pub(crate) since: Option<Duration>,
    /// The most lines, the latest ones.
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        default_value = "1000",
        value_parser = super::count::<10_000>
    )]
    pub(crate) limit: NonZeroUsize,
    /// Go on, and print what happens, until Ctrl-C.
    #[arg(short = 'f', long)]
    pub(crate) follow: bool,
    /// Show the data that was written, as far as the server keeps it (`data_bytes_max` in `[history]`). Needs
    /// --auth of the superuser.
    #[arg(long)]
    pub(crate) data: bool,
    /// The HTTP ports of servers, which are asked in turn: HOST:PORT,…, http://HOST:PORT/commands or
    /// https://HOST:PORT with --trust-store.
    /// Without it: port 8080 of the hosts of --servers.
    #[arg(long, value_name = "ADDRESS", env = "ZOOLETCTL_HTTP")]
    pub(crate) http: Option<String>,
}
