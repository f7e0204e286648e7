//! TLS itself: rustls, the parsers of key stores and certificates, and the streams.

mod accept;
mod connect;
mod handshake;
mod own_chain;
mod provider;
pub(crate) mod reason;
mod store;
mod stream;
mod subject;
mod validity;
mod verify;

pub use accept::TlsAcceptor;
pub use connect::TlsConnector;
pub use handshake::HandshakeThreads;
pub(crate) use own_chain::OwnChain;
pub use store::KeyEntry;
pub use stream::TlsStream;
pub use subject::subject_name;
pub(crate) use validity::now_s;
