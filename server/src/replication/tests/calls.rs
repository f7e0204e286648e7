//! What a server makes of calls that its peers should not make.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::time::{Instant, sleep, timeout};
use zoolet_replica::{Batch, Boot, Origin, Role, ServerId};
use zoolet_storage::Fault;

use super::ensemble::{Ensemble, PATIENCE, command};
use crate::consensus::Membership;
use crate::fatal::Fatal;
use crate::peer::{
    CallError, FrameLimits, Lane, Link, LinkOptions, PeerIdentity, RpcKind, SNAPSHOT_DAMAGED,
    SNAPSHOT_LATER, Target,
};
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
        probes: None,
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

/// The first message of a snapshot from a leader of term 1.
fn begin(leader: usize) -> Bytes {
    let mut begin = BytesMut::new();
    // The vote: term, leader, and that a majority has voted for it.
    begin.put_u64(1);
    begin.put_u64(leader as u64 + 1);
    begin.put_u8(1);
    begin.put_slice(&[0; 24]);
    put_bytes(&mut begin, &snapshot_head(None, Membership::default()));
    begin.freeze()
}

/// A leader that others had replaced sent a snapshot, and the follower on its side went on serving.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pieces_of_a_snapshot_are_no_sign_of_a_leader() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    let alone = (leader + 1) % 3;
    ensemble.cut.isolate(alone, 3).await;
    let link = link(&ensemble, leader, alone);
    link.call(RpcKind::SnapshotBegin.code(), begin(leader)).await.unwrap();
    let deadline = Instant::now() + ensemble.timing.silence_max() * 8;
    while *ensemble.server(alone).raft.role().borrow() != Role::Looking {
        assert!(Instant::now() < deadline, "it serves on");
        link.call(RpcKind::SnapshotChunk.code(), Bytes::from_static(b"piece")).await.unwrap();
        sleep(ensemble.timing.heartbeat / 2).await;
    }
}

/// Its sender probes the receiver while it waits, and gives the connection up without an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_calls_are_answered_while_a_snapshot_is_installed() {
    let ensemble = Ensemble::started(2, 0).await;
    let leader = ensemble.ready().await;
    let follower = 1 - leader;
    let link = link(&ensemble, leader, follower);
    link.call(RpcKind::SnapshotBegin.code(), begin(leader)).await.unwrap();
    ensemble.snapshot_gate(follower).close();
    let mut end = Box::pin(link.call(RpcKind::SnapshotEnd.code(), Bytes::from_static(&[0; 8])));
    let early = timeout(Duration::from_millis(200), &mut end).await;
    assert!(early.is_err(), "the disk is held up");
    let status = timeout(PATIENCE, link.call(RpcKind::Status.code(), Bytes::new())).await;
    assert!(status.unwrap().is_ok());
    // One at a time: each takes the room of a whole state.
    link.call(RpcKind::SnapshotBegin.code(), begin(leader)).await.unwrap();
    let next = link.call(RpcKind::SnapshotEnd.code(), Bytes::from_static(&[0; 8])).await;
    assert_eq!(next.unwrap(), SNAPSHOT_LATER);
    ensemble.snapshot_gate(follower).open();
    let answer = timeout(PATIENCE, end).await.unwrap().unwrap();
    assert!(answer != SNAPSHOT_DAMAGED && answer != SNAPSHOT_LATER, "it is installed: {answer:?}");
}

/// A server whose disk was full ended the connection. The leader tried again ten times in a tenth of a
/// second, and each time there was a line in the log (`docs/simulator-findings.md`).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_that_cannot_be_written_is_put_off() {
    let ensemble = Ensemble::started(2, 0).await;
    let leader = ensemble.ready().await;
    let follower = 1 - leader;
    let link = link(&ensemble, leader, follower);
    let kinds = [
        (RpcKind::SnapshotBegin, begin(leader)),
        (RpcKind::SnapshotChunk, Bytes::from(vec![7; 1 << 19])),
        (RpcKind::SnapshotEnd, Bytes::from_static(&[0; 8])),
    ];
    for failing in 0..kinds.len() {
        for (at, (kind, body)) in kinds.iter().take(failing + 1).enumerate() {
            if at == failing {
                ensemble.disk(follower).fail_change(1, Fault::Full);
            }
            let answer = timeout(PATIENCE, link.call(kind.code(), body.clone())).await.unwrap();
            let expected: &[u8] = if at == failing { SNAPSHOT_LATER } else { b"" };
            assert_eq!(answer.unwrap(), expected, "{kind:?}, where {failing} fails");
        }
    }
}

/// A piece of one sender ended what another one was sending.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_not_disturbed_by_the_pieces_of_another_sender() {
    let ensemble = Ensemble::started(3, 0).await;
    let (first, second) = (link(&ensemble, 1, 0), link(&ensemble, 2, 0));
    first.call(RpcKind::SnapshotBegin.code(), begin(1)).await.unwrap();
    let piece = Bytes::from_static(b"piece");
    let answer = second.call(RpcKind::SnapshotChunk.code(), piece.clone()).await;
    assert_eq!(answer, Err(CallError::Broken));
    first.call(RpcKind::SnapshotChunk.code(), piece).await.unwrap();
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
