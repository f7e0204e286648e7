//! Servers inside a Rust program.
//!
//! * [`Ensemble`]: one server or several for tests and trials, on ports that the system chooses, in
//!   memory or in a directory. What Curator's `TestingServer` and `TestingCluster` are to Java. Each
//!   server runs on a thread of its own, so that it can be paused and killed as a process can.
//! * [`Server`]: one server for production, as `zoolet serve` runs it, from a [`config`] that is read
//!   from a file or made by the program, on a thread of its own.
//!
//! ```
//! use zoolet_server::embed::Ensemble;
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let mut ensemble = Ensemble::builder().servers(3).start().await?;
//! println!("connect to {}", ensemble.connect_string());
//!
//! let leader = ensemble.leader().expect("an ensemble that has started has a leader");
//! ensemble.kill(leader)?;
//! ensemble.wait_ready().await?;
//! ensemble.restart(leader).await?;
//! ensemble.shutdown().await;
//! # Ok::<(), zoolet_server::embed::EmbedError>(())
//! # }).unwrap();
//! ```

pub mod config;
mod data;
mod ensemble;
mod ensemble_faults;
mod error;
pub mod history;
mod server;
mod thread;

pub use data::{
    DataError, DryRun, Founded, Recovered, Restored, check_empty, dry_run, found_with, recover,
    restore, state_of,
};
pub use ensemble::{Ensemble, EnsembleBuilder};
pub use error::{EmbedError, StartError};
pub use server::Server;
pub use zoolet_replica::Role;
pub use zoolet_tls::Insiders;

pub use crate::descriptors::{
    DescriptorUse, has_room as has_descriptors, http_connections_max, probes_max,
    raise_descriptor_limit,
};
pub use crate::node::{
    AdministrationRefused, Backup, Configuration, ConnectionReport, Distribution, Leader,
    LimitReading, Member, Membership, Metric, MetricKind, MetricValue, NoBackup, Readiness,
    Reports, SessionsReport, StartErrorKind, certificate_metrics,
};
pub use crate::process::count_lost_log_lines;
pub use crate::transport::{ReservedPort, listen};
