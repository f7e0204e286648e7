//! How signs of life of a server's clients reach the leader, which alone counts them.
//!
//! A touch is a batch of sessions whose clients gave a sign of life since the last one. The rest of
//! liveness, who touches a session, who counts it and when it ends, is `session/liveness.rs` of the
//! replica.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::task::yield_now;
use tokio::time::sleep;
use zoolet_jute::SessionId;
use zoolet_replica::Input;

use super::handle::ConsensusHandle;
use super::machine::Machine;
use super::proposer::Proposer;
use super::read_index::ANSWER_TIMEOUT;
use crate::peer::{Lane, Link, Links, RpcKind};
use crate::wire::Reader;

/// The pause between two touches: what comes in the meantime goes with the next.
const TOUCH_PAUSE: Duration = Duration::from_millis(5);

/// How often sessions are reported to a leader that counts nothing, before the next ones have their
/// turn.
const TOUCH_ATTEMPTS: u32 = 4;

/// The pause before the leader gets a touch again.
const RETRY_PAUSE: Duration = Duration::from_millis(15);

/// Sessions in one call to the leader.
const SESSIONS_PER_CALL: usize = 1_000;

/// Reports touched sessions to the leader, and to the machine those that the leader has counted.
/// What gets lost is made up for by the next touch.
pub(super) async fn send_touches(
    proposer: Arc<Proposer>,
    machine: Arc<dyn Machine>,
    handle: ConsensusHandle,
    links: Arc<Links>,
) {
    loop {
        let (through, mut sessions) = proposer.take_touched().await;
        let Some(leader) = handle.leadership().map(|leadership| leadership.leader) else {
            continue;
        };
        if leader == handle.node() {
            while !sessions.is_empty() {
                let rest = sessions.split_off(SESSIONS_PER_CALL.min(sessions.len()));
                let refused = machine.touched(sessions.clone());
                sessions.retain(|session| !refused.contains(session));
                machine.input(Input::Counted { through, sessions });
                sessions = rest;
                if !sessions.is_empty() {
                    yield_now().await;
                }
            }
            continue;
        }
        let Some(link) = links.to(leader, Lane::Query) else { continue };
        for sessions in sessions.chunks(SESSIONS_PER_CALL) {
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

/// Reports touched sessions to the leader. Returns those that it has counted.
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

pub(super) fn encode_sessions(sessions: &[SessionId]) -> Bytes {
    let mut out = BytesMut::with_capacity(4 + 8 * sessions.len());
    out.put_u32(u32::try_from(sessions.len()).expect("calls are bounded"));
    for session in sessions {
        out.put_i64(session.0);
    }
    out.freeze()
}

/// Reads sessions. Fails for an empty answer, which a server gives that does not lead.
pub(super) fn decode_sessions(bytes: Bytes) -> io::Result<Vec<SessionId>> {
    decode_sessions_of(&mut Reader(bytes))
}

pub(super) fn decode_sessions_of(reader: &mut Reader) -> io::Result<Vec<SessionId>> {
    let count = reader.u32()?;
    (0..count).map(|_| Ok(SessionId(reader.u64()?.cast_signed()))).collect()
}
