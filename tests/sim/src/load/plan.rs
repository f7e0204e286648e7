//! What the clients of a run do, drawn from its seed.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::chance::Chance;
use super::locks::{LockPlan, Recipe};
use super::operations::{Mix, draw_paths};
use super::reconfig::ReconfigPlan;
use super::resource::GuardedResources;
use super::structures::{Rounds, Structure};
use crate::history::ClientNumber;

/// What one client is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Random operations on the shared paths.
    Random,
    /// Registers that are compared and set.
    Register,
    /// Money that moves between accounts.
    Bank,
    /// Sequential numbers.
    Sequence,
    /// Items that are put and taken.
    Queue,
    /// A copy that a recursive watch keeps.
    Mirror,
    /// Locks by a recipe of zoolet's client.
    Recipe(Recipe),
    /// Another recipe of it.
    Structure(Structure),
    /// Locks in Curator's form over a raw session.
    Curator,
    /// Deletes of znodes of locks by hand.
    Operator,
    /// Many sessions that come and go at once.
    Storm,
    /// Changes of the ensemble.
    Reconfig,
}

/// The load of a run. Every client machine runs a clone of the same one: they share the resources that
/// locks guard.
#[derive(Clone, Debug)]
pub struct Load {
    /// What each client does, by its number; there are as many as this is long.
    pub roles: Vec<Role>,
    /// The paths of random operations.
    pub paths: Vec<String>,
    /// Which random operations there are.
    pub mix: Mix,
    /// The session timeouts to ask for, in milliseconds.
    pub timeout_ms: RangeInclusive<u64>,
    /// The longest wait between two operations of a client.
    pub think: Duration,
    /// One operation in this number is followed by a disturbance of its session; 0 for none.
    pub disturb_one_in: u64,
    /// How lock contenders go about it.
    pub locks: LockPlan,
    /// The rounds of the double barrier.
    pub rounds: Rounds,
    /// What is reconfigured; see [`Load::with_reconfig`].
    pub reconfig: Option<ReconfigPlan>,
}

impl Load {
    /// The load of a seed.
    pub fn draw(seed: u64) -> Self {
        let mut chance = Chance::new(seed, 0x10AD);
        let clients = chance.between(4..=16);
        let roles = draw_roles(clients, &mut chance);
        let count = usize::try_from(chance.between(5..=50)).unwrap_or(5);
        let longest = chance.between(2_000..=10_000);
        let think_ms = *chance.pick(&[2, 10, 50, 200]).unwrap_or(&10);
        let timeout = Duration::from_millis(chance.between(1_000..=longest));
        Self {
            roles,
            paths: draw_paths(count, &mut chance),
            mix: Mix::draw(&mut chance),
            timeout_ms: 1_000..=longest,
            think: Duration::from_millis(think_ms),
            disturb_one_in: *chance.pick(&[0, 30, 100, 400]).unwrap_or(&100),
            locks: LockPlan {
                locks: chance.between(1..=3),
                resources: GuardedResources::default(),
                timeout,
                think: Duration::from_millis(think_ms * 5),
            },
            rounds: Rounds::default(),
            reconfig: None,
        }
    }

    /// The number of client machines that it needs.
    pub fn clients(&self) -> u32 {
        u32::try_from(self.roles.len()).unwrap_or(u32::MAX)
    }

    /// The same load and one more client, which changes the ensemble.
    pub fn with_reconfig(mut self, plan: ReconfigPlan) -> Self {
        self.roles.push(Role::Reconfig);
        self.reconfig = Some(plan);
        self
    }

    /// The same load, and in half of all seeds a few more clients of other recipes. They come last and
    /// have chance of their own, so that the other clients ask for the same as without them.
    pub fn with_recipes(mut self, seed: u64) -> Self {
        let mut chance = Chance::new(seed, 0x2EC1);
        let structures = Structure::ALL.iter().map(|structure| Role::Structure(*structure));
        let mut kinds: Vec<Role> = structures.collect();
        kinds.extend(Recipe::MORE.iter().map(|recipe| Role::Recipe(*recipe)));
        for _ in 0..chance.between(0..=1) * chance.between(1..=3) {
            let kind = kinds.swap_remove(chance.place(kinds.len()));
            let clients = usize::try_from(chance.between(2..=3)).unwrap_or(2);
            self.roles.extend(std::iter::repeat_n(kind, clients));
        }
        self
    }

    /// The same load, and in one of eight seeds one more client, which deletes znodes of locks.
    pub fn with_operator(mut self, seed: u64) -> Self {
        if Chance::new(seed, 0xA4D).one_in(8) {
            self.roles.push(Role::Operator);
        }
        self
    }

    /// The same load, and in one of eight seeds one more client, which has many sessions at a time.
    pub fn with_storm(mut self, seed: u64) -> Self {
        if Chance::new(seed, 0xC03D).one_in(8) {
            self.roles.push(Role::Storm);
        }
        self
    }

    /// The same load with these roles in turn, of this number of clients.
    pub fn with_roles(mut self, roles: &[Role], clients: u8) -> Self {
        self.roles = roles.iter().copied().cycle().take(usize::from(clients)).collect();
        self.reconfig = None;
        self
    }

    /// What a client does.
    pub fn role(&self, client: ClientNumber) -> Role {
        let place = usize::try_from(client.0).unwrap_or(usize::MAX);
        self.roles.get(place).copied().unwrap_or(Role::Random)
    }

    pub(super) fn draw_timeout(&self, chance: &mut Chance) -> Duration {
        Duration::from_millis(chance.between(self.timeout_ms.clone()))
    }
}

/// Two clients at least of random operations, and a few of each of a few other kinds, so that they
/// meet.
fn draw_roles(clients: u64, chance: &mut Chance) -> Vec<Role> {
    let mut kinds = vec![
        vec![Role::Register],
        vec![Role::Bank],
        vec![Role::Sequence],
        vec![Role::Queue],
        vec![Role::Mirror],
        vec![Role::Recipe(Recipe::Mutex), Role::Curator],
    ];
    kinds.extend(Recipe::ALL.iter().skip(1).map(|recipe| vec![Role::Recipe(*recipe)]));
    let mut chosen = Vec::new();
    for _ in 0..chance.between(1..=4) {
        let kind = kinds.swap_remove(chance.place(kinds.len()));
        chosen.push(kind);
    }
    let mut roles = vec![Role::Random; 2];
    let mut next = 0;
    while u64::try_from(roles.len()).unwrap_or(u64::MAX) < clients {
        if chance.one_in(4) {
            roles.push(Role::Random);
            continue;
        }
        if let Some(kind) = chosen.get(next % chosen.len().max(1))
            && let Some(role) = kind.get((next / chosen.len().max(1)) % kind.len().max(1))
        {
            roles.push(*role);
        }
        next += 1;
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_seed_gives_one_load_and_seeds_give_many() {
        let text = |seed| format!("{:?}", Load::draw(seed));
        assert_eq!(text(3), text(3));
        let all: BTreeSet<String> = (0..50).map(text).collect();
        assert_eq!(all.len(), 50);
    }

    #[test]
    fn every_role_occurs_and_every_load_is_of_its_size() {
        let mut roles = BTreeSet::new();
        for seed in 0..300 {
            let load = Load::draw(seed);
            assert!((4..=16).contains(&load.clients()), "{load:?}");
            assert!((5..=50).contains(&load.paths.len()), "{load:?}");
            roles.extend(load.roles);
        }
        assert_eq!(roles.len(), 7 + Recipe::ALL.len(), "{roles:?}");
    }

    #[test]
    fn an_operator_comes_last_in_an_eighth_of_all_seeds() {
        let has_one = |seed: &u64| {
            let load = Load::draw(*seed).with_operator(*seed);
            let behind = load.roles.get(Load::draw(*seed).roles.len()..).unwrap().to_vec();
            assert!(behind.is_empty() || behind == [Role::Operator], "{behind:?}");
            !behind.is_empty()
        };
        let with = (0..800).filter(has_one).count();
        assert!((60..140).contains(&with), "{with}");
    }

    #[test]
    fn a_storm_comes_in_an_eighth_of_all_seeds_and_with_an_operator_in_some() {
        let has = |seed: u64, role: Role| {
            let load = Load::draw(seed).with_operator(seed).with_storm(seed);
            load.roles.contains(&role)
        };
        let count = |roles: &[Role]| {
            (0..800).filter(|seed| roles.iter().all(|role| has(*seed, *role))).count()
        };
        let (with, with_both) = (count(&[Role::Storm]), count(&[Role::Storm, Role::Operator]));
        assert!((60..140).contains(&with) && (2..30).contains(&with_both), "{with}, {with_both}");
    }

    #[test]
    fn chosen_roles_take_the_place_of_drawn_ones_in_turn() {
        let roles = [Role::Bank, Role::Mirror];
        let load = Load::draw(7).with_roles(&roles, 3);
        assert_eq!(load.roles, [Role::Bank, Role::Mirror, Role::Bank]);
    }

    #[test]
    fn other_recipes_come_behind_the_clients_of_half_of_all_seeds() {
        let mut more = BTreeSet::new();
        let mut without = 0;
        for seed in 0..300 {
            let (few, many) = (Load::draw(seed), Load::draw(seed).with_recipes(seed));
            assert_eq!(many.roles.get(..few.roles.len()), Some(few.roles.as_slice()));
            let behind = many.roles.get(few.roles.len()..).unwrap();
            without += usize::from(behind.is_empty());
            more.extend(behind.iter().copied());
        }
        assert_eq!(more.len(), Structure::ALL.len() + Recipe::MORE.len(), "{more:?}");
        assert!((100..200).contains(&without), "{without}");
    }
}
