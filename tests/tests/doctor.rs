//! `zoolet doctor`: what it finds, on files and machines where something is wrong, and how it ends.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use zoolet_tests::ports::PortLease;
use zoolet_tests::{four_letter, zoolet};

/// How long a server may take to start.
const SOON: Duration = Duration::from_secs(20);

/// A directory with a configuration, and ports.
struct Fixture {
    directory: tempfile::TempDir,
    lease: PortLease,
}

/// What the doctor has said, and how it has ended.
struct Said {
    code: Option<i32>,
    findings: Vec<(String, String)>,
}

impl Said {
    /// Takes it for granted that one finding of this level has all these parts.
    #[track_caller]
    fn has(&self, level: &str, parts: &[&str]) {
        let is_it = |(found, text): &(String, String)| {
            found == level && parts.iter().all(|part| text.contains(part))
        };
        assert!(self.findings.iter().any(is_it), "no {level} {parts:?}: {:#?}", self.findings);
    }

    #[track_caller]
    fn has_none(&self, level: &str) {
        let found = self.findings.iter().filter(|(found, _)| found == level);
        assert_eq!(found.count(), 0, "{:#?}", self.findings);
    }
}

/// A server that ends with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Fixture {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), lease: PortLease::take(6).unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes the `cluster.toml` of an ensemble of this number of servers on this machine.
    fn ensemble(&self, servers: usize, settings: &str) -> PathBuf {
        let directory = self.directory.path().display();
        let server = |(at, ports): (usize, &[u16])| {
            let [client, peer] = ports else { panic!("ports come in pairs") };
            let id = at + 1;
            format!(
                "[[server]]\nid = {id}\nclient = \"127.0.0.1:{client}\"\n\
                 peer = \"127.0.0.1:{peer}\"\ndata_dir = \"{directory}/data{id}\"\n"
            )
        };
        let ports = self.lease.ports();
        let all: String = ports.chunks(2).take(servers).enumerate().map(server).collect();
        self.write("cluster.toml", &format!("{all}{settings}"))
    }

    fn port(&self) -> u16 {
        self.lease.ports()[0]
    }
}

/// Returns the files and directories below a directory, with their bytes.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path());
    let all = entries.flat_map(|path| {
        let mut below = if path.is_dir() { contents(&path) } else { BTreeMap::new() };
        below.insert(path.clone(), fs::read(&path).unwrap_or_default());
        below
    });
    all.collect()
}

fn command(verb: &str, config: &Path, id: Option<u8>) -> Command {
    let mut command = Command::new(zoolet::binary().unwrap());
    command.arg(verb).arg("--config").arg(config);
    if let Some(id) = id {
        command.args(["--id", &id.to_string()]);
    }
    command
}

fn doctor(config: &Path, id: Option<u8>) -> Said {
    let output = command("doctor", config, id).arg("--json").output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    let json: Value = serde_json::from_str(&out).unwrap_or_else(|why| panic!("{why}: {out}"));
    let code = output.status.code();
    assert_eq!(json["exit"].as_i64(), code.map(i64::from), "{out}");
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let findings = json["findings"].as_array().unwrap();
    let findings = findings.iter().map(|it| (text(it, "level"), text(it, "text"))).collect();
    Said { code, findings }
}

#[test]
fn a_key_that_is_unknown_is_an_error_with_its_line() {
    let fixture = Fixture::new();
    let config = fixture.ensemble(3, "[limits]\nframe_byte_max = 1\n");
    let said = doctor(&config, Some(1));
    assert_eq!(said.code, Some(2));
    said.has("error", &["cluster.toml:17", "frame_byte_max"]);
    // And in words.
    let output = command("doctor", &config, Some(1)).output().unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.starts_with("error    file  "), "{table}");
    assert!(table.ends_with("\nerrors: 1, warnings: 0\n"), "{table}");
}

#[test]
fn dangerous_and_ignored_keys_of_a_zoo_cfg_are_named_with_their_lines() {
    let fixture = Fixture::new();
    let data = fixture.path("data");
    fs::create_dir(&data).unwrap();
    let text = format!(
        "tickTime=500\ndataDir={}\nclientPort={}\nskipACL=yes\nlargeRequestThreshold=5\n",
        data.display(),
        fixture.port()
    );
    let said = doctor(&fixture.write("zoo.cfg", &text), None);
    assert_eq!(said.code, Some(1), "{:#?}", said.findings);
    said.has("warning", &["zoo.cfg:4: skipACL", "every client may do everything"]);
    said.has("warning", &["zoo.cfg:5", "largeRequestThreshold"]);
    said.has("warning", &["zoo.cfg:1: tickTime", "as short as 1000 ms"]);
    said.has("ok", &["data: can be written"]);
    said.has("ok", &["a sync takes"]);
    said.has("ok", &[&format!("{} for clients: free", fixture.port())]);
    let left: Vec<_> = fs::read_dir(&data).unwrap().collect();
    assert!(left.is_empty(), "it has left files: {left:?}");
}

#[test]
fn names_secrets_and_directories_are_looked_at() {
    let fixture = Fixture::new();
    let ports = fixture.lease.ports();
    let secret = fixture.write("secret", "0123456789abcdef0123");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    fs::create_dir_all(fixture.path("data/version-2")).unwrap();
    fs::write(fixture.path("data/version-2/snapshot.1"), "").unwrap();
    let data = fixture.path("data");
    let text = format!(
        "tickTime=2000\ndataDir={}\nclientPort={}\npeerSecretFile={}\nserver.1=127.0.0.1:{}:{}\n\
         server.2=no-such-host.invalid:2888:3888\n",
        data.display(),
        ports[0],
        secret.display(),
        ports[1],
        ports[2],
    );
    let config = fixture.write("zoo.cfg", &text);
    let said = doctor(&config, Some(1));
    assert_eq!(said.code, Some(2), "{:#?}", said.findings);
    said.has("error", &["holds data of Apache ZooKeeper", "zoolet import"]);
    said.has("warning", &["zoo.cfg:4: peerSecretFile", "chmod 600"]);
    said.has("warning", &["server 2 at no-such-host.invalid:2888: unknown host"]);
    said.has("error", &["this server at 127.0.0.1:", "only this machine reaches it"]);
    said.has("warning", &["2 with a vote: 2 are needed, 0 may be lost"]);
}

/// A machine's own name is 127.0.1.1 on Debian: that passed as an address of this machine. And
/// `0.0.0.0` for itself, which works, was an error.
#[test]
fn addresses_are_judged_and_not_names() {
    let fixture = Fixture::new();
    let ports = fixture.lease.ports();
    let said = |own: &str, other: &str| {
        let text = format!(
            "dataDir={}\nclientPort={}\nserver.1={own}:{}:{}\nserver.2={other}:{}:{}\n\
             server.3={other}:{}:{}\n",
            fixture.path("data").display(),
            ports[0],
            ports[1],
            ports[2],
            ports[3],
            ports[4],
            ports[5],
            ports[0],
        );
        doctor(&fixture.write("zoo.cfg", &text), Some(1))
    };
    // The second is reserved for documentation (RFC 5737).
    let error = said("127.0.1.1", "192.0.2.7");
    error.has("error", &["this server at 127.0.1.1:", "only this machine reaches it", "192.0.2.7"]);
    assert_eq!(error.code, Some(2));
    let own = said("0.0.0.0", "127.0.0.1");
    own.has("ok", &["this server at 0.0.0.0:", "listens on every address"]);
    own.has_none("error");
}

/// All was well, said the doctor, and the server did not start.
#[test]
fn files_of_users_and_the_audit_log_are_looked_at_as_a_start_does() {
    let fixture = Fixture::new();
    let kerberos =
        "Server {\n com.sun.security.auth.module.Krb5LoginModule required\n useKeyTab=true;\n};\n";
    let users = "Server {\n org.apache.zookeeper.server.auth.DigestLoginModule required\n \
                 user_bob=\"builder\";\n};\n";
    for (name, text) in [("kerberos", kerberos), ("broken", "Server {"), ("users", users)] {
        let jaas = fixture.write(name, text);
        fs::set_permissions(jaas, fs::Permissions::from_mode(0o600)).unwrap();
    }
    let data = fixture.path("data");
    let said_of = |line: String| {
        let (data, port) = (data.display(), fixture.port());
        let text = format!("dataDir={data}\nclientPort={port}\n{line}\n");
        doctor(&fixture.write("zoo.cfg", &text), None)
    };
    for (jaas, parts) in [
        ("missing", ["missing", "cannot be read"]),
        ("kerberos", ["kerberos:2", "Krb5LoginModule"]),
        ("broken", ["broken:1", "expected"]),
    ] {
        let said = said_of(format!("java.security.auth.login.config={jaas}"));
        assert_eq!(said.code, Some(2), "{:#?}", said.findings);
        said.has("error", &parts);
    }
    said_of("java.security.auth.login.config=users".to_owned()).has("ok", &["1 users can log in"]);

    let said = said_of("audit.enable=true\nauditDirectory=/proc/nope".to_owned());
    assert_eq!(said.code, Some(2), "{:#?}", said.findings);
    said.has("error", &["/proc/nope", "cannot write in /proc"]);
    let said = said_of("audit.enable=true\nauditDirectory=audit".to_owned());
    said.has("ok", &["audit: will be created"]);
    assert!(!fixture.path("audit").exists() && !data.exists(), "it has left directories");
    fs::create_dir_all(fixture.path("audit/audit-1.log")).unwrap();
    let said = said_of("audit.enable=true\nauditDirectory=audit".to_owned());
    said.has("error", &["audit-1.log: cannot be opened"]);
}

/// Starts a server, and ends it once it serves.
fn serve_once(fixture: &Fixture, config: &Path, id: Option<u8>) {
    let server = command("serve", config, id).stderr(Stdio::null()).spawn().unwrap();
    let _server = Server(server);
    let client = SocketAddr::from(([127, 0, 0, 1], fixture.port()));
    assert!(four_letter::wait_until_serving(client, SOON));
}

/// Asks the doctor, which must leave all files as they are.
fn judged(fixture: &Fixture, config: &Path, id: Option<u8>) -> Said {
    let before = contents(fixture.directory.path());
    let said = doctor(config, id);
    assert_eq!(contents(fixture.directory.path()), before, "doctor has changed a file");
    said
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(path, to).unwrap();
        }
    }
}

/// Damages a directory so that a start refuses it with a text that has `part`.
fn damage(data: &Path, part: &str) {
    let mut files = fs::read_dir(data.join("wal")).unwrap().map(|file| file.unwrap().path());
    let segment = files.find(|file| file.extension().is_some_and(|it| it == "wal")).unwrap();
    let only = |inside: &str| {
        fs::remove_dir_all(data).unwrap();
        fs::create_dir_all(data.join(inside)).unwrap();
    };
    match part {
        "its log is not in" => fs::remove_file(segment).unwrap(),
        "shows that a server has run here" => only("history"),
        "version-2" => only("version-2"),
        "segment header" => {
            let mut bytes = fs::read(&segment).unwrap();
            bytes[20] ^= 1;
            fs::write(segment, bytes).unwrap();
        }
        "boot" | "founding" | "lost-entries" => fs::write(data.join(part), [9]).unwrap(),
        _ => {}
    }
}

/// `doctor` passed directories that a start refused, such as one whose log had vanished: it had checks
/// of its own. Now both use the same code.
#[test]
fn a_directory_that_a_start_refuses_does_not_pass() {
    let fixture = Fixture::new();
    let config = fixture.ensemble(1, "");
    let (data, kept) = (fixture.path("data1"), fixture.path("kept"));
    serve_once(&fixture, &config, Some(1));
    copy(&data, &kept);
    let text = fs::read_to_string(&config).unwrap();
    let server = fixture.write("server.toml", &text.replace("id = 1", "id = 2"));
    let ensemble = format!("{text}[ensemble]\ncluster_id = 77\n");
    let ensemble = fixture.write("ensemble.toml", &ensemble);
    for (part, config, id) in [
        ("its log is not in", &config, 1),
        ("shows that a server has run here", &config, 1),
        ("version-2", &config, 1),
        ("segment header", &config, 1),
        ("boot", &config, 1),
        ("founding", &config, 1),
        ("lost-entries", &config, 1),
        ("belongs to server 1", &server, 2),
        ("belongs to cluster", &ensemble, 1),
    ] {
        copy(&kept, &data);
        damage(&data, part);
        let said = judged(&fixture, config, Some(id));
        let started = command("serve", config, Some(id)).output().unwrap();
        let why = String::from_utf8(started.stderr).unwrap();
        assert!(!started.status.success() && why.contains(part), "{part}: {why}");
        let is_why = |(level, text): &(String, String)| level == "error" && why.contains(text);
        assert!(said.findings.iter().any(is_why), "{part}: {why}, and {:#?}", said.findings);
    }
    copy(&kept, &data);
    let lock = File::options().write(true).open(data.join("lock")).unwrap();
    lock.lock().unwrap();
    let said = judged(&fixture, &config, Some(1));
    said.has("error", &["data1 is in use by another server"]);
}

/// `doctor` refused the directory of a server whose ensemble had another first server than before.
#[test]
fn a_directory_that_a_start_accepts_passes() {
    let fixture = Fixture::new();
    let config = fixture.ensemble(1, "");
    judged(&fixture, &config, Some(1)).has("ok", &["data1 has no data yet"]);
    assert!(!fixture.path("data1").exists());
    serve_once(&fixture, &config, Some(1));
    judged(&fixture, &config, Some(1)).has("ok", &["data1 has data of this server"]);
    let ports = fixture.lease.ports();
    let text = fs::read_to_string(&config).unwrap();
    let moved = text.replace(&ports[1].to_string(), &ports[2].to_string());
    let moved = fixture.write("moved.toml", &moved);
    judged(&fixture, &moved, Some(1)).has_none("error");
    serve_once(&fixture, &moved, Some(1));
}

/// Both keys were ignored: a server whose disk was not mounted began an empty ensemble.
#[test]
fn what_a_start_must_not_create_is_missing_for_both() {
    let fixture = Fixture::new();
    let data = fixture.path("data");
    let with = |key: &str| {
        let text = format!("dataDir={}\nclientPort={}\n{key}\n", data.display(), fixture.port());
        fixture.write("zoo.cfg", &text)
    };
    let is_refused = |key: &str, part: &str| {
        let config = with(key);
        doctor(&config, None).has("error", &[part]);
        let started = command("serve", &config, None).output().unwrap();
        let why = String::from_utf8(started.stderr).unwrap();
        assert!(!started.status.success() && why.contains(part), "{key}: {why}");
    };
    let serves = |key: &str| {
        let config = with(key);
        doctor(&config, None).has_none("error");
        serve_once(&fixture, &config, None);
    };
    is_refused("zookeeper.datadir.autocreate=false", "data is missing");
    assert!(!data.exists());
    is_refused("zookeeper.db.autocreate=false", "data has no data");
    fs::write(data.join("initialize"), "").unwrap();
    serves("zookeeper.db.autocreate=false");
    assert!(data.join("initialize").exists(), "it is used up with the first data");
    serves("db.autocreate=false\ndatadir.autocreate=false");
    assert!(!data.join("initialize").exists());
}

/// The name of the store alone did not say which key it was of, and no password was a wrong one.
#[test]
fn a_store_without_its_password_is_named_with_its_keys() {
    let fixture = Fixture::new();
    let stores = concat!(env!("CARGO_MANIFEST_DIR"), "/../jute/tls/tests/stores");
    let text = format!(
        "dataDir={}\nsecureClientPort={}\nssl.keyStore.location={stores}/openssl.p12\n\
         ssl.clientAuth=none\n",
        fixture.path("data").display(),
        fixture.port()
    );
    let config = fixture.write("zoo.cfg", &text);
    let parts = [
        "for clients: ssl.keyStore.location (client_key_store): ",
        "openssl.p12: no password is given",
        "set ssl.keyStore.password (client_key_store_password)",
    ];
    doctor(&config, None).has("error", &parts);
    let started = command("serve", &config, None).output().unwrap();
    let why = String::from_utf8(started.stderr).unwrap();
    assert!(parts.iter().all(|part| why.contains(part)), "{why}");
}

#[test]
fn a_peer_certificate_that_the_other_servers_would_refuse_is_reported() {
    let fixture = Fixture::new();
    let stores = concat!(env!("CARGO_MANIFEST_DIR"), "/../jute/tls/tests/stores");
    let said_of = |trust_store: &str| {
        let settings = format!(
            "[tls]\npeer_enabled = true\npeer_key_store = \"{stores}/key.pem\"\n\
             peer_trust_store = \"{stores}/{trust_store}\"\n"
        );
        doctor(&fixture.ensemble(3, &settings), Some(1))
    };
    let is_refusal = |(_, text): &(String, String)| text.contains("would refuse");
    let said = said_of("ca.pem");
    assert!(!said.findings.iter().any(is_refusal), "{:#?}", said.findings);
    // Its own certificate is not its authority.
    let parts = ["for servers: ", "key.pem: the other servers would refuse", "UnknownIssuer"];
    said_of("key.pem").has("warning", &parts);
}

#[test]
fn a_port_in_use_is_named_with_its_process() {
    let fixture = Fixture::new();
    let config = fixture.ensemble(1, "");
    let _taken = TcpListener::bind(("127.0.0.1", fixture.port())).unwrap();
    let said = doctor(&config, Some(1));
    assert_eq!(said.code, Some(2), "{:#?}", said.findings);
    let process = format!("(process {})", std::process::id());
    said.has("error", &[&format!("127.0.0.1:{} for clients: in use by", fixture.port()), &process]);
}

#[test]
fn a_running_ensemble_has_no_errors() {
    let fixture = Fixture::new();
    let config = fixture.ensemble(3, "");
    let start = |id: u8| {
        let mut command = command("serve", &config, Some(id));
        Server(command.stderr(Stdio::null()).spawn().unwrap())
    };
    let _servers: Vec<Server> = (1..=3).map(start).collect();
    // Doctor looks at one thing after the other, so the server must not start meanwhile.
    let server = SocketAddr::from(([127, 0, 0, 1], fixture.port()));
    assert!(four_letter::wait_until_serving(server, SOON));
    let said = doctor(&config, Some(1));
    said.has_none("error");
    said.has("ok", &["is in use: the server is running"]);
    said.has("ok", &["for clients: in use", "zoolet"]);
    said.has("ok", &["server 2 at 127.0.0.1:", "reached"]);
    said.has("ok", &["has data of this server"]);
    said.has("warning", &["several servers are on one machine"]);
    said.has("ok", &["3 with a vote: 2 are needed, 1 may be lost"]);
}
