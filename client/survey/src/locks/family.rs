//! Which client wrote a znode of a queue, by its name.
//!
//! The forms are those of Curator 5.9, kazoo 2.10, Go's `zk`, ZooKeeper's own recipes in Java and C,
//! and this client, which writes Curator's.

use std::fmt;

/// Who writes such names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// `_c_<uuid>-…`: Curator, this client, and the `zookeeper-client` crate.
    Curator,
    /// Curator's and kazoo's names under one id: this client's bilingual lock.
    Bilingual,
    /// `_c_<hex>-lock-N`: Go's `zk.Lock`.
    Go,
    /// `<hex>__lock__N`: kazoo.
    Kazoo,
    /// `x-<session, decimal>-N` and `n_N`: the recipes that come with ZooKeeper, in Java.
    JavaRecipes,
    /// `x-<session, hexadecimal>-N`: the recipes that come with ZooKeeper, in C.
    CRecipes,
    /// Ephemeral and numbered, by an unknown client.
    Unknown,
}

impl Family {
    /// The word for programs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Curator => "curator",
            Self::Bilingual => "bilingual",
            Self::Go => "go",
            Self::Kazoo => "kazoo",
            Self::JavaRecipes => "java-recipes",
            Self::CRecipes => "c-recipes",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What a place in a queue is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// A lock for one.
    Mutex,
    /// A read-write lock, for reading.
    Read,
    /// A read-write lock, for writing.
    Write,
    /// Leadership: Curator's `LeaderLatch` and the election of ZooKeeper's recipes. Other elections
    /// are locks by their names.
    Election,
    /// A permit of a semaphore.
    Permit,
}

impl Role {
    /// The word for programs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Read => "read",
            Self::Write => "write",
            Self::Election => "election",
            Self::Permit => "permit",
        }
    }
}

/// What the name of a place says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Whose form the name has.
    pub family: Family,
    /// What it is for.
    pub role: Role,
    /// The place in the queue; it goes on at −2147483648 behind 2147483647.
    pub number: i32,
    /// The random id in it, without dashes.
    pub id: Option<String>,
}

/// What a name says; `None` if it is not a place in a queue.
pub fn parse(name: &str) -> Option<Place> {
    NUMBER_LENGTHS.iter().find_map(|length| {
        let (base, number) = split_number(name, *length)?;
        let (family, role, id) = parse_base(base)?;
        Some(Place { family, role, number, id })
    })
}

fn parse_base(base: &str) -> Option<(Family, Role, Option<String>)> {
    if let Some((id, base)) = curator_id(base) {
        let family = if id.contains('-') { Family::Curator } else { Family::Go };
        let role = match base {
            "lock-" => Role::Mutex,
            "__READ__" => Role::Read,
            "__WRIT__" => Role::Write,
            "latch-" => Role::Election,
            "lease-" => Role::Permit,
            _ => return None,
        };
        return Some((family, role, Some(id.replace('-', ""))));
    }
    for (base_end, role) in [("__lock__", Role::Mutex), ("__rlock__", Role::Read)] {
        if let Some(id) = base.strip_suffix(base_end).filter(|id| is_hex(id, 32)) {
            return Some((Family::Kazoo, role, Some(id.to_owned())));
        }
    }
    if base == "n_" {
        return Some((Family::JavaRecipes, Role::Election, None));
    }
    let session = base.strip_prefix("x-")?.strip_suffix('-')?;
    if is_hex(session, 16) {
        return Some((Family::CRecipes, Role::Mutex, None));
    }
    session.parse::<i64>().ok().map(|_| (Family::JavaRecipes, Role::Mutex, None))
}

/// A numbered name of an unknown form.
pub(super) fn parse_unknown(name: &str) -> Option<Place> {
    let (_, number) = split_number(name, 10)?;
    Some(Place { family: Family::Unknown, role: Role::Mutex, number, id: None })
}

/// Whether a name is that of a kazoo semaphore's lease.
pub(super) fn is_kazoo_lease(name: &str) -> bool {
    is_hex(name, 32)
}

/// How long the number at the end of a name is: ten characters, or eleven for those below
/// −999999999. A name may end in a dash of its own, so only the rest of it decides which it is.
const NUMBER_LENGTHS: [usize; 2] = [10, 11];

/// Takes the number off that a server has appended.
fn split_number(name: &str, length: usize) -> Option<(&str, i32)> {
    let at = name.len().checked_sub(length)?;
    let digits = name.get(at..)?;
    let plain = digits.strip_prefix('-').unwrap_or(digits);
    let number = digits.parse().ok().filter(|_| plain.bytes().all(|b| b.is_ascii_digit()))?;
    Some((name.get(..at)?, number))
}

/// The id of a name that starts with `_c_`, and what follows it.
fn curator_id(base: &str) -> Option<(&str, &str)> {
    let rest = base.strip_prefix("_c_")?;
    for length in [36, 32] {
        let (id, rest) = (rest.get(..length)?, rest.get(length..)?.strip_prefix('-'));
        let fits = if length == 36 { is_uuid(id) } else { is_hex(id, 32) };
        if let Some(rest) = rest.filter(|_| fits) {
            return Some((id, rest));
        }
    }
    None
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_known_by_its_names() {
        let uuid = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";
        let hex = "1b9d6bcdbbfd4b2d9b5dab8dfbbd4bed";
        for (name, family, role, number) in [
            (format!("_c_{uuid}-lock-0000000012"), Family::Curator, Role::Mutex, 12),
            (format!("_c_{uuid}-__READ__0000000001"), Family::Curator, Role::Read, 1),
            (format!("_c_{uuid}-__WRIT__0000000002"), Family::Curator, Role::Write, 2),
            (format!("_c_{uuid}-latch-0000000003"), Family::Curator, Role::Election, 3),
            (format!("_c_{uuid}-lease-0000000004"), Family::Curator, Role::Permit, 4),
            (format!("_c_{uuid}-lock--2147483648"), Family::Curator, Role::Mutex, i32::MIN),
            (format!("_c_{uuid}-lock--000000005"), Family::Curator, Role::Mutex, -5),
            (format!("_c_{uuid}-lock-1000000000"), Family::Curator, Role::Mutex, 1_000_000_000),
            (format!("_c_{hex}-lock-0000000005"), Family::Go, Role::Mutex, 5),
            (format!("{hex}__lock__0000000006"), Family::Kazoo, Role::Mutex, 6),
            (format!("{hex}__rlock__-2147483647"), Family::Kazoo, Role::Read, -i32::MAX),
            ("x-72057594037927936-0000000007".into(), Family::JavaRecipes, Role::Mutex, 7),
            ("x-0100000000000000-0000000008".into(), Family::CRecipes, Role::Mutex, 8),
            ("n_0000000009".into(), Family::JavaRecipes, Role::Election, 9),
        ] {
            let place = parse(&name).unwrap();
            assert_eq!((place.family, place.role, place.number), (family, role, number), "{name}");
            assert!(place.id.is_none_or(|id| id == hex), "{name}");
        }
    }

    #[test]
    fn other_names_are_of_no_family() {
        for name in [
            "",
            "x",
            "0000000001",
            "member-0000000001",
            "_c_1b9d-lock-0000000001",
            "_c_1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed-other-0000000001",
            "x-abc-0000000001",
            "größe0000000ß1",
            "-lock-00000001",
        ] {
            assert_eq!(parse(name), None, "{name}");
        }
        assert_eq!(parse_unknown("member-0000000001").unwrap().number, 1);
        assert_eq!(parse_unknown("member"), None);
    }
}
