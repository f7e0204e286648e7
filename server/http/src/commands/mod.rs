//! The commands of `ZooKeeper`'s `AdminServer`: the same names, keys and types (docs/monitoring.md).

mod connections;
mod ensemble;
mod history;
mod server;
mod sessions;
mod snapshot;

use std::net::IpAddr;
use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Map, Value};
use zoolet_server::embed::{AdministrationRefused, Reports};
use zoolet_tls::VerifiedCertificate;

use crate::answer::Answer;

pub(crate) use self::snapshot::{SnapshotGate, begin as begin_snapshot, head_only};

/// What an `AdminServer` says before its server serves.
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";

/// The entries of an answer.
type Object = Map<String, Value>;

/// What a request says besides the command.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) query: String,
    /// The header `Authorization`: a scheme, and what it needs.
    pub(crate) authorization: Option<String>,
    /// Where the request comes from. No header has a say in that.
    pub(crate) peer: IpAddr,
    /// The certificate that its connection has shown.
    pub(crate) certificate: Option<Arc<VerifiedCertificate>>,
}

impl Asked {
    fn parameter(&self, name: &str) -> Option<&str> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

macro_rules! commands {
    ($($name:ident = $($text:literal)|+,)*) => {
        /// A command.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Command { $($name,)* }

        impl Command {
            const ALL: &[Self] = &[$(Self::$name,)*];

            /// The names of a command, the main one first.
            fn names(self) -> &'static [&'static str] {
                match self { $(Self::$name => &[$($text),+],)* }
            }
        }
    };
}

commands! {
    Configuration = "configuration" | "conf" | "config",
    ConnectionStatReset = "connection_stat_reset" | "crst",
    Connections = "connections" | "cons",
    Dirs = "dirs",
    Dump = "dump",
    Environment = "environment" | "env" | "envi",
    ExpireSession = "expire_session",
    GetTraceMask = "get_trace_mask" | "gtmk",
    Hash = "hash",
    History = "history" | "hist",
    InitialConfiguration = "initial_configuration" | "icfg",
    IsReadOnly = "is_read_only" | "isro",
    LastSnapshot = "last_snapshot" | "lsnp",
    Leader = "leader" | "lead",
    Monitor = "monitor" | "mntr",
    ObserverConnectionStatReset = "observer_connection_stat_reset" | "orst",
    Observers = "observers" | "obsr",
    Restore = "restore" | "rest",
    Ruok = "ruok",
    ServerStats = "server_stats" | "srvr",
    SetTraceMask = "set_trace_mask" | "stmk",
    ShedConnections = "shed_connections" | "shed",
    Snapshot = "snapshot" | "snap",
    StatReset = "stat_reset" | "srst",
    Stats = "stats" | "stat",
    SystemProperties = "system_properties" | "sysp",
    VotingView = "voting_view",
    WatchSummary = "watch_summary" | "wchs",
    Watches = "watches" | "wchc",
    WatchesByPath = "watches_by_path" | "wchp",
    ZabState = "zabstate",
}

impl Command {
    /// Finds a command by one of its names.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|command| command.names().contains(&name))
    }

    fn name(self) -> &'static str {
        self.names().first().copied().unwrap_or_default()
    }

    /// Whether its answer grows with the number of sessions, connections or watches.
    pub(crate) fn is_long(self) -> bool {
        matches!(
            self,
            Self::Connections
                | Self::Stats
                | Self::Dump
                | Self::WatchSummary
                | Self::Watches
                | Self::WatchesByPath
                | Self::History
        )
    }

    /// Whether it is for servers that serve.
    fn needs_serving(self) -> bool {
        !matches!(
            self,
            Self::Environment
                | Self::GetTraceMask
                | Self::SetTraceMask
                | Self::Monitor
                | Self::SystemProperties
                | Self::ZabState
                | Self::History
        )
    }

    fn changes_something(self) -> bool {
        matches!(
            self,
            Self::ConnectionStatReset
                | Self::ExpireSession
                | Self::ObserverConnectionStatReset
                | Self::SetTraceMask
                | Self::StatReset
        )
    }

    /// Why the command is not there.
    pub(crate) fn missing(self) -> Option<&'static str> {
        let why = [
            (Self::Restore, "not available: restore with `zoolet restore`, see docs/runbook.md"),
            (Self::ShedConnections, "not available: clients choose their server"),
        ];
        why.into_iter().find(|(missing, _)| *missing == self).map(|(_, why)| why)
    }
}

/// The list of the commands that are there, as links.
pub(crate) fn list(command_url: &str) -> Answer {
    let commands = Command::ALL.iter().filter(|command| command.missing().is_none());
    let link = |command: &Command| {
        let name = command.name();
        format!("<a href=\"{command_url}/{name}\">{name}</a>\n<br/>\n")
    };
    Answer::html(commands.map(link).collect())
}

/// An unknown command has always been answered with 200.
pub(crate) fn unknown(name: &str) -> Answer {
    answer(StatusCode::OK, name, Object::new(), Some(&format!("Unknown command: {name}")))
}

/// Runs a command.
pub(crate) fn run(command: Command, reports: Option<&Reports>, asked: &Asked) -> Answer {
    let refuse = |status, why: &str| refusal(command, status, why);
    if let Some(why) = command.missing() {
        return refuse(StatusCode::NOT_IMPLEMENTED, why);
    }
    let Some(reports) = reports else { return refuse(StatusCode::OK, NOT_SERVING) };
    if command.needs_serving() && !reports.serving() {
        return refuse(StatusCode::OK, NOT_SERVING);
    }
    if command.changes_something()
        && let Err((status, why)) = permit(reports, asked)
    {
        return refuse(status, why);
    }
    if command == Command::History {
        return history::run(reports, asked);
    }
    match object(command, reports, asked) {
        Ok(object) => answer(StatusCode::OK, command.name(), object, None),
        Err(why) => refuse(StatusCode::OK, &why),
    }
}

/// Says why a command is not carried out.
fn refusal(command: Command, status: StatusCode, why: &str) -> Answer {
    answer(status, command.name(), Object::new(), Some(why))
}

fn answer(status: StatusCode, name: &str, mut object: Object, error: Option<&str>) -> Answer {
    object.insert("command".to_owned(), Value::from(name));
    object.insert("error".to_owned(), Value::from(error));
    Answer::json(status, object)
}

const NOT_AUTHENTICATED: (StatusCode, &str) = (StatusCode::UNAUTHORIZED, "Not authenticated");
const NOT_AUTHORIZED: (StatusCode, &str) = (
    StatusCode::FORBIDDEN,
    "Not authorized: this needs the superuser (auth.super_digest), or an identity that the ACL of / \
     gives all permissions by name",
);

/// The scheme of identities that certificates prove.
const X509: &str = "x509";

/// Finds out whether the header of a request proves an identity that may administer the server. An
/// `AdminServer` asks for that in fewer commands, and counts what the root's ACL gives to everyone.
fn permit(reports: &Reports, asked: &Asked) -> Result<(), (StatusCode, &'static str)> {
    let Some(header) = &asked.authorization else {
        return Err((StatusCode::UNAUTHORIZED, "Auth info is missing for the command"));
    };
    let (scheme, credentials) = match header.split(' ').collect::<Vec<_>>().as_slice() {
        // The header has to ask for it: a browser shows its certificate to the port on behalf of any
        // page, and no page of another site can send this header.
        [X509] | [X509, _] => return permit_certificate(reports, asked),
        // An address needs no credentials, and a digest is nothing without them.
        ["ip"] => ("ip", ""),
        [scheme, credentials] => (*scheme, *credentials),
        _ => return Err(NOT_AUTHENTICATED),
    };
    reports.permit_administration(scheme, credentials, asked.peer).map_err(refused)
}

/// The same for the certificate of the connection.
fn permit_certificate(reports: &Reports, asked: &Asked) -> Result<(), (StatusCode, &'static str)> {
    const NO_CERTIFICATE: (StatusCode, &str) =
        (StatusCode::UNAUTHORIZED, "Not authenticated: the connection has shown no certificate");
    let certificate = asked.certificate.as_ref().ok_or(NO_CERTIFICATE)?;
    reports.permit_administration_of(certificate).map_err(refused)
}

fn refused(why: AdministrationRefused) -> (StatusCode, &'static str) {
    match why {
        AdministrationRefused::NotAuthorized => NOT_AUTHORIZED,
        AdministrationRefused::NotAuthenticated | _ => NOT_AUTHENTICATED,
    }
}

fn object(command: Command, reports: &Reports, asked: &Asked) -> Result<Object, String> {
    Ok(match command {
        Command::Configuration => server::configuration(reports),
        Command::Dirs => server::dirs(reports),
        Command::Environment => server::environment(reports),
        Command::GetTraceMask => server::trace_mask(reports),
        Command::SetTraceMask => server::set_trace_mask(reports, asked.parameter("traceMask"))?,
        Command::Hash => server::hash(reports),
        Command::InitialConfiguration => server::initial_configuration(reports),
        Command::IsReadOnly => server::is_read_only(reports),
        Command::LastSnapshot => server::last_snapshot(reports),
        Command::Monitor => server::monitor(reports),
        Command::ServerStats => server::server_stats(reports),
        Command::Stats => connections::stats(reports),
        Command::Connections => connections::connections(reports),
        Command::ConnectionStatReset => {
            reports.reset_connections();
            Object::new()
        }
        Command::StatReset => {
            reports.reset_server();
            Object::new()
        }
        Command::ExpireSession => sessions::expire(reports, asked.parameter("session"))?,
        Command::Dump => sessions::dump(reports),
        Command::Watches => sessions::watches(reports),
        Command::WatchesByPath => sessions::watches_by_path(reports),
        Command::WatchSummary => sessions::watch_summary(reports),
        Command::Leader => ensemble::leader(reports)?,
        Command::Observers => ensemble::observers(reports),
        Command::VotingView => ensemble::voting_view(reports),
        Command::ZabState => ensemble::zab_state(reports),
        // Observers have no statistics, a process without a JVM has no such properties, a snapshot is
        // sent by `begin_snapshot`, the history has an answer of its own, and the others are refused
        // before.
        Command::ObserverConnectionStatReset
        | Command::SystemProperties
        | Command::Ruok
        | Command::Restore
        | Command::ShedConnections
        | Command::History
        | Command::Snapshot => Object::new(),
    })
}

/// Makes an object of names and values.
fn entries<const N: usize>(entries: [(&str, Value); N]) -> Object {
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
