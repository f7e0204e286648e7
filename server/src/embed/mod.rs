//! Servers inside a Rust program: one, or a whole ensemble, on ports that the system chooses, in
//! memory or in a directory. What Curator's `TestingServer` and `TestingCluster` are to Java.
//!
//! Each server runs on a thread of its own, so that it can be paused and killed as a process can.
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

mod ensemble;
mod thread;

pub use ensemble::{EmbedError, Ensemble, EnsembleBuilder};
