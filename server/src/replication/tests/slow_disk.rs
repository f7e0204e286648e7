//! What a server may do, and must, while its own disk takes its time.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zoolet_replica::Role;
use zoolet_storage::{Disk, MemoryDisk, Survival};

use super::cluster::check;
use super::ensemble::{Ensemble, PATIENCE};
use crate::replication::Timing;

/// A client's session had ended on one server, and a read through another one still saw its
/// ephemeral znode: that server waited for its own disk before it applied what was committed, or
/// for the next heartbeat to tell it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_applies_what_is_committed_before_its_own_disk_has_it() {
    const ROUNDS: usize = 7;
    let mut ensemble = Ensemble::new(3, 0).await;
    ensemble.timing = Timing::from_tick(Duration::from_secs(8));
    for at in 0..3 {
        ensemble.start(at).await;
    }
    let leader = ensemble.ready().await;
    let slow = (leader + 1) % 3;
    let mut lags = Vec::new();
    for round in 1..=ROUNDS {
        ensemble.gate(slow).close();
        ensemble.server(leader).propose(10);
        ensemble.server(leader).settled().await;
        let settled = Instant::now();
        let follower = ensemble.server(slow).machine.clone();
        let applied = follower.until(|record, _| record.applied.len() == round * 10);
        timeout(PATIENCE, applied).await.expect("it waits for its disk");
        lags.push(settled.elapsed());
        // The leader sends nothing more before this is durable.
        ensemble.gate(slow).open();
        while ensemble.server(leader).raft.status().peers.iter().any(|peer| {
            peer.matching < ensemble.servers[leader].as_ref().unwrap().raft.status().last_log
        }) {
            sleep(Duration::from_millis(2)).await;
        }
    }
    lags.sort();
    assert!(lags[ROUNDS / 2] < ensemble.timing.heartbeat / 4, "it waits for heartbeats: {lags:?}");
    check(&ensemble).await;
}

/// A leader whose disk hung went on sending heartbeats, and no server replaced it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_disk_hangs_gives_its_lead_up() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    ensemble.gate(leader).close();
    let others = [(leader + 1) % 3, (leader + 2) % 3];
    for at in others {
        ensemble.server(at).propose(20);
    }
    let deadline = Instant::now() + PATIENCE;
    let leads = |ensemble: &Ensemble, at: usize| {
        let server = ensemble.servers[at].as_ref().unwrap();
        *server.raft.role().borrow() == Role::Leader
    };
    while !others.iter().any(|at| leads(&ensemble, *at)) {
        assert!(Instant::now() < deadline, "it keeps its lead");
        sleep(Duration::from_millis(10)).await;
    }
    for at in others {
        ensemble.server(at).propose(20);
        ensemble.server(at).settled().await;
        assert_eq!(ensemble.server(at).machine.received().lost, 0);
    }
    ensemble.gate(leader).open();
    ensemble.ready().await;
    ensemble.server(leader).propose(20);
    ensemble.server(leader).settled().await;
    check(&ensemble).await;
}

/// What was applied, and is in a snapshot, may be ahead of the server's own log when the power
/// goes. It was durable on a majority, so nothing is lost, and the log goes on behind the snapshot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_ahead_of_the_log_survives_a_power_cut() {
    for rounds in [1, 3] {
        let mut ensemble = Ensemble::new(3, 0).await;
        ensemble.disks.fill_with(MemoryDisk::with_faults);
        for at in 0..3 {
            ensemble.start(at).await;
        }
        let leader = ensemble.ready().await;
        let slow = (leader + 1) % 3;
        ensemble.server(leader).propose(10);
        ensemble.server(leader).settled().await;
        check(&ensemble).await;
        ensemble.gate(slow).close();
        for round in 1..=rounds {
            ensemble.server(leader).propose(10);
            ensemble.server(leader).settled().await;
            check(&ensemble).await;
            let applied = ensemble.server(slow).raft.status().applied;
            ensemble.server(slow).raft.take_snapshot();
            let deadline = Instant::now() + PATIENCE;
            while ensemble.server(slow).raft.status().snapshot < applied {
                assert!(Instant::now() < deadline, "no snapshot in round {round}");
                sleep(Duration::from_millis(5)).await;
            }
        }
        let left = ensemble.disk(slow).image().after_power_cut(Survival::Nothing);
        // What its disk takes from now on is lost, so it must not be acknowledged.
        ensemble.cut.isolate(slow, 3).await;
        ensemble.gate(slow).open();
        ensemble.kill(slow).await;
        ensemble.cut.heal();
        ensemble.disks[slow] = MemoryDisk::from_image(left);
        ensemble.start(slow).await;
        ensemble.ready().await;
        assert!(ensemble.server(slow).machine.record().applied.len() >= 10 * (rounds + 1));
        ensemble.server(slow).propose(10);
        ensemble.server(slow).settled().await;
        check(&ensemble).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_go_on_while_a_snapshot_is_written() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    ensemble.server(leader).propose(100);
    ensemble.server(leader).settled().await;
    for at in 0..3 {
        ensemble.snapshot_gate(at).close();
        ensemble.server(at).raft.take_snapshot();
    }
    let deadline = Instant::now() + PATIENCE;
    let is_under_way = |ensemble: &Ensemble, at| {
        let files = ensemble.disk(at).list(Path::new("data/snapshots")).unwrap();
        files.iter().any(|file| file.name.contains(".tmp") && file.bytes > 0)
    };
    while !(0..3).all(|at| is_under_way(&ensemble, at)) {
        assert!(Instant::now() < deadline, "no snapshot is begun");
        sleep(Duration::from_millis(5)).await;
    }
    for at in 0..3 {
        ensemble.server(at).propose(100);
        ensemble.server(at).settled().await;
        assert_eq!(ensemble.server(at).machine.received().lost, 0);
    }
    check(&ensemble).await;
    for at in 0..3 {
        assert_eq!(ensemble.server(at).raft.status().snapshot, None, "it was held up");
        ensemble.snapshot_gate(at).open();
        while ensemble.server(at).raft.status().snapshot.is_none() {
            assert!(Instant::now() < deadline + PATIENCE, "it is never written");
            sleep(Duration::from_millis(5)).await;
        }
    }
}
