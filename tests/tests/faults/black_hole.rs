//! Long packets of a leader are lost on their way, as on a path whose MTU is not reported: its
//! heartbeats and handshakes arrive, and its entries do not.

use std::time::Duration;

use tokio::time::Instant;
use zoolet_tests::faults::netns;
use zoolet_tests::faults::netns_ensemble::NetnsEnsemble;
use zoolet_tests::tools;

/// How long servers may take to serve, and to write again, on a busy machine.
const SERVE_MAX: Duration = Duration::from_mins(1);
/// How long a server may serve an old state; its limit is 2 s and an election timeout.
const OLD_MAX: Duration = Duration::from_secs(30);
/// The longest packets that arrive, and the data of a write that needs longer ones.
const PACKET_BYTES_MAX: u16 = 700;
const DATA: [u8; 5000] = [b'x'; 5000];

/// A follower served an old value for as long as the hole was there. With the hole between the leader
/// and all followers there were no writes and no election.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_that_are_lost_cost_a_follower_its_clients_and_a_leader_its_lead() {
    if !crate::is_due("black_hole") {
        return;
    }
    if let Some(missing) = netns::missing() {
        return tools::skip_unless_required("black_hole", missing).unwrap();
    }
    let all = [0, 1, 2];
    let ensemble = NetnsEnsemble::start(all.len()).unwrap();
    let (leader, _) = ensemble.until_serving(&all, SERVE_MAX).await.unwrap();
    let (follower, other) = ((leader + 1) % 3, (leader + 2) % 3);

    ensemble.network.lose_longer(leader, follower, PACKET_BYTES_MAX).unwrap();
    assert!(ensemble.writes_bytes_within(other, &DATA, SERVE_MAX).await, "{}", ensemble.said());
    ensemble.until_silent(&[follower], OLD_MAX).await.unwrap();
    let (still, _) = ensemble.until_serving(&[leader, other], SERVE_MAX).await.unwrap();
    assert_eq!(still, leader, "{}", ensemble.said());
    ensemble.network.heal().unwrap();
    let (leader, _) = ensemble.until_serving(&all, SERVE_MAX).await.unwrap();

    let others: Vec<usize> = all.into_iter().filter(|server| *server != leader).collect();
    for to in &others {
        ensemble.network.lose_longer(leader, *to, PACKET_BYTES_MAX).unwrap();
    }
    let begun = Instant::now();
    while !ensemble.writes_bytes_within(others[0], &DATA, Duration::from_secs(10)).await {
        assert!(begun.elapsed() < SERVE_MAX, "no write comes through\n{}", ensemble.said());
    }
    let (next, _) = ensemble.until_serving(&others, SERVE_MAX).await.unwrap();
    assert!(others.contains(&next));
    ensemble.network.heal().unwrap();
    ensemble.until_serving(&all, SERVE_MAX).await.unwrap();
}
