//! Servers that are short of processor time keep their leader, and a leader that stops alone is still
//! replaced at once (`docs/decisions/0031-patience.md`).
//!
//! Processor time is taken away by `SIGSTOP`, which a busy machine can only add to.
//! `ZOOLET_FAULTS_SEED` repeats a run.

use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use zoolet_client::{ClientOptions, CreateMode};
use zoolet_tests::faults::Seed;
use zoolet_tests::servers::{LEADER_MAX, Servers};
use zoolet_tests::tools::announce;

const SERVERS: usize = 3;
/// How long the servers are starved.
const STARVED: Duration = Duration::from_secs(15);
/// How long they run, before that and after: their delays are known by then.
const RUN: Duration = Duration::from_secs(2);

/// All servers at once, as in a container with 10 % of a processor.
#[test]
fn a_leader_leads_on_while_all_servers_are_suspended_again_and_again() {
    keeps_its_leader(0, |servers, _| {
        let begin = Instant::now();
        while begin.elapsed() < STARVED {
            (0..SERVERS).for_each(|server| servers.signal(server, "STOP").unwrap());
            sleep(Duration::from_millis(900));
            (0..SERVERS).for_each(|server| servers.signal(server, "CONT").unwrap());
            sleep(Duration::from_millis(100));
        }
    });
}

/// Each server at different times, as on a machine with far more work than processors.
#[test]
fn a_leader_leads_on_while_each_server_is_scheduled_late() {
    keeps_its_leader(1, |servers, seed| {
        thread::scope(|scope| {
            for server in 0..SERVERS {
                let mut rng = seed.generator(server as u64);
                scope.spawn(move || {
                    let begin = Instant::now();
                    while begin.elapsed() < STARVED {
                        servers.signal(server, "STOP").unwrap();
                        sleep(Duration::from_millis(rng.u64(100..400)));
                        servers.signal(server, "CONT").unwrap();
                        sleep(Duration::from_millis(rng.u64(20..80)));
                    }
                });
            }
        });
    });
}

fn keeps_its_leader(number: u64, starve: impl FnOnce(&Servers, &Seed)) {
    let seed = Seed::of("faults", "starved::");
    let builder = Servers::zoolet().servers(SERVERS).property("tickTime", "2000");
    let servers = builder.start().unwrap();
    let leader = servers.wait_for_leader(LEADER_MAX).unwrap();
    sleep(RUN);
    let before = epoch(&servers, &format!("/before-{number}"));
    starve(&servers, &seed);
    sleep(RUN);
    let after = epoch(&servers, &format!("/after-{number}"));
    announce(&format!(
        "starved: seed {}, {} elections in {} s",
        seed.number,
        after - before,
        STARVED.as_secs()
    ));
    assert_eq!((servers.leader(), after), (Some(leader), before), "seed {}", seed.number);
}

/// The epoch of the leader: it rises with each election.
fn epoch(servers: &Servers, path: &str) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = ClientOptions::new().connect(&servers.connect_string()).await.unwrap();
        client.create(path, b"", CreateMode::Persistent).await.unwrap();
        let stat = client.exists(path).await.unwrap().unwrap();
        client.close().await.unwrap();
        stat.czxid.0 as u64 >> 32
    })
}
