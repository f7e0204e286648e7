use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zoolet_jute::SessionId;
use zoolet_replica::{Batch, Boot, Origin, Role, ServerId, Term};
use zoolet_storage::Fault;

use super::ensemble::{Ensemble, PATIENCE, Server, command};
use super::recorder::Applied;
use crate::consensus::{MemberNode, MembershipChange};
use crate::host::Proposals;
use crate::node_id::NodeId;

/// Each start's commands are applied in rising order, which also means at most once; and all
/// servers have applied the same.
pub(super) async fn check(ensemble: &Ensemble) {
    let longest = ensemble.running().map(|(_, server)| server.machine.record().applied.len()).max();
    let mut first: Option<Vec<Applied>> = None;
    for (at, server) in ensemble.running() {
        let reached = server.machine.until(|record, _| Some(record.applied.len()) >= longest);
        timeout(PATIENCE, reached).await.expect("a server lags behind");
        let applied = server.machine.record().applied;
        let mut last: BTreeMap<(u8, u64), (u64, u64)> = BTreeMap::new();
        for (origin, number) in &applied {
            let row = last.entry((origin.server.0, origin.boot.0)).or_default();
            assert!(
                *row < (origin.stream, number.0),
                "server {at}: {origin:?} {number} after {row:?}"
            );
            assert!(row.1 < number.0, "server {at}: a lost command was applied late");
            *row = (origin.stream, number.0);
        }
        match &first {
            None => first = Some(applied),
            Some(first) => assert_eq!(*first, applied, "server {at} differs"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_server_is_an_ensemble() {
    let mut ensemble = Ensemble::started(1, 0).await;
    ensemble.server(0).propose(2000);
    ensemble.server(0).settled().await;
    assert_eq!(ensemble.server(0).machine.received().lost, 0);
    ensemble.kill(0).await;
    ensemble.start(0).await;
    ensemble.ready().await;
    assert_eq!(ensemble.server(0).machine.record().applied.len(), 2000);
    let second_boot = ensemble.server(0).boot;
    assert!(second_boot > Boot(1), "each start has its number");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_server_proposes_and_all_apply_the_same() {
    let mut ensemble = Ensemble::started(3, 0).await;
    for _ in 0..20 {
        for at in 0..3 {
            ensemble.server(at).propose(50);
        }
        sleep(Duration::from_millis(2)).await;
    }
    for at in 0..3 {
        ensemble.server(at).settled().await;
        assert_eq!(ensemble.server(at).machine.received().lost, 0);
    }
    check(&ensemble).await;
    assert_eq!(ensemble.server(0).machine.record().applied.len(), 3000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_the_others_survive_a_killed_leader() {
    let mut ensemble = Ensemble::started(3, 0).await;
    for round in 0..3 {
        let leader = ensemble.ready().await;
        let survivors: Vec<usize> = (0..3).filter(|at| *at != leader).collect();
        for _ in 0..10 {
            for at in 0..3 {
                ensemble.server(at).propose(20);
            }
            sleep(Duration::from_millis(1)).await;
        }
        ensemble.kill(leader).await;
        for at in &survivors {
            ensemble.server(*at).propose(20);
        }
        for at in &survivors {
            ensemble.server(*at).settled().await;
            assert_eq!(ensemble.server(*at).machine.received().lost, 0, "round {round}");
        }
        check(&ensemble).await;
        ensemble.start(leader).await;
    }
    ensemble.ready().await;
    check(&ensemble).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_loses_its_proposals_and_rejoins() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    ensemble.server(leader).propose(100);
    ensemble.server(leader).settled().await;
    ensemble.cut.isolate(leader, 3).await;
    ensemble.server(leader).propose(100);
    let other = (leader + 1) % 3;
    ensemble.server(other).propose(100);
    ensemble.server(other).settled().await;
    assert_eq!(ensemble.server(other).machine.received().lost, 0);
    ensemble.server(leader).settled().await;
    assert_eq!(ensemble.server(leader).machine.received().lost, 200);
    assert_eq!(ensemble.server(leader).machine.received().roles.last(), Some(&Role::Looking));
    ensemble.cut.heal();
    ensemble.ready().await;
    ensemble.server(leader).propose(100);
    ensemble.server(leader).settled().await;
    check(&ensemble).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn short_cuts_neither_double_nor_reorder() {
    let mut ensemble = Ensemble::started(3, 0).await;
    for round in 0..12 {
        for _ in 0..10 {
            for at in 0..3 {
                ensemble.server(at).propose(7);
            }
            sleep(Duration::from_millis(3)).await;
        }
        ensemble.cut.isolate(round % 3, 3).await;
        for at in 0..3 {
            ensemble.server(at).propose(7);
        }
        sleep(Duration::from_millis(100 * (round as u64 % 4))).await;
        ensemble.cut.heal();
    }
    for at in 0..3 {
        ensemble.server(at).settled().await;
    }
    ensemble.ready().await;
    check(&ensemble).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_sees_what_others_had_committed() {
    let mut ensemble = Ensemble::started(3, 0).await;
    for round in 1..=6 {
        let (writer, reader) = (round % 3, (round + 1) % 3);
        let synced = ensemble.server(reader).machine.clone();
        synced.gate.close();
        ensemble.server(writer).propose(5);
        ensemble.server(writer).settled().await;
        let committed = ensemble.server(writer).machine.record().applied.len();
        let number = round as u64;
        ensemble.server(reader).proposer.sync(number);
        // The reader applies what was committed a moment after it could have answered.
        let opening = async {
            sleep(ensemble.timing.heartbeat).await;
            synced.gate.open();
        };
        let done = async {
            synced.until(|_, received| received.synced == number).await;
            synced.record().applied.len()
        };
        let (applied, ()) = tokio::join!(timeout(PATIENCE, done), opening);
        assert!(applied.expect("synced") >= committed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_its_ensemble_loses_syncs_and_looks() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    let follower = (leader + 1) % 3;
    ensemble.cut.isolate(follower, 3).await;
    ensemble.server(follower).proposer.sync(1);
    let machine = ensemble.server(follower).machine.clone();
    let lost = machine.until(|_, received| {
        received.sync_lost == 1 && received.roles.last() == Some(&Role::Looking)
    });
    timeout(PATIENCE, lost).await.expect("lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn touched_sessions_reach_the_leader() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    for at in 0..3 {
        let session = SessionId(i64::try_from(at).unwrap() - 1);
        ensemble.server(at).proposer.touch(7, vec![session]);
    }
    let machine = ensemble.server(leader).machine.clone();
    timeout(PATIENCE, machine.until(|_, received| received.touched.len() == 3))
        .await
        .expect("touched");
    let mut touched = machine.received().touched;
    touched.sort();
    assert_eq!(touched, [SessionId(-1), SessionId(0), SessionId(1)]);
    // The first one is refused, the others learn that theirs are counted.
    for at in 1..3 {
        let machine = ensemble.server(at).machine.clone();
        let counted = machine.until(|_, received| !received.counted.is_empty());
        timeout(PATIENCE, counted).await.expect("counted");
        let session = SessionId(i64::try_from(at).unwrap() - 1);
        assert_eq!(machine.received().counted, [(7, session)]);
    }
    assert_eq!(ensemble.server(0).machine.received().counted, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_hands_over_before_its_transaction_numbers_run_out() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    let term = ensemble.server(leader).raft.status().term;
    ensemble.server(leader).machine.zxid_before.store(0xf000_0000, Ordering::Relaxed);
    for at in 0..3 {
        ensemble.server(at).propose(100);
    }
    let deadline = Instant::now() + PATIENCE;
    while ensemble.ready().await == leader {
        assert!(Instant::now() < deadline, "it leads on");
        sleep(Duration::from_millis(10)).await;
    }
    assert!(ensemble.server(leader).raft.status().term > term);
    for at in 0..3 {
        ensemble.server(at).settled().await;
        assert_eq!(ensemble.server(at).machine.received().lost, 0);
    }
    check(&ensemble).await;
}

/// Three servers that have all applied the same `count` commands, and the place of their leader.
pub(super) async fn with_commands(count: u64) -> (Ensemble, usize) {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    ensemble.commit(leader, count).await;
    check(&ensemble).await;
    (ensemble, leader)
}

/// What one term's leader had agreed on was logged in another term, in which a lower level may have
/// been agreed on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_proposed_in_one_term_is_not_logged_in_another() {
    let mut ensemble = Ensemble::started(1, 0).await;
    let term = ensemble.server(0).raft.status().term;
    let origin = Origin { server: ServerId(1), boot: Boot(1 << 40), stream: 1 };
    let batch = Batch { origin, now_ms: 0, commands: vec![command(1)] }.encode();
    for (wanted, is_logged) in
        [(Some(term - 1), false), (Some(term + 1), false), (Some(term), true)]
    {
        let (done, received) = tokio::sync::oneshot::channel();
        let callback = Box::new(move |is_committed: bool| {
            done.send(is_committed).unwrap();
        });
        let handle = ensemble.server(0).raft.handle.clone();
        assert!(handle.propose(batch.clone(), wanted.map(Term), callback).await);
        assert_eq!(timeout(PATIENCE, received).await.unwrap(), Ok(is_logged), "{wanted:?}");
    }
}

/// Three servers; one is away, and the beginning of the others' log is purged. The places of the
/// leader and of the one that is away.
pub(super) async fn left_behind() -> (Ensemble, usize, usize) {
    let mut ensemble = Ensemble::new(3, 0).await;
    ensemble.snapshot_commands = 300;
    for at in 0..3 {
        ensemble.start(at).await;
    }
    let leader = ensemble.ready().await;
    let away = (leader + 1) % 3;
    ensemble.server(leader).propose(10);
    ensemble.server(leader).settled().await;
    ensemble.kill(away).await;
    let deadline = Instant::now() + PATIENCE;
    // Until the beginning of the log is purged: that takes three snapshots.
    while ensemble.server(leader).raft.status().purged.is_none() {
        ensemble.server(leader).propose(100);
        ensemble.server(leader).settled().await;
        sleep(Duration::from_millis(50)).await;
        assert!(Instant::now() < deadline, "{:?}", ensemble.server(leader).raft.status());
    }
    (ensemble, leader, away)
}

/// Over a slow link, syncs and touched sessions waited behind megabytes of proposals.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_does_not_wait_behind_proposals_on_a_slow_link() {
    let mut ensemble = Ensemble::new(3, 0).await;
    // The link is slow, not broken.
    ensemble.timing.election_max = Duration::from_secs(5);
    ensemble.timing.proposal_timeout = PATIENCE * 4;
    for from in 0..3 {
        for to in (0..3).filter(|to| *to != from) {
            ensemble.cut.slow_down(from, to, 50_000);
        }
        ensemble.start(from).await;
    }
    let leader = ensemble.ready().await;
    let follower = (leader + 1) % 3;
    for _ in 0..4 {
        ensemble.server(follower).propose_long(500_000);
    }
    // The first batch takes ten seconds.
    sleep(Duration::from_secs(1)).await;
    let asked = Instant::now();
    ensemble.server(follower).proposer.sync(1);
    ensemble.server(follower).proposer.touch(1, vec![SessionId(5)]);
    let machine = ensemble.server(follower).machine.clone();
    let answered =
        machine.until(|_, received| received.synced == 1 && !received.counted.is_empty());
    timeout(PATIENCE, answered).await.expect("an answer");
    assert!(asked.elapsed() < Duration::from_secs(6), "{:?}", asked.elapsed());
    assert_eq!(machine.record().applied.len(), 0, "the proposals were not slow");
}

/// A server that had missed its removal asked for votes fifty times a second, for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_server_that_missed_the_word_learns_it_and_asks_for_no_votes() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    let removed = (leader + 1) % 3;
    ensemble.cut.isolate(removed, 3).await;
    let gone = ensemble.server(removed).raft.handle.node();
    let nodes: Vec<NodeId> =
        ensemble.running().map(|(_, server)| server.raft.handle.node()).collect();
    let left: BTreeSet<NodeId> = nodes.into_iter().filter(|node| *node != gone).collect();
    let raft = ensemble.server(leader).raft.handle.clone();
    let gone = MembershipChange::RemoveNodes(BTreeSet::from([gone]));
    // An ensemble that was changed: its leader does not add what only the configuration lists.
    let line = "127.0.0.1:2888:3888:participant;127.0.0.1:2181".to_owned();
    let member = |(at, server): (usize, &Server)| {
        let member = MemberNode { address: ensemble.address(at), line: line.clone() };
        (server.raft.handle.node(), member)
    };
    let lines: BTreeMap<NodeId, MemberNode> = ensemble.running().map(member).collect();
    while raft.change_membership(MembershipChange::SetNodes(lines.clone())).await.is_err() {
        sleep(Duration::from_millis(10)).await;
    }
    // Each step may have to be repeated.
    while ensemble.server(leader).raft.status().peers.len() > 1 {
        let voters = MembershipChange::ReplaceAllVoters(left.clone());
        let _ = raft.change_membership(voters).await;
        let _ = raft.change_membership(gone.clone()).await;
        sleep(Duration::from_millis(10)).await;
    }
    ensemble.server(leader).propose(10);
    ensemble.server(leader).settled().await;
    ensemble.cut.heal();
    let machine = ensemble.server(removed).machine.clone();
    timeout(PATIENCE, machine.until(|_, received| received.removed == 1)).await.expect("it knows");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lags_far_behind_gets_a_snapshot() {
    let (mut ensemble, leader, away) = left_behind().await;
    let purged = ensemble.server(leader).raft.status().purged;
    ensemble.start(away).await;
    let deadline = Instant::now() + PATIENCE;
    while ensemble.server(away).raft.status().applied < purged {
        assert!(Instant::now() < deadline, "no snapshot comes");
        sleep(Duration::from_millis(10)).await;
    }
    let restored = ensemble.server(away).machine.received().restored;
    assert!(restored > 0, "a snapshot came, and its state was not installed");
    ensemble.ready().await;
    ensemble.commit(away, 100).await;
    check(&ensemble).await;

    // Its own disk has all of it.
    ensemble.kill(away).await;
    ensemble.start(away).await;
    ensemble.ready().await;
    check(&ensemble).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_come_back_from_their_disks() {
    let mut ensemble = Ensemble::new(3, 0).await;
    ensemble.snapshot_commands = 500;
    for at in 0..3 {
        ensemble.start(at).await;
    }
    ensemble.ready().await;
    for _ in 0..8 {
        for at in 0..3 {
            ensemble.server(at).propose(100);
            ensemble.server(at).settled().await;
        }
    }
    check(&ensemble).await;
    for at in 0..3 {
        ensemble.kill(at).await;
    }
    for at in 0..3 {
        ensemble.start(at).await;
    }
    ensemble.ready().await;
    assert_eq!(ensemble.server(0).machine.record().applied.len(), 2400);
    ensemble.server(2).propose(10);
    ensemble.server(2).settled().await;
    check(&ensemble).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observers_follow_and_propose_without_a_vote() {
    let mut ensemble = Ensemble::started(3, 1).await;
    ensemble.server(3).propose(200);
    ensemble.server(3).settled().await;
    ensemble.server(0).propose(200);
    ensemble.server(0).settled().await;
    check(&ensemble).await;
    assert_eq!(*ensemble.server(3).raft.role().borrow(), Role::Observer);
    let peers = ensemble.server(0).raft.status().peers;
    assert_eq!(peers.iter().filter(|peer| !peer.is_voter).count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lost_its_disk_is_rebuilt() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    ensemble.commit(leader, 500).await;
    let poor = (leader + 1) % 3;
    ensemble.lose_disk(poor).await;
    ensemble.start(poor).await;
    ensemble.ready().await;
    check(&ensemble).await;
    assert_eq!(ensemble.server(poor).machine.record().applied.len(), 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_ends_in_good_order_hands_over() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    ensemble.server(leader).propose(50);
    ensemble.server(leader).settled().await;
    let server = ensemble.servers[leader].take().unwrap();
    server.raft.shutdown().await;
    ensemble.ready().await;
    let other = (leader + 1) % 3;
    ensemble.server(other).propose(50);
    ensemble.server(other).settled().await;
    assert_eq!(ensemble.server(other).machine.received().lost, 0);
    check(&ensemble).await;
}

/// A leader that had just been founded had not reached any server itself, so its calls failed at
/// once, and it ended without a transferee.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_looks_for_a_transferee_for_a_while() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    for other in (0..3).filter(|other| *other != leader) {
        ensemble.cut.one_way(leader, other).await;
    }
    let cut = ensemble.cut.clone();
    let healing = async {
        sleep(Duration::from_millis(80)).await;
        cut.heal();
    };
    tokio::join!(ensemble.server(leader).raft.transfer_leadership(), healing);
    let deadline = Instant::now() + PATIENCE;
    let old = leader as u64 + 1;
    while ensemble.server((leader + 1) % 3).raft.status().leader.is_none_or(|now| now == old) {
        assert!(Instant::now() < deadline, "it still leads");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_disk_ends_the_server_and_loses_nothing_of_the_others() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    ensemble.server(leader).propose(10);
    ensemble.server(leader).settled().await;
    ensemble.disk(leader).fail_change(1, Fault::Io);
    let other = (leader + 1) % 3;
    ensemble.server(other).propose(100);
    let mut fatal = ensemble.server(leader).fatal.watch();
    let failed = timeout(PATIENCE, fatal.wait_for(Option::is_some)).await.expect("fatal");
    let message = failed.unwrap().clone().unwrap();
    assert!(message.starts_with("cannot ") && message.contains("injected fault"), "{message}");
    ensemble.kill(leader).await;
    ensemble.server(other).settled().await;
    assert_eq!(ensemble.server(other).machine.received().lost, 0);
    check(&ensemble).await;
}
