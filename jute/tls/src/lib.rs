//! TLS for zoolet's servers and clients.
//!
//! [`TlsSettings`] says where keys and trusted certificates are, in the terms of a `zoo.cfg`, and what
//! is demanded of the other side. [`TlsSettings::acceptor`] and [`TlsSettings::connector`] load the files
//! and return what makes a [`TlsStream`] of a connection; what is loaded later takes effect for later
//! connections. [`LoadedTls`] loads them again when they change.
//!
//! [`Insiders`] connects one port of a program to another without a socket, and passes on the certificate
//! that was verified.
//!
//! Without the feature `rustls` the settings are the same, and whatever would load them returns
//! [`TlsError::NotBuilt`]: a program that has no use for TLS does without its 112 crates.
//!
//! Not here: what a certificate's name allows.

#![warn(missing_docs)]

mod accepted;
#[cfg(feature = "rustls")]
mod engine;
mod error;
mod hello;
mod in_force;
mod insiders;
mod loaded;
#[cfg(not(feature = "rustls"))]
mod not_built;
mod noted_stream;
mod settings;
mod stamps;
mod store_file;
mod stored;

pub use accepted::{Accepted, VerifiedCertificate};
#[cfg(feature = "rustls")]
pub use engine::{HandshakeThreads, KeyEntry, TlsAcceptor, TlsConnector, TlsStream, subject_name};
#[cfg(feature = "rustls")]
use engine::{OwnChain, now_s};
pub use error::{HandshakeError, TlsError, TlsFault};
pub use hello::is_hello;
pub use in_force::CertificatesInForce;
pub use insiders::{ArrivingInsiders, Insider, Insiders, insiders};
pub use loaded::LoadedTls;
#[cfg(not(feature = "rustls"))]
pub use not_built::{HandshakeThreads, TlsAcceptor, TlsConnector, TlsStream, subject_name};
#[cfg(not(feature = "rustls"))]
use not_built::{OwnChain, now_s};
pub use noted_stream::{NotedStream, Notes};
pub use settings::{ClientAuth, Protocol, TlsSettings};
pub use stamps::FileStamps;
pub use store_file::{Password, StoreFile, StoreType};
pub use stored::{StoredCertificate, StoredKind};
