//! A server whose votes are refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::time::sleep;

use super::ensemble::Ensemble;
use crate::fatal::Fatal;
use crate::node_id::NodeId;
use crate::peer::{
    Answer, Call, FrameLimits, PeerIdentity, PeerPort, PeerPortOptions, RpcKind, Service,
};
use crate::raft::testing::vote_refusal;
use crate::transport::{BoxFuture, RealNet};

/// A peer that follows a leader of a later term.
#[derive(Debug)]
struct Refuses {
    leader: NodeId,
    pre_votes: AtomicU32,
}

impl Service for Refuses {
    fn call(&self, call: Call) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            match call.kind {
                kind if kind == RpcKind::PreVote.code() => {
                    self.pre_votes.fetch_add(1, Ordering::Relaxed);
                    let not_removed = [0; 8];
                    let answer = [&vote_refusal(50, self.leader)[..], &not_removed].concat();
                    Answer::Now(answer.into())
                }
                _ => Answer::Later(Box::pin(async { None })),
            }
        })
    }
}

/// It asks once in an election timeout, whatever the refusals say about the leader: a server that
/// was removed, and missed that, must not disturb the others all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_votes_are_refused_waits_before_it_asks_again() {
    let mut ensemble = Ensemble::started(2, 0).await;
    let leader = ensemble.ready().await;
    let founding = ensemble.founding(leader);
    let node = ensemble.server(leader).raft.handle.node();
    ensemble.kill(leader).await;
    let refuses = Arc::new(Refuses { leader: node, pre_votes: AtomicU32::default() });
    let (server, directory) = (node.server(), node.directory());
    let options = PeerPortOptions {
        ours: PeerIdentity { cluster: 7, founding, server, directory },
        founding: Arc::new(AtomicU64::new(founding)),
        any_cluster: false,
        secret: None,
        tls: crate::peer::PeerTls::default(),
        address: ensemble.address(leader),
        frames: FrameLimits { small: 1 << 20, large: 1 << 20 },
        answers_max: 8,
        handshake_timeout: ensemble.timing.election_max,
        hung_up: tokio::sync::mpsc::channel(1).0,
        fatal: Fatal::default(),
    };
    let _port = PeerPort::listen(&RealNet, options, refuses.clone()).await.unwrap();
    while refuses.pre_votes.load(Ordering::Relaxed) == 0 {
        sleep(ensemble.timing.heartbeat).await;
    }
    sleep(ensemble.timing.election_max * 8).await;
    let asked = refuses.pre_votes.load(Ordering::Relaxed);
    assert!((2..=20).contains(&asked), "{asked} times");
}
