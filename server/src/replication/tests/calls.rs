//! What a server makes of calls that its peers should not make.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::time::{Instant, sleep, timeout};
use zoolet_replica::{Batch, Boot, Origin, Role, ServerId};

use super::ensemble::{Ensemble, PATIENCE, command};
use crate::consensus::Membership;
use crate::fatal::Fatal;
use crate::peer::{CallError, FrameLimits, Lane, Link, LinkOptions, PeerIdentity, RpcKind, Target};
use crate::raft::testing::snapshot_head;
use crate::transport::RealNet;
use crate::wire::put_bytes;

/// A link of server `from` to server `to` that no cut breaks.
pub(super) fn link(ensemble: &Ensemble, from: usize, to: usize) -> Link {
    let (at, _) = ensemble.running().next().unwrap();
    let founding = ensemble.founding(at);
    Link::open(LinkOptions {
        net: Arc::new(RealNet),
        ours: PeerIdentity { cluster: 7, founding: 0, server: from as u64 + 1, directory: 1 },
        founding: Arc::new(AtomicU64::new(founding)),
        secret: None,
        tls: crate::peer::PeerTls::default(),
        target: Target { server: to as u64 + 1, directory: None },
        addresses: vec![ensemble.address(to)],
        lane: Lane::Snapshot,
        frames: FrameLimits { small: 1 << 20, large: 1 << 20 },
        calls_max: 8,
        connect_timeout: PATIENCE,
        backoff_max: Duration::from_millis(100),
        stall_timeout: PATIENCE * 2,
        asks_for_life: false,
        reach: Arc::default(),
        fatal: Fatal::default(),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_makes_no_sense_ends_its_connection() {
    let ensemble = Ensemble::started(2, 0).await;
    let link = link(&ensemble, 1, 0);
    for (kind, body) in
        [(99, Bytes::new()), (RpcKind::SnapshotBegin.code(), Bytes::from_static(b"short"))]
    {
        let answer = timeout(PATIENCE, link.call(kind, body)).await;
        assert_eq!(answer, Ok(Err(CallError::Broken)), "kind {kind}");
        sleep(Duration::from_millis(200)).await;
    }
}

/// A leader that others had replaced sent a snapshot, and the follower on its side went on serving.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pieces_of_a_snapshot_are_no_sign_of_a_leader() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    let alone = (leader + 1) % 3;
    ensemble.cut.isolate(alone, 3).await;
    let link = link(&ensemble, leader, alone);
    let mut begin = BytesMut::new();
    // The vote: term, leader, and that a majority has voted for it.
    begin.put_u64(1);
    begin.put_u64(leader as u64 + 1);
    begin.put_u8(1);
    begin.put_slice(&[0; 24]);
    put_bytes(&mut begin, &snapshot_head(None, Membership::default()));
    link.call(RpcKind::SnapshotBegin.code(), begin.freeze()).await.unwrap();
    let deadline = Instant::now() + ensemble.timing.silence_max() * 8;
    while *ensemble.server(alone).raft.role().borrow() != Role::Looking {
        assert!(Instant::now() < deadline, "it serves on");
        link.call(RpcKind::SnapshotChunk.code(), Bytes::from_static(b"piece")).await.unwrap();
        sleep(ensemble.timing.heartbeat / 2).await;
    }
}

/// A leader logged whatever a peer proposed. Every server stopped at an entry that it could not
/// read, and again at each start; one in another server's name made that one's own proposals be
/// dropped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_logs_nothing_that_cannot_be_read_or_is_in_another_servers_name() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    let peer = (leader + 1) % 3;
    let origin = |at: usize| Origin {
        server: ServerId(u8::try_from(at + 1).unwrap()),
        boot: Boot(1 << 40),
        stream: 1,
    };
    let batch = |at, commands| Batch { origin: origin(at), now_ms: 0, commands }.encode();
    let whole = batch(peer, vec![command(1)]);
    let longer = [&*whole, b"x"].concat();
    let shorter = whole.slice(..whole.len() - 1);
    let bodies = [
        Bytes::from_static(b"garbage"),
        Bytes::new(),
        Bytes::from(longer),
        shorter,
        batch(peer, Vec::new()),
        batch(leader, vec![command(1)]),
        batch((leader + 2) % 3, vec![command(1)]),
    ];
    for body in bodies {
        let link = link(&ensemble, peer, leader);
        let answer = timeout(PATIENCE, link.call(RpcKind::Propose.code(), body.clone())).await;
        assert_eq!(answer, Ok(Err(CallError::Broken)), "{body:?}");
    }
    for at in 0..3 {
        ensemble.server(at).propose(10);
        ensemble.server(at).settled().await;
        assert_eq!(ensemble.server(at).machine.received().lost, 0);
    }
    super::cluster::check(&ensemble).await;
    let applied = ensemble.server(leader).machine.record().applied;
    assert!(applied.iter().all(|(origin, _)| origin.boot < Boot(1 << 40)));
}
