//! What takes an ensemble: its configuration, which can be changed, and terms that are lost.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::Child;
use std::thread::{self, JoinHandle};

use serde_json::json;
use zoolet_tests::builder::ServersBuilder;
use zoolet_tests::scenes::{self, Scene, soon};
use zoolet_tests::servers::{SUPER_DIGEST, Servers};
use zoolet_tests::{four_letter, suites, tools};
use zoolet_torture::proxy::Proxy;

use crate::harness::{CtlScene, Said, command, ended, said, signal, start};
use crate::{ROOT, commands, status};

/// The superuser of these servers.
const SUPER: &str = "digest:super:test";

/// Runs a suite on three servers of zoolet.
fn on_zoolet(suite: impl AsyncFnOnce(Scene)) {
    run(Servers::zoolet(), suite);
}

/// The same on three of Apache ZooKeeper, in the tier `apache`.
fn on_apache(name: &str, suite: impl AsyncFnOnce(Scene)) {
    if tools::is_due_on_apache(name, &[]).unwrap() {
        run(Servers::apache(), suite);
    }
}

fn run(servers: ServersBuilder, suite: impl AsyncFnOnce(Scene)) {
    let servers = servers.servers(3).super_digest(SUPER_DIGEST);
    scenes::run(servers.property("reconfigEnabled", "true"), ROOT, suite).unwrap();
}

suites! {
    commands_meet_an_ensemble / commands_meet_an_ensemble_on_apache:
        commands::permissions_are_shown_set_and_needed,
        commands::a_recursive_list_watches_what_it_lists,
        the_configuration_is_printed,
        status::every_server_has_a_row,
        status::a_lost_majority_is_named,
        who_has_lost_a_term_contends_again,
        a_server_leaves_and_joins_again;
}

async fn the_configuration_is_printed(scene: &Scene) {
    soon("a configuration with a version", async || {
        scene.json(&["config"])["version"].as_str().is_some_and(|version| version != "0x0")
    })
    .await;
    let text = scene.ctl(&["config"]).well();
    assert_eq!(text.matches("server.").count(), 3, "{text}");
    let output = scene.json(&["config"]);
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("server.")).collect();
    assert_eq!(output["servers"], json!(lines));
    let version = output["version"].as_str().unwrap().strip_prefix("0x").unwrap();
    assert!(text.contains(&format!("version={version}")), "{text}");
    let with_stat = scene.ctl(&["config", "-s"]).well();
    assert!(with_stat.starts_with(text.trim_end()), "{with_stat}");
    assert!(with_stat.contains("\ncZxid = 0x"), "{with_stat}");
    assert_eq!(scene.ctl(&["config", "-c"]).well(), format!("{}\n", scene.servers));
    assert_eq!(scene.json(&["config", "-c"]), json!({ "connect": scene.servers }));
}

/// A lost term is followed by another one, whether the leader was deleted or cut off, and until the
/// servers are there again. The end of the command is the end of it.
async fn who_has_lost_a_term_contends_again(scene: &Scene) {
    let path = scene.znode().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("terms");
    let terms = || -> Vec<i64> {
        let text = fs::read_to_string(&file).unwrap_or_default();
        text.split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n')?.parse().ok())
            .collect()
    };
    let script = format!("echo $ZOOLET_TOKEN >> {}; exec sleep 60", file.display());
    let proxy = Proxy::start(&scene.servers).await.unwrap();
    let mut elect = command(&proxy.connect_string(), &["--timeout", "5s"]);
    elect.args(["--session-timeout", "4s", "elect", &path, "--again", "--", "sh", "-c", &script]);
    let mut leader = start(&mut elect);
    let mut errors = BufReader::new(leader.stderr.take().unwrap());
    let mut until_said = |what: &str| {
        let mut line = String::new();
        while !line.contains(what) {
            line.clear();
            assert_ne!(errors.read_line(&mut line).unwrap(), 0, "it ended, and not: {what}");
        }
    };
    soon("the first term", async || terms().len() == 1).await;
    scene.ctl(&["deleteall", &path]).well();
    until_said("lost, its znode is gone: the command was killed; contending again");
    soon("the second term", async || terms().len() == 2).await;
    proxy.cut();
    until_said("lost, the session has ended");
    // Once more, since no server can be reached: the former leader waits for them.
    until_said("; contending again");
    proxy.heal();
    soon("the third term", async || terms().len() == 3).await;
    assert!(terms().is_sorted_by(|one, next| one < next), "{:?}", terms());
    signal(&leader, "TERM");
    assert_eq!(ended(leader).code, Some(143));
    scene.until_count(&path, 0).await;
    // A command that ends by itself is not run again.
    let once = scene.ctl(&["elect", &path, "--again", "--", "sh", "-c", "echo ran; exit 3"]);
    assert_eq!((once.code, once.out.as_str()), (Some(3), "ran\n"));
}

async fn a_server_leaves_and_joins_again(scene: &Scene) {
    let (id, others) = a_follower_and_the_others(scene).await;
    let ctl =
        |words: &[&str]| -> Said { said(command(&others, words).env("ZOOLETCTL_AUTH", SUPER)) };
    let first = scene.json(&["config"]);
    let lines: Vec<&str> =
        first["servers"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let prefix = format!("server.{id}=");
    let line = *lines.iter().find(|line| line.starts_with(&prefix)).unwrap();
    let version = first["version"].as_str().unwrap();

    let remove = ["reconfig", "-remove", &id];
    said(&mut command(&others, &remove)).badly(1, "ACL");
    ctl(&["reconfig", "-v", "7fffffffffffffff", "-remove", &id]).badly(1, "version");
    ctl(&["reconfig", "-add", "nonsense"]).badly(3, "");
    let (watch, event) = watch_configuration(&others);
    let output = ctl(&["reconfig", "-s", "-v", version, "-remove", &id]).well();
    assert_eq!(output.matches("server.").count(), 2, "{output}");
    assert!(!output.contains(&prefix) && output.contains("\ncZxid = 0x"), "{output}");
    let event = event.join().unwrap();
    assert!(
        event.starts_with("WatchedEvent type:NodeDataChanged path:/zookeeper/config"),
        "{event}"
    );
    assert_eq!(ended(watch).well(), "");
    assert_eq!(said(&mut command(&others, &["config"])).well().matches("server.").count(), 2);

    let joined = ctl(&["--json", "reconfig", "-add", line]).json();
    assert!(joined["servers"].as_array().unwrap().contains(&json!(line)), "{joined}");
    assert_ne!(joined["version"], first["version"]);
    soon("three servers that serve", async || modes(scene).iter().all(Option::is_some)).await;
}

/// Watches the configuration, and reads the event; both are begun when this returns.
fn watch_configuration(servers: &str) -> (Child, JoinHandle<String>) {
    let mut watch = start(&mut command(servers, &["config", "-w"]));
    let mut out = BufReader::new(watch.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("version=") {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "no configuration");
    }
    let event = thread::spawn(move || {
        let mut event = String::new();
        out.read_line(&mut event).unwrap();
        event
    });
    (watch, event)
}

/// The id of a server that follows, and the connect string of the others: no connection ends
/// when it leaves.
async fn a_follower_and_the_others(scene: &Scene) -> (String, String) {
    let mut follower = None;
    soon("a follower", async || {
        follower = modes(scene).iter().position(|mode| mode.as_deref() == Some("follower"));
        follower.is_some()
    })
    .await;
    let follower = follower.unwrap();
    let mut servers: Vec<&str> = scene.servers.split(',').collect();
    servers.remove(follower);
    ((follower + 1).to_string(), servers.join(","))
}

/// What each server says that it is; `None` of one that does not serve.
fn modes(scene: &Scene) -> Vec<Option<String>> {
    let addresses = scene.servers.split(',').map(|server| server.parse::<SocketAddr>().unwrap());
    addresses.map(four_letter::mode).collect()
}
