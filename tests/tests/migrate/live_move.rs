//! A move from Apache ZooKeeper to three servers of zoolet by the steps of `docs/migration.md`, while
//! clients hold locks and wait for them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zoolet_client::recipes::Mutex;
use zoolet_client::{Client, ClientOptions, Version};
use zoolet_tests::ports::PortLease;
use zoolet_tests::{four_letter, wait};

use crate::server::{Config, Server, java};
use crate::{NEWEST, jars, run_with, serve};

/// Long enough for a server of Apache ZooKeeper and three of zoolet on a busy machine.
const SESSION_TIMEOUT: Duration = Duration::from_secs(40);

const PATIENCE: Duration = Duration::from_mins(1);

const LOCK: &str = "/locks/moved";

async fn connect(connect_string: &str) -> Client {
    ClientOptions::new().session_timeout(SESSION_TIMEOUT).connect(connect_string).await.unwrap()
}

/// The configuration of three servers: client and peer port of each.
pub(crate) fn cluster_toml(config: &Config, ports: &[u16]) -> PathBuf {
    let server = |(at, ports): (usize, &[u16])| {
        let (id, data) = (at + 1, config.data(&format!("zoolet{at}")));
        format!(
            "[[server]]\nid = {id}\nclient = \"127.0.0.1:{}\"\npeer = \"127.0.0.1:{}\"\n\
             data_dir = \"{}\"\n",
            ports[0],
            ports[1],
            data.display()
        )
    };
    let servers: String = ports.chunks(2).enumerate().map(server).collect();
    let path = config.data("cluster.toml");
    fs::write(&path, format!("{servers}[four_letter]\nwords = [\"*\"]\n")).unwrap();
    path
}

/// Starts a server of the configuration: the first one founds the ensemble, the others wait.
pub(crate) fn start_server(cluster: &Path, id: usize) -> Server {
    let mut command = serve();
    let may_found = if id == 1 { None } else { Some("--join") };
    command.args(["--id", &id.to_string()]).args(may_found).arg("--config");
    Server::spawn(command, cluster, &id.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_are_held_throughout_a_move_to_three_servers() {
    let Some(jars) = jars(NEWEST) else { return };
    let (config, lease) = (Config::new(), PortLease::take(6).unwrap());
    let cluster = cluster_toml(&config, lease.ports());
    let mut old = Server::start(java(&jars, &[]), &config.zoo_cfg("apache"), config.client());
    let clients = lease.ports().iter().step_by(2).map(|port| format!("127.0.0.1:{port}"));
    let all: Vec<String> = [config.client().to_string()].into_iter().chain(clients).collect();
    let connect_string = all.join(",");

    let holder = connect(&connect_string).await;
    let guard = Mutex::new(&holder, LOCK).acquire().await.unwrap();
    let waiter = connect(&connect_string).await;
    let mutex = Mutex::new(&waiter, LOCK);
    let mut waiting = tokio::spawn(async move { mutex.acquire().await });
    let mutex = Mutex::new(&holder, LOCK);
    while mutex.participants().await.unwrap().len() < 2 {
        sleep(Duration::from_millis(50)).await;
    }
    let (session, token) = (holder.session().id, guard.token());

    let _others = [start_server(&cluster, 2), start_server(&cluster, 3)];
    old.kill();
    run_with("import", "--from", &config.data("apache"), &cluster, &["--id", "1"]);
    let _first = start_server(&cluster, 1);

    let write = holder.set_data(LOCK, b"moved", Version::Any);
    timeout(PATIENCE, write).await.expect("the session goes on").unwrap();
    assert_eq!(holder.session().id, session);
    assert_eq!(guard.token(), token);
    assert!(!waiting.is_finished(), "one lock, one holder");
    assert_eq!(mutex.participants().await.unwrap().len(), 2);
    guard.release().await.unwrap();
    let acquired = timeout(PATIENCE, &mut waiting).await.expect("it is woken");
    let acquired = acquired.unwrap().unwrap();
    assert!(acquired.token() > token);

    let is_whole = || {
        let leads = |port: &u16| {
            let address = format!("127.0.0.1:{port}").parse().ok()?;
            let report = four_letter::ask(address, "mntr").ok()?;
            report.contains("zk_synced_followers\t2").then_some(())
        };
        lease.ports().iter().step_by(2).find_map(leads)
    };
    wait::until(PATIENCE, is_whole).expect("both others are taken in");
}
