//! How the certificates of servers and of clients are verified.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use crate::error::{HandshakeError, TlsError};
use crate::settings::{ClientAuth, TlsSettings};

/// Makes the verifier of the certificates that clients show.
pub(crate) fn client_verifier(
    settings: &TlsSettings,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let roots = match (settings.client_auth, settings.load_trusted()?) {
        (ClientAuth::None, _) => return Ok(WebPkiClientVerifier::no_client_auth()),
        (_, Some(roots)) => roots,
        (_, None) => {
            return Err(TlsError::setting(
                "clients are asked for certificates, and no trust store vouches for them: set the \
                 trust store, or client authentication to none",
            ));
        }
    };
    let revocations = settings.load_revocations()?;
    let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
    if !revocations.is_empty() {
        verifier = verifier.with_crls(revocations).only_check_end_entity_revocation();
    }
    if settings.client_auth == ClientAuth::Want {
        verifier = verifier.allow_unauthenticated();
    }
    verifier.build().map_err(|error| revocation_error(settings, &error.to_string()))
}

/// Makes the verifier of the certificates of servers.
pub(crate) fn server_verifier(
    settings: &TlsSettings,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    let Some(roots) = settings.load_trusted()? else {
        return Err(TlsError::setting("no trust store vouches for servers: set the trust store"));
    };
    let revocations = settings.load_revocations()?;
    let mut verifier = WebPkiServerVerifier::builder_with_provider(roots, provider);
    if !revocations.is_empty() {
        verifier = verifier.with_crls(revocations).only_check_end_entity_revocation();
    }
    let verifier =
        verifier.build().map_err(|error| revocation_error(settings, &error.to_string()))?;
    if settings.verify_server_name { Ok(verifier) } else { Ok(Arc::new(AnyName(verifier))) }
}

fn revocation_error(settings: &TlsSettings, why: &str) -> TlsError {
    match &settings.revocations {
        Some(file) => {
            TlsError::file(file, format!("the list of revoked certificates cannot be used: {why}"))
        }
        None => TlsError::setting(why),
    }
}

/// Checks that a client's certificate is valid for the address that the client has.
pub(crate) fn check_address(
    certificate: &CertificateDer<'_>,
    address: IpAddr,
) -> Result<(), HandshakeError> {
    let parsed = ParsedCertificate::try_from(certificate)?;
    let name = ServerName::IpAddress(address.to_canonical().into());
    verify_server_name(&parsed, &name).map_err(|_| HandshakeError::Address(address))
}

/// Verifies that a server's certificate is trusted, whatever name is in it.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The name is looked at when everything else is in order.
        match self.0.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
