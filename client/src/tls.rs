//! Connections by TLS, with the feature `tls`.

use std::io;
use std::sync::Arc;

use zoolet_tls::TlsSettings;

use crate::{Connecting, Connector, Resolving, TcpConnector, Transport};

pub use zoolet_tls::{Password, Protocol, StoreFile, StoreType, TlsError, TlsFault};

/// Whom a [`TlsConnector`] trusts, and who it is; each method changes one.
///
/// ```no_run
/// use zoolet_client::tls::{StoreFile, TlsOptions};
/// use zoolet_client::ClientOptions;
///
/// # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
/// let tls = TlsOptions::new()
///     .trust_store(StoreFile::new("ca.pem"))
///     .key_store(StoreFile::new("client.pem"))
///     .connector()?;
/// let options = ClientOptions::new().connector(tls);
/// let client = options.connect("zk1.example:2281,zk2.example:2281").await?;
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct TlsOptions(TlsSettings);

impl TlsOptions {
    /// No stores; the names of servers are verified.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the certificate authorities that servers' certificates must come from. It has no default:
    /// the authorities of the operating system are those of the web.
    pub fn trust_store(mut self, store: StoreFile) -> Self {
        self.0.trust_store = Some(store);
        self
    }

    /// The client's own key and certificates, for servers that ask for them: the name in the
    /// certificate is an identity of the scheme `x509`.
    pub fn key_store(mut self, store: StoreFile) -> Self {
        self.0.key_store = Some(store);
        self
    }

    /// Lists of revoked certificates, in PEM or DER, with the list of every authority.
    pub fn revocations(mut self, file: impl Into<std::path::PathBuf>) -> Self {
        self.0.revocations = Some(file.into());
        self
    }

    /// Whether the certificate of a server must name the host of the connect string: yes by default.
    /// Without that, any owner of a certificate of the same authority can pose as a server.
    pub fn verify_server_name(mut self, verify: bool) -> Self {
        self.0.verify_server_name = verify;
        self
    }

    /// The versions that are spoken: TLS 1.2 and 1.3 by default.
    pub fn protocols(mut self, protocols: impl Into<Vec<Protocol>>) -> Self {
        self.0.protocols = protocols.into();
        self
    }

    /// Loads the files. It blocks for as long as they are read.
    pub fn connector(&self) -> Result<TlsConnector, TlsError> {
        Ok(TlsConnector(Arc::new(self.0.connector(None)?)))
    }
}

/// Connects by TLS over TCP. It has read its files when it was made; make another one for new files.
#[derive(Clone, Debug)]
pub struct TlsConnector(Arc<zoolet_tls::TlsConnector>);

impl Connector for TlsConnector {
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a> {
        Box::pin(async move {
            let stream = TcpConnector.connect(address).await?;
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            let connected = self.0.connect(stream, host).await;
            let stream =
                connected.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            Ok(Box::new(stream) as Box<dyn Transport>)
        })
    }

    /// The name is what the certificate is compared with, so it is the only address.
    fn resolve<'a>(&'a self, address: &'a str) -> Resolving<'a> {
        Box::pin(async move { Ok(vec![address.to_owned()]) })
    }
}
