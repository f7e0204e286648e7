//! Servers whose disks were replaced, and ensembles that were founded twice.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zoolet_jute::ReconfigRequest;
use zoolet_replica::Role;

use super::cluster::{check, left_behind, with_commands};
use super::ensemble::{Ensemble, PATIENCE};
use crate::config::StartMode;
use crate::host::{ConfigView, Proposals};
use crate::replication::ReplicationOptions;

/// Longer than several elections take.
async fn several_elections(ensemble: &Ensemble) {
    sleep(ensemble.timing.election_max * 8).await;
}

/// The old leader was cut off, the others elected another one and acknowledged writes; then one of
/// the two went down and the other lost its disk. The old leader came back and its appends were
/// acknowledged by the empty server: the writes of the new leader were gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_replaced_disk_does_not_help_a_leader_of_the_past() {
    let (mut ensemble, old) = with_commands(50).await;
    let (poor, third) = ((old + 1) % 3, (old + 2) % 3);
    ensemble.cut.isolate(old, 3).await;
    ensemble.commit(poor, 20).await;
    assert_eq!(ensemble.server(poor).machine.received().lost, 0);
    ensemble.kill(third).await;
    ensemble.lose_disk(poor).await;
    ensemble.cut.heal();
    ensemble.start(poor).await;
    let until = Instant::now() + ensemble.timing.election_max * 10;
    while Instant::now() < until {
        for at in [old, poor] {
            let applied = ensemble.server(at).machine.record().applied.len();
            assert!(applied <= 50, "server {at} has applied {applied}");
        }
        sleep(Duration::from_millis(20)).await;
    }
    let status = ensemble.server(old).raft.status();
    assert_ne!(*ensemble.server(old).raft.role().borrow(), Role::Leader, "{status:?}");
    ensemble.start(third).await;
    ensemble.ready().await;
    ensemble.commit(old, 5).await;
    check(&ensemble).await;
    let applied = ensemble.server(poor).machine.record().applied.len();
    assert!(applied >= 75, "{applied} are left of 75");
}

/// With all servers up and only one link cut, the empty server followed the old leader, and two
/// leaders went on.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_replaced_disk_follows_one_leader() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let old = ensemble.ready().await;
    let (poor, third) = ((old + 1) % 3, (old + 2) % 3);
    ensemble.cut.isolate(old, 3).await;
    ensemble.commit(third, 20).await;
    let mut role = ensemble.server(old).raft.role();
    let looks = role.wait_for(|role| *role == Role::Looking);
    timeout(PATIENCE, looks).await.expect("it notices").unwrap();
    ensemble.lose_disk(poor).await;
    ensemble.cut.heal();
    ensemble.cut.one_way(old, third).await;
    ensemble.cut.one_way(third, old).await;
    ensemble.start(poor).await;
    let until = Instant::now() + ensemble.timing.election_max * 10;
    while Instant::now() < until {
        let roles = ensemble.running().map(|(at, server)| (at, *server.raft.role().borrow()));
        let leaders: Vec<_> = roles.filter(|(_, role)| *role == Role::Leader).collect();
        assert!(leaders.iter().all(|(at, _)| *at == third), "{leaders:?}");
        sleep(Duration::from_millis(5)).await;
    }
    ensemble.cut.heal();
    ensemble.ready().await;
    check(&ensemble).await;
}

/// Two of three servers lost their disks and founded another ensemble. The third one came with the
/// data of the first, was elected, and all three served different trees.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn servers_of_different_foundings_refuse_each_other() {
    let (mut ensemble, _) = with_commands(30).await;
    ensemble.kill_all().await;
    for at in [0, 1] {
        ensemble.wipe(at);
        ensemble.start(at).await;
    }
    ensemble.ready().await;
    ensemble.commit(0, 7).await;
    assert_eq!(ensemble.server(0).machine.received().lost, 0);
    ensemble.start(2).await;
    several_elections(&ensemble).await;
    assert_eq!(*ensemble.server(2).raft.role().borrow(), Role::Looking);
    ensemble.commit(1, 7).await;
    for at in [0, 1] {
        let machine = ensemble.server(at).machine.clone();
        let applied = machine.until(|record, _| record.applied.len() == 14);
        timeout(PATIENCE, applied).await.expect("the second ensemble goes on");
        assert_eq!(*ensemble.server(at).fatal.watch().borrow(), None);
    }
    assert_eq!(ensemble.server(2).machine.record().applied.len(), 30);
}

/// The servers that lost their disks ask before they found an ensemble: one with data answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_majority_without_data_founds_nothing_beside_a_server_with_data() {
    let (mut ensemble, _) = with_commands(30).await;
    ensemble.kill_all().await;
    for at in [0, 1] {
        ensemble.wipe(at);
    }
    for at in 0..3 {
        ensemble.start(at).await;
    }
    several_elections(&ensemble).await;
    for at in 0..3 {
        assert_eq!(*ensemble.server(at).raft.role().borrow(), Role::Looking, "server {at}");
    }
    for at in [0, 1] {
        assert_eq!(ensemble.server(at).raft.status().last_log, None, "server {at}");
    }
}

/// The configuration of a server that lost its disk named neither the leader nor anything but the
/// founders: it was never rebuilt, and the leader reported it as in sync.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_replaced_disk_is_taken_in_by_a_leader_that_its_configuration_does_not_name() {
    let (mut ensemble, leader) = with_commands(50).await;
    let (poor, third) = ((leader + 1) % 3, (leader + 2) % 3);
    ensemble.lose_disk(poor).await;
    let mut options = ensemble.options(poor);
    options.members.retain(|member| member.id() != leader as u64 + 1);
    ensemble.start_with(poor, options).await;
    ensemble.ready().await;
    check(&ensemble).await;
    ensemble.kill(third).await;
    ensemble.commit(poor, 5).await;
    assert_eq!(ensemble.server(poor).machine.record().applied.len(), 55);
    let deadline = Instant::now() + PATIENCE;
    let in_sync = |server: &super::ensemble::Server| {
        server.raft.status().peers.iter().filter(|peer| peer.is_synced).count()
    };
    while in_sync(ensemble.server(leader)) != 1 {
        assert!(Instant::now() < deadline, "{:?}", ensemble.server(leader).raft.status());
        sleep(Duration::from_millis(10)).await;
    }
}

/// Two of three servers are lost for good: an operator makes an ensemble of the third, and the
/// others join it with empty directories. One that still has its old data is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn one_server_is_made_a_new_ensemble_on_request() {
    let (mut ensemble, _) = with_commands(30).await;
    let old_founding = ensemble.founding(0);
    ensemble.kill_all().await;
    ensemble.wipe(1);
    let options = ReplicationOptions { start_mode: StartMode::ForceNew, ..ensemble.options(0) };
    ensemble.start_with(0, options).await;
    ensemble.ready().await;
    assert_ne!(ensemble.founding(0), old_founding);
    ensemble.commit(0, 5).await;
    ensemble.start(1).await;
    ensemble.ready().await;
    check(&ensemble).await;
    ensemble.start(2).await;
    several_elections(&ensemble).await;
    assert_eq!(*ensemble.server(2).raft.role().borrow(), Role::Looking);
    ensemble.lose_disk(2).await;
    ensemble.start(2).await;
    ensemble.ready().await;
    check(&ensemble).await;
    assert_eq!(ensemble.server(2).machine.record().applied.len(), 35);
    // All three vote.
    ensemble.kill(0).await;
    ensemble.commit(1, 5).await;
    assert_eq!(ensemble.server(1).machine.received().lost, 0);
}

/// The snapshot named the old founding: the server did not start a second time, and the others
/// could not be filled from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_new_ensemble_is_made_of_a_server_with_snapshots() {
    let (mut ensemble, leader, _) = left_behind().await;
    let applied = ensemble.server(leader).machine.record().applied.len();
    let at = leader;
    ensemble.kill_all().await;
    for other in (0..3).filter(|other| *other != at) {
        ensemble.wipe(other);
    }
    let options = ReplicationOptions { start_mode: StartMode::ForceNew, ..ensemble.options(at) };
    ensemble.start_with(at, options).await;
    ensemble.ready().await;
    ensemble.kill(at).await;
    for each in 0..3 {
        ensemble.start(each).await;
    }
    ensemble.ready().await;
    check(&ensemble).await;
    let other = (at + 1) % 3;
    ensemble.kill(other).await;
    ensemble.start(other).await;
    ensemble.ready().await;
    assert!(ensemble.server(other).machine.record().applied.len() >= applied);
    check(&ensemble).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_without_data_is_made_a_new_ensemble_on_request() {
    let mut ensemble = Ensemble::new(3, 0).await;
    let options = ReplicationOptions { start_mode: StartMode::ForceNew, ..ensemble.options(1) };
    ensemble.start_with(1, options).await;
    ensemble.ready().await;
    for at in [0, 2] {
        ensemble.start(at).await;
    }
    ensemble.ready().await;
    ensemble.kill(1).await;
    ensemble.commit(0, 5).await;
    check(&ensemble).await;
}

/// The old disk of a server comes back after another one has taken its place: its votes are those
/// of a directory that is no longer a member.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_disk_that_was_replaced_has_no_vote_when_it_comes_back() {
    let (mut ensemble, leader) = with_commands(10).await;
    let (poor, third) = ((leader + 1) % 3, (leader + 2) % 3);
    ensemble.kill(poor).await;
    let old_disk = ensemble.disk(poor).clone();
    ensemble.wipe(poor);
    ensemble.start(poor).await;
    ensemble.ready().await;
    ensemble.cut.isolate(leader, 3).await;
    ensemble.commit(poor, 20).await;
    // The newer disk has acknowledged these together with the third server, which goes down.
    ensemble.kill(third).await;
    ensemble.kill(poor).await;
    ensemble.disks[poor] = old_disk;
    ensemble.cut.heal();
    ensemble.start(poor).await;
    several_elections(&ensemble).await;
    for at in [leader, poor] {
        assert_eq!(*ensemble.server(at).raft.role().borrow(), Role::Looking, "server {at}");
    }
    ensemble.start(third).await;
    ensemble.ready().await;
    check(&ensemble).await;
    assert_eq!(ensemble.server(poor).machine.record().applied.len(), 30);
}

/// A server that was away when the ensemble was founded joins it when it comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_voter_that_comes_after_the_founding_gets_its_vote() {
    let mut ensemble = Ensemble::new(3, 0).await;
    for at in [0, 1] {
        ensemble.start(at).await;
    }
    ensemble.ready().await;
    ensemble.commit(0, 10).await;
    ensemble.start(2).await;
    let leader = ensemble.ready().await;
    ensemble.kill(leader).await;
    let other = (leader + 1) % 3;
    // The old leader is down: the others elect one of themselves only if the late voter votes.
    ensemble.commit(other, 10).await;
    check(&ensemble).await;
}

/// A new directory fetched a large snapshot, and every reconfiguration was refused until it had it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_ensemble_is_changed_while_a_new_directory_catches_up() {
    let (mut ensemble, leader, away) = left_behind().await;
    ensemble.wipe(away);
    ensemble.snapshot_gate(away).close();
    ensemble.start(away).await;
    let machine = ensemble.server(leader).machine.clone();
    let line =
        |at: usize| format!("server.{}={}:1:participant;127.0.0.1:1", at + 1, ensemble.address(at));
    let members = [line(0), line(1), line(2)].join("\n");
    let text = format!("{members}\nversion=100000000");
    let (enabled, permitted) = (true, true);
    *machine.view.lock().unwrap() = ConfigView { enabled, permitted, text, ..Default::default() };
    let joins = |ensemble: &mut Ensemble| {
        ensemble.server(leader).raft.handle.view().membership.nodes.len() == 4
    };
    let deadline = Instant::now() + PATIENCE;
    while !joins(&mut ensemble) {
        assert!(Instant::now() < deadline, "it is not added");
        sleep(Duration::from_millis(10)).await;
    }
    // What the next leader would remove stays.
    sleep(Duration::from_millis(500)).await;
    assert!(joins(&mut ensemble), "it is removed");
    let request = ReconfigRequest {
        joining_servers: None,
        leaving_servers: None,
        new_members: Some(members),
        config_id: -1,
    };
    ensemble.server(leader).proposer.reconfig(1, request, Arc::from([]));
    let is_done = machine.until(|_, received| !received.reconfigured.is_empty());
    timeout(PATIENCE, is_done).await.expect("it is not answered");
    assert_eq!(machine.received().reconfigured, [(1, Ok(None))]);
    assert!(joins(&mut ensemble), "the change has removed it");
    ensemble.snapshot_gate(away).open();
    ensemble.ready().await;
    check(&ensemble).await;
    let node = ensemble.server(away).raft.handle.node();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let membership = ensemble.server(leader).raft.handle.view().membership;
        assert!(membership.is_voter(node), "{membership:?}");
        // The old directory goes by an entry of its own.
        if membership.nodes.len() == 3 {
            break;
        }
        assert!(Instant::now() < deadline, "{membership:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// openraft's task had ended, by a panic or with its runtime, and nothing said so.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_end_of_the_raft_task_is_fatal() {
    let mut ensemble = Ensemble::started(1, 0).await;
    let mut fatal = ensemble.server(0).fatal.watch();
    ensemble.server(0).raft.handle.shutdown().await.unwrap();
    let why = timeout(PATIENCE, fatal.wait_for(Option::is_some)).await.expect("it is reported");
    assert!(why.unwrap().is_some());
}
