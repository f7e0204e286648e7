//! The death of a leader costs latency, not connections: what was proposed through the other servers
//! is answered when there is a new one, with short ticks too.
//!
//! `ZOOLET_LEADER_LOSSES` makes the run longer, `ZOOLET_FAULTS_SEED` repeats one.

use std::time::Duration;

use tokio::task::block_in_place;
use tokio::time::Instant;
use zoolet_jute::{Acl, CreateRequest, Request, Xid};
use zoolet_tests::faults::{Load, Seed};
use zoolet_tests::raw::{Incoming, RawConnection};
use zoolet_tests::servers::{LEADER_MAX, Servers};
use zoolet_tests::tools::{self, announce};

const SERVERS: usize = 3;
/// How many leaders are killed.
const LOSSES: usize = 3;
/// How many writes are acknowledged between two of them.
const WRITES_BETWEEN: usize = 20;
/// The mean pause between two writes of a session.
const PAUSE: Duration = Duration::from_millis(5);
/// Longer than any election takes.
const SESSION_MS: i32 = 20_000;

/// With ticks of 1000 ms, 12 leader losses once cost 45 times what was under way: the outcome of a
/// proposal counted as unknown before an election could be over.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_death_of_a_leader_loses_no_proposals_of_the_other_servers() {
    let losses = tools::number("ZOOLET_LEADER_LOSSES", LOSSES).unwrap();
    let seed = Seed::of("faults", "leader_loss::");
    let builder = Servers::zoolet().servers(SERVERS).property("tickTime", "1000");
    let mut servers = block_in_place(|| builder.start().unwrap());
    let mut load = Load::start(&servers.connect_string(), &seed, PAUSE).await.unwrap();
    let mut answer_max = Duration::ZERO;
    for round in 0..losses {
        let known = load.acknowledged();
        load.until_acknowledged(known + WRITES_BETWEEN).await.unwrap();
        answer_max = answer_max.max(block_in_place(|| lose_leader(&mut servers, round)));
    }
    load.finish().await.unwrap();
    let lost: usize = (0..SERVERS)
        .map(|index| servers.output(index).unwrap().matches("proposals are lost").count())
        .sum();
    announce(&format!(
        "leader_loss: {losses} leaders lost, a write took {} ms at most, proposals were lost {lost} \
         times",
        answer_max.as_millis(),
    ));
    assert_eq!(lost, 0, "proposals are lost");
}

/// Kills the leader under writes through both other servers, which must be answered on the same
/// connections. Returns how long the slower one took.
fn lose_leader(servers: &mut Servers, round: usize) -> Duration {
    let leader = servers.wait_for_leader(LEADER_MAX).unwrap();
    let others = (0..SERVERS).filter(|index| *index != leader);
    let mut clients: Vec<_> = others
        .map(|index| {
            let address = servers.client_address(index).unwrap();
            (index, RawConnection::open(address, SESSION_MS).unwrap())
        })
        .collect();
    servers.kill(leader).unwrap();
    let start = Instant::now();
    for (index, client) in &mut clients {
        let create = CreateRequest {
            path: format!("/lost-{round}-{index}"),
            data: None,
            acl: Some(Acl::open()),
            flags: 0,
        };
        client.send(Xid(1), &Request::Create(create)).unwrap();
    }
    for (index, client) in &mut clients {
        let answer = client.receive().unwrap();
        let is_done = matches!(answer, Incoming::Reply(header, Some(_)) if header.err.is_none());
        assert!(is_done, "round {round}, server {}: {answer:?}", *index + 1);
    }
    let took = start.elapsed();
    servers.restart(leader).unwrap();
    took
}
