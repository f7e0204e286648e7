//! The client port: connections, handshakes, frames and four-letter words.
//!
//! Not here: what a request means. A connection's task splits frames, hands them to the host, and
//! writes what the host has put into its outbox.

mod connection;
mod error;
mod format;
mod four_letter;
mod movable_listener;
mod port;
mod registry;
mod server_info;

pub use port::{ClientPort, PortOptions, listen};
pub use server_info::{EnsembleFigures, EnsembleSource, ServerInfo, SizeSource, Sizes};
