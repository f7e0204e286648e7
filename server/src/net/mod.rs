//! The client port: connections, handshakes, frames and four-letter words.
//!
//! Not here: what a request means. A connection's task splits frames, hands them to the host, and
//! writes what the host has put into its outbox.

mod connection;
mod context;
mod drain;
mod error;
mod format;
mod four_letter;
mod frame_records;
mod login;
mod movable_listener;
mod options;
mod outgoing;
mod port;
mod registry;
mod reports;
mod server_info;
mod tls;
mod unfinished;
mod words_lane;

pub(crate) use options::PortOptions;
pub(crate) use port::{ClientPort, listen};
pub use reports::ConnectionReport;
pub(crate) use reports::PortReports;
pub(crate) use server_info::{EnsembleFigures, EnsembleSource, ServerInfo, Sizes};
pub(crate) use tls::{PortTls, Spoken, identities_of};
