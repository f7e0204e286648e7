//! Reports of silent sessions between servers, so that a new leader need not assume that all sessions
//! were active until its election.
//!
//! Silences are the last part of a touch ([`RpcKind::Touch`]). Servers of earlier releases send none, and
//! ignore bytes after the sessions. `session/silence.rs` of the replica defines their meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::task::yield_now;
use tokio::time::{Instant, MissedTickBehavior, interval};
use zoolet_jute::SessionId;
use zoolet_replica::{ConnectionId, Silence, Term};

use super::handle::ConsensusHandle;
use super::machine::Machine;
use super::read_index::ANSWER_TIMEOUT;
use super::touches::{decode_sessions_of, encode_sessions};
use crate::consensus::Leadership;
use crate::node_id::NodeId;
use crate::peer::{Lane, Link, Links, RpcKind};
use crate::wire::Reader;

/// The interval of reports of ended connections.
const ENDED_PAUSE: Duration = Duration::from_millis(250);

/// The interval of reports of silent clients.
const SILENT_PAUSE: Duration = Duration::from_secs(2);

/// The progress of the reports to another server.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// The term of the new leader to which this applies.
    of: Option<Term>,
    /// The connections that have ended, up to this one.
    ended: u64,
    /// Whether it is a new leader, which also gets the reports of third servers.
    all: bool,
}

impl Progress {
    /// Takes over the progress of a report, unless everything is to be reported again since.
    fn follow(&mut self, reported: Self) {
        if self.of == reported.of {
            *self = reported;
        }
    }
}

/// Reports ended connections to all servers, and silent clients to the leader. A server that does not
/// answer does not delay the reports to others.
pub(super) async fn send_silences(
    machine: Arc<dyn Machine>,
    handle: ConsensusHandle,
    links: Arc<Links>,
) {
    let mut progress: BTreeMap<NodeId, Progress> = BTreeMap::new();
    let mut known: Option<Leadership> = None;
    let mut silent_due_at = Instant::now();
    let mut reports = FuturesUnordered::new();
    let mut under_way = BTreeSet::new();
    let mut rounds = interval(ENDED_PAUSE);
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = rounds.tick() => {}
            Some((node, reported)) = reports.next() => {
                under_way.remove(&node);
                // A report that was under way at an election does not count for the new leader.
                progress.entry(node).and_modify(|now: &mut Progress| now.follow(reported));
                continue;
            }
        }
        let leadership = handle.leadership();
        if let Some(new) = leadership.filter(|new| known != Some(*new)) {
            // It may have just started, and may have missed the reports of its predecessor.
            progress.insert(new.leader, Progress { of: Some(new.term), ended: 0, all: true });
            (known, silent_due_at) = (Some(new), Instant::now());
        }
        let own = handle.node();
        let members = handle.view().membership.nodes;
        progress.retain(|node, _| members.contains_key(node));
        for node in members.into_keys().filter(|node| *node != own) {
            let Some(link) = links.to(node, Lane::Query) else { continue };
            if !under_way.insert(node) {
                continue;
            }
            let before = *progress.entry(node).or_default();
            let term = known.map(|known| known.term).unwrap_or_default();
            let is_leader = leadership.is_some_and(|known| known.leader == node);
            let is_due = is_leader && silent_due_at <= Instant::now();
            if is_due {
                silent_due_at = Instant::now() + SILENT_PAUSE;
            }
            let peer = Peer { link, machine: Arc::clone(&machine), term };
            reports.push(async move { (node, peer.report(before, is_due).await) });
        }
    }
}

/// Another server.
struct Peer {
    link: Arc<Link>,
    machine: Arc<dyn Machine>,
    /// The term of the leader that this server knows.
    term: Term,
}

impl Peer {
    /// Reports new silences to the server. Returns the progress.
    async fn report(&self, mut progress: Progress, is_leader: bool) -> Progress {
        loop {
            let ended = self.machine.ended_connections(progress.ended, progress.all);
            if !self.call(&ended.silences).await {
                return progress;
            }
            progress.ended = ended.after;
            if !ended.has_more {
                break;
            }
        }
        progress.all = false;
        if is_leader {
            self.report_silent().await;
        }
        progress
    }

    /// Reports silent clients to the leader.
    async fn report_silent(&self) {
        let mut after = ConnectionId(0);
        loop {
            let silent = self.machine.silent_connections(after);
            if !self.call(&silent.silences).await || !silent.has_more {
                return;
            }
            after = silent.after;
        }
    }

    /// Sends silences; false if they got lost.
    async fn call(&self, silences: &[Silence]) -> bool {
        if silences.is_empty() {
            // The next part takes a hold of the lock.
            yield_now().await;
            return true;
        }
        let silences = silences.to_vec();
        let touch = Touch { sessions: Vec::new(), term: self.term, silences };
        let answer =
            self.link.call_within(RpcKind::Touch.code(), touch.encode(), ANSWER_TIMEOUT).await;
        if let Err(error) = &answer {
            tracing::debug!(%error, "silences were not reported");
        }
        answer.is_ok()
    }
}

/// A report about sessions to another server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Touch {
    /// Those whose clients gave a sign of life.
    pub sessions: Vec<SessionId>,
    /// Those that are silent, and the term of the leader that the reporting server knew.
    pub term: Term,
    pub silences: Vec<Silence>,
}

impl Touch {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::from(encode_sessions(&self.sessions));
        if self.silences.is_empty() {
            return out.freeze();
        }
        out.put_u32(u32::try_from(self.silences.len()).expect("calls are bounded"));
        out.put_u64(self.term.0);
        for silence in &self.silences {
            out.put_i64(silence.session.0);
            out.put_u64(silence.generation);
            out.put_u64(silence.silence_ms);
            out.put_u8(u8::from(silence.has_ended));
        }
        out.freeze()
    }

    pub(super) fn decode(bytes: Bytes) -> io::Result<Self> {
        let mut reader = Reader(bytes);
        let sessions = decode_sessions_of(&mut reader)?;
        // A server of an earlier release.
        let (count, term) =
            if reader.0.is_empty() { (0, 0) } else { (reader.u32()?, reader.u64()?) };
        let silence = |_| {
            Ok(Silence {
                session: SessionId(reader.u64()?.cast_signed()),
                generation: reader.u64()?,
                silence_ms: reader.u64()?,
                has_ended: reader.u8()? != 0,
            })
        };
        let silences = (0..count).map(silence).collect::<io::Result<_>>()?;
        Ok(Self { sessions, term: Term(term), silences })
    }
}

#[cfg(test)]
mod tests {
    use super::super::touches::decode_sessions;
    use super::*;

    const OPEN: Silence =
        Silence { session: SessionId(-2), generation: 7, silence_ms: 5000, has_ended: false };

    /// The message of earlier releases.
    const WITHOUT_SILENCES: [u8; 12] = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9];

    #[test]
    fn a_touch_without_silences_is_that_of_earlier_releases() {
        let touch = Touch { sessions: vec![SessionId(9)], ..Touch::default() };
        assert_eq!(touch.encode(), WITHOUT_SILENCES.as_slice());
        assert_eq!(Touch::decode(Bytes::from_static(&WITHOUT_SILENCES)).unwrap(), touch);
    }

    #[test]
    fn silences_follow_the_sessions_of_a_touch() {
        let ended = Silence { session: SessionId(3), has_ended: true, ..OPEN };
        let silences = vec![OPEN, ended];
        let touch = Touch { sessions: vec![SessionId(9)], term: Term(6), silences };
        let mut expected = WITHOUT_SILENCES.to_vec();
        expected.extend([0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 6]);
        expected.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe]);
        expected.extend([0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0x13, 0x88, 0]);
        expected.extend([0, 0, 0, 0, 0, 0, 0, 3]);
        expected.extend([0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0x13, 0x88, 1]);
        let encoded = touch.encode();
        assert_eq!(encoded, expected);
        assert_eq!(Touch::decode(encoded.clone()).unwrap(), touch);
        // A server of an earlier release reads the sessions, and a later one may send more.
        assert_eq!(decode_sessions(encoded).unwrap(), [SessionId(9)]);
        expected.push(1);
        assert_eq!(Touch::decode(expected.into()).unwrap(), touch);
    }

    #[test]
    fn a_touch_that_is_cut_off_is_an_error() {
        let touch = Touch { sessions: vec![SessionId(9)], term: Term(6), silences: vec![OPEN] };
        let encoded = touch.encode();
        for length in (0..encoded.len()).filter(|length| *length != WITHOUT_SILENCES.len()) {
            assert!(Touch::decode(encoded.slice(..length)).is_err(), "{length} bytes");
        }
    }
}
