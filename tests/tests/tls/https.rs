//! The HTTP port over TLS, and the clients of it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use zoolet_tests::builder::ServersBuilder;
use zoolet_tests::ports::PortLease;
use zoolet_tests::servers::Servers;
use zoolet_tests::with_http::here;
use zoolet_tests::{http, tools, wait, zoolet, zooletctl};

use super::authority::Authority;
use super::curl::User;
use super::{SOON, soon};

fn start(
    authority: &Authority,
    key: &str,
    change: impl FnOnce(ServersBuilder) -> ServersBuilder,
) -> (Servers, u16, PortLease) {
    let lease = PortLease::take(1).unwrap();
    let port = lease.ports()[0];
    let server = authority.issue_server();
    let servers = Servers::zoolet()
        .property("admin.enableServer", "true")
        .property("admin.serverAddress", "127.0.0.1")
        .property("admin.serverPort", &port.to_string())
        .property(key, "true")
        // As an AdminServer, the port takes these.
        .property("ssl.quorum.keyStore.location", &server.display().to_string());
    (change(servers).start().unwrap(), port, lease)
}

fn ctl(words: &[&str]) -> Output {
    zooletctl::command().unwrap().args(words).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_port_that_speaks_tls_alone_says_so_to_plain_http() {
    if !tools::require_foreign("https_port", &["curl"]).unwrap() {
        return;
    }
    let authority = Authority::new("authority");
    let (servers, port, _lease) = start(&authority, "admin.forceHttps", |servers| servers);
    let answer = http::get(here(port), "/metrics").unwrap();
    assert_eq!(answer.status, 400);
    assert!(answer.body.contains("this port speaks TLS alone, use https://"), "{answer:?}");
    assert!(soon(|| servers.output(0).unwrap().contains("plain HTTP: this port speaks TLS")));
    let answer = http::send(here(port), b"\0\0\0\x2d\0\0\0\0").unwrap();
    assert!(answer.contains("this is not HTTP"), "{answer}");
    let user = User::new(&authority, None, port);
    for path in ["/metrics", "/health", "/commands/ruok", "/console/"] {
        let seen = wait::until(SOON, || (user.get(path).status == 200).then_some(()));
        assert!(seen.is_some(), "{path}: {:?}", user.get(path));
    }
    assert!(user.get("/metrics").body.contains("znode_count"));
    // A page that shows the servers needs the port too, and reaches it from within.
    let ensemble = user.get("/console/api/ensemble").json();
    assert!(ensemble.to_string().contains("fsync") || ensemble["servers"].is_array(), "{ensemble}");
    let history = user.get("/console/api/history?path=/").json();
    assert_eq!(history["isKept"], true, "{history}");
    // A silent connection holds no other up.
    let _silent = std::net::TcpStream::connect(here(port)).unwrap();
    assert_eq!(user.get("/health").status, 200);
}

#[test]
fn one_port_takes_both_while_its_clients_are_switched_over() {
    if !tools::require_foreign("https_unification", &["curl"]).unwrap() {
        return;
    }
    let authority = Authority::new("authority");
    let (_servers, port, _lease) = start(&authority, "admin.portUnification", |servers| servers);
    assert_eq!(http::get(here(port), "/health").unwrap().status, 200);
    assert_eq!(User::new(&authority, None, port).get("/health").status, 200);
}

#[test]
fn a_new_certificate_holds_for_new_connections() {
    if !tools::require_foreign("https_reload", &["curl"]).unwrap() {
        return;
    }
    let (authority, next) = (Authority::new("authority"), Authority::new("next"));
    let reload = |servers: ServersBuilder| servers.property("admin.certReload", "true");
    let (servers, port, _lease) = start(&authority, "admin.forceHttps", reload);
    let (old, new) = (User::new(&authority, None, port), User::new(&next, None, port));
    assert_eq!((old.get("/health").status, new.get("/health").status), (200, 0));
    fs::write(authority.path("server.pem"), "-----BEGIN").unwrap();
    assert!(soon(|| servers.output(0).unwrap().contains("those before stay in force")));
    assert_eq!(old.get("/health").status, 200);
    fs::copy(next.issue_server(), authority.path("server.pem")).unwrap();
    assert!(soon(|| new.get("/health").status == 200));
}

#[test]
fn zooletctl_and_curl_prove_who_they_are_by_certificates() {
    if !tools::require_foreign("https_commands", &["curl"]).unwrap() {
        return;
    }
    let authority = Authority::new("authority");
    let needs = |servers: ServersBuilder| {
        servers
            .property("admin.needClientAuth", "true")
            .property("ssl.quorum.trustStore.location", &authority.text("ca.pem"))
            .property("X509AuthenticationProvider.superUser", "CN=admin")
    };
    let (servers, port, _lease) = start(&authority, "admin.forceHttps", needs);
    let store = |name: &str| authority.issue(name, &[], |_| {}).display().to_string();
    let (alice, admin) = (store("alice"), store("admin"));
    assert_eq!(User::new(&authority, None, port).get("/health").status, 0, "it needs one");
    let user = |name| User::new(&authority, Some((&authority, name)), port);
    let reset = |name, words: &[&str]| user(name).ask("/commands/stat_reset", words).status;
    let x509 = ["-H", "Authorization: x509 certificate"];
    // A page of another site can have a browser show its certificate, but not send the header.
    assert_eq!((reset("admin", &[]), reset("admin", &x509)), (401, 200));
    assert_eq!(reset("alice", &x509), 403);

    let (ca, https) = (authority.text("ca.pem"), format!("https://localhost:{port}"));
    let servers_at = servers.connect_string();
    let history = |words: &[&str]| {
        let own = ["-s", &servers_at, "history", "/", "--http", &https];
        ctl(&[words, &own].concat())
    };
    let shown = history(&["--trust-store", &ca, "--key-store", &alice]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let unknown = text(&history(&[]).stderr);
    assert!(unknown.contains("it is not known whom to trust"), "{unknown}");
    let without = text(&history(&["--trust-store", &ca]).stderr);
    assert!(without.to_lowercase().contains("certificate"), "{without}");
    let plain = ["-s", &servers_at, "history", "/", "--http", &https[8..]];
    let plain = text(&ctl(&plain).stderr);
    assert!(plain.contains("this port speaks TLS alone, use https://"), "{plain}");

    let file = authority.text("backup.snap");
    let save = |store: &str| {
        let tls = ["--trust-store", &ca, "--key-store", store];
        ctl(&[&tls[..], &["snapshot", "save", &https, &file]].concat())
    };
    let refused = text(&save(&alice).stderr);
    assert!(refused.contains("Not authorized"), "{refused}");
    let saved = save(&admin);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
}

/// `zoolet console` with TLS for its browsers, of a server whose HTTP port speaks TLS.
#[test]
fn the_console_of_any_ensemble_speaks_tls_too() {
    if !tools::require_foreign("https_console", &["curl"]).unwrap() {
        return;
    }
    let authority = Authority::new("authority");
    let unified = |servers: ServersBuilder| {
        super::with_client_stores(servers, &authority)
            .property("client.portUnification", "true")
            .property("ssl.clientAuth", "want")
    };
    let (servers, port, _lease) = start(&authority, "admin.forceHttps", unified);
    authority.issue("alice", &[], |_| {});
    let (ca, key) = (authority.text("ca.pem"), authority.text("server.pem"));
    let (connect, https) = (servers.connect_string(), format!("https://localhost:{port}"));
    let connect = connect.replace("127.0.0.1", "localhost");
    let own = ["console", "--listen", "127.0.0.1:0", "--until-stdin-ends"];
    let tls = ["--tls-key-store", &key, "--tls-trust-store", &ca];
    let known = ["--connect", &connect, "--http", &https, "--trust-store", &ca];
    let mut command = Command::new(zoolet::binary().unwrap());
    command.args(own).args(tls).args(known).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut console = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(console.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let console_port = line.trim().strip_prefix("console: https://127.0.0.1:");
    let console_port = console_port.and_then(|rest| rest.split('/').next()).unwrap();
    let console_port = console_port.parse().unwrap();
    let stranger = User::new(&authority, None, console_port).get("/console/");
    let alice = User::new(&authority, Some((&authority, "alice")), console_port);
    let page = alice.get("/console/");
    let history = alice.get("/console/api/history?path=/").json();
    let login = alice.post("login", &serde_json::json!({ "certificate": true }));
    let digest = alice.post("login", &serde_json::json!({ "user": "a", "password": "b" }));
    drop(console.stdin.take());
    assert!(console.wait().unwrap().success());
    assert_eq!((stranger.status, page.status), (0, 200), "{stranger:?} {page:?}");
    assert_eq!(history["isKept"], true, "{history}");
    assert!(login.status == 501 && login.error().contains("not the browser's"), "{login:?}");
    assert!(digest.status == 200 && digest.head.contains("; Secure"), "{digest:?}");
}
