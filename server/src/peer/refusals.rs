//! The callers of the peer port that were refused, in the log.

use std::mem::{Discriminant, discriminant};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::handshake::HandshakeError;

/// The pause before the same refusal of the same caller is logged again.
const REFUSAL_PAUSE: Duration = Duration::from_secs(10);

/// The most refusals that are logged within one pause: a stranger can claim to be any server.
const REFUSALS_MAX: usize = 64;

/// A caller that was refused.
#[derive(Debug)]
pub(super) struct Refused {
    /// The server that it calls itself, if it came so far.
    pub(super) server: Option<u64>,
    pub(super) error: HandshakeError,
}

/// Whose refusals count as the same. Several servers may be behind one address, and one of them
/// may be refused for another reason than before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refusal {
    source: IpAddr,
    server: Option<u64>,
    reason: (Discriminant<HandshakeError>, Option<&'static str>),
}

/// What becomes of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// It is logged.
    Logged,
    /// It is logged, and no other one for a while.
    LastForNow,
    Omitted,
}

/// The refusals that were logged, so that a caller that tries again and again has a line from time
/// to time only.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    logged: Mutex<Vec<(Refusal, Instant)>>,
}

impl Refusals {
    /// Logs a refusal, if it is not known.
    pub(super) fn warn(&self, address: SocketAddr, refused: &Refused) {
        let Refused { server, error } = refused;
        let line = self.note(Instant::now(), address.ip(), refused);
        if line != Line::Omitted {
            tracing::warn!(%address, server, %error, "refused on the peer port");
        }
        if line == Line::LastForNow {
            let pause_s = REFUSAL_PAUSE.as_secs();
            tracing::warn!(pause_s, "many callers are refused on the peer port: omitting others");
        }
    }

    fn note(&self, now: Instant, source: IpAddr, refused: &Refused) -> Line {
        let error = &refused.error;
        let (server, reason) = (refused.server, (discriminant(error), error.tls_kind()));
        let refusal = Refusal { source, server, reason };
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        logged.retain(|(_, at)| now.duration_since(*at) < REFUSAL_PAUSE);
        let is_known = logged.iter().any(|(known, _)| *known == refusal);
        if is_known || logged.len() >= REFUSALS_MAX {
            return Line::Omitted;
        }
        logged.push((refusal, now));
        if logged.len() == REFUSALS_MAX { Line::LastForNow } else { Line::Logged }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use zoolet_tls::HandshakeError as TlsFailure;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn refused(server: u64, error: HandshakeError) -> Refused {
        Refused { server: Some(server), error }
    }

    /// On one machine, the first server that was refused hid the others.
    #[test]
    fn servers_and_reasons_behind_one_address_do_not_hide_each_other() {
        let (refusals, start) = (Refusals::default(), Instant::now());
        let cases = [
            (1, HandshakeError::Secret, Line::Logged),
            (2, HandshakeError::Secret, Line::Logged),
            (1, HandshakeError::Method, Line::Logged),
            (1, HandshakeError::Secret, Line::Omitted),
            (2, HandshakeError::Secret, Line::Omitted),
            (1, HandshakeError::Method, Line::Omitted),
            (1, HandshakeError::Tls(TlsFailure::Plaintext), Line::Logged),
            (1, HandshakeError::Tls(TlsFailure::Address(HERE)), Line::Logged),
            (1, HandshakeError::Tls(TlsFailure::Plaintext), Line::Omitted),
        ];
        for (server, error, expected) in cases {
            let name = format!("server {server}, {error}");
            assert_eq!(refusals.note(start, HERE, &refused(server, error)), expected, "{name}");
        }
        let later = start + REFUSAL_PAUSE;
        assert_eq!(refusals.note(later, HERE, &refused(1, HandshakeError::Secret)), Line::Logged);
    }

    #[test]
    fn no_caller_fills_the_log() {
        let (refusals, start) = (Refusals::default(), Instant::now());
        let line = |server| refusals.note(start, HERE, &refused(server, HandshakeError::Secret));
        let lines: Vec<Line> = (0..1000).map(line).collect();
        assert_eq!(lines.iter().filter(|line| **line == Line::Logged).count(), REFUSALS_MAX - 1);
        assert_eq!(lines.get(REFUSALS_MAX - 1), Some(&Line::LastForNow));
        assert!(lines.iter().skip(REFUSALS_MAX).all(|line| *line == Line::Omitted));
    }
}
