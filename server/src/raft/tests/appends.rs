//! Appends to a follower: how many are under way, in which order, and which have no answer.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use openraft::network::RPCOption;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, StreamAppendError};
use openraft::{EntryPayload, RaftNetworkFactory, RaftNetworkV2};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};
use zoolet_storage::{MemoryDisk, SnapshotStore};

use crate::consensus::{LeaderVote, MemberNode, Term};
use crate::fatal::Fatal;
use crate::node_id::NodeId;
use crate::peer::{
    Answer, Call, FrameLimits, Lane, LinkOptions, Links, PeerIdentity, PeerPort, PeerPortOptions,
    Service, Target,
};
use crate::raft::acks::Acks;
use crate::raft::codec::{self, AppendMessage};
use crate::raft::network::Network;
use crate::raft::types::{LogEntry, TypeConfig, log_id};
use crate::snapshots::Snapshots;
use crate::transport::{BoxFuture, RealNet};
use crate::wire::Reader;

const TIMEOUT: Duration = Duration::from_secs(20);
const OURS: PeerIdentity = PeerIdentity { cluster: 7, founding: 0, server: 1, directory: 5 };
const THEIRS: PeerIdentity = PeerIdentity { server: 2, directory: 6, ..OURS };

/// A follower that answers an append when it has a permit for it.
#[derive(Debug)]
struct Follower {
    /// The last index of each append, and how many entries it has.
    received: Mutex<Vec<(u64, usize)>>,
    permits: Arc<Semaphore>,
    /// What each append says of the entry before its own.
    prev_taken: Mutex<Vec<bool>>,
    /// What is answered to the append with this last index; success to all others.
    refused: Option<(u64, AppendEntriesResponse<TypeConfig>)>,
}

impl Service for Follower {
    fn call(&self, call: Call) -> BoxFuture<'_, Answer> {
        let AppendMessage { is_prev_taken, request, .. } =
            Reader(call.body).append_message().unwrap();
        self.prev_taken.lock().unwrap().push(is_prev_taken);
        let last = request.entries.last().map(|entry| entry.log_id).or(request.prev_log_id);
        let last = last.map_or(0, |last| last.index);
        self.received.lock().unwrap().push((last, request.entries.len()));
        let refused = self.refused.clone().filter(|(index, _)| *index == last);
        let response = refused.map_or(AppendEntriesResponse::Success, |(_, response)| response);
        let permits = Arc::clone(&self.permits);
        Box::pin(async move {
            Answer::Later(Box::pin(async move {
                permits.acquire().await.unwrap().forget();
                Some(codec::encode_append_response(&response, 0))
            }))
        })
    }
}

impl Follower {
    fn new(refused: Option<(u64, AppendEntriesResponse<TypeConfig>)>) -> Arc<Self> {
        let permits = Arc::new(Semaphore::new(0));
        let (received, prev_taken) = (Mutex::default(), Mutex::default());
        Arc::new(Self { received, permits, prev_taken, refused })
    }

    async fn has_received(&self, appends: &[(u64, usize)]) {
        let arrives = async {
            while *self.received.lock().unwrap() != appends {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let arrived = timeout(TIMEOUT, arrives).await;
        assert!(arrived.is_ok(), "{:?} is not {appends:?}", self.received.lock().unwrap());
    }
}

/// The network of server 1, and the peer port of server 2 with this follower behind it.
async fn network(follower: Arc<Follower>) -> (Network, PeerPort) {
    let frames = FrameLimits { small: 10_000, large: 10_000 };
    let options = PeerPortOptions {
        ours: THEIRS,
        founding: Arc::default(),
        any_cluster: false,
        secret: None,
        tls: crate::peer::PeerTls::default(),
        address: "127.0.0.1:0".to_owned(),
        frames,
        answers_max: 16,
        handshake_timeout: TIMEOUT,
        hung_up: mpsc::channel(1).0,
        fatal: Fatal::default(),
    };
    let port = PeerPort::listen(&RealNet, options, follower).await.unwrap();
    let template = LinkOptions {
        net: Arc::new(RealNet),
        ours: OURS,
        founding: Arc::default(),
        secret: None,
        tls: crate::peer::PeerTls::default(),
        target: Target { server: 0, directory: None },
        addresses: Vec::new(),
        lane: Lane::Append,
        frames,
        calls_max: 16,
        connect_timeout: TIMEOUT,
        backoff_max: TIMEOUT,
        stall_timeout: TIMEOUT,
        probes: None,
        reach: Arc::default(),
        fatal: Fatal::default(),
    };
    let addresses = BTreeMap::from([(THEIRS.server, port.local_addr().to_string())]);
    let store = SnapshotStore::open(Arc::new(MemoryDisk::new()), Path::new("snapshots")).unwrap();
    let network = Network {
        node: NodeId::new(OURS.server, OURS.directory),
        snapshots: Snapshots::new(store, 3, None, Arc::default()),
        links: Arc::new(Links::new(template, addresses)),
        signals: Arc::default(),
        acks: Arc::new(Acks::default()),
        append_timeout: TIMEOUT,
    };
    (network, port)
}

/// An append of entries up to `last`, or a commit without any.
fn append(last: u64, entries: u64) -> AppendEntriesRequest<TypeConfig> {
    let vote = LeaderVote { term: Term(1), leader: NodeId(1), is_committed: true };
    let entry = |index| LogEntry { log_id: log_id(1, index), payload: EntryPayload::Blank };
    let prev = last - entries;
    AppendEntriesRequest {
        vote: codec::vote_of(vote),
        prev_log_id: (prev > 0).then(|| log_id(1, prev)),
        entries: (prev + 1..=last).map(entry).collect(),
        leader_commit: None,
    }
}

/// Each entry waited until the one before was durable on the follower, and so did each commit.
#[tokio::test]
async fn four_appends_are_under_way_and_a_commit_behind_them_has_no_answer() {
    let follower = Follower::new(None);
    let (mut network, _port) = network(Arc::clone(&follower)).await;
    let node = NodeId::new(THEIRS.server, THEIRS.directory);
    let mut client = network.new_client(node, &MemberNode::default()).await;
    let requests = [(1, 1), (1, 0), (1, 0), (2, 1), (3, 1), (5, 2), (6, 1)];
    let requests = requests.map(|(last, entries)| append(last, entries));
    let requests = futures_util::stream::iter(requests);
    let answers = client.stream_append(requests, RPCOption::new(TIMEOUT)).await.unwrap();
    let mut answers = std::pin::pin!(answers);
    let answered = async {
        let mut through = Vec::new();
        while let Some(answer) = answers.next().await {
            through.push(answer.unwrap().unwrap().unwrap().index);
        }
        through
    };
    let watched = async {
        // The second commit in a row has an answer: nothing may follow it.
        follower.has_received(&[(1, 1), (1, 0), (1, 0), (2, 1), (3, 1)]).await;
        // The follower owes one answer to the commit that it is not asked for.
        follower.permits.add_permits(2);
        follower.has_received(&[(1, 1), (1, 0), (1, 0), (2, 1), (3, 1), (5, 2)]).await;
        follower.permits.add_permits(5);
    };
    let (through, ()) = timeout(TIMEOUT, async { tokio::join!(answered, watched) }).await.unwrap();
    assert_eq!(through, [1, 1, 2, 3, 5, 6]);
    assert!(network.acks.silent_for(tokio::time::Instant::now(), node, Term(1)).is_some());
}

#[tokio::test]
async fn nothing_is_reported_behind_a_conflict() {
    let follower = Follower::new(Some((2, AppendEntriesResponse::Conflict)));
    follower.permits.add_permits(10);
    let (mut network, _port) = network(Arc::clone(&follower)).await;
    let node = NodeId::new(THEIRS.server, THEIRS.directory);
    let mut client = network.new_client(node, &MemberNode::default()).await;
    let requests = futures_util::stream::iter([append(1, 1), append(2, 1), append(3, 1)]);
    let answers = client.stream_append(requests, RPCOption::new(TIMEOUT)).await.unwrap();
    let answers: Vec<_> = timeout(TIMEOUT, answers.collect()).await.unwrap();
    let [Ok(Ok(Some(first))), Ok(Err(StreamAppendError::Conflict(at)))] = &answers[..] else {
        panic!("{answers:?}");
    };
    assert_eq!((first.index, at.index), (1, 1));
}

/// openraft would end this server, or send nothing more.
#[tokio::test]
async fn a_conflict_at_what_the_follower_had_is_a_failure_of_the_call() {
    let follower = Follower::new(Some((4, AppendEntriesResponse::Conflict)));
    follower.permits.add_permits(10);
    let (mut network, _port) = network(Arc::clone(&follower)).await;
    let node = NodeId::new(THEIRS.server, THEIRS.directory);
    let mut client = network.new_client(node, &MemberNode::default()).await;
    for (last, is_prev_taken) in [(2, false), (3, true), (4, true)] {
        let answer = client.append_entries(append(last, 1), RPCOption::new(TIMEOUT)).await;
        if last < 4 {
            assert_eq!(answer.unwrap(), AppendEntriesResponse::Success);
        } else {
            let error = answer.unwrap_err().to_string();
            assert!(error.contains("server 2 has lost entries of its log"), "{error}");
        }
        assert_eq!(follower.prev_taken.lock().unwrap().pop(), Some(is_prev_taken), "{last}");
    }
    assert!(!network.acks.note_loss(node), "it is noted");
}

/// Its answers are not taken for those to what was sent later.
#[tokio::test]
async fn the_calls_of_a_stream_that_was_dropped_are_not_sent_any_more() {
    let follower = Follower::new(None);
    let (mut network, _port) = network(Arc::clone(&follower)).await;
    let node = NodeId::new(THEIRS.server, THEIRS.directory);
    let mut client = network.new_client(node, &MemberNode::default()).await;
    // Without a connection yet, all of them are in the queue of the link.
    let requests = futures_util::stream::iter([append(1, 1), append(2, 1), append(3, 1)]);
    let answers = client.stream_append(requests, RPCOption::new(TIMEOUT)).await.unwrap();
    let mut answers = Box::pin(answers);
    assert!(answers.next().now_or_never().is_none());
    drop(answers);
    let requests = futures_util::stream::iter([append(4, 1)]);
    follower.permits.add_permits(10);
    let answers = client.stream_append(requests, RPCOption::new(TIMEOUT)).await.unwrap();
    let answers: Vec<_> = timeout(TIMEOUT, answers.collect()).await.unwrap();
    assert_eq!(answers.len(), 1);
    follower.has_received(&[(4, 1)]).await;
}
