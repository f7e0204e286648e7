//! The options that every command has.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::values::{Identity, Secret, duration};

/// What the command line says for every command. `Options` is what comes of it, of the environment
/// and of the configuration file.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Flags {
    /// The servers: HOST:PORT,HOST:PORT,…; a path behind them becomes the root of all paths. Also
    /// `ZOOLETCTL_SERVERS`; by default 127.0.0.1:2181.
    #[arg(long, global = true, value_name = "CONNECT", overrides_with = "servers")]
    pub(crate) servers: Option<String>,
    /// The same, in short, before the command.
    #[arg(short = 's', value_name = "CONNECT", overrides_with = "servers_short")]
    pub(crate) servers_short: Option<String>,
    /// The ensemble of this name in the configuration file. Also `ZOOLETCTL_ENSEMBLE`.
    #[arg(long, global = true, value_name = "NAME", overrides_with = "ensemble")]
    pub(crate) ensemble: Option<String>,
    /// The configuration file; an empty name is none. Also `ZOOLETCTL_CONFIG`; by default
    /// zooletctl/config.toml in `XDG_CONFIG_HOME` or ~/.config.
    // The parser of a PathBuf refuses an empty one.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        overrides_with = "config",
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    pub(crate) config: Option<PathBuf>,
    /// A file with an identity a line, SCHEME:ID such as digest:user:password. Also
    /// `ZOOLETCTL_AUTH`, which has the identities themselves, one a line.
    #[arg(long, global = true, value_name = "FILE", overrides_with = "auth_file")]
    pub(crate) auth_file: Option<PathBuf>,
    /// Refused: it shows a password to all users of the machine.
    #[arg(long, global = true, value_name = "SCHEME:ID", hide = true)]
    pub(crate) auth: Vec<Identity>,
    /// Print results as JSON.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Do with a server that is cut off from its ensemble and serves reads alone. Before the command.
    #[arg(short = 'r', long)]
    pub(crate) read_only: bool,
    /// How long connecting may take, and each request: 500ms, 5s, 1m; 5s by default. Before the
    /// command.
    #[arg(
        id = "request_timeout",
        long = "timeout",
        value_name = "DURATION",
        overrides_with = "request_timeout",
        value_parser = duration
    )]
    pub(crate) timeout: Option<Duration>,
    /// The session timeout to ask for; 10s by default. Before the command.
    #[arg(
        long,
        value_name = "DURATION",
        overrides_with = "session_timeout",
        value_parser = duration
    )]
    pub(crate) session_timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) tls: TlsFlags,
}

/// How servers are reached by TLS. Each file is PEM (.pem), PKCS#12 (.p12) or JKS (.jks). One of
/// them is enough to ask for TLS, and a trust store is needed for it.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TlsFlags {
    /// Speak TLS: the file with the certificates of the authorities that servers have theirs from.
    /// Also `ZOOLETCTL_TRUST_STORE`; its password is in `ZOOLETCTL_TRUST_STORE_PASSWORD`.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) trust_store: Option<PathBuf>,
    /// Refused: it shows a password to all users of the machine.
    #[arg(long, global = true, value_name = "PASSWORD", hide = true)]
    pub(crate) trust_store_password: Option<Secret>,
    /// The file with the client's key and certificates, for servers that ask for them. Also
    /// `ZOOLETCTL_KEY_STORE`; its password is in `ZOOLETCTL_KEY_STORE_PASSWORD`.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) key_store: Option<PathBuf>,
    /// Refused: it shows a password to all users of the machine.
    #[arg(long, global = true, value_name = "PASSWORD", hide = true)]
    pub(crate) key_store_password: Option<Secret>,
    /// Do not compare the name in a server's certificate with the host of the connect string.
    #[arg(long, global = true)]
    pub(crate) any_server_name: bool,
}
