//! An async client for zoolet and Apache `ZooKeeper`.
//!
//! A [`Client`] is a session with an ensemble. It reconnects by itself, registers watches and
//! identities again, and reports a session that has ended by an error that
//! [ends the session](Error::ends_session).
//!
//! ```no_run
//! # async fn example() -> Result<(), zoolet_client::Error> {
//! use zoolet_client::{Client, CreateMode};
//!
//! let client = Client::connect("127.0.0.1:2181").await?;
//! let (path, _) = client.create("/job-", b"payload", CreateMode::EphemeralSequential).await?;
//! let (data, stat, watch) = client.get_watched(&path).await?;
//! assert_eq!((data.as_ref(), stat.version), (b"payload".as_ref(), 0));
//! client.set_data(&path, b"done", 0).await?;
//! assert_eq!(watch.changed().await?.path, path);
//! client.close().await
//! # }
//! ```

#![warn(missing_docs)]

#[macro_use]
mod planted;

mod chroot;
mod client;
mod connect_string;
mod connector;
mod error;
mod hosts;
mod options;
pub mod recipes;
mod session;
mod version;
mod watched_event;
mod watcher;

pub use client::{Call, Client, ConfigChange, Quota, Read, Reads, Transaction};
pub use connect_string::ConnectString;
pub use connector::{Connecting, Connector, Resolving, TcpConnector, Transport};
pub use error::{Error, ErrorKind};
pub use options::ClientOptions;
pub use session::{SessionInfo, SessionState};
pub use version::Version;
pub use watched_event::WatchedEvent;
pub use watcher::{OneshotWatcher, PersistentWatcher};

/// The buffer of data that is read: a slice of a reply, which clones share.
pub use bytes::Bytes;
/// The wire protocol: the bodies of [`Request`] and [`Reply`] for [`Client::call`].
pub use zoolet_jute as jute;
pub use zoolet_jute::{
    Acl, AddWatchMode, ClientInfo, CreateMode, DecodeError, ErrorCode, EventType, Id, MultiResult,
    OpCode, Reply, Request, SessionId, Stat, WatcherType, Zxid, perms,
};
