//! The number of sessions that each address, and each owner of a certificate, has begun at this server.
//!
//! The state does not know where a session's client is, so each server counts the sessions that
//! were begun at it. A session counts from its proposal, also if its client hangs up before the
//! answer, until it ends. It still counts here after it is resumed elsewhere: otherwise an address
//! could begin sessions here without limit and move them to a server where a resume is not refused.
//! Sessions of an earlier start of the server count from the time when they are resumed here.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use zoolet_jute::{Id, SessionId};

use super::identity::X509;
use crate::network::network_of;
use crate::{Limit, Options, Replica};

/// The most sessions that one sweep looks at.
const SWEPT_AT_ONCE: usize = 100;

/// The time for which a session may be missing in the state while its proposal is under way.
const PROPOSAL_MS_MAX: u64 = 60_000;

/// The holders of the sessions of this server.
#[derive(Debug, Default)]
pub(crate) struct SessionHolders {
    sessions: BTreeMap<SessionId, Holder>,
    // Invariant: the sums over `sessions`; no zeros.
    per_address: BTreeMap<IpAddr, usize>,
    per_identity: BTreeMap<Arc<str>, usize>,
    /// The last session that a sweep has looked at.
    swept: Option<SessionId>,
}

#[derive(Debug)]
struct Holder {
    address: IpAddr,
    /// The name in the certificate, if the connection has one.
    identity: Option<Arc<str>>,
    since_ms: u64,
}

impl SessionHolders {
    /// Returns the limit that a new session of this client would exceed.
    pub(super) fn reached(&self, peer: IpAddr, proved: &[Id], options: &Options) -> Option<Limit> {
        let over = |count: Option<&usize>, max| max > 0 && count.is_some_and(|it| *it >= max);
        let of_address = self.per_address.get(&network_of(peer));
        if over(of_address, options.sessions_per_address_max) {
            return Some(Limit::SessionsPerAddress);
        }
        let of_identity = identity_of(proved).and_then(|name| self.per_identity.get(name));
        let is_over = over(of_identity, options.sessions_per_identity_max);
        is_over.then_some(Limit::SessionsPerIdentity)
    }

    /// A client begins a session at this server, or resumes it.
    pub(super) fn hold(
        &mut self,
        session: SessionId,
        (peer, proved): (IpAddr, &[Id]),
        now_ms: u64,
    ) {
        self.forget(session);
        let address = network_of(peer);
        let identity = identity_of(proved).map(|name| {
            let known = self.per_identity.get_key_value(name).map(|(known, _)| Arc::clone(known));
            known.unwrap_or_else(|| Arc::from(name))
        });
        *self.per_address.entry(address).or_default() += 1;
        if let Some(identity) = &identity {
            *self.per_identity.entry(Arc::clone(identity)).or_default() += 1;
        }
        self.sessions.insert(session, Holder { address, identity, since_ms: now_ms });
    }

    /// A session has ended.
    pub(super) fn forget(&mut self, session: SessionId) {
        let Some(Holder { address, identity, .. }) = self.sessions.remove(&session) else { return };
        decrease(&mut self.per_address, &address);
        if let Some(identity) = identity {
            decrease(&mut self.per_identity, &identity);
        }
    }

    /// Looks at some sessions, and forgets those that the state does not have: a proposal was lost, or
    /// a snapshot has replaced the state.
    fn sweep(&mut self, now_ms: u64, exists: impl Fn(SessionId) -> bool) {
        let from = self.swept.map_or(i64::MIN, |last| last.0.saturating_add(1));
        let some: Vec<_> =
            self.sessions.range(SessionId(from)..).take(SWEPT_AT_ONCE).collect::<Vec<_>>();
        self.swept = some.last().map(|(session, _)| **session);
        let stale = some.into_iter().filter(|(session, holder)| {
            now_ms.saturating_sub(holder.since_ms) > PROPOSAL_MS_MAX && !exists(**session)
        });
        for session in stale.map(|(session, _)| *session).collect::<Vec<_>>() {
            self.forget(session);
        }
    }

    /// Returns the sessions of the address, and of the identity, that has most.
    pub(crate) fn most(&self) -> (usize, usize) {
        let most = |counts: Option<&usize>| counts.copied().unwrap_or(0);
        (most(self.per_address.values().max()), most(self.per_identity.values().max()))
    }

    pub(crate) fn check(&self) {
        let (addresses, identities) =
            (self.per_address.values().sum::<usize>(), self.per_identity.values().sum::<usize>());
        let named = self.sessions.values().filter(|holder| holder.identity.is_some()).count();
        let is_counted = addresses == self.sessions.len() && identities == named;
        let all = self.sessions.len();
        invariant!(is_counted, "{all} sessions, {named} named: {addresses} and {identities}");
    }
}

impl Replica {
    /// Forgets sessions that do not exist any more, some in each tick.
    pub(super) fn sweep_holders(&mut self) {
        let state = &self.state;
        self.holders.sweep(self.now.mono_ms, |session| state.session(session).is_some());
    }
}

/// Returns the name in the certificate of a connection.
fn identity_of(proved: &[Id]) -> Option<&str> {
    proved.iter().find(|id| id.scheme.as_deref() == Some(X509))?.id.as_deref()
}

fn decrease<K: Ord + Clone>(counts: &mut BTreeMap<K, usize>, key: &K) {
    match counts.get_mut(key) {
        Some(count) if *count > 1 => *count -= 1,
        _ => drop(counts.remove(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Boot, ServerId};

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn options() -> Options {
        let mut options = Options::new(ServerId(1), Boot(1));
        options.sessions_per_address_max = 2;
        options.sessions_per_identity_max = 3;
        options
    }

    #[test]
    fn sessions_count_for_their_address_until_they_end() {
        let (mut holders, options) = (SessionHolders::default(), options());
        for session in 1..=2 {
            assert_eq!(holders.reached(A, &[], &options), None);
            holders.hold(SessionId(session), (A, &[]), 0);
        }
        assert_eq!(holders.reached(A, &[], &options), Some(Limit::SessionsPerAddress));
        assert_eq!(holders.reached(B, &[], &options), None);
        // Resumed from another address.
        holders.hold(SessionId(1), (B, &[]), 0);
        assert_eq!((holders.reached(A, &[], &options), holders.most()), (None, (1, 0)));
        holders.forget(SessionId(1));
        holders.forget(SessionId(1));
        holders.check();
        assert_eq!(holders.per_address.len(), 1);
    }

    #[test]
    fn sessions_count_for_the_name_in_a_certificate() {
        let (mut holders, options) = (SessionHolders::default(), options());
        let proved = [Id::new(X509, "CN=me")];
        for session in 1..=3 {
            let peer = IpAddr::from([10, 0, 1, session]);
            assert_eq!(holders.reached(peer, &proved, &options), None);
            holders.hold(SessionId(i64::from(session)), (peer, &proved), 0);
        }
        assert_eq!(holders.reached(B, &proved, &options), Some(Limit::SessionsPerIdentity));
        assert_eq!(holders.reached(B, &[Id::new(X509, "CN=you")], &options), None);
        holders.check();
    }

    #[test]
    fn what_the_state_does_not_have_is_swept_once_its_proposal_must_be_done() {
        let mut holders = SessionHolders::default();
        for session in 0..250 {
            holders.hold(SessionId(session), (A, &[]), 0);
        }
        for _ in 0..3 {
            holders.sweep(PROPOSAL_MS_MAX, |_| false);
        }
        assert_eq!(holders.most(), (250, 0));
        for _ in 0..5 {
            holders.sweep(PROPOSAL_MS_MAX + 1, |session| session.0 % 2 == 0);
        }
        assert_eq!(holders.most(), (125, 0));
        holders.check();
    }
}
