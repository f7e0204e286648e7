//! All servers are killed at the same moment, under load, and started again: everything that
//! was acknowledged is there, in order, once, and the sessions go on.
//!
//! `ZOOLET_FAULTS_SEED` repeats a run.

use std::time::Duration;

use tokio::time::sleep;
use zoolet_tests::faults::{Load, Seed, convergence};
use zoolet_tests::servers::Servers;
use zoolet_tests::tools::announce;

const SERVERS: usize = 3;
const ROUNDS: usize = 8;
/// The mean pause between two writes of a session.
const PAUSE: Duration = Duration::from_millis(2);

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_the_death_of_all_servers_at_once() {
    if !crate::is_due("all_killed") {
        return;
    }
    let seed = Seed::of("faults", "all_killed::");
    let mut rng = seed.generator(0);
    let mut servers =
        Servers::zoolet().servers(SERVERS).property("snapCount", "1000").start().unwrap();
    let mut load = Load::start(&servers.connect_string(), &seed, PAUSE).await.unwrap();
    let mut known = 0;
    for _ in 0..ROUNDS {
        // Under load for another while each time, so that the kill finds the log in other places.
        load.until_acknowledged(known + 50).await.unwrap();
        sleep(Duration::from_millis(rng.u64(..1000))).await;
        let mut order: Vec<usize> = (0..SERVERS).collect();
        rng.shuffle(&mut order);
        let pids: Vec<String> =
            order.iter().map(|index| servers.pid(*index).unwrap().to_string()).collect();
        kill_together(&pids);
        for server in 0..SERVERS {
            servers.kill(server).unwrap();
        }
        for server in order {
            servers.spawn(server).unwrap();
        }
        for server in 0..SERVERS {
            tokio::task::block_in_place(|| servers.wait_until_serving(server)).unwrap();
        }
        known = load.check_while_running().await.unwrap();
    }
    let total = load.finish().await.unwrap();
    let addresses: Vec<_> = (0..SERVERS).map(|i| servers.client_address(i).unwrap()).collect();
    let agreement = convergence::all(&addresses).await.unwrap();
    announce(&format!(
        "all killed: seed {}, {ROUNDS} deaths of all {SERVERS} servers; {} acknowledged \
         writes all there, {} in doubt at most once; servers agree on {} znodes, {}",
        seed.number, total.acknowledged, total.in_doubt, agreement.znodes, agreement.state,
    ));
    assert!(total.acknowledged > ROUNDS * 50, "{total:?}");
    assert!(total.in_doubt >= ROUNDS, "{total:?}");
}

/// One `kill` for all of them: they die within the time of three system calls.
fn kill_together(pids: &[String]) {
    let status = std::process::Command::new("kill").arg("-9").args(pids).status().unwrap();
    assert!(status.success());
}
