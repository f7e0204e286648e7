//! The password of a session: a pure function of its id, so that every server can check it without
//! storing it, and sessions that come from Apache `ZooKeeper` keep theirs (protocol §7.2).

use bytes::{BufMut, Bytes, BytesMut};
use zoolet_jute::{PASSWORD_BYTES, SessionId};

/// What Apache's servers mix into the id. It is public: the password keeps a client from taking
/// over another's session by mistake, not by intent.
const SECRET: u64 = 0xB341_5C00;

// The generator of `java.util.Random`.
const MULTIPLIER: u64 = 0x5_DEEC_E66D;
const INCREMENT: u64 = 0xB;
const STATE_MASK: u64 = (1 << 48) - 1;

/// The password of a session.
pub(crate) fn password_of(session: SessionId) -> Bytes {
    let seed = session.0.cast_unsigned() ^ SECRET;
    let mut state = (seed ^ MULTIPLIER) & STATE_MASK;
    let mut out = BytesMut::with_capacity(PASSWORD_BYTES);
    while out.len() < PASSWORD_BYTES {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT) & STATE_MASK;
        // `Random.nextBytes` emits the low byte first, unlike everything else on the wire.
        #[allow(clippy::cast_possible_truncation, reason = "the 32 bits above the lowest 16")]
        out.put_u32_le((state >> 16) as u32);
    }
    out.freeze()
}

/// Whether a client that wants to resume a session knows its password.
pub(crate) fn is_password_of(session: SessionId, given: Option<&Bytes>) -> bool {
    let expected = password_of(session);
    // In constant time, as far as the length is the right one.
    given.is_some_and(|given| {
        given.len() == expected.len()
            && given.iter().zip(&expected).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(session: u64) -> String {
        password_of(SessionId(session.cast_signed()))
            .iter()
            .fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    }

    #[test]
    fn passwords_are_those_of_apache_zookeeper() {
        assert_eq!(hex(0x0100_000b_d0bd_0000), "19ea5ab53254a92f1f91d60ecbecf357");
        assert_eq!(hex(1), "054cc74a37327db215e702e20c73f005");
    }

    #[test]
    fn only_the_whole_password_matches() {
        let session = SessionId(0x0100_000b_d0bd_0000);
        let password = password_of(session);
        assert!(is_password_of(session, Some(&password)));
        assert!(!is_password_of(SessionId(1), Some(&password)));
        assert!(!is_password_of(session, Some(&password.slice(..15))));
        assert!(!is_password_of(session, Some(&Bytes::from_static(&[0; 16]))));
        assert!(!is_password_of(session, Some(&Bytes::new())));
        assert!(!is_password_of(session, None));
    }
}
