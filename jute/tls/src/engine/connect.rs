//! The calling side.

use std::sync::Arc;

use rustls::client::{ResolvesClientCert, Resumption};
use rustls::pki_types::ServerName;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection};
use tokio::io::{AsyncRead, AsyncWrite};

use super::handshake::{HandshakeThreads, shake_hands};
use super::stream::TlsStream;
use super::verify::server_verifier;
use crate::error::{HandshakeError, TlsError};
use crate::settings::TlsSettings;

/// Makes TLS connections, with what was loaded when it was made.
#[derive(Clone, Debug)]
pub struct TlsConnector {
    config: Arc<ClientConfig>,
    threads: Option<HandshakeThreads>,
}

impl TlsSettings {
    /// Loads the files, for the calling side. Without `threads`, handshakes are computed where they
    /// are polled.
    pub fn connector(&self, threads: Option<HandshakeThreads>) -> Result<TlsConnector, TlsError> {
        let provider = self.provider()?;
        let key = self.load_key(&provider)?;
        let verifier = server_verifier(self, Arc::clone(&provider))?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&self.versions())
            .map_err(|error| TlsError::setting(format!("protocols and cipher suites: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match key {
            Some(key) => config.with_client_cert_resolver(key_resolver(key)),
            None => config.with_no_client_auth(),
        };
        // A resumed session would not look at the server's certificate again.
        config.resumption = Resumption::disabled();
        Ok(TlsConnector { config: Arc::new(config), threads })
    }
}

fn key_resolver(key: Arc<CertifiedKey>) -> Arc<dyn ResolvesClientCert> {
    Arc::new(SingleCertAndKey::from(key))
}

impl TlsConnector {
    /// Makes a TLS stream of a connection to a server that is called `host`: a name, or an address
    /// with or without the brackets of IPv6. A future that is dropped gives up; how long it may take
    /// is left to the caller.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        host: &str,
    ) -> Result<TlsStream<S>, HandshakeError> {
        let session = ClientConnection::new(Arc::clone(&self.config), server_name(host)?)?;
        shake_hands(stream, session.into(), &[], self.threads.as_ref()).await
    }
}

pub(super) fn server_name(host: &str) -> Result<ServerName<'static>, HandshakeError> {
    let bare = host.strip_prefix('[').and_then(|open| open.strip_suffix(']')).unwrap_or(host);
    // An interface is not a part of the address.
    let bare = bare.split_once('%').map_or(bare, |(address, _)| address);
    ServerName::try_from(bare.to_owned()).map_err(|_| HandshakeError::Name(host.to_owned()))
}
