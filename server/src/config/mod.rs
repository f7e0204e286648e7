//! The configuration of one server: every limit with its name, unit and bound.
//!
//! Two file formats lead to the same [`ServerConfig`]:
//!
//! * `cluster.toml`, our own: one file for the whole ensemble;
//! * Apache ZooKeeper's `zoo.cfg` with `myid` and the dynamic file (protocol, section 15).
//!   A key that a ZooKeeper server knows is honored, or named in a [`Warning`] with the reason
//!   why it does nothing here, or refused where ignoring it would be unsafe.
//!
//! An unknown key and a wrong value are errors with file and line in both.
//! Nothing is read from the environment or from JVM flags.
//!
//! The table in `settings` is the one place that knows a setting's name, unit, range and
//! meaning; the readers, the writer and the commented `cluster.toml` at the root all follow it.

mod address;
mod autocreate;
mod draft;
mod error;
mod files;
mod four_letter;
mod hint;
mod loopback;
mod member;
mod members;
mod model;
mod records;
mod sasl;
mod setting;
mod settings;
mod settings_sasl;
mod settings_tls;
mod tls;
mod toml_file;
mod toml_text;
mod zoo;

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use settings::each_changed;

use std::path::Path;
use std::{fs, io};

pub use zoolet_replica::DigestAlgorithm;
use zoolet_replica::ServerId;
pub use zoolet_tls::{
    ClientAuth, Password, Protocol, StoreType, StoredCertificate, StoredKind, TlsError,
};

pub use address::HostPort;
pub use autocreate::Autocreate;
pub use error::{ConfigError, Warning};
pub use loopback::LoopbackPorts;
pub use member::{Member, MemberRole};
pub(crate) use members::MemberList;
pub use members::{change_members, parse_members};
pub use model::{
    AuthConfig, EnsembleConfig, FourLetterConfig, HttpConfig, Limits, LogConfig, ServerConfig,
    SessionConfig, SnapshotConfig, StartMode, Words, ZnodeConfig,
};
pub use records::{AuditConfig, HistoryConfig};
pub use sasl::SaslConfig;
pub use tls::{StoreConfig, TlsConfig, TlsPort, TlsSide};
pub use toml_text::to_cluster_toml;

use files::{OnDisk, Source};

/// Reads the file with the secret of the servers. It is read once, before the server starts.
pub(crate) fn read_secret(path: &Path) -> io::Result<Vec<u8>> {
    fs::read(path)
}

/// Reads the configuration of one server.
///
/// A name that ends in `.toml` is our own format, everything else is a `zoo.cfg`.
/// `id` says which server this is; it takes the place of the `myid` file. A `cluster.toml` of
/// several servers needs it.
pub fn load(path: &Path, id: Option<u8>) -> Result<(ServerConfig, Vec<Warning>), ConfigError> {
    let source = Source::read(&OnDisk, path)?;
    let id = id.map(ServerId);
    if is_toml(path) { toml_file::read_one(&source, id) } else { zoo::read(&source, id, &OnDisk) }
}

/// Reads the configurations of all servers of a `cluster.toml`, in the order of their ids.
pub fn load_ensemble(path: &Path) -> Result<(Vec<ServerConfig>, Vec<Warning>), ConfigError> {
    if !is_toml(path) {
        let why = "a zoo.cfg describes one server: an ensemble needs a cluster.toml";
        return Err(ConfigError::new(path, 0, why));
    }
    toml_file::read_all(&Source::read(&OnDisk, path)?)
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"))
}
