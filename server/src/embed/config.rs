//! The configuration of a server, read from a file or made by a program.
//!
//! [`load`] reads one server of a `cluster.toml` or of Apache `ZooKeeper`'s `zoo.cfg`, and
//! [`load_ensemble`] all servers of a `cluster.toml`. [`ServerConfig::default`] is a standalone
//! server, and [`ServerConfig::loopback_ensemble`] makes the servers of an ensemble on this machine.
//!
//! Each field of [`ServerConfig`] says its unit; its range is that of the key of the same name in the
//! commented `cluster.toml` of the repository. The readers check the ranges, and what a program sets
//! itself is taken as it is.

pub use zoolet_replica::{FeatureLevel, ServerId};

pub use crate::config::{
    AuditConfig, AuthConfig, Autocreate, ConfigError, DigestAlgorithm, EnsembleConfig,
    FourLetterConfig, HistoryConfig, HostPort, HttpConfig, Limits, LogConfig, LoopbackPorts,
    Member, MemberRole, SaslConfig, ServerConfig, SessionConfig, SnapshotConfig, StartMode,
    StoreConfig, TlsConfig, TlsPort, TlsSide, Warning, Words, ZnodeConfig, load, load_ensemble,
    to_cluster_toml,
};
pub use crate::config::{
    ClientAuth, Password, Protocol, StoreType, StoredCertificate, StoredKind, TlsError,
};
