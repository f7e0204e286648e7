//! Who of those in a queue holds the lock: what each family's clients look at.

use bytes::Bytes;
use zoolet_client::Stat;

use super::family::{Family, Place, Role};

/// A member of a queue.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) path: String,
    pub(crate) place: Place,
    pub(crate) data: Bytes,
    pub(crate) stat: Stat,
    pub(crate) holds: bool,
}

/// What kind of thing is contended for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Mutex,
    ReadWrite,
    Semaphore,
    Election,
    /// One ephemeral znode, which is the lock itself.
    Simple,
}

impl Kind {
    pub(crate) const fn word(self) -> &'static str {
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
pub(crate) struct Lock {
    pub(crate) path: String,
    pub(crate) kind: Kind,
    pub(crate) members: Vec<Member>,
    /// How many may hold it, where that is written down.
    pub(crate) permits: Option<u64>,
    /// What a person should know.
    pub(crate) warnings: Vec<&'static str>,
}

impl Lock {
    /// A lock of numbered places. Its members are put in order, and marked if they hold it.
    pub(crate) fn of_queue(path: String, kind: Kind, members: Vec<Member>) -> Self {
        let mut members = pair_up(members);
        sort(&mut members);
        let holds: Vec<bool> = (0..members.len()).map(|index| holds(&members, index)).collect();
        for (member, holds) in members.iter_mut().zip(holds) {
            member.holds = holds;
        }
        let mut lock = Self { path, kind, members, permits: None, warnings: Vec::new() };
        lock.warn();
        lock
    }

    fn warn(&mut self) {
        let holds_alone = |m: &&Member| m.holds && m.place.role != Role::Read;
        let any = self.members.iter().filter(|member| member.holds).count();
        if self.members.iter().filter(holds_alone).count() > 0 && any > 1 {
            let warning = "several hold it: their clients do not exclude each other on one path";
            self.warnings.push(warning);
        }
        self.warn_of_permanent();
    }

    /// A place without a session stays when its owner dies.
    pub(crate) fn warn_of_permanent(&mut self) {
        if self.members.iter().any(|member| member.stat.ephemeral_owner.0 == 0) {
            self.warnings.push("a znode is not ephemeral: it stays when its owner dies");
        }
    }
}

/// Makes one member of the two znodes of a bilingual lock: Curator's and kazoo's, with one id and
/// numbers next to each other.
fn pair_up(members: Vec<Member>) -> Vec<Member> {
    let is_twin = |kazoo: &Member, curator: &Member| {
        curator.place.family == Family::Curator
            && curator.place.role == Role::Mutex
            && curator.place.id == kazoo.place.id
            && curator.stat.ephemeral_owner == kazoo.stat.ephemeral_owner
    };
    let (kazoo, mut others): (Vec<Member>, Vec<Member>) =
        members.into_iter().partition(|member| member.place.family == Family::Kazoo);
    for member in kazoo {
        match others.iter_mut().find(|other| is_twin(&member, other)) {
            Some(twin) => twin.place.family = Family::Bilingual,
            None => others.push(member),
        }
    }
    others
}

/// Orders by the numbers, which lie less than 2³¹ apart, over the end of 32 bits too. A reader under
/// its writer's number stands behind it.
pub(crate) fn sort(members: &mut [Member]) {
    let Some(origin) = members.first().map(|member| member.place.number) else { return };
    members.sort_by_key(|member| (member.place.number.wrapping_sub(origin), member.stat.czxid));
}

/// Whether no member that precedes this one has to go first.
fn holds(members: &[Member], index: usize) -> bool {
    let Some(member) = members.get(index) else { return false };
    members
        .iter()
        .take(index)
        .all(|other| other.place.number == member.place.number || !waits_for(member, other))
}

/// Whether a member's client waits for one in front of it; `docs/locks.md` has the table.
fn waits_for(member: &Member, other: &Member) -> bool {
    use Family::{Bilingual, CRecipes, Curator, Go, JavaRecipes, Kazoo};
    if member.place.role == Role::Read && other.place.role == Role::Read {
        return false;
    }
    let (own, others) = (member.place.family, other.place.family);
    own == others
        || matches!(
            (own, others),
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
            stat: Stat { ephemeral_owner: zoolet_client::SessionId(1), ..Stat::default() },
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
}
