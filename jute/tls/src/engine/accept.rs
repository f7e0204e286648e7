//! The called side.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::ServerConnection;
use rustls::server::NoServerSessionStorage;
use rustls::sign::SingleCertAndKey;
use tokio::io::{AsyncRead, AsyncWrite};

use super::handshake::{HandshakeThreads, shake_hands};
use super::verify::{check_address, client_verifier};
use crate::accepted::{Accepted, VerifiedCertificate};
use crate::error::{HandshakeError, TlsError};
use crate::settings::TlsSettings;

/// Accepts TLS connections, with what was loaded when it was made.
#[derive(Clone, Debug)]
pub struct TlsAcceptor {
    config: Arc<ServerConfig>,
    verify_client_address: bool,
    threads: HandshakeThreads,
}

impl TlsSettings {
    /// Loads the files, for the called side.
    pub fn acceptor(&self, threads: HandshakeThreads) -> Result<TlsAcceptor, TlsError> {
        let provider = self.provider()?;
        let key = self.load_key(&provider)?.ok_or_else(|| {
            TlsError::setting("a server needs a key and its certificate: set the key store")
        })?;
        let verifier = client_verifier(self, Arc::clone(&provider))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&self.versions())
            .map_err(|error| TlsError::setting(format!("protocols and cipher suites: {error}")))?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        // A resumed session would not look at the client's certificate again, which may have expired.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        let verify_client_address = self.verify_client_address;
        Ok(TlsAcceptor { config: Arc::new(config), verify_client_address, threads })
    }
}

impl TlsAcceptor {
    /// Makes a TLS stream of a connection, the first bytes of which may have been read. A future that
    /// is dropped gives up; how long it may take is left to the caller.
    pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        peer: IpAddr,
        read: &[u8],
    ) -> Result<Accepted<S>, HandshakeError> {
        let session = ServerConnection::new(Arc::clone(&self.config))?;
        let stream = shake_hands(stream, session.into(), read, Some(&self.threads)).await?;
        let chain = stream.session().peer_certificates().unwrap_or_default();
        let certificate = chain.first();
        if self.verify_client_address
            && let Some(certificate) = certificate
        {
            check_address(certificate, peer)?;
        }
        let certificate =
            certificate.map(|certificate| VerifiedCertificate::new(certificate.to_vec()));
        Ok(Accepted { stream, certificate })
    }
}
