//! The web console: pages that are compiled in, a JSON API below `/console/api/`, and a stream of
//! server-sent events.
//!
//! It is a client of an ensemble, zoolet's or Apache `ZooKeeper`'s: it reads and writes by the client
//! protocol, so that ACLs hold without a rule here, and asks servers about themselves by four-letter
//! words and, where their addresses are known, by HTTP commands. Nothing here knows the inside of a
//! server.
//!
//! [`ConsolePort::open`] serves it at an address of its own; [`Console::answer`] makes it a part of
//! another HTTP server. What a caller can make it hold is bounded: connections, bodies, logins,
//! streams, and long answers, of which few are made at a time.

#![warn(missing_docs)]

mod answer;
mod ask;
mod certificates;
mod connections;
mod console;
mod data;
mod ensemble;
mod events;
mod failure;
mod guard;
mod history;
mod http_addresses;
mod idle_stream;
mod json;
mod locks;
mod login;
mod logins;
mod opening;
mod options;
mod pages;
mod port;
mod refusals;
mod requests;
mod sampler;
mod sessions;
mod shared_client;
mod shown;
mod state;
mod timeline;
mod tree;

pub use answer::ConsoleBody;
pub use certificates::CertificateLogins;
pub use connections::{Connections, Room};
pub use console::{Caller, Console};
pub use http_addresses::{HttpAddresses, HttpAddressesError};
pub use idle_stream::{Activity, Answering, IdleStream, Streaming};
pub use opening::{NotOpened, Opened, Opener, PortTls, Reloads};
pub use options::{ConsoleOptions, SharedConnector};
pub use port::{ConsolePort, ConsolePortError};
pub use refusals::{Malformed, Pause, Refusals};
