//! The names of places in the queues of locks, as Curator, kazoo, Go's `zk`, `ZooKeeper`'s own recipes
//! and zoolet's client write them (`docs/locks.md`).

/// What precedes the number in the name of a place, and whether several of them hold together.
const MARKS: [(&str, bool); 6] = [
    ("lock-", false),
    ("__lock__", false),
    ("__WRIT__", false),
    ("latch-", false),
    ("__READ__", true),
    ("__rlock__", true),
];

/// What precedes the id of the session in the names of `ZooKeeper`'s own recipes.
const RECIPES: &str = "x-";

/// The digits that a server appends to a name; a minus precedes them behind 2³¹ − 1.
const DIGITS: usize = 10;

/// How many hexadecimal digits of the random part of a name are compared.
const ID_DIGITS: usize = 16;

/// A place in the queue of a lock, as its name says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockName {
    /// Invariant: those who came earlier have a smaller one. The lowest bit is 1 for readers.
    key: u64,
    /// The begin of the random part; zero if there is none.
    id: u64,
    /// Whether kazoo writes such names.
    is_kazoo: bool,
}

impl LockName {
    /// Reads a name; `None` if it is not that of a place.
    pub fn parse(name: &str) -> Option<Self> {
        if !name.as_bytes().last().is_some_and(u8::is_ascii_digit) {
            return None;
        }
        let (base, digits) = name.split_at_checked(name.len().checked_sub(DIGITS)?)?;
        let found = mark_of(base)
            .and_then(|mark| Some((mark, digits.parse::<i32>().ok()?)))
            .or_else(|| {
                let base = base.strip_suffix('-')?;
                let number = name.get(base.len()..)?.parse::<i32>().ok()?;
                Some((mark_of(base)?, number))
            });
        let ((mark, is_shared), number) = found?;
        // Numbers go on at the lowest one.
        let key = u64::from(number.cast_unsigned()) << 1 | u64::from(is_shared);
        let random = name.strip_prefix("_c_").unwrap_or(name);
        Some(Self { key, id: id_of(random), is_kazoo: mark.ends_with("lock__") })
    }

    /// Where it is in the queue: those who came earlier have a smaller number.
    pub const fn order(self) -> u64 {
        self.key
    }

    /// Whether several places like this one hold at a time.
    pub const fn is_shared(self) -> bool {
        self.key & 1 == 1
    }

    /// Where a place that excludes others would be, if it had the same number.
    pub const fn order_of_exclusive(self) -> u64 {
        self.key & !1
    }

    /// A number for the random part of the name; zero if there is none.
    pub const fn id(self) -> u64 {
        self.id
    }

    /// Whether it is a part of a place that came before: a reader with the number of the writer that
    /// has made it holds with it, and a lock for Curator and kazoo is two znodes with one id, made
    /// together. `has_exclusive` is about its
    /// [`Self::order_of_exclusive`], and `id_before` that of the place before it.
    pub fn is_part_of_another(self, has_exclusive: bool, id_before: Option<u64>) -> bool {
        let is_nested = self.is_shared() && has_exclusive;
        let is_second = self.is_kazoo && self.id != 0 && id_before == Some(self.id);
        is_nested || is_second
    }
}

fn mark_of(base: &str) -> Option<(&'static str, bool)> {
    let known = MARKS.into_iter().find(|(mark, _)| base.ends_with(mark));
    known.or_else(|| is_of_recipes(base).then_some((RECIPES, false)))
}

/// Whether this is what `ZooKeeper`'s own recipes write: the id of the session is decimal in Java, and
/// 16 hexadecimal digits in C.
fn is_of_recipes(base: &str) -> bool {
    let session = base.strip_prefix(RECIPES).and_then(|rest| rest.strip_suffix('-'));
    session.is_some_and(|session| {
        let is_hex = session.bytes().all(|byte| byte.is_ascii_hexdigit());
        session.len() == 16 && is_hex || session.parse::<i64>().is_ok()
    })
}

fn id_of(random: &str) -> u64 {
    let digits = random.bytes().filter(|byte| *byte != b'-').take(ID_DIGITS);
    let mut id = 0;
    for byte in digits {
        let Some(digit) = char::from(byte).to_digit(16) else { return 0 };
        id = id << 4 | u64::from(digit);
    }
    id
}
