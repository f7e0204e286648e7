//! Moving in from Apache ZooKeeper and out to it, with real servers of each version: what clients
//! see is the same before and after, and a session goes on.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod ensemble_move;
mod live_move;
mod observed;
mod server;

use std::path::Path;
use std::process::Command;

use zoolet_jute::CreateMode;
use zoolet_tests::raw::RawConnection;
use zoolet_tests::{apache, tools, zoolet};

use observed::Client;
use server::{Config, Server, java};

/// The version to which data is exported.
const NEWEST: &str = "3.9.5";

/// What Apache's snapshots are written in, from 3.6.
const COMPRESSIONS: [&str; 2] = ["gz", "snappy"];

#[test]
fn data_of_3_4_moves_in_and_out() {
    moves_in_and_out("3.4.14", &[]);
}

#[test]
fn data_of_3_5_moves_in_and_out() {
    moves_in_and_out("3.5.10", &[]);
}

#[test]
fn data_of_3_6_with_gzip_moves_in_and_out() {
    moves_in_and_out("3.6.4", &[mode(COMPRESSIONS[0])]);
}

#[test]
fn data_of_3_7_with_snappy_moves_in_and_out() {
    moves_in_and_out("3.7.2", &[mode(COMPRESSIONS[1])]);
}

#[test]
fn data_of_3_8_moves_in_and_out() {
    moves_in_and_out("3.8.4", &[]);
}

#[test]
fn data_of_3_9_moves_in_and_out() {
    moves_in_and_out("3.9.5", &[]);
}

fn mode(compression: &str) -> String {
    format!("-Dzookeeper.snapshot.compression.method={compression}")
}

/// The jars of a version; `None` if this machine cannot have them.
fn jars(version: &str) -> Option<std::ffi::OsString> {
    match apache::classpath_of(version) {
        Ok(jars) => Some(jars),
        Err(error) => {
            tools::skip_unless_required("migrate", error).unwrap();
            None
        }
    }
}

fn moves_in_and_out(version: &str, options: &[String]) {
    let (Some(old), Some(new)) = (jars(version), jars(NEWEST)) else { return };
    let config = Config::new();
    let mut server = Server::start(java(&old, options), &config.zoo_cfg("apache"), config.client());
    let mut client = Client::of(RawConnection::open(config.client(), 40_000).unwrap());
    observed::fill(&mut client, config.client(), version);
    let before = observed::tree(&mut client);
    let seen = client.last_zxid;
    server.kill();

    run("import", "--from", &config, "apache");
    let mut server = Server::start(serve_config(), &config.zoo_cfg("zoolet"), config.client());
    let mut client = client.resumed(config.client());
    observed::assert_same(&before, &observed::tree(&mut client), version);
    let path = client.create("/seq/n-", CreateMode::PersistentSequential);
    assert_eq!(path, "/seq/n-0000000041", "the parent's counter goes on");
    assert!(client.last_zxid.epoch() > seen.epoch(), "{:?} follows {seen:?}", client.last_zxid);
    let stat = before.get("/seq").unwrap().stat;
    assert!(client.stat("/seq").pzxid > stat.pzxid);
    client.delete("/e/1");
    let between = observed::tree(&mut client);
    let seen = client.last_zxid;
    server.kill();

    run("export", "--to", &config, "exported");
    let mut server = Server::start(java(&new, &[]), &config.zoo_cfg("exported"), config.client());
    let mut client = client.resumed(config.client());
    observed::assert_same(&between, &observed::tree(&mut client), "exported");
    let path = client.create("/seq/n-", CreateMode::PersistentSequential);
    assert_eq!(path, "/seq/n-0000000042");
    assert!(client.last_zxid.epoch() > seen.epoch(), "{:?} follows {seen:?}", client.last_zxid);
    let report = config.ask("mntr");
    assert!(report.contains("zk_digest_mismatches_count\t0"), "{report}");
    // What Apache ZooKeeper has written behind the exported snapshot can be imported again.
    server.kill();
    let other = Config::new();
    run_with("import", "--from", &config.data("exported"), &other.zoo_cfg("zoolet"), &[]);
}

/// `zoolet import` or `zoolet export` of a directory, with the configuration of zoolet's server.
fn run(verb: &str, option: &str, config: &Config, directory: &str) {
    run_with(verb, option, &config.data(directory), &config.zoo_cfg("zoolet"), &[]);
}

/// Returns what it prints.
fn run_with(verb: &str, option: &str, directory: &Path, config: &Path, more: &[&str]) -> String {
    let output = Command::new(zoolet::binary().unwrap())
        .args([verb, option])
        .arg(directory)
        .arg("--config")
        .arg(config)
        .args(more)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{verb}: {text}{errors}");
    assert!(text.contains("digest"), "{text}");
    text.into_owned()
}

/// `zoolet serve`, up to its options.
fn serve() -> Command {
    let mut command = Command::new(zoolet::binary().unwrap());
    command.arg("serve");
    command
}

/// `zoolet serve`, up to the path of the configuration.
fn serve_config() -> Command {
    let mut command = serve();
    command.arg("--config");
    command
}

#[test]
fn an_import_of_damage_or_into_a_directory_with_data_is_refused() {
    let config = Config::new();
    let data = config.data("zoolet");
    std::fs::create_dir_all(config.data("apache").join("version-2")).unwrap();
    let output = import(&config);
    assert!(output.contains("has no snapshot of Apache ZooKeeper"), "{output}");
    let snapshot = config.data("apache").join("version-2").join("snapshot.0");
    std::fs::write(&snapshot, b"ZKSN\0\0\0\x02").unwrap();
    let output = import(&config);
    assert!(output.contains("snapshot.0 ends at byte 8"), "{output}");
    assert!(!data.exists() || is_empty(&data), "nothing was written");
    // That is looked at before the data, which may be large.
    std::fs::create_dir_all(data.join("wal")).unwrap();
    let output = import(&config);
    assert!(output.contains("zoolet holds files already (wal)"), "{output}");
    assert!(is_empty(&data.join("wal")), "nothing was written");
}

fn import(config: &Config) -> String {
    let output = Command::new(zoolet::binary().unwrap())
        .args(["import", "--from"])
        .arg(config.data("apache"))
        .arg("--config")
        .arg(config.zoo_cfg("zoolet"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}
