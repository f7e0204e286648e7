//! The names of the znodes that recipes create, and the order that their numbers give.
//!
//! A protected name carries a random id, so that its creator finds it again when the reply to the
//! create is lost. The forms are Curator's (`_c_<uuid>-lock-N`), Go's (the same without dashes) and
//! kazoo's (`<hex>__lock__N`).

use std::fmt::Write as _;

use crate::{Error, ErrorKind};

/// What comes before the number in the name of a Curator, Go or kezhuw mutex.
pub(crate) const LOCK_BASE: &str = "lock-";

/// What comes before the number in the name of a kazoo lock.
pub(crate) const KAZOO_LOCK_BASE: &str = "__lock__";

/// The same in the name of a kazoo reader, who does not come beside a kazoo lock either.
const KAZOO_READ_BASE: &str = "__rlock__";

/// How many digits kazoo asks for behind them.
const SEQUENCE_DIGITS: usize = 10;

/// The random part of a protected name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProtectedId([u8; 16]);

impl ProtectedId {
    /// A new id, a version 4 UUID whose first digit is a letter. So a kazoo name, which starts with
    /// it, sorts behind every number, and Curator, which sorts the names that it does not know as
    /// they are, never takes one for the head of its queue.
    pub(crate) fn random() -> Result<Self, Error> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| {
            Error::from(ErrorKind::Protocol(format!("the system has no random numbers: {error}")))
        })?;
        let [first, .., _] = &mut bytes;
        *first |= 0xA0;
        let [_, _, _, _, _, _, version, _, variant, ..] = &mut bytes;
        *version = (*version & 0x0F) | 0x40;
        *variant = (*variant & 0x3F) | 0x80;
        Ok(Self(bytes))
    }

    /// The id of a name that one of these forms has.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let name = name.strip_prefix("_c_").unwrap_or(name);
        let hex = match name.get(..36) {
            Some(uuid) if uuid.matches('-').count() == 4 => uuid.replace('-', ""),
            _ => name.get(..32)?.to_owned(),
        };
        let number = u128::from_str_radix(&hex, 16).ok().filter(|_| hex.len() == 32)?;
        let id = Self(number.to_be_bytes());
        id.owns(name).then_some(id)
    }

    /// 36 characters, with dashes.
    pub(crate) fn uuid(self) -> String {
        let hex = self.hex();
        let mut text = String::with_capacity(36);
        for (at, digit) in hex.chars().enumerate() {
            if matches!(at, 8 | 12 | 16 | 20) {
                text.push('-');
            }
            text.push(digit);
        }
        text
    }

    /// 32 characters, without dashes.
    pub(crate) fn hex(self) -> String {
        let mut text = String::with_capacity(32);
        for byte in self.0 {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }

    /// Curator's name in front of the number: `_c_<uuid>-<base>`.
    pub(crate) fn curator(self, base: &str) -> String {
        format!("_c_{}-{base}", self.uuid())
    }

    /// kazoo's name in front of the number: `<hex><base>`.
    pub(crate) fn kazoo(self, base: &str) -> String {
        format!("{}{base}", self.hex())
    }

    /// Whether a name is one of this id's: it starts with the id, in any form.
    pub(crate) fn owns(self, name: &str) -> bool {
        let name = name.strip_prefix("_c_").unwrap_or(name);
        name.starts_with(&self.uuid()) || name.starts_with(&self.hex())
    }
}

/// The number that the server appended to a name: the parent's counter, a signed 32-bit integer
/// that goes on at −2147483648 behind 2147483647.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sequence(i32);

impl Sequence {
    /// The number of digits alone, and a minus in front of some.
    pub(crate) fn parse(digits: &str) -> Option<Self> {
        digits.parse().ok().map(Self)
    }

    /// The number behind the last `base` in a name.
    pub(crate) fn after(base: &str, name: &str) -> Option<Self> {
        let at = name.rfind(base)?;
        Self::parse(name.get(at + base.len()..)?)
    }

    /// The number of a mutex of any client: Curator, Go, kezhuw's and this one name it `lock-N`,
    /// kazoo `__lock__N`, or `__rlock__N` for a reader.
    pub(crate) fn of_mutex(name: &str) -> Option<Self> {
        let kazoo = |base: &str| {
            let digits = name.get(name.rfind(base)? + base.len()..)?;
            let unsigned = digits.strip_prefix('-').unwrap_or(digits);
            if unsigned.len() == SEQUENCE_DIGITS { Self::parse(digits) } else { None }
        };
        Self::after(LOCK_BASE, name)
            .or_else(|| kazoo(KAZOO_LOCK_BASE))
            .or_else(|| kazoo(KAZOO_READ_BASE))
    }

    /// How far this number is in front of a later one; `None` if it is not. Numbers of one queue
    /// lie less than 2³¹ apart, so the difference tells the order over the wrap too.
    pub(crate) fn before(self, later: Self) -> Option<u32> {
        u32::try_from(later.0.wrapping_sub(self.0)).ok().filter(|distance| *distance > 0)
    }

    /// How far this number is behind another member of the same queue; negative if it is in front.
    pub(crate) fn offset(self, origin: Self) -> i32 {
        self.0.wrapping_sub(origin.0)
    }

    /// The number as the server writes it.
    pub(crate) fn suffix(self) -> String {
        format!("{:010}", self.0)
    }
}

/// The nearest name in front of `mine`, of those that `number` gives a number.
pub(crate) fn nearest_before(
    names: &[String],
    mine: Sequence,
    number: impl Fn(&str) -> Option<Sequence>,
) -> Option<&str> {
    let before = names.iter().filter_map(|name| Some((number(name)?.before(mine)?, name.as_str())));
    let nearest = if planted!("all-wait-for-the-first") { before.max() } else { before.min() };
    nearest.map(|(_, name)| name)
}

/// The names that have a number, in the order of the queue.
pub(crate) fn in_order(
    names: Vec<String>,
    number: impl Fn(&str) -> Option<Sequence>,
) -> Vec<String> {
    let mut numbered: Vec<(Sequence, String)> =
        names.into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
    let Some(&(origin, _)) = numbered.first() else { return Vec::new() };
    // All distances are taken from one member: on both sides of it they are below 2³¹.
    numbered.sort_by_key(|(number, _)| number.offset(origin));
    numbered.into_iter().map(|(_, name)| name).collect()
}

/// The path of a child.
pub(crate) fn join(dir: &str, name: &str) -> String {
    if dir == "/" { format!("/{name}") } else { format!("{dir}/{name}") }
}

/// The parent and the name of a path; `None` for the root.
pub(crate) fn split(path: &str) -> Option<(&str, &str)> {
    let (parent, name) = path.rsplit_once('/')?;
    match (parent, name) {
        (_, "") => None,
        ("", name) => Some(("/", name)),
        parts => Some(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_protected_id_is_a_uuid_that_both_forms_carry() {
        for _ in 0..200 {
            let id = ProtectedId::random().unwrap();
            let uuid = id.uuid();
            assert_eq!(uuid.len(), 36);
            assert_eq!(uuid.replace('-', ""), id.hex());
            assert_eq!(uuid.as_bytes()[14], b'4', "version 4: {uuid}");
            assert!(matches!(uuid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'), "variant: {uuid}");
            assert!(uuid.starts_with(|first: char| first.is_ascii_alphabetic()), "{uuid}");
            for name in [id.curator(LOCK_BASE), id.kazoo(KAZOO_LOCK_BASE), id.uuid()] {
                let name = format!("{name}0000000001");
                assert!(id.owns(&name));
                assert_eq!(ProtectedId::of(&name), Some(id), "{name}");
            }
            assert!(!id.owns(&ProtectedId::random().unwrap().curator(LOCK_BASE)));
        }
    }

    #[test]
    fn other_names_have_no_id() {
        for name in ["", "lock-0000000001", "_c_", "_c_1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4b", "ready"]
        {
            assert_eq!(ProtectedId::of(name), None, "{name}");
        }
    }

    #[test]
    fn every_client_s_mutex_name_has_its_number() {
        let number = |name: &str| Sequence::of_mutex(name).map(|number| number.0);
        let curator = "_c_1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed-lock-0000000012";
        assert_eq!(number(curator), Some(12));
        assert_eq!(number("_c_1b9d6bcdbbfd4b2d9b5dab8dfbbd4bed-lock-0000000013"), Some(13));
        assert_eq!(number("514e0000000000000000000000000000__lock__0000000007"), Some(7));
        assert_eq!(number("514e0000000000000000000000000000__lock__-2147483648"), Some(i32::MIN));
        assert_eq!(number("514e0000000000000000000000000000__rlock__0000000008"), Some(8));
        assert_eq!(number("_c_x-lock--2147483648"), Some(i32::MIN));
        for foreign in ["lock-", "lock-x", "__lock__12", "x-123-0000000001", "locks", ""] {
            assert_eq!(number(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn numbers_keep_their_order_over_the_wrap() {
        let order = [i32::MAX - 1, i32::MAX, i32::MIN, i32::MIN + 1].map(Sequence);
        for (earlier, later) in order.iter().zip(order.iter().skip(1)) {
            assert_eq!(earlier.before(*later), Some(1));
            assert_eq!(later.before(*earlier), None);
        }
        assert_eq!(Sequence(3).before(Sequence(3)), None);
        let children =
            names(&["a-lock--2147483648", "b-lock-2147483647", "c-lock--2147483647", "x"]);
        let mine = Sequence::of_mutex("c-lock--2147483647").unwrap();
        let nearest = nearest_before(&children, mine, Sequence::of_mutex);
        assert_eq!(nearest, Some("a-lock--2147483648"));
        assert_eq!(
            in_order(children, Sequence::of_mutex),
            names(&["b-lock-2147483647", "a-lock--2147483648", "c-lock--2147483647"])
        );
    }

    #[test]
    fn a_number_is_written_as_the_server_writes_it() {
        for name in ["x0000000004", "x2147483647", "x-2147483648", "x-000000001"] {
            let number = Sequence::after("x", name).unwrap();
            assert_eq!(format!("x{}", number.suffix()), name);
        }
    }

    #[test]
    fn paths_are_joined_and_split() {
        assert_eq!(join("/", "a"), "/a");
        assert_eq!(join("/a", "b"), "/a/b");
        assert_eq!(split("/a/b"), Some(("/a", "b")));
        assert_eq!(split("/a"), Some(("/", "a")));
        assert_eq!(split("/"), None);
    }
}
