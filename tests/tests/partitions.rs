//! Partitions of ensembles of 3 to 6 servers, each in a network namespace of its own (issue 2,
//! §7.4): the side with a majority goes on, all others stop, no acknowledged write is lost, and
//! sessions live through it.
//!
//! `ZOOLET_PARTITION_ROUNDS` adds random cuts, `ZOOLET_FAULTS_SEED` repeats a run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use zoolet_tests::faults::island::Island;
use zoolet_tests::faults::{Load, Seed, agree, netns};
use zoolet_tests::tools::{self, announce};

/// The mean pause between two writes of a session.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a majority may take to elect a leader and to serve, on a busy machine.
const ELECTION_MAX: Duration = Duration::from_secs(15);
/// How long a server without a majority may go on to serve reads: its limit is 2 s.
const SILENCE_MAX: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_are_cut_apart() {
    cut_apart(3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_servers_are_cut_apart() {
    cut_apart(4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_servers_are_cut_apart() {
    cut_apart(5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_servers_are_cut_apart() {
    cut_apart(6).await;
}

/// What the cuts of one ensemble have come to.
#[derive(Debug, Default)]
struct Cuts {
    /// Splits into two sides.
    splits: u32,
    /// Those of them without a majority on either side.
    standstills: u32,
    /// Cuts after which some servers still reach all others.
    partial: u32,
    election_max: Duration,
}

async fn cut_apart(count: usize) {
    if let Some(missing) = netns::missing() {
        return tools::skip_unless_required("partitions", missing).unwrap();
    }
    let seed = Seed::of("partitions");
    let mut rng = seed.generator(count as u64);
    let all: Vec<usize> = (0..count).collect();
    let island = Island::start(count).unwrap();
    island.until_serving(&all, ELECTION_MAX).await.unwrap();
    island.until_voting(ELECTION_MAX).await.unwrap();
    let mut load = Load::start(&island.connect_string(), &seed, PAUSE).await.unwrap();

    let mut cuts = Cuts::default();
    for size in 1..=count / 2 {
        for with_leader in [true, false] {
            let leader = island.until_serving(&all, ELECTION_MAX).await.unwrap().0;
            let mut others: Vec<usize> = all.iter().copied().filter(|s| *s != leader).collect();
            rng.shuffle(&mut others);
            let mut side: Vec<usize> = others.drain(..size - usize::from(with_leader)).collect();
            let mut rest = others;
            (if with_leader { &mut side } else { &mut rest }).push(leader);
            split(&island, &side, &rest, &mut cuts).await;
            load.check_while_running().await.unwrap();
        }
    }
    for one_way in [false, true] {
        partial(&island, &all, one_way, &mut rng, &mut cuts).await;
        load.check_while_running().await.unwrap();
    }
    for _ in 0..rounds() {
        let mut shuffled = all.clone();
        rng.shuffle(&mut shuffled);
        let (side, rest) = shuffled.split_at(rng.usize(1..count));
        split(&island, side, rest, &mut cuts).await;
        load.check_while_running().await.unwrap();
    }
    let total = load.finish().await.unwrap();
    let agreement = agree::all(&island.addresses()).await.unwrap();
    announce(&format!(
        "partitions: {count} servers, seed {}: {} splits, {} of them without a majority, {} partial \
         cuts, elections of at most {} ms; {} acknowledged writes all there, {} in doubt at most \
         once; servers agree on {} znodes",
        seed.number,
        cuts.splits,
        cuts.standstills,
        cuts.partial,
        cuts.election_max.as_millis(),
        total.acknowledged,
        total.in_doubt,
        agreement.znodes,
    ));
    assert!(total.acknowledged > 100, "{total:?}");
}

fn rounds() -> u32 {
    std::env::var("ZOOLET_PARTITION_ROUNDS")
        .map_or(0, |text| text.parse().unwrap_or_else(|_| panic!("{text} is no number")))
}

/// Cuts the ensemble in two: who has more than half of all goes on, everybody else stops.
async fn split(island: &Island, side: &[usize], rest: &[usize], cuts: &mut Cuts) {
    let count = side.len() + rest.len();
    island.network.cut_between(side, rest).unwrap();
    let (going, stopped): (Vec<&[usize]>, Vec<&[usize]>) =
        [side, rest].into_iter().partition(|half| half.len() * 2 > count);
    cuts.splits += 1;
    let no_majority = async {
        for half in &stopped {
            // At once, while the servers may still serve reads, and when they have stopped that.
            for server in *half {
                let has_written = island.writes(*server).await;
                assert!(!has_written, "server {server} of {half:?} of {count} writes");
            }
            island.until_silent(half, SILENCE_MAX).await.unwrap();
            for server in half.iter().take(1) {
                let has_written = island.writes(*server).await;
                assert!(!has_written, "server {server} of {half:?} of {count} writes");
            }
        }
    };
    let majority = async {
        let mut election = Duration::ZERO;
        for half in &going {
            election = island.until_serving(half, ELECTION_MAX).await.unwrap().1;
            for server in *half {
                assert!(island.writes(*server).await, "server {server} of {half:?} of {count}");
            }
        }
        election
    };
    let ((), election) = tokio::join!(no_majority, majority);
    cuts.election_max = cuts.election_max.max(election);
    if going.is_empty() {
        cuts.standstills += 1;
    }
    island.network.heal().unwrap();
    let all: Vec<usize> = (0..count).collect();
    island.until_serving(&all, ELECTION_MAX).await.unwrap();
}

/// Cuts the leader off from one follower, in one way or both; everybody still reaches all others.
/// A majority with one leader is left, and it must go on.
async fn partial(
    island: &Island,
    all: &[usize],
    one_way: bool,
    rng: &mut fastrand::Rng,
    cuts: &mut Cuts,
) {
    let leader = island.until_serving(all, ELECTION_MAX).await.unwrap().0;
    let other = (leader + rng.usize(1..all.len())) % all.len();
    island.network.cut(leader, other).unwrap();
    if !one_way {
        island.network.cut(other, leader).unwrap();
    }
    cuts.partial += 1;
    let between: Vec<usize> =
        all.iter().copied().filter(|server| ![leader, other].contains(server)).collect();
    // Whoever reaches everybody always finds the leader, whichever of the two it is.
    for server in &between {
        let mut attempts = 0;
        while !island.writes(*server).await {
            attempts += 1;
            assert!(attempts < 5, "server {server} reaches all others and does not write");
        }
    }
    island.network.heal().unwrap();
    island.until_serving(all, ELECTION_MAX).await.unwrap();
}
