//! TLS for zoolet's servers and clients.
//!
//! [`TlsSettings`] says where keys and trusted certificates are, in the terms of a `zoo.cfg`, and what
//! is demanded of the other side. [`TlsSettings::acceptor`] and [`TlsSettings::connector`] load the files
//! and return what makes a [`TlsStream`] of a connection; what is loaded later takes effect for later
//! connections.
//!
//! Not here: when files are loaded again, and what a certificate's name allows.

#![warn(missing_docs)]

mod accept;
mod connect;
mod error;
mod handshake;
mod settings;
mod stamps;
mod store;
mod stream;
mod subject;
mod verify;

pub use accept::{Accepted, TlsAcceptor};
pub use connect::TlsConnector;
pub use error::{HandshakeError, TlsError};
pub use handshake::{HandshakeThreads, is_hello};
pub use settings::{ClientAuth, Protocol, TlsSettings};
pub use stamps::FileStamps;
pub use store::{KeyEntry, Password, StoreFile, StoreType};
pub use stream::TlsStream;
pub use subject::subject_name;
