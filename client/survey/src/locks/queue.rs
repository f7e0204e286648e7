//! Who of those in a queue holds the lock: what each family's clients look at.

use std::collections::BTreeMap;

use bytes::Bytes;
use zoolet_client::{SessionId, Stat};

use super::family::{Family, Place, Role};

/// A member of a queue.
#[derive(Clone, Debug)]
pub struct Member {
    /// The path of its znode.
    pub path: String,
    /// What its name says.
    pub place: Place,
    /// The data of its znode.
    pub data: Bytes,
    /// The Stat of its znode.
    pub stat: Stat,
    /// kazoo's znode of a bilingual lock, beside Curator's.
    pub twin: Option<Twin>,
    /// Whether it holds the lock.
    pub holds: bool,
}

impl Member {
    /// The session whose end deletes it.
    pub const fn session(&self) -> SessionId {
        self.stat.ephemeral_owner
    }
}

/// The second znode of a place.
#[derive(Clone, Debug)]
pub struct Twin {
    /// Its path.
    pub path: String,
    /// Its Stat.
    pub stat: Stat,
}

/// A wait in a queue. The numbers are those of the lock's members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The one that waits.
    pub waiter: usize,
    /// Those that precede it and that it waits for, the nearest of them: it waits as well for those
    /// that they wait for.
    pub before: Vec<usize>,
    /// Whether it is enough that one of them goes.
    pub any: bool,
}

/// What kind of thing is contended for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A lock for one.
    Mutex,
    /// A lock that readers share.
    ReadWrite,
    /// A lock for several.
    Semaphore,
    /// A leadership.
    Election,
    /// One ephemeral znode, which is the lock itself.
    Simple,
}

impl Kind {
    /// The word for programs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::ReadWrite => "read-write",
            Self::Semaphore => "semaphore",
            Self::Election => "election",
            Self::Simple => "simple",
        }
    }
}

/// A lock and all who are at it, in the order of the queue.
#[derive(Clone, Debug)]
pub struct Lock {
    /// The path that its clients name.
    pub path: String,
    /// What is contended for.
    pub kind: Kind,
    /// The places, in order.
    pub members: Vec<Member>,
    /// How many may hold it, where that is written down.
    pub permits: Option<u64>,
    /// What a person should know.
    pub warnings: Vec<&'static str>,
}

impl Lock {
    /// A lock of numbered places. Its members are put in order, and marked if they hold it.
    pub fn of_queue(path: String, kind: Kind, members: Vec<Member>) -> Self {
        let mut members = pair_up(members);
        sort(&mut members);
        mark_holders(&mut members);
        let mut lock = Self { path, kind, members, permits: None, warnings: Vec::new() };
        lock.warn();
        lock
    }

    /// The waits of those who do not hold.
    pub fn waits(&self) -> Vec<Wait> {
        if self.kind == Kind::Semaphore { self.waits_for_permits() } else { self.waits_in_queue() }
    }

    /// Whether one waits for another one that precedes it, without others between them.
    pub fn has_to_go_first(&self, other: &Member, member: &Member) -> bool {
        self.kind == Kind::Semaphore || goes_first(sort_of(other), sort_of(member))
    }

    /// The head of the queue waits for any permit, the others for those before them.
    fn waits_for_permits(&self) -> Vec<Wait> {
        let of = |holds: bool| {
            let members = self.members.iter().enumerate();
            members.filter(move |(_, member)| member.holds == holds).map(|(index, _)| index)
        };
        let holders: Vec<usize> = of(true).collect();
        let mut previous = None;
        let wait = |waiter: usize| {
            let before = previous.map_or_else(|| holders.clone(), |previous| vec![previous]);
            Wait { waiter, before, any: previous.replace(waiter).is_none() }
        };
        of(false).map(wait).collect()
    }

    /// Those of one family who wait for each other are one behind the other, so the last of them is
    /// enough; of readers those are left out for which that one waits.
    fn waits_in_queue(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        let mut alone: BTreeMap<Family, usize> = BTreeMap::new();
        let mut readers: BTreeMap<Family, Vec<usize>> = BTreeMap::new();
        for (waiter, member) in self.members.iter().enumerate() {
            let (family, is_reader) = (member.place.family, member.place.role == Role::Read);
            if !member.holds {
                let mut before: Vec<usize> = alone.values().copied().collect();
                if !is_reader {
                    let since = alone.get(&family).map_or(0, |last| last + 1);
                    for list in readers.values() {
                        let first = list.partition_point(|reader| *reader < since);
                        before.extend(list.iter().skip(first));
                    }
                }
                let goes_first = |other: &usize| {
                    self.members.get(*other).is_some_and(|it| self.has_to_go_first(it, member))
                };
                before.retain(goes_first);
                before.sort_unstable();
                waits.push(Wait { waiter, before, any: false });
            }
            if is_reader {
                readers.entry(family).or_default().push(waiter);
            } else {
                alone.insert(family, waiter);
            }
        }
        waits
    }

    fn warn(&mut self) {
        let holds_alone = |m: &&Member| m.holds && m.place.role != Role::Read;
        let any = self.members.iter().filter(|member| member.holds).count();
        if self.members.iter().filter(holds_alone).count() > 0 && any > 1 {
            let warning = "several hold it: their clients do not exclude each other on one path";
            self.warnings.push(warning);
        }
        if self.members.iter().any(|member| member.place.family == Family::Unknown) {
            let warning = "its clients are unknown: a queue is supposed, whose lowest number holds";
            self.warnings.push(warning);
        }
        self.warn_of_permanent();
    }

    /// A place without a session stays when its owner dies.
    pub(super) fn warn_of_permanent(&mut self) {
        if self.members.iter().any(|member| member.stat.ephemeral_owner.0 == 0) {
            self.warnings.push("a znode is not ephemeral: it stays when its owner dies");
        }
    }
}

/// Makes one member of the two znodes of a bilingual lock: Curator's and kazoo's, with one id and
/// numbers next to each other.
fn pair_up(members: Vec<Member>) -> Vec<Member> {
    let (kazoo, mut others): (Vec<Member>, Vec<Member>) =
        members.into_iter().partition(|member| member.place.family == Family::Kazoo);
    let key = |member: &Member| (member.session(), member.place.id.clone());
    let is_first = |member: &Member| {
        member.place.family == Family::Curator && member.place.role == Role::Mutex
    };
    let firsts: BTreeMap<_, usize> = others
        .iter()
        .enumerate()
        .filter(|(_, member)| is_first(member))
        .map(|(index, member)| (key(member), index))
        .collect();
    for member in kazoo {
        match firsts.get(&key(&member)).and_then(|index| others.get_mut(*index)) {
            Some(first) => {
                first.place.family = Family::Bilingual;
                first.twin = Some(Twin { path: member.path, stat: member.stat });
            }
            None => others.push(member),
        }
    }
    others
}

/// Orders by the numbers, which lie less than 2³¹ apart, over the end of 32 bits too. A reader under
/// its writer's number stands behind it.
pub(super) fn sort(members: &mut [Member]) {
    let Some(origin) = members.first().map(|member| member.place.number) else { return };
    members.sort_by_key(|member| (member.place.number.wrapping_sub(origin), member.stat.czxid));
}

/// What decides who waits for whom.
#[derive(Clone, Copy, Debug)]
struct Sort {
    family: Family,
    is_reader: bool,
    number: i32,
}

fn sort_of(member: &Member) -> Sort {
    let Place { family, role, number, .. } = member.place;
    Sort { family, is_reader: role == Role::Read, number }
}

/// Marks those who hold: none of those that precede them has to go first. Of those of one family and
/// role the first one decides, since a later one with another number is preceded by it.
fn mark_holders(members: &mut [Member]) {
    let mut firsts: BTreeMap<(Family, bool), Sort> = BTreeMap::new();
    for member in members {
        let sort = sort_of(member);
        member.holds = !firsts.values().any(|first| goes_first(*first, sort));
        firsts.entry((sort.family, sort.is_reader)).or_insert(sort);
    }
}

/// Whether a member's client waits for another one in front of it; `docs/locks.md` has the table. A
/// reader under its writer's number does not wait for it.
fn goes_first(other: Sort, member: Sort) -> bool {
    use Family::{Bilingual, CRecipes, Curator, Go, JavaRecipes, Kazoo};
    if member.is_reader && other.is_reader || member.number == other.number {
        return false;
    }
    member.family == other.family
        || matches!(
            (member.family, other.family),
            (Curator | Go | Kazoo, Bilingual)
                | (Bilingual | Go, Curator | Go | Kazoo)
                | (Curator, Go)
                | (JavaRecipes, CRecipes)
                | (CRecipes, JavaRecipes)
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks::parse;

    const ID: &str = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";
    const HEX: &str = "1b9d6bcdbbfd4b2d9b5dab8dfbbd4bed";

    fn queue(names: &[String]) -> Vec<(String, bool)> {
        let member = |name: &String| Member {
            path: name.clone(),
            place: parse(name).unwrap(),
            data: Bytes::new(),
            stat: Stat { ephemeral_owner: SessionId(1), ..Stat::default() },
            twin: None,
            holds: false,
        };
        let lock = Lock::of_queue("/".into(), Kind::Mutex, names.iter().map(member).collect());
        lock.members.into_iter().map(|member| (member.path, member.holds)).collect()
    }

    #[test]
    fn the_lowest_number_holds_over_the_wrap_too() {
        let names =
            ["-2147483648", "2147483647", "-2147483647"].map(|n| format!("_c_{ID}-lock-{n}"));
        let [second, first, third] = names.clone();
        assert_eq!(queue(&names), [(first, true), (second, false), (third, false)]);
    }

    #[test]
    fn readers_share_until_a_writer_comes() {
        let name = |role: &str, number: i32| format!("_c_{ID}-__{role}__{number:010}");
        let names = [name("READ", 1), name("READ", 2), name("WRIT", 3), name("READ", 4)];
        let held: Vec<bool> = queue(&names).into_iter().map(|(_, holds)| holds).collect();
        assert_eq!(held, [true, true, false, false]);
        let names = [name("WRIT", 1), name("READ", 1), name("READ", 2)];
        let held: Vec<bool> = queue(&names).into_iter().map(|(_, holds)| holds).collect();
        assert_eq!(held, [true, true, false], "a writer may read");
    }

    #[test]
    fn families_that_do_not_see_each_other_both_hold() {
        let (curator, kazoo) =
            (format!("_c_{ID}-lock-0000000001"), format!("{HEX}__lock__0000000000"));
        let other = format!("a{}", &kazoo[1..]);
        assert_eq!(queue(&[curator.clone(), other.clone()]), [(other, true), (curator, true)]);
    }

    #[test]
    fn a_bilingual_pair_is_one_that_both_families_wait_for() {
        let pair = [format!("_c_{ID}-lock-0000000001"), format!("{HEX}__lock__0000000002")];
        let others = [
            format!("_c_a{}-lock-0000000003", &ID[1..]),
            format!("b{}__lock__0000000004", &HEX[1..]),
        ];
        let held = queue(&[pair.as_slice(), &others].concat());
        assert_eq!(held.iter().map(|(_, holds)| *holds).collect::<Vec<_>>(), [true, false, false]);
    }
    /// The waits of a queue of these places, as numbers of those in it.
    fn waits(kind: Kind, names: &[String]) -> Vec<(usize, Vec<usize>)> {
        let member = |name: &String| Member {
            path: name.clone(),
            place: parse(name).unwrap(),
            data: Bytes::new(),
            stat: Stat::default(),
            twin: None,
            holds: false,
        };
        let lock = Lock::of_queue("/".into(), kind, names.iter().map(member).collect());
        lock.waits().into_iter().map(|wait| (wait.waiter, wait.before)).collect()
    }

    #[test]
    fn each_waits_for_the_nearest_before_it() {
        let mutex: Vec<String> = (0..4).map(|n| format!("_c_{ID}-lock-{n:010}")).collect();
        let expected = [(1, vec![0]), (2, vec![1]), (3, vec![2])];
        assert_eq!(waits(Kind::Mutex, &mutex), expected);
    }

    #[test]
    fn writers_wait_for_readers_and_readers_for_writers() {
        let roles = ["READ", "READ", "WRIT", "READ", "READ", "WRIT", "WRIT"];
        let names: Vec<String> = roles
            .iter()
            .enumerate()
            .map(|(n, role)| format!("_c_{ID}-__{role}__{n:010}"))
            .collect();
        let expected = [
            (2, vec![0, 1]),
            (3, vec![2]),
            (4, vec![2]),
            // The readers that the writer before it waits for are left out.
            (5, vec![2, 3, 4]),
            (6, vec![5]),
        ];
        assert_eq!(waits(Kind::ReadWrite, &names), expected);
    }

    #[test]
    fn a_place_waits_for_each_family_that_its_client_sees() {
        let names = [
            format!("{HEX}__lock__0000000000"),
            format!("_c_b{}-lock-0000000001", &ID[1..]),
            format!("_c_{HEX}-lock-0000000002"),
            format!("a{}__lock__0000000003", &HEX[1..]),
        ];
        // Go sees both, kazoo its own alone.
        assert_eq!(waits(Kind::Mutex, &names), [(2, vec![0, 1]), (3, vec![0])]);
    }
}
