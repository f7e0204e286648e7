//! The audit log beside that of Apache ZooKeeper, across kills, and renamed under a running server.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use zoolet_client::{Acl, Client, CreateMode, Id, Version, perms};
use zoolet_tests::builder::{Kind, ServersBuilder};
use zoolet_tests::servers::Servers;
use zoolet_tests::{tools, wait, zooletctl};

/// How long something may take that happens by itself, on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// A line of either log, without what differs from run to run.
type Line = BTreeMap<String, String>;

const EPHEMERAL: &str = "ephemeralZNodeDeletionOnSessionCloseOrExpire";

fn start(servers: ServersBuilder) -> Servers {
    let logger = "-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.audit.Slf4jAuditLogger=info";
    servers.property("audit.enable", "true").jvm_option(logger).start().unwrap()
}

fn file(servers: &Servers) -> PathBuf {
    servers.server_dir(0).join("data/audit-1.log")
}

/// The values of the keys that both logs have; sessions are numbered, since each server draws its own.
fn lines(servers: &Servers) -> Vec<Line> {
    let lines: Vec<Line> = match servers.kind() {
        Kind::Apache => servers.output(0).unwrap().lines().filter_map(apache_line).collect(),
        Kind::Zoolet => json_lines(servers).iter().map(json_line).collect(),
    };
    let mut sessions = Vec::new();
    let numbered = lines.into_iter().map(|mut line| {
        if let Some(users) = line.get_mut("user") {
            // Apache keeps them in a set without an order.
            let mut names: Vec<&str> = users.split(',').collect();
            names.sort_unstable();
            *users = names.join(",");
        }
        if let Some(session) = line.get_mut("session") {
            if !sessions.contains(session) {
                sessions.push(session.clone());
            }
            let place = sessions.iter().position(|known| known == session).unwrap();
            *session = place.to_string();
        }
        line
    });
    numbered.collect()
}

fn apache_line(line: &str) -> Option<Line> {
    let (_, entry) = line.split_once("Slf4jAuditLogger - ")?;
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').unwrap();
        (key.to_owned(), value.trim().to_owned())
    };
    Some(entry.split('\t').map(pair).collect())
}

fn json_lines(servers: &Servers) -> Vec<Value> {
    let text = fs::read_to_string(file(servers)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn json_line(line: &Value) -> Line {
    let keys = ["session", "user", "ip", "operation", "znode", "znode_type", "acl", "result"];
    let present = keys.iter().filter_map(|key| Some((*key, line[*key].as_str()?)));
    present.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Everything that both write down, successful and refused.
async fn work(servers: &Servers) {
    let client = Client::connect(&servers.connect_string()).await.unwrap();
    client.add_auth("digest", b"alice:secret").await.unwrap();
    let mode = CreateMode::Persistent;
    client.create("/a", b"", mode).await.unwrap();
    client.create("/a", b"", mode).await.unwrap_err();
    client.create("/a/s-", b"", CreateMode::PersistentSequential).await.unwrap();
    client.create("/a/c", b"", CreateMode::Container).await.unwrap();
    let with_ttl = CreateMode::PersistentWithTtl;
    let ttl = Duration::from_mins(1);
    client.create_with_ttl("/a/t", b"", Acl::open(), with_ttl, ttl).await.unwrap();
    client.set_data("/a", b"x", Version::Any).await.unwrap();
    client.set_data("/missing", b"x", Version::Any).await.unwrap_err();
    client.set_acl("/a", Acl::open(), Version::Any).await.unwrap();
    let transaction = client
        .transaction()
        .check("/a", Version::Any)
        .create("/a/m", b"", Acl::open(), mode)
        .set_data("/a/m", b"x", Version::Any)
        .delete("/a/m", Version::Any);
    transaction.commit().await.unwrap();
    client.delete("/a/c", Version::Any).await.unwrap();
    client.delete("/missing", Version::Any).await.unwrap_err();
    client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    client.create("/f", b"", CreateMode::EphemeralSequential).await.unwrap();
    // Reads are not written down.
    client.get("/a").await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_entries_are_those_of_apache() {
    if !tools::require_foreign("audit", &["java", "mvn"]).unwrap() {
        return;
    }
    let mut logs = Vec::new();
    for servers in [start(Servers::apache()), start(Servers::zoolet())] {
        work(&servers).await;
        let is_whole = || {
            let ended =
                lines(&servers).iter().filter(|line| line["operation"] == EPHEMERAL).count();
            (ended == 2).then_some(())
        };
        wait::until(SOON, is_whole).expect("both ephemeral znodes are reported");
        let mut lines = lines(&servers);
        // Apache deletes them in the order of a hash.
        let first = lines.iter().position(|line| line["operation"] == EPHEMERAL).unwrap();
        lines[first..].sort_by_key(|line| line["znode"].clone());
        logs.push(lines);
    }
    let [apache, zoolet] = [logs.remove(0), logs.remove(0)];
    for (there, here) in apache.iter().zip(&zoolet) {
        let (mut there, mut here) = (there.clone(), here.clone());
        // What a server does by itself has the name of its own user.
        if !there.contains_key("ip") {
            there.remove("user");
            here.remove("user");
        }
        assert_eq!(here, there);
    }
    assert_eq!(zoolet.len(), apache.len());
    assert!(zoolet.len() > 15, "{zoolet:?}");
}

/// A multi that fails is one line there, too; here it names the part that was refused. And a refusal
/// names its reason.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_a_reason_and_a_path() {
    let servers = start(Servers::zoolet());
    let client = Client::connect(&servers.connect_string()).await.unwrap();
    let transaction = client
        .transaction()
        .create("/x", b"", Acl::open(), CreateMode::Persistent)
        .delete("/missing", Version::Any);
    transaction.commit().await.unwrap_err();
    let acl = vec![Acl { perms: perms::READ, id: Id::new("world", "anyone") }];
    client.create_with_acl("/mine", b"", acl, CreateMode::Persistent).await.unwrap();
    client.set_data("/mine", b"", Version::Any).await.unwrap_err();
    let is_there = || (json_lines(&servers).len() >= 4).then_some(());
    wait::until(SOON, is_there).expect("the lines are written");
    let lines = json_lines(&servers);
    let picked = |line: &Value| {
        ["operation", "znode", "result", "error"].map(|key| line[key].as_str().map(str::to_owned))
    };
    let text = |words: [&str; 4]| words.map(|word| Some(word.to_owned()));
    assert_eq!(picked(&lines[1]), text(["multiOperation", "/missing", "failure", "NoNode"]));
    assert_eq!(picked(&lines[3]), text(["setData", "/mine", "failure", "NoAuth"]));
    assert!(lines[3]["zxid"].as_str().unwrap().starts_with("0x"));
}

/// logrotate renames the file and sends a SIGHUP; nothing is lost between the two.
#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_log_is_opened_again_by_a_signal() {
    let servers = start(Servers::zoolet());
    let client = Client::connect(&servers.connect_string()).await.unwrap();
    let old = file(&servers).with_extension("old");
    for number in 0..60 {
        client.create(&format!("/{number}"), b"", CreateMode::Persistent).await.unwrap();
        if number == 20 {
            fs::rename(file(&servers), &old).unwrap();
        }
        if number == 40 {
            servers.signal(0, "HUP").unwrap();
        }
    }
    let has_all = || {
        let new = fs::read_to_string(file(&servers)).unwrap_or_default();
        new.contains("\"/59\"").then_some(new)
    };
    let new = wait::until(SOON, has_all).expect("a new file is there");
    let text = fs::read_to_string(&old).unwrap() + &new;
    let created = text.lines().filter(|line| line.contains("\"create\"")).count();
    assert_eq!(created, 60);
    assert!(!new.contains("\"/20\""));
}

/// The server said that the log was opened again, and wrote to the moved file for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_whose_directory_is_gone_goes_on_in_the_old_file_until_it_is_there_again() {
    let servers = start(Servers::zoolet().property("auditDirectory", "logs"));
    let (logs, moved) = (servers.server_dir(0).join("logs"), servers.server_dir(0).join("moved"));
    let client = Client::connect(&servers.connect_string()).await.unwrap();
    let said =
        |text: &str| wait::until(SOON, || servers.output(0).unwrap().contains(text).then_some(()));
    let create = async |path: &str| {
        client.create(path, b"", CreateMode::Persistent).await.unwrap();
    };
    let has = |directory: &Path, path: &str| {
        let text = fs::read_to_string(directory.join("audit-1.log")).unwrap_or_default();
        text.contains(&format!("{path:?}"))
    };
    fs::rename(&logs, &moved).unwrap();
    servers.signal(0, "HUP").unwrap();
    said("the audit log cannot be opened again").expect("the failure is logged");
    assert!(!servers.output(0).unwrap().contains("opened again\n"), "no success is logged");
    create("/old").await;
    wait::until(SOON, || has(&moved, "/old").then_some(())).expect("the old file goes on");
    fs::create_dir(&logs).unwrap();
    // It is tried with a line, once a second.
    let mut number = 0;
    let is_back = async || {
        number += 1;
        create(&format!("/new-{number}")).await;
        logs.join("audit-1.log").exists()
    };
    assert!(wait::until_so(SOON, is_back).await, "the new file is opened by itself");
    said("the audit log was opened again").expect("and that is logged");
    create("/last").await;
    wait::until(SOON, || has(&logs, "/last").then_some(())).expect("it has the later lines");
}

/// A start writes behind what is there, each start and stop is a line, and what another server's
/// clients did is in that server's log alone.
#[tokio::test(flavor = "multi_thread")]
async fn each_server_has_the_changes_of_its_own_clients_across_kills() {
    let mut servers = start(Servers::zoolet().servers(3));
    let mut paths = Vec::new();
    for round in 0..2 {
        for index in 0..3_usize {
            let address = servers.client_address(index).unwrap().to_string();
            let client = Client::connect(&address).await.unwrap();
            let path = format!("/{round}-{index}");
            client.create(&path, b"", CreateMode::Persistent).await.unwrap();
            client.close().await.unwrap();
            paths.push((index, path));
        }
        servers.kill(round).unwrap();
        servers.restart(round).unwrap();
        servers.wait_for_leader(SOON).unwrap();
    }
    for index in 0..3 {
        let name = format!("data/audit-{}.log", index + 1);
        let path = servers.server_dir(index).join(name);
        let own = || {
            let text = fs::read_to_string(&path).unwrap();
            let lines: Vec<Value> =
                text.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
            let created = lines.iter().filter(|line| line["operation"] == "create");
            let created = created.map(|line| line["znode"].as_str().unwrap().to_owned());
            let starts = lines.iter().filter(|line| line["operation"] == "serverStart").count();
            (created.collect::<Vec<_>>(), starts)
        };
        let expected: Vec<_> =
            paths.iter().filter(|(at, _)| *at == index).map(|(_, path)| path.clone()).collect();
        let starts = if index < 2 { 2 } else { 1 };
        let found = wait::until(SOON, || (own() == (expected.clone(), starts)).then_some(()));
        assert!(found.is_some(), "{:?} of server {index}, expected {expected:?}", own());
    }
}

/// Who took a lock away from its holder is in the log: the session that the command names.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_released_by_hand_is_in_the_log() {
    let servers = start(Servers::zoolet());
    let client = Client::connect(&servers.connect_string()).await.unwrap();
    client.create("/lock", b"", CreateMode::Persistent).await.unwrap();
    let name = "/lock/_c_1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed-lock-";
    let (held, _) = client.create(name, b"", CreateMode::EphemeralSequential).await.unwrap();
    let mut command = Command::new(zooletctl::binary().unwrap());
    command.args(["--json", "--servers", &servers.connect_string(), "locks"]);
    let output = command.args(["--release", "/lock", "--yes"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let released: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(released["path"], held, "{released}");
    assert_eq!(released["session"], client.session().id.to_string(), "{released}");
    let deletes = || {
        let mut lines = json_lines(&servers);
        lines.retain(|line| line["operation"] == "delete" && line["znode"] == held);
        lines.pop()
    };
    let line = wait::until(SOON, deletes).expect("the delete is in the log");
    assert_eq!(line["session"], released["deleted_by"], "{line}");
    assert_eq!((&line["result"], &line["ip"]), (&"success".into(), &"127.0.0.1".into()), "{line}");
}
