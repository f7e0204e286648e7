//! Whether the other servers of an ensemble accept this server's certificate.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::Error;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::ClientCertVerifier;

use super::connect::server_name;
use super::reason;
use super::verify::{client_verifier, server_verifier};
use crate::error::{HandshakeError, TlsError};
use crate::settings::{ClientAuth, TlsSettings};

/// The values of [`HandshakeError::kind`] with rules of their own.
const TIME: &str = "time of a certificate";
const REVOKED: &str = "revoked certificate";

/// The certificates of this server's key, and the verifiers of a server with the same settings.
#[derive(Clone, Debug)]
pub(crate) struct OwnChain {
    key_store: PathBuf,
    chain: Vec<CertificateDer<'static>>,
    /// The hosts by which the other servers call this one; empty if names are not compared.
    hosts: Vec<String>,
    server: Arc<dyn ServerCertVerifier>,
    /// None if callers are not asked for certificates.
    client: Option<Arc<dyn ClientCertVerifier>>,
}

/// A use of this server's certificate.
#[derive(Debug, PartialEq, Eq)]
enum Use {
    /// It is shown to the servers that call this one.
    Server,
    /// It is shown to the servers that this one calls.
    Client,
    /// It has the host by which this server is called.
    Host(String),
}

/// A use of this server's certificate that the other servers refuse, and why.
#[derive(Debug)]
struct Refusal<'a> {
    chain: &'a OwnChain,
    usage: Use,
    error: HandshakeError,
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.chain.key_store.display();
        write!(f, "{file}: the other servers would refuse this certificate ")?;
        match &self.usage {
            Use::Server => f.write_str("as a server: ")?,
            Use::Client => f.write_str("as a client: ")?,
            Use::Host(host) => write!(f, "when they call `{host}`: ")?,
        }
        if self.error.kind() == TIME {
            // rustls has the time of the check in its text: the log would repeat the reason.
            return f.write_str("a certificate of its chain has expired or is not valid yet");
        }
        if let HandshakeError::Tls(Error::InvalidCertificate(why)) = &self.error {
            return f.write_str(&reason::certificate_text(why));
        }
        self.error.fmt(f)
    }
}

impl OwnChain {
    /// Loads the files of these settings. `hosts` are the known hosts by which the other servers call
    /// this one.
    pub(crate) fn load(settings: &TlsSettings, hosts: Vec<String>) -> Result<Self, TlsError> {
        let Some(store) = &settings.key_store else {
            return Err(TlsError::setting("no key store has this server's certificate"));
        };
        // Hosts are verified separately.
        let any_host = TlsSettings { verify_server_name: false, ..settings.clone() };
        let provider = settings.provider()?;
        let server = server_verifier(&any_host, Arc::clone(&provider))?;
        let client = match settings.client_auth {
            ClientAuth::None => None,
            ClientAuth::Need | ClientAuth::Want => Some(client_verifier(settings, provider)?),
        };
        let hosts = if settings.verify_server_name { hosts } else { Vec::new() };
        let chain = store.load_key()?.chain;
        Ok(Self { key_store: store.location.clone(), chain, hosts, server, client })
    }

    /// Loads the files again. Returns an error if they must not replace these.
    pub(crate) fn load_again(&self, settings: &TlsSettings) -> Result<Self, TlsError> {
        let loaded = Self::load(settings, self.hosts.clone())?;
        match loaded.worse_than(self) {
            Some(why) => Err(TlsError::Setting(why)),
            None => Ok(loaded),
        }
    }

    /// Returns each use that the other servers would refuse, if their settings are the same. Times are
    /// left out: [`CertificatesInForce`](crate::CertificatesInForce) has them.
    pub(crate) fn refusals(&self) -> Vec<String> {
        let all = self.refusals_at(UnixTime::now()).into_iter();
        all.filter(|refusal| refusal.error.kind() != TIME).map(|found| found.to_string()).collect()
    }

    /// Returns why these files must not replace those of `before`: a use that the other servers would
    /// refuse, and did not before. A list that revokes the certificate in force does not count: it
    /// may revoke others.
    fn worse_than(&self, before: &Self) -> Option<String> {
        let now = UnixTime::now();
        let known = before.refusals_at(now);
        let is_same = self.chain.first() == before.chain.first();
        let is_new = |refusal: &Refusal<'_>| {
            known.iter().all(|known| known.usage != refusal.usage)
                && !(is_same && refusal.error.kind() == REVOKED)
        };
        let found = self.refusals_at(now).into_iter().find(is_new);
        found.map(|refusal| refusal.to_string())
    }

    fn refusals_at(&self, now: UnixTime) -> Vec<Refusal<'_>> {
        let Some((own, between)) = self.chain.split_first() else { return Vec::new() };
        let any_host = ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into());
        let as_server = self.server.verify_server_cert(own, between, &any_host, &[], now);
        let mut uses = vec![(Use::Server, as_server.map(|_| ()).map_err(HandshakeError::Tls))];
        if let Some(verifier) = &self.client {
            let as_client = verifier.verify_client_cert(own, between, now);
            uses.push((Use::Client, as_client.map(|_| ()).map_err(HandshakeError::Tls)));
        }
        uses.extend(self.hosts.iter().map(|host| (Use::Host(host.clone()), has_host(own, host))));
        let refusal = |(usage, verified): (Use, Result<(), HandshakeError>)| {
            Some(Refusal { chain: self, usage, error: verified.err()? })
        };
        uses.into_iter().filter_map(refusal).collect()
    }
}

fn has_host(certificate: &CertificateDer<'_>, host: &str) -> Result<(), HandshakeError> {
    let name = server_name(host)?;
    Ok(verify_server_name(&ParsedCertificate::try_from(certificate)?, &name)?)
}

impl TlsSettings {
    /// Loads the stores, and returns why other servers with these settings would refuse this server's
    /// certificate, which they call by these hosts. A certificate that has expired or is not valid yet
    /// is not reported.
    pub fn peer_refusals(&self, hosts: &[String]) -> Result<Vec<String>, TlsError> {
        Ok(OwnChain::load(self, hosts.to_vec())?.refusals())
    }
}
