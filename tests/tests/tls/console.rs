//! The web console over TLS: who is let in with a certificate, and as whom.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rcgen::{CertificateParams, date_time_ymd};
use serde_json::{Value, json};
use zoolet_tests::ports::PortLease;
use zoolet_tests::servers::Servers;
use zoolet_tests::{tools, wait, zoolet};

use super::authority::Authority;
use super::curl::{Reply, User};
use super::{SOON, soon};

/// A server whose console takes certificates, and logs what is changed by whom.
fn start(authority: &Authority, change: &[(&str, &str)]) -> (Servers, u16, PortLease) {
    let lease = PortLease::take(1).unwrap();
    let port = lease.ports()[0];
    let server = authority.issue_server();
    let mut servers = Servers::zoolet()
        .property("admin.enableServer", "true")
        .property("admin.serverAddress", "127.0.0.1")
        .property("admin.serverPort", &port.to_string())
        .property("admin.forceHttps", "true")
        .property("admin.ssl.keyStore.location", &server.display().to_string())
        .property("admin.ssl.trustStore.location", &authority.text("ca.pem"))
        .property("admin.ssl.clientAuth", "want")
        .property("X509AuthenticationProvider.superUser", "CN=admin")
        .property("audit.enable", "true");
    for (key, value) in change {
        servers = servers.property(key, value);
    }
    (servers.start().unwrap(), port, lease)
}

const LOGINS: (&str, &str) = ("admin.console.logins", "true");

fn by_certificate() -> Value {
    json!({ "certificate": true })
}

/// Logs a user in, once the console is there.
fn log_in(user: &User<'_>) -> Reply {
    let there =
        wait::until(SOON, || (user.get("/console/api/session").status == 200).then_some(()));
    assert!(there.is_some(), "{:?}", user.get("/console/api/session"));
    let reply = user.post("login", &by_certificate());
    assert_eq!(reply.status, 200, "{reply:?}");
    reply
}

/// Creates a znode of the owner of a certificate, once all servers can.
fn create_for(user: &User<'_>, path: &str, name: &str) {
    let acl = json!([{ "scheme": "x509", "id": name, "perms": "cdrwa" }]);
    let body = json!({ "path": path, "text": "first", "acl": acl });
    let create = || {
        let reply = user.post("create", &body);
        // The servers agree on the feature within a second.
        (reply.status == 200).then_some(()).ok_or(reply)
    };
    let created = wait::until(SOON, || create().ok());
    assert!(created.is_some(), "{:?}", create());
}

fn audited(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_certificate_is_a_login_with_its_identity() {
    if !tools::require_foreign("console_certificates", &["curl"]).unwrap() {
        return;
    }
    let authority = Authority::new("authority");
    let (servers, port, _lease) = start(&authority, &[LOGINS]);
    for name in ["alice", "bob", "admin"] {
        authority.issue(name, &[], |_| {});
    }
    let user = |name| User::new(&authority, Some((&authority, name)), port);
    let (alice, bob, admin) = (user("alice"), user("bob"), user("admin"));
    let stranger = User::new(&authority, None, port);

    // Who has not logged in only looks, with a certificate too.
    let there = || (stranger.get("/console/api/session").status == 200).then_some(());
    assert!(wait::until(SOON, there).is_some(), "{:?}", stranger.get("/console/api/session"));
    let set = json!({ "path": "/alice", "text": "changed", "version": 0 });
    for looking in [&stranger, &alice] {
        let session = looking.get("/console/api/session").json();
        assert!(session["identities"].is_null(), "{session}");
        let certificate = looking.certificate.map(|(_, name)| format!("CN={name}"));
        assert_eq!(session["certificate"].as_str(), certificate.as_deref());
        assert_eq!(looking.post("set", &set).status, 401);
        assert_eq!(looking.get("/console/api/children?path=/").status, 200);
    }
    let refused = stranger.post("login", &by_certificate());
    assert_eq!(refused.status, 403);
    assert!(refused.error().contains("the browser has shown no certificate"), "{refused:?}");

    let reply = log_in(&alice);
    assert!(reply.head.contains("; Secure"), "{reply:?}");
    let identities = reply.json()["identities"].to_string();
    assert!(identities.contains("x509:CN=alice") && !identities.contains("super"), "{identities}");
    create_for(&alice, "/alice", "CN=alice");
    assert_eq!(alice.post("set", &set).status, 200);

    // Another identity is refused by the ACL, the superuser's certificate by none.
    log_in(&bob);
    let set = |version| json!({ "path": "/alice", "text": "again", "version": version });
    assert_eq!(bob.get("/console/api/znode?path=/alice").status, 403);
    assert_eq!(bob.post("set", &set(1)).status, 403);
    log_in(&admin);
    assert_eq!(admin.post("set", &set(1)).status, 200);
    let closed = bob.post("close", &json!({ "session": "0x1" }));
    assert_eq!(closed.status, 403, "{closed:?}");
    let closed = admin.post("close", &json!({ "session": "0x1" }));
    assert!(!closed.error().contains("Not auth"), "the identity is taken: {closed:?}");

    // A login holds for the certificate that it was made with.
    let thief = |certificate| User { certificate, ..user("alice") };
    for thief in [thief(None), thief(Some((&authority, "bob")))] {
        assert_eq!(thief.post("set", &set(2)).status, 401);
    }
    // What another site, or a page in plain text, can send.
    let own = ["-H", "X-Zoolet-Console: 1"];
    let plain = format!("Origin: http://localhost:{port}");
    let origin = format!("Origin: https://localhost:{port}");
    for words in [&own[..], &[&own[..], &["-H", &plain]].concat(), &["-H", &origin]] {
        assert_eq!(alice.post_with("set", &set(2), words).status, 403, "{words:?}");
    }
    assert_eq!(alice.post("logout", &json!({})).status, 200);
    assert_eq!(alice.post("set", &set(2)).status, 401);

    let lines = audited(&servers.server_dir(0).join("data/audit-1.log"));
    let of = |name: &str, result: &str| {
        lines.iter().any(|line| {
            let user = line["user"].as_str().unwrap_or_default();
            let is_of = user.split(',').any(|user| user.contains(name));
            is_of && line["operation"] == "setData" && line["result"] == result
        })
    };
    assert!(of("CN=alice", "success") && of("CN=admin", "success"), "{lines:?}");
    assert!(of("CN=bob", "failure"), "{lines:?}");
}

#[test]
fn certificates_that_are_not_valid_are_refused_and_named() {
    if !tools::require_foreign("console_refusals", &["curl"]).unwrap() {
        return;
    }
    let (authority, other) = (Authority::new("authority"), Authority::new("other"));
    let revoked = authority.revoke(&[7]).display().to_string();
    let (servers, port, _lease) = start(&authority, &[LOGINS, ("admin.ssl.crlFile", &revoked)]);
    authority.issue("alice", &[], |_| {});
    authority.issue("revoked", &[], |params| params.serial_number = Some(7_u64.into()));
    authority.issue("old", &[], |params: &mut CertificateParams| {
        params.not_before = date_time_ymd(2019, 1, 1);
        params.not_after = date_time_ymd(2020, 1, 1);
    });
    other.issue("foreign", &[], |_| {});
    log_in(&User::new(&authority, Some((&authority, "alice")), port));
    for (issuer, name, why) in [
        (&authority, "revoked", "Revoked"),
        (&authority, "old", "expired"),
        (&other, "foreign", "UnknownIssuer"),
    ] {
        let reply = User::new(&authority, Some((issuer, name)), port).get("/console/api/session");
        assert_eq!(reply.status, 0, "{name}: {reply:?}");
        assert!(reply.errors.contains("alert"), "{name}: {reply:?}");
        let has = || servers.output(0).unwrap().to_lowercase().contains(&why.to_lowercase());
        assert!(soon(has), "{why}: {}", servers.output(0).unwrap());
    }
    // The user does not trust the server.
    let reply = User::new(&other, Some((&authority, "alice")), port).get("/health");
    assert_eq!(reply.status, 0, "{reply:?}");
}

#[test]
fn without_logins_a_certificate_only_looks() {
    if !tools::require_foreign("console_without_logins", &["curl"]).unwrap() {
        return;
    }
    let authority = Authority::new("authority");
    let (_servers, port, _lease) = start(&authority, &[]);
    authority.issue("admin", &[], |_| {});
    let admin = User::new(&authority, Some((&authority, "admin")), port);
    let there = || (admin.get("/console/api/session").status == 200).then_some(());
    assert!(wait::until(SOON, there).is_some());
    let reply = admin.post("login", &by_certificate());
    assert!(reply.status == 400 && reply.error().contains("read-only"), "{reply:?}");
    let create = json!({ "path": "/a", "text": "" });
    assert_eq!(admin.post("create", &create).status, 401);
}

/// A server whose clients speak TLS alone, until this is dropped.
struct Alone {
    process: Child,
    http: u16,
    directory: tempfile::TempDir,
    _lease: PortLease,
}

impl Alone {
    fn start(authority: &Authority, change: &[(&str, &str)]) -> Self {
        let lease = PortLease::take(2).unwrap();
        let (client, http) = (lease.ports()[0], lease.ports()[1]);
        let directory = tempfile::tempdir().unwrap();
        let (server, ca) = (authority.issue_server(), authority.text("ca.pem"));
        let mut lines = format!(
            "dataDir={0}/data\nsecureClientPort={client}\nsecureClientPortAddress=127.0.0.1\n\
             ssl.keyStore.location={1}\nssl.trustStore.location={ca}\n\
             admin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.serverPort={http}\n\
             admin.ssl.keyStore.location={1}\nadmin.ssl.trustStore.location={ca}\n\
             admin.console.logins=true\n",
            directory.path().display(),
            server.display(),
        );
        lines.extend(change.iter().flat_map(|(key, value)| [*key, "=", *value, "\n"]));
        let file = directory.path().join("zoo.cfg");
        fs::write(&file, lines).unwrap();
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let process = Command::new(zoolet::binary().unwrap())
            .args(["serve", "--until-stdin-ends", "--config"])
            .arg(&file)
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { process, http, directory, _lease: lease }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    /// Waits until its log has a text.
    #[track_caller]
    fn says(&self, text: &str) {
        assert!(soon(|| self.log().contains(text)), "{text}: {}", self.log());
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const HTTPS: (&str, &str) = ("admin.forceHttps", "true");

/// Its console would have needed certificates of its own, and was not there.
#[test]
fn a_server_whose_clients_speak_tls_alone_has_a_console() {
    if !tools::require_foreign("console_tls_alone", &["curl"]).unwrap() {
        return;
    }
    let authority = Authority::new("authority");
    let server = Alone::start(&authority, &[HTTPS, ("admin.ssl.clientAuth", "need")]);
    authority.issue("alice", &[], |_| {});
    server.says("web console at /console/");
    let alice = User::new(&authority, Some((&authority, "alice")), server.http);
    let found = alice.get("/console/api/children?path=/");
    assert!(found.status == 200 && found.body.contains("zookeeper"), "{found:?}");
    let looked = || {
        let ensemble = alice.get("/console/api/ensemble").json();
        (ensemble["servers"][0]["role"] == "standalone").then_some(()).ok_or(ensemble)
    };
    assert!(wait::until(SOON, || looked().ok()).is_some(), "{:?}", looked());
    let set = json!({ "path": "/alice", "text": "changed", "version": 0 });
    assert_eq!(alice.post("set", &set).status, 401);
    log_in(&alice);
    create_for(&alice, "/alice", "CN=alice");
    assert_eq!(alice.post("set", &set).status, 200);

    // By digest the session is another one, and the ACL refuses it.
    let reply = alice.post("login", &json!({ "user": "bob", "password": "builder" }));
    assert!(reply.status == 200 && reply.body.contains("digest:bob"), "{reply:?}");
    let set = json!({ "path": "/alice", "text": "again", "version": 1 });
    assert_eq!(alice.post("set", &set).status, 403);
    let stranger = User::new(&authority, None, server.http).get("/console/api/session");
    assert_eq!(stranger.status, 0, "{stranger:?}");
}

#[test]
fn the_console_does_not_pass_by_what_the_port_for_clients_demands() {
    if !tools::require_foreign("console_demands", &["curl"]).unwrap() {
        return;
    }
    let authority = Authority::new("authority");
    let (want, plain) = (("admin.ssl.clientAuth", "want"), ("admin.portUnification", "true"));
    for (change, why) in [
        (&[HTTPS, want][..], "demands certificates, and the HTTP port does not"),
        (&[plain, ("ssl.clientAuth", "none")], "speak TLS alone, and the HTTP port does not"),
    ] {
        let server = Alone::start(&authority, change);
        server.says(why);
        let user = User::new(&authority, None, server.http);
        assert!(soon(|| user.get("/health").status == 200), "{}", server.log());
        assert_eq!(user.get("/console/api/session").status, 404);
    }
    // Where clients need no certificate, browsers need none either.
    let server = Alone::start(&authority, &[HTTPS, ("ssl.clientAuth", "want")]);
    server.says("web console at /console/");
    let stranger = User::new(&authority, None, server.http);
    assert_eq!(stranger.get("/console/api/children?path=/").status, 200);
}
