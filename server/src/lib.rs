//! The zoolet server: a small, `ZooKeeper`-compatible coordination server, to embed in a program.
//! Every `ZooKeeper` client runs against it unchanged.
//!
//! ```
//! use zoolet_server::embed::Ensemble;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // One server in memory, on a port that the system chooses, until the end of the program.
//!     let ensemble = Ensemble::builder().start().await?;
//!     println!("connect to {}", ensemble.connect_string());
//!     ensemble.shutdown().await;
//!     Ok(())
//! }
//! ```
//!
//! [`embed`] is the API: ensembles for tests and trials, single servers for production, and their
//! configuration. The package `zoolet` is the server as a program, and `zoolet-client` a client for
//! Rust. `ARCHITECTURE.md` in the repository is the map of the insides.

#![cfg_attr(
    not(feature = "internals"),
    allow(unreachable_pub, reason = "some of it is public with the feature `internals` only")
)]
#![warn(missing_docs)]

#[macro_use]
mod planted;

mod arrivals;
mod audit;
mod clock;
mod config;
mod consensus;
mod descriptors;
pub mod embed;
mod entropy;
mod fatal;
mod histogram;
mod host;
mod large_requests;
mod limits;
mod log_text;
mod loss_mark;
mod metrics;
mod net;
mod node;
mod node_id;
mod outbox;
mod outbox_budget;
mod partition;
mod peer;
mod prefixed;
mod process;
mod raft;
mod replication;
mod sasl;
mod snapshots;
mod transport;
mod wire;
mod witness;

/// What the fuzz targets and a measurement of the repository reach into. Not a part of the API: it
/// changes without notice.
#[cfg(feature = "internals")]
#[doc(hidden)]
pub mod internals {
    pub use crate::clock::{Clock, RealClock};
    pub use crate::config::{change_members, parse_members};
    pub use crate::entropy::Entropy;
    pub use crate::fatal::Fatal;
    pub use crate::host::{Admission, FlowLimits, Host, Proposals, Received, Turn};
    pub use crate::limits::LimitTable;
    pub use crate::node::{Node, Seams, StartError};
    pub use crate::outbox::Outbox;
    pub use crate::peer::{
        Answer, Call, FrameLimits, Lane, PeerIdentity, PeerPort, PeerPortOptions, PeerTls, Service,
        opening_of,
    };
    pub use crate::process::work_here;
    pub use crate::transport::{BoxFuture, Listener, Net, Stream};
    pub use crate::witness::{Watched, Witness};
    pub use zoolet_replica::Now;
}
