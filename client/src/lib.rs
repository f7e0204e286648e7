//! An async client for zoolet and Apache `ZooKeeper`, on tokio.
//!
//! A [`Client`] is a session with an ensemble. It reconnects by itself, registers watches and
//! identities again, and reports a session that has ended by an error that
//! [ends the session](Error::ends_session).
//!
//! ```
//! # zoolet_doctest::with_server(async |servers| {
//! use zoolet_client::{Client, CreateMode, Version};
//!
//! # /*
//! let servers = "127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183";
//! # */
//! let client = Client::connect(servers).await?;
//! let (path, _) = client.create("/job-", b"payload", CreateMode::EphemeralSequential).await?;
//! let (data, stat, watch) = client.get_watched(&path).await?;
//! assert_eq!((data.as_ref(), stat.version), (b"payload".as_ref(), 0));
//!
//! client.set_data(&path, b"done", Version::Exactly(stat.version)).await?;
//! assert_eq!(watch.changed().await?.path, path);
//! client.close().await?;
//! # Ok(())
//! # }).unwrap();
//! ```
//!
//! # Where to find what
//!
//! - [`Client`]: every operation of the protocol is a method, and makes a [`Call`] that keeps its place
//!   among the session's calls. [`ClientOptions`] has timeouts, sessions to resume and the seam for
//!   other transports, a [`Connector`].
//! - [`Transaction`] and [`Reads`]: several writes that happen together or not at all, and several
//!   reads in one request.
//! - [`OneshotWatcher`] and [`PersistentWatcher`]: watches, as a future and as a stream.
//! - [`Error`]: what has failed, whether a write [may have happened](Error::may_have_happened), and
//!   whether the request [may be repeated](Error::is_transient). [`SessionState`] says where the
//!   session stands.
//! - [`recipes`]: locks with fencing tokens, leader election, barriers, queues, counters, caches,
//!   persistent znodes and groups, in the format of Curator's.
//! - [`jute`]: the wire protocol, for [`Client::call`].
//!
//! What a guard, a watcher, a cache or another handle holds ends when it is dropped; each says so by
//! `must_use`. Enums and structs that may grow are `non_exhaustive`; those that are not say why.
//!
//! # Features
//!
//! `tls` adds the module `tls`, with a [`Connector`] for servers that speak TLS; it is off by default.
//! The crate needs a tokio runtime with its timers and I/O enabled.
//!
//! # Logs
//!
//! Lines and spans go to [`tracing`](https://docs.rs/tracing). A session is a span `session` with its
//! `id`, a connection a span `connection` in it with the address of its `server`. There is one line of
//! level `WARN` when a session ends that the program did not close, when it
//! [may have ended](SessionState::Lost), and when a lock or a leadership is lost for another reason
//! before its owner gives it up; one of level `DEBUG` for each connection that is lost.

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
#[cfg(feature = "tls")]
pub mod tls;
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
