//! Handshakes with certificates that are in order and with others, over real connections.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::large_futures,
    clippy::unnecessary_wraps,
    reason = "a test fails by panicking, and its settings and futures are as they come"
)]

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use zoolet_tls::{ClientAuth, HandshakeError, HandshakeThreads, Protocol, StoreFile, TlsSettings};

const PATIENCE: Duration = Duration::from_secs(30);

/// An authority, and the files that it has made.
struct Authority {
    directory: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        Self::named("authority")
    }

    fn named(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { directory, issuer }
    }

    fn trust_store(&self) -> Option<StoreFile> {
        Some(StoreFile::new(self.directory.path().join("ca.pem")))
    }

    /// Makes a key and its certificate for these host names and addresses.
    fn key_store(
        &self,
        name: &str,
        hosts: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Option<StoreFile> {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let file = self.directory.path().join(format!("{name}.pem"));
        fs::write(&file, certificate.pem() + &key.serialize_pem()).unwrap();
        Some(StoreFile::new(file))
    }

    fn server(&self) -> TlsSettings {
        let mut settings = TlsSettings::default();
        settings.key_store = self.key_store("server", &["localhost", "127.0.0.1"], |_| {});
        settings.trust_store = self.trust_store();
        settings
    }

    fn client(&self) -> TlsSettings {
        let mut settings = TlsSettings::default();
        settings.key_store = self.key_store("client", &[], |_| {});
        settings.trust_store = self.trust_store();
        settings
    }

    /// Makes a list on which the certificate with this number is revoked.
    fn revoke(&self, number: u64) -> std::path::PathBuf {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(number),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2999, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let file = self.directory.path().join("revoked.crl");
        fs::write(&file, list.signed_by(&self.issuer).unwrap().der()).unwrap();
        file
    }
}

/// What both sides made of it: the server's result is the name in the client's certificate.
type Outcome = (Result<Option<String>, HandshakeError>, Result<(), String>);

/// Has a client connect, and sends a mebibyte there and back.
async fn meet(server: &TlsSettings, client: &TlsSettings, host: &str) -> Outcome {
    let acceptor = server.acceptor(HandshakeThreads::default()).unwrap();
    let connector = client.connector(None).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = async {
        let (stream, peer) = listener.accept().await.unwrap();
        let mut accepted = acceptor.accept(stream, peer.ip(), &[]).await?;
        let mut bytes = vec![0; 1 << 20];
        accepted.stream.read_exact(&mut bytes).await?;
        accepted.stream.write_all(&bytes).await?;
        accepted.stream.shutdown().await?;
        Ok(accepted.certificate.map(|certificate| certificate.subject_name().unwrap()))
    };
    let calling = async {
        let stream = TcpStream::connect(address).await.unwrap();
        let text = |error: HandshakeError| error.to_string();
        let mut stream = connector.connect(stream, host).await.map_err(text)?;
        let io = |error: std::io::Error| error.to_string();
        let sent: Vec<u8> = (0..1 << 20).map(|at: u32| at.to_be_bytes()[3]).collect();
        stream.write_all(&sent).await.map_err(io)?;
        stream.flush().await.map_err(io)?;
        let mut back = Vec::new();
        stream.read_to_end(&mut back).await.map_err(io)?;
        assert!(back == sent, "other bytes came back");
        Ok(())
    };
    timeout(PATIENCE, async { tokio::join!(serving, calling) }).await.unwrap()
}

fn refused(outcome: Outcome, expected: &str) {
    let server = outcome.0.map_err(|error| error.to_string());
    let said = format!("{server:?} {:?}", outcome.1);
    assert!(server.is_err() && outcome.1.is_err(), "{said}");
    assert!(said.contains(expected), "{said}");
}

#[tokio::test]
async fn certificates_in_order_are_accepted() {
    let authority = Authority::new();
    let (mut server, client) = (authority.server(), authority.client());
    for protocols in [vec![], vec![Protocol::Tls12], vec![Protocol::Tls13]] {
        server.protocols = protocols;
        for host in ["localhost", "127.0.0.1"] {
            let (accepted, connected) = meet(&server, &client, host).await;
            assert_eq!(accepted.unwrap().as_deref(), Some("CN=client"));
            connected.unwrap();
        }
    }
}

#[tokio::test]
async fn the_name_of_the_server_counts_unless_it_is_not_verified() {
    let authority = Authority::new();
    let (server, mut client) = (authority.server(), authority.client());
    refused(meet(&server, &client, "other.example").await, "not valid for name");
    client.verify_server_name = false;
    meet(&server, &client, "other.example").await.1.unwrap();
    // That makes no other certificate good.
    let other = Authority::named("other");
    client.trust_store = other.trust_store();
    refused(meet(&server, &client, "localhost").await, "UnknownIssuer");
}

#[tokio::test]
async fn a_client_of_another_authority_is_refused() {
    let (authority, other) = (Authority::new(), Authority::named("other"));
    let (server, mut client) = (authority.server(), authority.client());
    client.key_store = other.client().key_store;
    refused(meet(&server, &client, "localhost").await, "UnknownIssuer");
}

/// It was named `Other(OtherError(CaUsedAsEndEntity))`.
#[tokio::test]
async fn a_client_with_an_authority_s_certificate_is_refused() {
    let authority = Authority::new();
    let (server, mut client) = (authority.server(), authority.client());
    let is_ca = |params: &mut CertificateParams| {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    };
    client.key_store = authority.key_store("ca-client", &[], is_ca);
    let outcome = meet(&server, &client, "localhost").await;
    let why = outcome.0.as_ref().unwrap_err().to_string();
    assert!(why.contains("CA:TRUE") && !why.contains("Other("), "{why}");
    refused(outcome, "invalid peer certificate: CaUsedAsEndEntity: ");
}

/// A scanner of ports was named `MissingData("ProtocolVersion")`, and hid refused clients.
#[tokio::test]
async fn a_hello_that_is_cut_short_is_named_in_words() {
    let authority = Authority::new();
    let acceptor = authority.server().acceptor(HandshakeThreads::default()).unwrap();
    let (mut ours, theirs) = tokio::io::duplex(64);
    // A record with a client hello of one byte.
    ours.write_all(&[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 3]).await.unwrap();
    let refused = acceptor.accept(theirs, IpAddr::from([127, 0, 0, 1]), &[]).await.unwrap_err();
    let why = refused.to_string();
    assert!(why.contains("cut short") && why.contains("MissingData"), "{why}");
    let unknown = HandshakeError::from(rustls::Error::InvalidCertificate(
        rustls::CertificateError::UnknownIssuer,
    ));
    assert_ne!(refused.kind(), unknown.kind());
}

#[tokio::test]
async fn expired_certificates_are_refused() {
    let authority = Authority::new();
    let expire = |params: &mut CertificateParams| {
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 1, 1);
    };
    let (mut server, mut client) = (authority.server(), authority.client());
    client.key_store = authority.key_store("old-client", &[], expire);
    refused(meet(&server, &client, "localhost").await, "expired");
    client.key_store = authority.client().key_store;
    server.key_store = authority.key_store("old-server", &["localhost"], expire);
    refused(meet(&server, &client, "localhost").await, "expired");
}

#[tokio::test]
async fn a_client_without_a_certificate_is_accepted_unless_one_is_needed() {
    let authority = Authority::new();
    let (mut server, mut client) = (authority.server(), authority.client());
    client.key_store = None;
    refused(meet(&server, &client, "localhost").await, "sent no certificates");
    for client_auth in [ClientAuth::Want, ClientAuth::None] {
        server.client_auth = client_auth;
        let (accepted, connected) = meet(&server, &client, "localhost").await;
        assert_eq!(accepted.unwrap(), None, "{client_auth:?}");
        connected.unwrap();
    }
    // With none, a client's certificate is not asked for.
    let (accepted, _) = meet(&server, &authority.client(), "localhost").await;
    assert_eq!(accepted.unwrap(), None);
    // With want, a wrong one is worse than no certificate.
    server.client_auth = ClientAuth::Want;
    let other = Authority::named("other");
    client.key_store = other.client().key_store;
    refused(meet(&server, &client, "localhost").await, "UnknownIssuer");
}

#[tokio::test]
async fn a_revoked_certificate_is_refused() {
    let authority = Authority::new();
    let (mut server, mut client) = (authority.server(), authority.client());
    server.revocations = Some(authority.revoke(7));
    let number = |number: u64| {
        move |params: &mut CertificateParams| {
            params.serial_number = Some(SerialNumber::from(number));
        }
    };
    client.key_store = authority.key_store("good", &[], number(6));
    meet(&server, &client, "localhost").await.1.unwrap();
    client.key_store = authority.key_store("revoked", &[], number(7));
    refused(meet(&server, &client, "localhost").await, "evoked");
    // The list must be readable.
    fs::write(server.revocations.as_ref().unwrap(), "-----BEGIN NOTHING-----\n").unwrap();
    let why = server.acceptor(HandshakeThreads::default()).unwrap_err().to_string();
    assert!(why.contains("revoked.crl: "), "{why}");
}

#[tokio::test]
async fn a_clients_address_counts_if_it_is_verified() {
    let authority = Authority::new();
    let (mut server, mut client) = (authority.server(), authority.client());
    server.verify_client_address = true;
    let (accepted, _) = meet(&server, &client, "localhost").await;
    let why = accepted.unwrap_err().to_string();
    assert!(why.ends_with("not valid for its address 127.0.0.1"), "{why}");
    client.key_store = authority.key_store("addressed", &["127.0.0.1"], |_| {});
    meet(&server, &client, "localhost").await.0.unwrap();
}

#[tokio::test]
async fn a_client_that_speaks_plain_text_is_recognized() {
    let acceptor = Authority::new();
    let acceptor = acceptor.server().acceptor(HandshakeThreads::default()).unwrap();
    for plain in [b"ruok".as_slice(), &[0, 0, 0, 45, 0, 0]] {
        let (mut ours, theirs) = tokio::io::duplex(64);
        ours.write_all(plain).await.unwrap();
        let refused = acceptor.accept(theirs, IpAddr::from([127, 0, 0, 1]), &[]).await;
        assert!(matches!(refused, Err(HandshakeError::Plaintext)), "{refused:?}");
    }
    // What was read before belongs to it.
    let (_ours, theirs) = tokio::io::duplex(64);
    let refused = acceptor.accept(theirs, IpAddr::from([127, 0, 0, 1]), b"stat").await;
    assert!(matches!(refused, Err(HandshakeError::Plaintext)), "{refused:?}");
}

#[test]
fn what_is_missing_is_named() {
    let authority = Authority::new();
    let error = |settings: &TlsSettings| {
        settings.acceptor(HandshakeThreads::default()).unwrap_err().to_string()
    };
    let mut settings = authority.server();
    settings.trust_store = None;
    assert!(error(&settings).contains("set the trust store, or client authentication to none"));
    settings.key_store = None;
    assert!(error(&settings).contains("set the key store"));
    let missing = Path::new("/nowhere/key.pem");
    settings.key_store = Some(StoreFile::new(missing));
    let why = error(&settings);
    assert!(why.starts_with("/nowhere/key.pem: cannot be read: "), "{why}");
    // The key of another certificate.
    let mut settings = authority.server();
    let (one, other) = (authority.client(), authority.server());
    let text = |settings: &TlsSettings| {
        fs::read_to_string(&settings.key_store.as_ref().unwrap().location).unwrap()
    };
    let begin = "-----BEGIN PRIVATE KEY-----";
    let (one, other) = (text(&one), text(&other));
    let mixed = format!(
        "{}{begin}{}",
        one.split(begin).next().unwrap(),
        other.split(begin).nth(1).unwrap()
    );
    let file = authority.directory.path().join("mixed.pem");
    fs::write(&file, mixed).unwrap();
    settings.key_store = Some(StoreFile::new(file));
    let why = error(&settings);
    assert!(why.contains("mixed.pem: the private key does not belong"), "{why}");
}
