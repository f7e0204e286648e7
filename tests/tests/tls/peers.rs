//! TLS between servers.

use std::fs;
use std::path::Path;

use tokio::time::timeout;
use zoolet_client::{Client, CreateMode};
use zoolet_tests::builder::ServersBuilder;
use zoolet_tests::servers::{LEADER_MAX, Servers};

use super::authority::Authority;
use super::{SOON, run, soon};

fn with_peer_stores(key_store: &Path, authority: &Authority) -> ServersBuilder {
    Servers::zoolet()
        .servers(3)
        .property("ssl.quorum.keyStore.location", &key_store.display().to_string())
        .property("ssl.quorum.trustStore.location", &authority.text("ca.pem"))
}

async fn create(servers: &Servers, path: &str) {
    let client = Client::connect(&servers.connect_string()).await.unwrap();
    timeout(SOON, client.create(path, b"", CreateMode::Persistent)).await.unwrap().unwrap();
}

#[test]
fn servers_speak_tls_to_each_other() {
    let authority = Authority::new("authority");
    let mut servers = with_peer_stores(&authority.issue_server(), &authority)
        .property("sslQuorum", "true")
        .start()
        .unwrap();
    servers.wait_for_leader(LEADER_MAX).unwrap();
    run(create(&servers, "/first"));
    // A server that comes back reaches the others, and one without a certificate does not.
    servers.restart(0).unwrap();
    servers.wait_for_leader(LEADER_MAX).unwrap();
    run(create(&servers, "/second"));
    let config = servers.server_dir(1).join("zoo.cfg");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}\nsslQuorum=false\n")).unwrap();
    servers.kill(1).unwrap();
    servers.spawn(1).unwrap();
    let has = |server: usize, text: &str| servers.output(server).unwrap().contains(text);
    assert!(soon(|| has(0, "TLS expected") || has(2, "TLS expected")));
    assert!(soon(|| has(1, "TLS hello on the plain peer port")));
    // Each side names what it may be when it calls the other.
    assert!(soon(|| has(1, "it may speak TLS between servers (sslQuorum, peer_enabled)")));
    let hint = "it may speak plain text, with TLS between servers (sslQuorum, peer_enabled) off";
    assert!(soon(|| has(0, hint) || has(2, hint)));
    run(create(&servers, "/third"));
}

#[test]
fn a_server_of_another_authority_is_refused() {
    let (authority, other) = (Authority::new("authority"), Authority::new("other"));
    let mut servers = with_peer_stores(&authority.issue_server(), &authority)
        .property("sslQuorum", "true")
        .start()
        .unwrap();
    servers.wait_for_leader(LEADER_MAX).unwrap();
    let config = servers.server_dir(2).join("zoo.cfg");
    let text = fs::read_to_string(&config).unwrap();
    let stores = format!("ssl.quorum.keyStore.location={}\n", other.issue_server().display());
    fs::write(&config, format!("{text}\n{stores}")).unwrap();
    servers.kill(2).unwrap();
    servers.spawn(2).unwrap();
    let refused = "invalid peer certificate";
    let has = |server: usize| servers.output(server).unwrap().contains(refused);
    assert!(soon(|| has(0) || has(1)), "the refusal is in the log");
    let own = "the other servers would refuse this certificate as a client";
    servers.until_logged(2, &[own]).unwrap();
    run(create(&servers, "/without-it"));
}

/// `sslQuorum` is introduced in two rounds of restarts, and the ensemble serves all the time.
#[test]
fn servers_are_switched_over_one_by_one() {
    let authority = Authority::new("authority");
    let mut servers = with_peer_stores(&authority.issue_server(), &authority).start().unwrap();
    let stages = ["portUnification=true\n", "sslQuorum=true\n", "portUnification=false\n"];
    for (number, stage) in stages.into_iter().enumerate() {
        for server in 0..3 {
            let config = servers.server_dir(server).join("zoo.cfg");
            let text = fs::read_to_string(&config).unwrap();
            fs::write(&config, format!("{text}\n{stage}")).unwrap();
            servers.restart(server).unwrap();
            servers.wait_for_leader(LEADER_MAX).unwrap();
            run(create(&servers, &format!("/stage-{number}-{server}")));
        }
    }
}
