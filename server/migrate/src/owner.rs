//! What `ephemeralOwner` says: the session that owns a znode, or, with numbers that no session has,
//! that it is a container or has a time to live.

use std::collections::BTreeMap;

use zoolet_jute::SessionId;
use zoolet_replica::state::Kind;

/// The owner of containers.
const CONTAINER: i64 = i64::MIN;

/// The highest byte of the owner of a znode with a time to live. A session can have it only on a
/// server 255, which must not exist where there are times to live.
const TTL: u64 = 0xff << 56;

/// The highest byte of such an owner in 3.5.3, whose times to live are read as well.
const TTL_OF_3_5_3: u64 = 0x80 << 56;

const HIGHEST_BYTE: u64 = 0xff << 56;

/// Zero in the owner of a znode with a time to live. A session has the upper bits of the time of its
/// beginning here, on a clock that may begin with the machine.
const RESERVED: u64 = 0xffff << 40;

/// The longest time to live, in milliseconds.
const TTL_MS_MAX: i64 = (1 << 40) - 1;

/// Returns what ends the life of a znode with this owner.
fn kind_of(owner: i64) -> Kind {
    let bits = owner.cast_unsigned();
    let (highest, ttl_ms) = (bits & HIGHEST_BYTE, (bits & !HIGHEST_BYTE).cast_signed());
    match owner {
        0 => Kind::Persistent,
        CONTAINER => Kind::Container,
        _ if matches!(highest, TTL | TTL_OF_3_5_3) && bits & RESERVED == 0 => Kind::Ttl(ttl_ms),
        _ => Kind::Ephemeral(SessionId(owner)),
    }
}

/// Returns the same beside the sessions that exist: one of a server 255 or 128 that was started soon
/// after its machine can have a number that is a time to live as well.
pub(crate) fn kind_beside(sessions: &BTreeMap<i64, i32>, owner: i64) -> Kind {
    if sessions.contains_key(&owner) { Kind::Ephemeral(SessionId(owner)) } else { kind_of(owner) }
}

/// Returns the owner that says this.
pub(crate) fn owner_of(kind: Kind) -> i64 {
    match kind {
        Kind::Persistent => 0,
        Kind::Ephemeral(session) => session.0,
        Kind::Container => CONTAINER,
        Kind::Ttl(ttl_ms) => ttl_owner(ttl_ms),
    }
}

/// The owner of a znode with this time to live.
pub(crate) fn ttl_owner(ttl_ms: i64) -> i64 {
    (TTL | ttl_ms.clamp(0, TTL_MS_MAX).cast_unsigned()).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_read_as_they_are_written() {
        let session = SessionId(0x0100_018b_5d0a_0001);
        let of_server_255 = SessionId(0xff00_018b_5d0a_0001_u64.cast_signed());
        let kinds = [
            Kind::Persistent,
            Kind::Ephemeral(session),
            Kind::Ephemeral(of_server_255),
            Kind::Container,
            Kind::Ttl(1),
            Kind::Ttl(TTL_MS_MAX),
        ];
        for kind in kinds {
            assert_eq!(kind_of(owner_of(kind)), kind);
        }
        assert_eq!(owner_of(Kind::Ttl(5)).cast_unsigned(), 0xff00_0000_0000_0005);
        let early = 0x8000_0000_0000_0005_u64.cast_signed();
        assert_eq!(kind_of(early), Kind::Ttl(5));
        assert_eq!(kind_beside(&BTreeMap::new(), early), Kind::Ttl(5));
        let sessions = BTreeMap::from([(early, 4000)]);
        assert_eq!(kind_beside(&sessions, early), Kind::Ephemeral(SessionId(early)));
    }
}
