//! Partitions of ensembles of 2 to 6 servers, each in a network namespace of its own: the side
//! with a majority goes on, all others stop, no acknowledged write is lost, and sessions live through
//! it.
//!
//! `ZOOLET_PARTITION_ROUNDS` adds random cuts, `ZOOLET_FAULTS_SEED` repeats a run.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, sleep};
use zoolet_client::Client;
use zoolet_tests::faults::netns::{self, Lost};
use zoolet_tests::faults::netns_ensemble::NetnsEnsemble;
use zoolet_tests::faults::witness::{self, Witness};
use zoolet_tests::faults::{Load, Seed, connect, convergence};
use zoolet_tests::tools::{self, announce};

/// The mean pause between two writes of a session.
const PAUSE: Duration = Duration::from_millis(25);
/// How long a majority may take to elect a leader and to serve, on a busy machine.
const ELECTION_MAX: Duration = Duration::from_mins(1);
/// How long a server without a majority may go on to serve reads: its limit is 2 s.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// How long an attempt to write may go on where it must not come through. What is acknowledged
/// later than that is found by the witnesses.
const REFUSAL: Duration = Duration::from_secs(1);
/// This many more writes are acknowledged before the next cut: what is lost by it must be there.
const WRITES_PER_HEAL: usize = 20;
/// What the generators of the two kinds of trials begin to count at; those of a load count from 1.
const CUT_IN_TWO: u64 = 100;
const CUT_IN_PART: u64 = 200;
/// How many cuts come and go without time to settle.
const FLAPS: usize = 10;
/// How long a server that reaches a majority may take until it writes.
const WRITE_MAX: Duration = Duration::from_mins(1);

/// The ensembles stand side by side: most of their time is waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn ensembles_of_two_to_six_servers_are_cut_apart() {
    if !crate::is_due("partitions") {
        return;
    }
    if let Some(missing) = netns::missing() {
        return tools::skip_unless_required("partitions", missing).unwrap();
    }
    let seed = Arc::new(Seed::of("faults", "partitions::"));
    let mut trials = Vec::new();
    for count in 2..=6 {
        trials.push(tokio::spawn(cut_in_two(count, Arc::clone(&seed))));
        trials.push(tokio::spawn(cut_in_part(count, Arc::clone(&seed))));
    }
    for ended in join_all(trials).await {
        ended.unwrap();
    }
}

/// Two sides of every size, the leader on the one or on the other.
async fn cut_in_two(count: usize, seed: Arc<Seed>) {
    let mut trial = Trial::start(count, &seed, CUT_IN_TWO).await;
    for size in 1..=count / 2 {
        for with_leader in [true, false] {
            trial.split_by_size(size, with_leader).await;
        }
    }
    for _ in 0..tools::number("ZOOLET_PARTITION_ROUNDS", 0).unwrap() {
        trial.random_cut().await;
    }
    trial.finish(&seed).await;
}

/// Servers that still reach some of the others, or can send but not receive, and cuts that come
/// and go.
async fn cut_in_part(count: usize, seed: Arc<Seed>) {
    let mut trial = Trial::start(count, &seed, CUT_IN_PART).await;
    if count > 2 {
        trial.leader_misses_one(Lost::FromFirst).await;
        trial.leader_misses_one(Lost::Both).await;
        trial.followers_miss_each_other().await;
        trial.sides_share_one_server().await;
    }
    // Larger ensembles have enough to do with their sizes.
    if count <= 4 {
        trial.one_way(Lost::FromFirst, true).await;
        trial.one_way(Lost::ToFirst, true).await;
        trial.one_way(Lost::ToFirst, false).await;
    }
    trial.flap().await;
    trial.finish(&seed).await;
}

/// What the cuts of one ensemble have come to.
#[derive(Debug, Default)]
struct Cuts {
    /// Splits into two sides.
    splits: u32,
    /// Those of them without a majority on either side.
    standstills: u32,
    /// Splits in which one way was still open.
    one_way: u32,
    /// Cuts after which some servers still reach all others.
    partial: u32,
    /// Cuts that came and went without time to settle.
    flaps: u32,
    /// Sessions of the side that stopped, which the majority has ended.
    ended: u32,
    election_max: Duration,
}

/// One ensemble under a load that never stops.
struct Trial {
    ensemble: NetnsEnsemble,
    all: Vec<usize>,
    load: Load,
    reader: Client,
    rng: fastrand::Rng,
    cuts: Cuts,
}

impl Trial {
    async fn start(count: usize, seed: &Seed, kind: u64) -> Self {
        let all: Vec<usize> = (0..count).collect();
        let ensemble = NetnsEnsemble::start(count).unwrap();
        ensemble.until_serving(&all, ELECTION_MAX).await.unwrap();
        let reader = connect(&ensemble.connect_string()).await.unwrap();
        witness::prepare(&reader).await.unwrap();
        let load = Load::start(&ensemble.connect_string(), seed, PAUSE).await.unwrap();
        let rng = seed.generator(kind + count as u64);
        Self { ensemble, all, load, reader, rng, cuts: Cuts::default() }
    }

    async fn leader(&self) -> usize {
        self.ensemble.until_serving(&self.all, ELECTION_MAX).await.unwrap().0
    }

    /// The leader, and all others in any order.
    async fn leader_and_others(&mut self) -> (usize, Vec<usize>) {
        let leader = self.leader().await;
        let mut others: Vec<usize> = self.all.iter().copied().filter(|s| *s != leader).collect();
        self.rng.shuffle(&mut others);
        (leader, others)
    }

    /// Cuts `size` servers off all others, and the leader with them or not.
    async fn split_by_size(&mut self, size: usize, with_leader: bool) {
        let (leader, mut others) = self.leader_and_others().await;
        let mut side: Vec<usize> = others.drain(..size - usize::from(with_leader)).collect();
        (if with_leader { &mut side } else { &mut others }).push(leader);
        self.split(&side, &others, Lost::Both).await;
    }

    /// One server can no longer send, or no longer receive; the other way stays open.
    async fn one_way(&mut self, lost: Lost, is_leader: bool) {
        let (leader, mut others) = self.leader_and_others().await;
        let other = others.pop().unwrap();
        let (victim, spared) = if is_leader { (leader, other) } else { (other, leader) };
        others.push(spared);
        self.split(&[victim], &others, lost).await;
        self.cuts.one_way += 1;
    }

    async fn random_cut(&mut self) {
        let (side, rest) = self.any_sides();
        let lost = if side.len() == 1 { self.any_way() } else { Lost::Both };
        self.split(&side, &rest, lost).await;
    }

    fn any_sides(&mut self) -> (Vec<usize>, Vec<usize>) {
        let mut shuffled = self.all.clone();
        self.rng.shuffle(&mut shuffled);
        let rest = shuffled.split_off(self.rng.usize(1..self.all.len()));
        (shuffled, rest)
    }

    fn any_way(&mut self) -> Lost {
        *self.rng.choice(&[Lost::Both, Lost::FromFirst, Lost::ToFirst]).unwrap()
    }

    /// Cuts the ensemble in two: the side with more than half of all goes on, the other stops and
    /// closes its clients' connections.
    async fn split(&mut self, side: &[usize], rest: &[usize], lost: Lost) {
        let count = self.all.len();
        let mut witnesses = Vec::new();
        let (going, stopping): (Vec<&[usize]>, Vec<&[usize]>) =
            [side, rest].into_iter().partition(|half| half.len() * 2 > count);
        for half in &stopping {
            let server = *self.rng.choice(*half).unwrap();
            let name = format!("{}-{server}", self.cuts.splits);
            witnesses.push(Witness::open(self.ensemble.address(server), name).await.unwrap());
        }
        self.ensemble.network.cut_between(side, rest, lost).unwrap();
        let waiting: Vec<_> = witnesses.into_iter().map(Witness::write).collect();
        let no_majority = async {
            for half in &stopping {
                self.stops(half).await;
            }
            let mut witnesses = Vec::new();
            for witness in waiting {
                witnesses.push(witness.until_closed(SILENCE_MAX).await.unwrap());
            }
            witnesses
        };
        let majority = async {
            let mut election = Duration::ZERO;
            for half in &going {
                election = self.goes_on(half).await;
            }
            election
        };
        let (witnesses, election) = tokio::join!(no_majority, majority);
        for witness in witnesses.iter().filter(|_| !going.is_empty()) {
            witness.until_expired(&self.reader).await.unwrap();
        }
        self.heal().await;
        // What a server sends that cannot receive may have come in time.
        for witness in witnesses.into_iter().filter(|_| !going.is_empty() && lost != Lost::ToFirst)
        {
            witness.has_ended(&self.reader).await.unwrap();
            self.cuts.ended += 1;
        }
        self.cuts.election_max = self.cuts.election_max.max(election);
        self.cuts.splits += 1;
        self.cuts.standstills += u32::from(going.is_empty());
    }

    /// No server of a side without a majority acknowledges a write, neither at once, while it may
    /// still serve reads, nor when it has stopped that.
    async fn stops(&self, half: &[usize]) {
        let ((), silent) =
            tokio::join!(self.refuse(half), self.ensemble.until_silent(half, SILENCE_MAX));
        silent.unwrap();
        self.refuse(half).await;
    }

    async fn refuse(&self, half: &[usize]) {
        let asked = half.iter().map(|server| self.ensemble.writes_within(*server, REFUSAL));
        for (server, has_written) in half.iter().zip(join_all(asked).await) {
            assert!(!has_written, "server {server} of {half:?} of {} writes", self.all.len());
        }
    }

    /// Every server of a majority writes; returns how long that took to begin.
    async fn goes_on(&self, half: &[usize]) -> Duration {
        let election = self.ensemble.until_serving(half, ELECTION_MAX).await.unwrap().1;
        let asked = half.iter().map(|server| self.writes_soon(*server));
        join_all(asked).await;
        election
    }

    /// Undoes all cuts, waits until all servers serve, and looks for all that was acknowledged.
    async fn heal(&mut self) {
        self.ensemble.network.heal().unwrap();
        self.ensemble.until_serving(&self.all, ELECTION_MAX).await.unwrap();
        self.load.until_acknowledged(self.load.acknowledged() + WRITES_PER_HEAL).await.unwrap();
        self.load.check_while_running().await.unwrap();
    }

    /// Cuts the leader off from one follower, on one way or both. A server that reaches all others
    /// always finds the leader, whichever of the two it is.
    async fn leader_misses_one(&mut self, lost: Lost) {
        let (leader, mut others) = self.leader_and_others().await;
        let other = others.pop().unwrap();
        self.ensemble.network.cut_between(&[leader], &[other], lost).unwrap();
        for server in others {
            self.writes_soon(server).await;
        }
        self.cuts.partial += 1;
        self.heal().await;
    }

    /// Two followers do not need each other.
    async fn followers_miss_each_other(&mut self) {
        let (_, others) = self.leader_and_others().await;
        let (one, other) = others.split_at(1);
        self.ensemble.network.cut_between(one, other, Lost::Both).unwrap();
        for server in &self.all {
            self.writes_soon(*server).await;
        }
        self.cuts.partial += 1;
        self.heal().await;
    }

    /// Two sides see one server in common and not each other. The leader's side has no majority,
    /// that server and the other side have one: the leader must not hold on to it for ever.
    /// (With three servers, the leader and the common one are a majority, and go on.)
    async fn sides_share_one_server(&mut self) {
        let (leader, mut others) = self.leader_and_others().await;
        let common = others.pop().unwrap();
        let near_size = (self.all.len() / 2).saturating_sub(2);
        let mut near: Vec<usize> = others.drain(..near_size).collect();
        near.push(leader);
        self.ensemble.network.cut_between(&near, &others, Lost::Both).unwrap();
        self.writes_soon(common).await;
        self.writes_soon(common).await;
        self.cuts.partial += 1;
        self.heal().await;
    }

    async fn writes_soon(&self, server: usize) {
        let start = Instant::now();
        while !self.ensemble.writes(server).await {
            let count = self.all.len();
            assert!(start.elapsed() < WRITE_MAX, "server {server} of {count} does not write");
        }
    }

    /// Cuts come and go faster than elections.
    async fn flap(&mut self) {
        for _ in 0..FLAPS {
            let (side, rest) = self.any_sides();
            let lost = self.any_way();
            self.ensemble.network.cut_between(&side, &rest, lost).unwrap();
            sleep(Duration::from_millis(self.rng.u64(20..700))).await;
            self.ensemble.network.heal().unwrap();
            sleep(Duration::from_millis(self.rng.u64(..300))).await;
            self.cuts.flaps += 1;
        }
        self.heal().await;
    }

    async fn finish(self, seed: &Seed) {
        let Self { ensemble, all, load, cuts, .. } = self;
        let total = load.finish().await;
        let total = total.unwrap_or_else(|failure| panic!("{failure}\n{}", ensemble.said()));
        // The reader's connection may have gone with a cut, unnoticed so far.
        let reader = connect(&ensemble.connect_string()).await.unwrap();
        witness::none_left(&reader).await.unwrap();
        reader.close().await.unwrap();
        let agreement = convergence::all(&ensemble.addresses()).await.unwrap();
        announce(&format!(
            "partitions: {} servers, seed {}: {} splits, {} of them without a majority and {} on \
             one way, {} partial cuts, {} flaps, elections of at most {} ms; {} acknowledged \
             writes all there, {} in doubt at most once, {} sessions ended in time; servers agree \
             on {} znodes",
            all.len(),
            seed.number,
            cuts.splits,
            cuts.standstills,
            cuts.one_way,
            cuts.partial,
            cuts.flaps,
            cuts.election_max.as_millis(),
            total.acknowledged,
            total.in_doubt,
            cuts.ended,
            agreement.znodes,
        ));
        let healed = usize::try_from(cuts.splits + cuts.partial).unwrap();
        assert!(healed > 0 && total.acknowledged >= healed * WRITES_PER_HEAL, "{total:?}");
        assert!(cuts.ended > 0 || cuts.splits == cuts.standstills, "{cuts:?}");
    }
}
