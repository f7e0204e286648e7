//! The zoolet server: a small, embeddable, `ZooKeeper`-compatible coordination server.
//!
//! `ARCHITECTURE.md` is the map. Programs that embed it use [`embed`].

#![allow(
    unreachable_pub,
    reason = "`pub` is what a module offers to the others; users see `embed`"
)]
#![warn(missing_docs)]

#[macro_use]
mod planted;

mod clock;
mod config;
pub mod embed;
mod entropy;
mod fatal;
mod host;
mod metrics;
mod net;
mod node;
mod outbox;
mod peer;
mod process;
mod raft;
mod transport;

/// What the fuzz targets and a measurement of the repository reach into. It is no API: it changes
/// without notice.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    pub use crate::clock::RealClock;
    pub use crate::config::{change_members, parse_members};
    pub use crate::fatal::Fatal;
    pub use crate::host::{Host, Limits, Proposals, Received};
    pub use crate::outbox::Outbox;
    pub use crate::peer::{
        Answer, Call, FrameLimits, Identity, PeerPort, PeerPortOptions, Service,
    };
    pub use crate::transport::{BoxFuture, Listener, Net, Stream};
}
