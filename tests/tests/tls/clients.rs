//! The ports for clients: who is let in, and as whom.

use std::fs;
use std::time::Duration;

use rcgen::{CertificateParams, DistinguishedName, SanType, date_time_ymd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zoolet_client::{Acl, Client, ClientOptions, CreateMode, ErrorCode, Id, Version, perms};
use zoolet_tests::ports::PortLease;
use zoolet_tests::servers::Servers;
use zoolet_tests::with_http::WithHttp;
use zoolet_tests::{http, wait};

use super::authority::Authority;
use super::{SOON, run, soon, start_secure, with_client_stores};

/// How long a client may try that must not be let in.
const REFUSED_WITHIN: Duration = Duration::from_secs(3);

async fn refused(options: ClientOptions, servers: &str) {
    let connected = options.connect_timeout(REFUSED_WITHIN).connect(servers).await;
    assert!(connected.is_err(), "a client was let in");
}

/// Creates a znode for the owner of one certificate, once all servers can.
async fn create_for(client: &Client, path: &str, name: &str) {
    let acl = vec![Acl { perms: perms::ALL, id: Id::new("x509", name) }];
    let created = async {
        loop {
            match client.create_with_acl(path, b"", acl.clone(), CreateMode::Persistent).await {
                Ok(_) => return,
                // The servers agree on the feature within a second.
                Err(error) => assert_eq!(error.code(), Some(ErrorCode::InvalidAcl), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(SOON, created).await.unwrap();
}

fn a_handshake_under_way_is_counted(port: u16, http_port: u16) {
    let metrics = || http::get(([127, 0, 0, 1], http_port).into(), "/metrics").unwrap().body;
    let seen = |line: &str| wait::until(SOON, || metrics().contains(line).then_some(()));
    let silent = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    assert!(seen("\noutstanding_tls_handshake 1\n").is_some(), "{}", metrics());
    drop(silent);
    assert!(seen("\noutstanding_tls_handshake 0\n").is_some(), "{}", metrics());
}

#[test]
fn certificates_are_identities_on_the_secure_port() {
    let (authority, other) = (Authority::new("authority"), Authority::new("other"));
    let lease = PortLease::take(2).unwrap();
    let (port, http_port) = (lease.ports()[0], lease.ports()[1]);
    let servers = with_client_stores(Servers::zoolet(), &authority)
        .property("secureClientPort", &port.to_string())
        .property("admin.enableServer", "true")
        .property("admin.serverAddress", "127.0.0.1")
        .property("admin.serverPort", &http_port.to_string())
        .property("X509AuthenticationProvider.superUser", "CN=admin")
        .start()
        .unwrap();
    a_handshake_under_way_is_counted(port, http_port);
    let secure = format!("localhost:{port}");
    run(async {
        let connect = async |name: &str| {
            let key_store = authority.issue(name, &[], |_| {});
            authority.options(Some(&key_store)).connect(&secure).await.unwrap()
        };
        let (alice, bob, admin) =
            (connect("alice").await, connect("bob").await, connect("admin").await);
        create_for(&alice, "/alice", "CN=alice").await;
        assert!(alice.get("/alice").await.is_ok());
        assert_eq!(bob.get("/alice").await.unwrap_err().code(), Some(ErrorCode::NoAuth));
        assert!(admin.get("/alice").await.is_ok(), "the superuser");
        alice.set_data("/alice", b"mine", Version::Any).await.unwrap();
        // A client without TLS has no certificate.
        let plain = Client::connect(&servers.connect_string()).await.unwrap();
        assert_eq!(plain.get("/alice").await.unwrap_err().code(), Some(ErrorCode::NoAuth));
        let answer = http::get(([127, 0, 0, 1], http_port).into(), "/commands/connections");
        let answer = answer.unwrap().json();
        let count = |list: &str| answer[list].as_array().map(Vec::len);
        assert_eq!((count("secure_connections"), count("connections")), (Some(3), Some(1)));

        refused(authority.options(None), &secure).await;
        refused(authority.options(Some(&other.issue("alice", &[], |_| {}))), &secure).await;
        let expired = |params: &mut CertificateParams| {
            params.not_before = date_time_ymd(2019, 1, 1);
            params.not_after = date_time_ymd(2020, 1, 1);
        };
        refused(authority.options(Some(&authority.issue("old", &[], expired))), &secure).await;
        let alice = authority.path("alice.pem");
        refused(other.options(Some(&alice)), &secure).await;
        // The server's certificate names localhost and 127.0.0.1.
        refused(authority.options(Some(&alice)), &format!("127.0.0.2:{port}")).await;
    });
    servers.until_logged(0, &["the TLS handshake failed"]).unwrap();
}

#[test]
fn a_certificate_without_a_name_proves_no_identity() {
    let authority = Authority::new("authority");
    let servers = with_client_stores(Servers::zoolet(), &authority)
        .property("client.portUnification", "true")
        .start()
        .unwrap();
    let unnamed = |params: &mut CertificateParams| {
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names.push(SanType::DnsName("client".try_into().unwrap()));
    };
    let key_store = authority.issue("unnamed", &[], unnamed);
    run(async {
        let client = authority.options(Some(&key_store));
        let client = client.connect(&servers.connect_string()).await.unwrap();
        let identities = client.who_am_i().await.unwrap();
        assert!(identities.iter().all(|identity| identity.auth_scheme != "x509"), "{identities:?}");
    });
}

#[test]
fn a_secure_port_in_use_is_named() {
    let authority = Authority::new("authority");
    let taken = std::net::TcpListener::bind(("0.0.0.0", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let servers = with_client_stores(Servers::zoolet(), &authority);
    let why = servers.property("secureClientPort", &port).start().unwrap_err().to_string();
    let named = format!("0.0.0.0:{port}");
    assert!(why.contains("cannot listen for clients on") && why.contains(&named), "{why}");
}

#[test]
fn the_wrong_language_is_named_in_the_log() {
    let authority = Authority::new("authority");
    let lease = PortLease::take(1).unwrap();
    let port = lease.ports()[0];
    for (to_secure, expected) in [(true, "TLS expected"), (false, "TLS hello on the plain port")] {
        let servers = with_client_stores(Servers::zoolet(), &authority)
            .property("secureClientPort", &port.to_string())
            .start()
            .unwrap();
        run(async {
            if to_secure {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                stream.write_all(b"ruok").await.unwrap();
                let mut answer = Vec::new();
                // Closed, or reset because of the bytes that are not read.
                let _ = timeout(SOON, stream.read_to_end(&mut answer)).await.unwrap();
                assert!(answer.is_empty(), "{answer:?}");
            } else {
                let client = authority.issue("client", &[], |_| {});
                refused(authority.options(Some(&client)), &servers.connect_string()).await;
            }
        });
        assert!(soon(|| servers.output(0).unwrap().contains(expected)), "{expected}");
    }
}

/// A scan of ports with truncated hellos hid the client that was refused within 10 s.
#[test]
fn a_port_scan_does_not_hide_a_refused_client() {
    let (authority, other) = (Authority::new("authority"), Authority::new("other"));
    let (servers, port, _lease) = start_secure(&authority);
    let has = |text: &str| servers.output(0).unwrap().contains(text);
    run(async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(&[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 3]).await.unwrap();
        assert!(soon(|| has("cut short")), "the scan is in the log");
        let stranger = other.issue("stranger", &[], |_| {});
        refused(authority.options(Some(&stranger)), &format!("localhost:{port}")).await;
        assert!(soon(|| has("invalid peer certificate: UnknownIssuer: ")), "and the client, too");
    });
}

#[test]
fn one_port_takes_both_while_clients_are_switched_over() {
    let authority = Authority::new("authority");
    let servers = with_client_stores(Servers::zoolet(), &authority)
        .property("client.portUnification", "true")
        .property("ssl.clientAuth", "want")
        .start()
        .unwrap();
    run(async {
        let plain = Client::connect(&servers.connect_string()).await.unwrap();
        let client = authority.issue("client", &[], |_| {});
        for key_store in [None, Some(client.as_path())] {
            let secure =
                authority.options(key_store).connect(&servers.connect_string()).await.unwrap();
            let (path, _) =
                secure.create("/both-", b"", CreateMode::PersistentSequential).await.unwrap();
            plain.sync("/").await.unwrap();
            assert!(plain.exists(&path).await.unwrap().is_some());
            // Long replies and requests pass in pieces.
            let long = vec![7; 900_000];
            secure.set_data(&path, &long, Version::Any).await.unwrap();
            assert!(secure.get(&path).await.unwrap().0 == long);
        }
    });
}

/// Clients that stop within their handshakes hold no thread, and those that end in time no place.
#[test]
fn half_open_handshakes_keep_no_other_client_out() {
    let authority = Authority::new("authority");
    let servers = with_client_stores(Servers::zoolet(), &authority)
        .property("client.portUnification", "true")
        .property("nio.sessionlessCnxnTimeout", "4000")
        .start()
        .unwrap();
    run(async {
        let mut open = Vec::new();
        for at in 0..300 {
            let mut stream = TcpStream::connect(servers.client_address(0).unwrap()).await.unwrap();
            let begin: &[u8] = if at % 2 == 0 { &[0x16] } else { &[0x16, 3, 1, 2, 0, 1, 0, 1] };
            stream.write_all(begin).await.unwrap();
            open.push(stream);
        }
        let client = authority.issue("client", &[], |_| {});
        let client = authority.options(Some(&client)).connect_timeout(SOON);
        let client = client.connect(&servers.connect_string()).await.unwrap();
        client.create("/a", b"", CreateMode::Persistent).await.unwrap();
        for mut stream in open {
            let closed = timeout(SOON, stream.read(&mut [0; 8])).await.expect("it is closed");
            assert!(!matches!(closed, Ok(bytes) if bytes > 0), "{closed:?}");
        }
        assert!(client.exists("/a").await.unwrap().is_some());
    });
}

#[test]
fn changed_files_hold_for_new_connections() {
    let (authority, next) = (Authority::new("authority"), Authority::new("next"));
    let servers = with_client_stores(Servers::zoolet(), &authority)
        .property("client.portUnification", "true")
        .property("client.certReload", "true")
        .start()
        .unwrap();
    let address = servers.connect_string();
    run(async {
        let client = authority.issue("client", &[], |_| {});
        let before = authority.options(Some(&client)).connect(&address).await.unwrap();
        let session = before.session();
        // A damaged file leaves the old one in force.
        fs::write(authority.path("server.pem"), "-----BEGIN").unwrap();
        let has = |text: &str| servers.output(0).unwrap().contains(text);
        assert!(soon(|| has("server.pem: ")), "the damage is in the log");
        let still = authority.options(Some(&client)).connect(&address).await.unwrap();
        still.close().await.unwrap();
        fs::copy(next.issue_server(), authority.path("server.pem")).unwrap();
        fs::copy(next.path("ca.pem"), authority.path("ca.pem")).unwrap();
        let new_client = next.issue("client", &[], |_| {});
        let connected = async {
            loop {
                let new = next.options(Some(&new_client)).connect_timeout(REFUSED_WITHIN);
                match new.connect(&address).await {
                    Ok(client) => return client,
                    Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
                }
            }
        };
        let new = timeout(SOON, connected).await.expect("the new files are in force");
        new.create("/new", b"", CreateMode::Persistent).await.unwrap();
        assert!(before.exists("/new").await.unwrap().is_some());
        assert_eq!(before.session().id, session.id, "its connection was not touched");
    });
}

/// A certificate that has expired, or is not valid yet, was loaded with a line at level INFO; the next
/// loss of a leader then stopped the ensemble.
#[test]
fn files_that_are_not_valid_now_do_not_take_the_place_of_valid_ones() {
    let authority = Authority::new("authority");
    authority.revoke_until(&[9], (2024, 2999));
    let servers = with_client_stores(Servers::zoolet(), &authority)
        .property("client.portUnification", "true")
        .property("client.certReload", "true")
        .property("ssl.crlFile", &authority.text("revoked.crl"));
    let server = WithHttp::start(servers);
    let address = server.servers.connect_string();
    let client = authority.issue("client", &[], |_| {});
    let has = |text: &str| server.servers.output(0).unwrap().contains(text);
    let connects = || {
        run(async {
            let client = authority.options(Some(&client)).connect(&address).await.unwrap();
            client.close().await.unwrap();
        });
    };
    let of_years = |(first, last): (i32, i32)| {
        authority.issue("server", &["localhost", "127.0.0.1"], |params| {
            params.not_before = date_time_ymd(first, 1, 1);
            params.not_after = date_time_ymd(last, 1, 1);
        });
    };
    of_years((2019, 2020));
    assert!(soon(|| has("the certificate CN=server has expired")), "the refusal is in the log");
    connects();
    of_years((2998, 2999));
    assert!(soon(|| has("the certificate CN=server is not valid yet")));
    connects();
    of_years((2024, 2998));
    assert!(soon(|| has("keys and certificates are loaded again")));
    authority.revoke_until(&[9], (2024, 2025));
    assert!(soon(|| has("the list of revoked certificates CN=authority has expired")));
    connects();
    let metrics = http::get(server.http, "/metrics").unwrap().body;
    for kind in ["certificate", "ca", "crl"] {
        let labels = format!("{{port=\"clients\",kind=\"{kind}\"}} ");
        let line = format!("zoolet_tls_certificate_expires_seconds{labels}");
        let left = metrics.lines().find_map(|found| found.strip_prefix(&line));
        assert!(left.unwrap().parse::<i64>().unwrap() > 0, "{kind}: what is in force: {metrics}");
    }
    let heads = metrics.matches("# TYPE zoolet_tls_certificate_expires_seconds gauge").count();
    assert_eq!(heads, 1, "{metrics}");
}

#[test]
fn expired_and_expiring_certificates_are_named_at_the_start() {
    let authority = Authority::new("authority");
    let servers = with_client_stores(Servers::zoolet(), &authority);
    authority.issue("server", &["localhost", "127.0.0.1"], |params| {
        params.not_after = date_time_ymd(2020, 1, 1);
    });
    let list = authority.revoke_until(&[9], (2024, 2025));
    let servers = servers
        .property("client.portUnification", "true")
        .property("ssl.crlFile", &list.display().to_string())
        .start()
        .unwrap();
    let texts = [
        "the certificate CN=server has expired: replace it",
        "the list of revoked certificates CN=authority has expired",
    ];
    servers.until_logged(0, &texts).unwrap();
}

/// A new list holds for new connections, and a restart ends those of before (`docs/tls.md`).
#[test]
fn a_revoked_client_keeps_its_connection_until_the_server_restarts() {
    let authority = Authority::new("authority");
    let list = authority.revoke(&[9]);
    let mut servers = with_client_stores(Servers::zoolet(), &authority)
        .property("client.portUnification", "true")
        .property("client.certReload", "true")
        .property("ssl.crlFile", &list.display().to_string())
        .start()
        .unwrap();
    let address = servers.connect_string();
    let issue = |name: &str, number: u64| {
        authority.issue(name, &[], |params| params.serial_number = Some(number.into()))
    };
    let (alice, bob) = (issue("alice", 7), issue("bob", 8));
    run(async {
        let open = authority.options(Some(&alice)).connect(&address).await.unwrap();
        create_for(&open, "/alice", "CN=alice").await;
        authority.revoke(&[9, 7]);
        let refused = async {
            let new = || authority.options(Some(&alice)).connect_timeout(REFUSED_WITHIN);
            while let Ok(client) = new().connect(&address).await {
                client.close().await.unwrap();
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        timeout(SOON, refused).await.expect("the new list is in force");
        // With its identity; another connection would be refused.
        assert!(open.get("/alice").await.is_ok());
        authority.options(Some(&bob)).connect(&address).await.unwrap().close().await.unwrap();

        servers.kill(0).unwrap();
        servers.restart(0).unwrap();
        let bob = authority.options(Some(&bob)).connect(&address).await.unwrap();
        assert!(bob.exists("/").await.unwrap().is_some());
        let lost = timeout(REFUSED_WITHIN, open.get("/alice")).await;
        assert!(!matches!(lost, Ok(Ok(_))), "the revoked client goes on");
    });
}
