//! What makes a `sync` linearizable: the leader says up to where the log was committed, after a
//! majority has confirmed that it still leads, and this server applies it up to there.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::time::{sleep, timeout};
use zoolet_jute::SessionId;
use zoolet_replica::Input;

use super::handle::RaftHandle;
use super::machine::Machine;
use super::proposer::Proposer;
use super::read_index::{ANSWER_TIMEOUT, ReadIndex};
use crate::peer::{Lane, Link, Links, RpcKind};
use crate::wire::Reader;

/// The pause before the leader is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(15);

/// Serves syncs: one round for all that wait.
pub(super) async fn serve_syncs(
    proposer: Arc<Proposer>,
    machine: Arc<dyn Machine>,
    mut read_index: ReadIndex,
    proposal_timeout: Duration,
) {
    let mut done = 0;
    loop {
        let wanted = proposer.sync_wanted();
        if wanted == done {
            proposer.sync_asked().await;
            continue;
        }
        let catching_up = async {
            while !read_index.catch_up().await {
                sleep(RETRY_PAUSE).await;
            }
        };
        match timeout(proposal_timeout, catching_up).await {
            Ok(()) => machine.input(Input::Synced { through: wanted }),
            Err(_) => machine.input(Input::SyncLost { through: wanted }),
        }
        done = wanted;
    }
}

/// The pause between two calls that tell the leader of sessions: what comes in the meantime goes
/// with the next.
const TOUCH_PAUSE: Duration = Duration::from_millis(5);

/// Reports sessions whose clients gave signs of life to the leader, and to the machine those that the
/// leader has counted. What gets lost is made up for by the next time.
pub(super) async fn send_touches(
    proposer: Arc<Proposer>,
    machine: Arc<dyn Machine>,
    handle: RaftHandle,
    links: Arc<Links>,
) {
    loop {
        let (through, mut sessions) = proposer.take_touched().await;
        let Some(leader) = handle.leadership().map(|leadership| leadership.leader) else {
            continue;
        };
        if leader == handle.node() {
            let refused = machine.touched(sessions.clone());
            sessions.retain(|session| !refused.contains(session));
            machine.input(Input::Counted { through, sessions });
            continue;
        }
        let Some(link) = links.to(leader, Lane::Query) else { continue };
        for sessions in sessions.chunks(TOUCHES_PER_CALL) {
            for _ in 0..TOUCH_ATTEMPTS {
                let counted = report(&link, sessions).await;
                if !counted.is_empty() {
                    machine.input(Input::Counted { through, sessions: counted });
                    break;
                }
                // It may have been elected just now.
                sleep(RETRY_PAUSE).await;
            }
        }
        sleep(TOUCH_PAUSE).await;
    }
}

/// Tells the leader of sessions; those that it has counted.
async fn report(link: &Link, sessions: &[SessionId]) -> Vec<SessionId> {
    let answer =
        link.call_within(RpcKind::Touch.code(), encode_sessions(sessions), ANSWER_TIMEOUT).await;
    match answer.map_err(io::Error::other).and_then(decode_sessions) {
        Ok(refused) => {
            let counted = sessions.iter().filter(|session| !refused.contains(session));
            counted.copied().collect()
        }
        Err(error) => {
            tracing::debug!(%error, "sessions were not reported to the leader");
            Vec::new()
        }
    }
}

/// How often sessions are reported to a leader that counts nothing, before the next ones have their
/// turn.
const TOUCH_ATTEMPTS: u32 = 4;

/// Sessions in one call to the leader.
const TOUCHES_PER_CALL: usize = 1_000;

pub(super) fn encode_sessions(sessions: &[SessionId]) -> Bytes {
    let mut out = BytesMut::with_capacity(4 + 8 * sessions.len());
    out.put_u32(u32::try_from(sessions.len()).expect("calls are bounded"));
    for session in sessions {
        out.put_i64(session.0);
    }
    out.freeze()
}

/// Reads sessions; nothing at all is the answer of a server that does not lead.
pub(super) fn decode_sessions(bytes: Bytes) -> io::Result<Vec<SessionId>> {
    let mut reader = Reader(bytes);
    let count = reader.u32()?;
    (0..count).map(|_| Ok(SessionId(reader.u64()?.cast_signed()))).collect()
}
