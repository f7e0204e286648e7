//! Deadlocks: cycles of sessions each of which holds a lock and waits for another one. Values in,
//! values out; the time is linear in the places and the waits.
//!
//! A session stands for one program that does one thing at a time: the tree does not show its threads.
//! Elections are left out, since a program contends for a leadership and does other work meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use zoolet_client::SessionId;

use super::queue::{Kind, Lock, Member};

/// A place in the queue of a lock.
#[derive(Clone, Copy, Debug)]
pub struct Spot<'a> {
    /// The lock.
    pub lock: &'a Lock,
    /// One of its members.
    pub member: &'a Member,
}

/// A session in a cycle: what it holds, and what it waits for.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a> {
    /// `None` for one that waits between the others: a writer that keeps a reader from a lock which
    /// other readers hold.
    pub held: Option<Spot<'a>>,
    /// Where it waits.
    pub awaited: Spot<'a>,
}

impl Turn<'_> {
    /// The session.
    pub const fn session(&self) -> SessionId {
        self.awaited.member.session()
    }
}

/// A cycle. Each session waits for the next one, the last for the first.
#[derive(Clone, Debug)]
pub struct Deadlock<'a> {
    /// The sessions, in the order of their waits.
    pub turns: Vec<Turn<'a>>,
}

impl<'a> Deadlock<'a> {
    /// The places that make the cycle: while all of them exist, it does.
    pub fn members(&self) -> impl Iterator<Item = &'a Member> {
        let turns = self.turns.iter();
        turns.flat_map(|turn| turn.held.into_iter().chain([turn.awaited])).map(|spot| spot.member)
    }
}

/// The deadlocks in these locks. Those that share a session may be reported as one: what is behind
/// shows when that one is resolved.
pub(super) fn deadlocks(locks: &[Lock]) -> Vec<Deadlock<'_>> {
    let model = Model::of(locks);
    let mut search = Search::of(&model);
    let cycles: Vec<Vec<usize>> =
        (0..model.needs.len()).flat_map(|start| search.cycles_from(start)).collect();
    cycles.iter().map(|cycle| Deadlock { turns: turns(&model.spots_of(cycle)) }).collect()
}

/// The sessions that hold a lock and wait for the same lock.
pub(super) fn waits_for_itself(locks: &[Lock]) -> Vec<Spot<'_>> {
    let mut spots = Vec::new();
    for lock in locks.iter().filter(|lock| lock.kind != Kind::Election) {
        let holders = holders(lock);
        let waits = |member: &&Member| !member.holds && holders.contains(&member.session());
        spots.extend(lock.members.iter().filter(waits).map(|member| Spot { lock, member }));
    }
    spots
}

fn holders(lock: &Lock) -> BTreeSet<SessionId> {
    let held = lock.members.iter().filter(|member| member.holds);
    held.map(Member::session).filter(|session| *session != SessionId::NONE).collect()
}

/// What has to happen before something can go on.
#[derive(Clone, Debug, Default)]
struct Needs {
    of: Vec<usize>,
    /// Whether one of them is enough.
    any: bool,
}

/// All places, and behind them the sessions that wait. A place that waits needs those before it, one
/// that holds needs its session, and a session needs what it waits for.
#[derive(Debug, Default)]
struct Model<'a> {
    spots: Vec<Spot<'a>>,
    // Invariant: as long as the places and the sessions.
    needs: Vec<Needs>,
}

impl<'a> Model<'a> {
    fn of(locks: &'a [Lock]) -> Self {
        let mut model = Self::default();
        let mut waits_of: BTreeMap<SessionId, Vec<usize>> = BTreeMap::new();
        for lock in locks.iter().filter(|lock| lock.kind != Kind::Election) {
            let (first, holders) = (model.spots.len(), holders(lock));
            for (index, member) in lock.members.iter().enumerate() {
                let session = member.session();
                // Who waits for what it holds waits for itself.
                if !member.holds && session != SessionId::NONE && !holders.contains(&session) {
                    waits_of.entry(session).or_default().push(first + index);
                }
                model.spots.push(Spot { lock, member });
                model.needs.push(Needs::default());
            }
            for wait in lock.waits() {
                let of = wait.before.iter().map(|before| first + before).collect();
                if let Some(needs) = model.needs.get_mut(first + wait.waiter) {
                    *needs = Needs { of, any: wait.any };
                }
            }
        }
        let mut sessions = BTreeMap::new();
        for (session, of) in waits_of {
            sessions.insert(session, model.needs.len());
            model.needs.push(Needs { of, any: false });
        }
        for (spot, needs) in model.spots.iter().zip(&mut model.needs) {
            if spot.member.holds {
                needs.of.extend(sessions.get(&spot.member.session()));
            }
        }
        model
    }

    /// The places of a cycle, from one that holds.
    fn spots_of(&self, cycle: &[usize]) -> Vec<Spot<'a>> {
        let mut spots: Vec<Spot<'a>> =
            cycle.iter().filter_map(|node| self.spots.get(*node)).copied().collect();
        let first = spots.iter().position(|spot| spot.member.holds).unwrap_or(0);
        spots.rotate_left(first);
        spots
    }
}

/// Looks for cycles among what can never go on.
#[derive(Debug)]
struct Search<'a> {
    needs: &'a [Needs],
    /// For each, those that need it.
    needed_by: Vec<Vec<usize>>,
    /// For each, how many of its needs are missing; zero if it goes on some time.
    missing: Vec<usize>,
    /// For each, its first need that may be missing.
    next: Vec<usize>,
    /// Where each is on the way from the start to the end.
    step_of: Vec<Option<usize>>,
}

impl<'a> Search<'a> {
    fn of(model: &'a Model<'_>) -> Self {
        let needs = &model.needs;
        let mut needed_by = vec![Vec::new(); needs.len()];
        for (node, it) in needs.iter().enumerate() {
            for other in &it.of {
                if let Some(list) = needed_by.get_mut(*other) {
                    list.push(node);
                }
            }
        }
        let missing = |it: &Needs| if it.any { it.of.len().min(1) } else { it.of.len() };
        let missing: Vec<usize> = needs.iter().map(missing).collect();
        let free = missing.iter().enumerate().filter(|(_, count)| **count == 0);
        let free = free.map(|(node, _)| node).collect();
        let (next, step_of) = (vec![0; needs.len()], vec![None; needs.len()]);
        let mut search = Self { needs, needed_by, missing, next, step_of };
        search.goes_on(free);
        search
    }

    /// Those that need one of these may go on as well. Each of these is free already.
    fn goes_on(&mut self, mut free: Vec<usize>) {
        while let Some(node) = free.pop() {
            for other in self.needed_by.get(node).into_iter().flatten() {
                let Some(count) = self.missing.get_mut(*other).filter(|count| **count > 0) else {
                    continue;
                };
                *count -= 1;
                if *count == 0 {
                    free.push(*other);
                }
            }
        }
    }

    fn is_stuck(&self, node: usize) -> bool {
        self.missing.get(node).is_some_and(|count| *count > 0)
    }

    /// A need of one that is stuck which is stuck as well.
    fn stuck_need(&mut self, node: usize) -> Option<usize> {
        let (needs, mut next) = (self.needs.get(node)?, *self.next.get(node)?);
        let found = loop {
            match needs.of.get(next) {
                Some(need) if !self.is_stuck(*need) => next += 1,
                found => break found.copied(),
            }
        };
        *self.next.get_mut(node)? = next;
        found
    }

    fn set_step(&mut self, node: usize, step: Option<usize>) {
        if let Some(place) = self.step_of.get_mut(node) {
            *place = step;
        }
    }

    /// Follows what is stuck until it comes back to where it was. Each cycle that is found is then
    /// taken for resolved, so that the next one is another.
    fn cycles_from(&mut self, start: usize) -> Vec<Vec<usize>> {
        let (mut cycles, mut way) = (Vec::new(), vec![start]);
        self.set_step(start, Some(0));
        while let Some(node) = way.last().copied() {
            let need = if self.is_stuck(node) { self.stuck_need(node) } else { None };
            let Some(need) = need else {
                way.pop();
                self.set_step(node, None);
                continue;
            };
            let Some(step) = self.step_of.get(need).copied().flatten() else {
                self.set_step(need, Some(way.len()));
                way.push(need);
                continue;
            };
            let cycle = way.split_off(step);
            for node in &cycle {
                self.set_step(*node, None);
                if let Some(count) = self.missing.get_mut(*node) {
                    *count = 0;
                }
            }
            self.goes_on(cycle.clone());
            cycles.push(cycle);
        }
        cycles
    }
}

/// The sessions of a cycle of places, which begins with one that holds. Places that wait behind each
/// other in one queue are left out unless the cycle needs them.
fn turns<'a>(spots: &[Spot<'a>]) -> Vec<Turn<'a>> {
    let (mut turns, mut held, mut at) = (Vec::new(), None, 0);
    let spot = |index: usize| spots.get(index % spots.len().max(1)).copied();
    while let Some(awaited) = spots.get(at).copied() {
        if awaited.member.holds {
            held = Some(awaited);
            at += 1;
            continue;
        }
        turns.push(Turn { held: held.take(), awaited });
        let rest = spots.iter().skip(at + 1).take_while(|spot| !spot.member.holds).count();
        // The last of these holds.
        let behind = at + 1..=at + 1 + rest;
        let is_enough = |index: &usize| {
            spot(*index).is_some_and(|it| it.lock.has_to_go_first(it.member, awaited.member))
        };
        at = behind.rev().find(is_enough).unwrap_or(at + 1);
    }
    turns
}

#[cfg(test)]
mod tests;
