//! The client port: connections, handshakes, frames and four-letter words.
//!
//! Not here: what a request means. A connection's task splits frames, hands them to the host, and
//! writes what the host has put into its outbox.

mod connection;
mod error;
mod facts;
mod format;
mod four_letter;
mod place;
mod port;
mod registry;

pub use facts::{EnsembleFigures, EnsembleSource, Facts, SizeSource, Sizes};
pub use port::{ClientPort, PortOptions, listen};
