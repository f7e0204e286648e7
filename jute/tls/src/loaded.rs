//! Keys and certificates that are loaded again when their files change.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::in_force::CertificatesInForce;
use crate::stamps::FileStamps;
use crate::{HandshakeThreads, OwnChain, TlsAcceptor, TlsConnector, TlsError, TlsSettings};

/// The pause between two looks at the files.
const LOOK_PAUSE: Duration = Duration::from_secs(2);

/// The pause between two warnings that certificates expire.
const WARN_PAUSE: Duration = Duration::from_hours(24);

/// What was loaded, for one port. It holds for the connections that begin later.
#[derive(Debug)]
pub struct LoadedTls {
    /// Which port it is for, in log lines.
    port: &'static str,
    settings: Arc<TlsSettings>,
    threads: HandshakeThreads,
    acceptor: watch::Sender<TlsAcceptor>,
    /// None if this side never calls another.
    connector: Option<watch::Sender<TlsConnector>>,
    certificates: watch::Sender<CertificatesInForce>,
    /// The certificates that the other servers verify; `None` if this side makes no connections.
    own_chain: Option<OwnChain>,
    stamps: FileStamps,
    /// Why the files could not be used when they were tried last, and when that was logged.
    failure: Option<(String, Instant)>,
}

impl LoadedTls {
    /// Loads the files, and logs which certificates have expired or soon will. `peer_hosts` are the
    /// hosts by which other servers call this one; `None` if this side makes no connections. If it
    /// does, uses of its certificate that the other servers would refuse are logged as well.
    pub fn load(
        port: &'static str,
        settings: TlsSettings,
        peer_hosts: Option<Vec<String>>,
    ) -> Result<Self, TlsError> {
        let (settings, threads) = (Arc::new(settings), HandshakeThreads::default());
        // Looked at first: what changes from here on is loaded again.
        let stamps = FileStamps::of(&settings);
        let acceptor = watch::Sender::new(settings.acceptor(threads.clone())?);
        let connector = match peer_hosts {
            Some(_) => Some(watch::Sender::new(settings.connector(Some(threads.clone()))?)),
            None => None,
        };
        let own_chain = peer_hosts.map(|hosts| OwnChain::load(&settings, hosts)).transpose()?;
        let certificates = watch::Sender::new(CertificatesInForce::load(&settings, port));
        let loaded = Self {
            port,
            settings,
            threads,
            acceptor,
            connector,
            certificates,
            own_chain,
            stamps,
            failure: None,
        };
        loaded.log();
        Ok(loaded)
    }

    fn log(&self) {
        self.certificates.borrow().log(self.port);
        for why in self.own_chain.iter().flat_map(OwnChain::refusals) {
            warn!(port = self.port, "TLS: {why}");
        }
    }

    /// Returns the certificates that were loaded, as they change.
    pub fn certificates(&self) -> watch::Receiver<CertificatesInForce> {
        self.certificates.subscribe()
    }

    /// Returns what accepts connections, as it changes.
    pub fn acceptor(&self) -> watch::Receiver<TlsAcceptor> {
        self.acceptor.subscribe()
    }

    /// Returns what makes connections, as it changes; none if this side makes none.
    pub fn connector(&self) -> Option<watch::Receiver<TlsConnector>> {
        self.connector.as_ref().map(watch::Sender::subscribe)
    }

    /// Warns once a day of certificates that have expired or soon will. With `reloads`, loads the
    /// files again whenever one has changed. Files that cannot be used, or whose certificates are not
    /// valid now or would be refused by the other servers while the current ones are accepted, leave
    /// the current ones in force.
    pub async fn follow(mut self, reloads: bool) {
        let mut warned_at = Instant::now();
        loop {
            sleep(LOOK_PAUSE).await;
            if reloads {
                self.look().await;
            }
            if warned_at.elapsed() >= WARN_PAUSE {
                warned_at = Instant::now();
                self.log();
            }
        }
    }

    async fn look(&mut self) {
        let (settings, threads) = (Arc::clone(&self.settings), self.threads.clone());
        let (port, known) = (self.port, self.stamps.clone());
        let in_force = (self.certificates.borrow().clone(), self.own_chain.clone());
        let looking = spawn_blocking(move || {
            let stamps = FileStamps::of(&settings);
            if stamps == known {
                return None;
            }
            let loaded = load((port, &settings), threads, &in_force);
            // Files that change in the meantime are loaded by the next look, all at one state.
            (stamps == FileStamps::of(&settings)).then_some((stamps, loaded))
        });
        // A panic of the loader ends its own thread, and the next look loads again.
        let Ok(Some((stamps, loaded))) = looking.await else { return };
        match loaded {
            Ok(Loaded { acceptor, connector, certificates, own_chain }) => {
                self.acceptor.send_replace(acceptor);
                if let (Some(sender), Some(connector)) = (&self.connector, connector) {
                    sender.send_replace(connector);
                }
                info!(port, "keys and certificates are loaded again, for new connections");
                self.certificates.send_replace(certificates);
                self.own_chain = own_chain;
                self.log();
            }
            Err(error) => {
                // The same files may be readable later, with other permissions.
                let why = error.to_string();
                let is_known =
                    |(known, at): &(String, Instant)| *known == why && at.elapsed() < WARN_PAUSE;
                if !self.failure.as_ref().is_some_and(is_known) {
                    warn!(
                        port, %error,
                        "the changed keys and certificates cannot be used: those before stay in \
                         force, and the files are tried again"
                    );
                    self.failure = Some((why, Instant::now()));
                }
                return;
            }
        }
        self.failure = None;
        self.stamps = stamps;
    }
}

/// The result of loading the files once.
struct Loaded {
    acceptor: TlsAcceptor,
    connector: Option<TlsConnector>,
    certificates: CertificatesInForce,
    own_chain: Option<OwnChain>,
}

fn load(
    (port, settings): (&'static str, &TlsSettings),
    threads: HandshakeThreads,
    (in_force, own_chain): &(CertificatesInForce, Option<OwnChain>),
) -> Result<Loaded, TlsError> {
    let connector = match own_chain {
        Some(_) => Some(settings.connector(Some(threads.clone()))?),
        None => None,
    };
    let acceptor = settings.acceptor(threads)?;
    let certificates = CertificatesInForce::load(settings, port);
    if let Some(why) = certificates.worse_than(in_force) {
        return Err(TlsError::Setting(why));
    }
    let load_again = |before: &OwnChain| before.load_again(settings);
    let own_chain = own_chain.as_ref().map(load_again).transpose()?;
    Ok(Loaded { acceptor, connector, certificates, own_chain })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use rcgen::{
        BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer,
        DnType, ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose,
        RevokedCertParams, date_time_ymd,
    };
    use tempfile::TempDir;

    use super::*;
    use crate::StoreFile;

    /// The serial number of all certificates.
    const SERIAL: u64 = 7;

    type Authority = CertifiedIssuer<'static, KeyPair>;

    fn authority(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    /// Returns a key store in PEM with a certificate for this host.
    fn key_store(issuer: &Authority, host: &str, uses: &[ExtendedKeyUsagePurpose]) -> String {
        let mut params = CertificateParams::new([host.to_owned()]).unwrap();
        params.extended_key_usages = uses.to_vec();
        params.serial_number = Some(SERIAL.into());
        let key = KeyPair::generate().unwrap();
        params.signed_by(&key, issuer).unwrap().pem() + &key.serialize_pem()
    }

    /// Returns a list that revokes this serial number.
    fn revoked(issuer: &Authority, serial: u64) -> String {
        let revoked = RevokedCertParams {
            serial_number: serial.into(),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2999, 1, 1),
            crl_number: 1_u64.into(),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(issuer).unwrap().pem().unwrap()
    }

    /// Changes files of a server that is called `zk1`, and returns why the reload is refused.
    async fn refusal(
        peer_hosts: Option<&str>,
        change: impl FnOnce(&Authority, &Authority, &Path),
    ) -> Option<String> {
        let (own, other) = (authority("own"), authority("other"));
        let directory = TempDir::new().unwrap();
        let path = directory.path();
        fs::write(path.join("peer.pem"), key_store(&own, "zk1", &[])).unwrap();
        fs::write(path.join("ca.pem"), own.pem()).unwrap();
        fs::write(path.join("revoked.pem"), revoked(&own, SERIAL + 1)).unwrap();
        let settings = TlsSettings {
            key_store: Some(StoreFile::new(path.join("peer.pem"))),
            trust_store: Some(StoreFile::new(path.join("ca.pem"))),
            revocations: Some(path.join("revoked.pem")),
            ..TlsSettings::default()
        };
        let hosts = peer_hosts.map(|host| vec![host.to_owned()]);
        let mut loaded = LoadedTls::load("test", settings, hosts).unwrap();
        // Stamps may be too coarse for two writes in a row.
        loaded.stamps = FileStamps::of(&TlsSettings::default());
        change(&own, &other, path);
        loaded.look().await;
        loaded.failure.map(|(why, _)| why)
    }

    #[track_caller]
    fn assert_refused(why: Option<String>, expected: &str) {
        let why = why.unwrap_or_default();
        assert!(why.contains(expected), "`{why}`");
    }

    #[tokio::test]
    async fn a_key_store_of_an_unknown_authority_is_refused() {
        let change = |_: &Authority, other: &Authority, path: &Path| {
            fs::write(path.join("peer.pem"), key_store(other, "zk1", &[])).unwrap();
        };
        assert_refused(
            refusal(Some("zk1"), change).await,
            "peer.pem: the other servers would refuse this certificate as a server: UnknownIssuer",
        );
        assert_eq!(refusal(None, change).await, None, "clients may trust another authority");
    }

    #[tokio::test]
    async fn a_trust_store_without_the_own_authority_is_refused() {
        let why = refusal(Some("zk1"), |_, other, path| {
            fs::write(path.join("ca.pem"), other.pem()).unwrap();
        });
        assert_refused(why.await, "no authority in the trust store has issued it");
        let both = refusal(Some("zk1"), |own, other, path| {
            fs::write(path.join("ca.pem"), own.pem() + &other.pem()).unwrap();
        });
        assert_eq!(both.await, None);
        let replaced = refusal(Some("zk1"), |_, other, path| {
            fs::write(path.join("ca.pem"), other.pem()).unwrap();
            fs::write(path.join("peer.pem"), key_store(other, "zk1", &[])).unwrap();
            fs::write(path.join("revoked.pem"), revoked(other, SERIAL + 1)).unwrap();
        });
        assert_eq!(replaced.await, None);
    }

    /// Other servers refuse a revoked certificate whether or not this one loads the list, which may
    /// revoke theirs as well.
    #[tokio::test]
    async fn a_list_that_revokes_the_certificate_in_force_is_loaded() {
        let revoke = |own: &Authority, _: &Authority, path: &Path| {
            fs::write(path.join("revoked.pem"), revoked(own, SERIAL)).unwrap();
        };
        assert_eq!(refusal(Some("zk1"), revoke).await, None);
        let replace = refusal(Some("zk1"), |own, other, path| {
            revoke(own, other, path);
            fs::write(path.join("peer.pem"), key_store(own, "zk1", &[])).unwrap();
        });
        assert_refused(replace.await, "it is in a list of revoked certificates");
        let foreign = refusal(Some("zk1"), |_, other, path| {
            fs::write(path.join("revoked.pem"), revoked(other, SERIAL)).unwrap();
        });
        assert_refused(foreign.await, "no list of revoked certificates is of its issuer");
    }

    #[tokio::test]
    async fn a_certificate_without_the_own_host_is_refused() {
        let change = |own: &Authority, _: &Authority, path: &Path| {
            fs::write(path.join("peer.pem"), key_store(own, "elsewhere", &[])).unwrap();
        };
        let why = refusal(Some("zk1"), change).await;
        assert_refused(why.clone(), "when they call `zk1`: certificate not valid for name \"zk1\"");
        assert_refused(why, "only valid for DnsName(\"elsewhere\")");
        assert_eq!(refusal(Some("zk2"), change).await, None, "neither has the host");
    }

    #[tokio::test]
    async fn a_certificate_for_servers_or_clients_alone_is_refused() {
        for (uses, expected) in [
            (ExtendedKeyUsagePurpose::ServerAuth, "as a client: "),
            (ExtendedKeyUsagePurpose::ClientAuth, "as a server: "),
        ] {
            let why = refusal(Some("zk1"), |own, _, path| {
                fs::write(path.join("peer.pem"), key_store(own, "zk1", &[uses])).unwrap();
            });
            let why = why.await;
            assert_refused(why.clone(), expected);
            assert_refused(why, "certificate does not allow extended key usage for");
        }
        let both = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let why = refusal(Some("zk1"), |own, _, path| {
            fs::write(path.join("peer.pem"), key_store(own, "zk1", &both)).unwrap();
        });
        assert_eq!(why.await, None);
    }
}
