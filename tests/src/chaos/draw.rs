//! The plan of a run's faults, and how its servers are set up: drawn from the seed.

use std::time::Duration;

use zoolet_sim::Chance;
use zoolet_sim::load::SUPER_DIGEST;

use super::fault::{Fault, Link, Planned, Whom, links_of};
use super::{Kind, Options};
use crate::faults::netns::OUTSIDE;

/// The lines of every server's `zoo.cfg` that are not about the members.
pub(super) fn settings(seed: u64) -> String {
    let mut chance = Chance::of(seed, "chaos settings");
    let mut one_of = |all: &[u64]| chance.one_of(all).copied().unwrap_or_default();
    let tick_ms = one_of(&[500, 1000]);
    let (commands, retain) = (one_of(&[50, 200, 1000, 100_000]), one_of(&[3, 5]));
    let segment_kib = one_of(&[64, 256, 1024]);
    format!(
        "tickTime={tick_ms}\ninitLimit=20\nsyncLimit=4\nminSessionTimeout=1000\n\
         maxSessionTimeout=20000\nmaxClientCnxns=0\n4lw.commands.whitelist=*\n\
         preAllocSize={segment_kib}\nsnapCount={commands}\nsnapLogPercent=0\n\
         autopurge.snapRetainCount={retain}\nreconfigEnabled=true\nextendedTypesEnabled=true\n\
         znode.container.checkIntervalMs=2000\n\
         DigestAuthenticationProvider.superDigest={SUPER_DIGEST}\n"
    )
}

/// How many servers a run has.
pub(super) fn servers(options: &Options) -> u8 {
    let mut chance = Chance::of(options.seed, "chaos servers");
    let drawn = if chance.permille(700) { 3 } else { 5 };
    options.servers.unwrap_or(drawn)
}

/// The faults of a run.
pub(super) fn plan(options: &Options, clients: u32) -> Vec<Planned> {
    let chance = Chance::of(options.seed, "chaos faults");
    let servers = usize::from(servers(options));
    // What was acknowledged may be on a majority alone.
    let wipes_left = servers.saturating_sub(1) / 2;
    let mut drawer = Drawer { chance, servers, clients, wipes_left };
    let mut plan = Vec::new();
    for kind in kinds(options) {
        let gap_ms = drawer.chance.between(1000, 8000);
        let mut at = Duration::from_millis(drawer.chance.between(0, gap_ms));
        while at < options.faults {
            let span = drawer.span(kind).min(options.faults.saturating_sub(at));
            if let Some(fault) = drawer.fault(kind) {
                plan.push(Planned { at, span, fault });
            }
            at += Duration::from_millis(drawer.chance.between(gap_ms / 2, gap_ms * 3 / 2));
        }
    }
    plan.sort_by_key(|planned| planned.at);
    plan
}

/// The kinds of a run: two to five, which overlap.
pub(super) fn kinds(options: &Options) -> Vec<Kind> {
    if let Some(kinds) = &options.kinds {
        return kinds.clone();
    }
    let mut chance = Chance::of(options.seed, "chaos kinds");
    let wanted = chance.between(2, 5);
    let mut left = Kind::ALL.to_vec();
    let mut drawn = Vec::new();
    for _ in 0..wanted {
        let Some(kind) = chance.one_of(&left).copied() else { break };
        left.retain(|other| *other != kind);
        drawn.push(kind);
    }
    drawn
}

struct Drawer {
    chance: Chance,
    servers: usize,
    clients: u32,
    wipes_left: usize,
}

impl Drawer {
    fn place(&mut self) -> usize {
        let last = u64::try_from(self.servers.saturating_sub(1)).unwrap_or(0);
        usize::try_from(self.chance.between(0, last)).unwrap_or(0)
    }

    fn whom(&mut self) -> Whom {
        if self.chance.permille(500) { Whom::Leader } else { Whom::Server(self.place()) }
    }

    /// One direction of a link or both.
    fn directions(&mut self) -> (bool, bool) {
        match self.chance.between(0, 3) {
            0 => (true, false),
            1 => (false, true),
            _ => (true, true),
        }
    }

    fn span(&mut self, kind: Kind) -> Duration {
        let (min, max) = match kind {
            Kind::Kill | Kind::KillAll | Kind::Restart | Kind::KillClient => (0, 4000),
            Kind::Wipe => (0, 2000),
            Kind::Stop => (50, 10_000),
            Kind::Cut | Kind::CutLeader | Kind::CutClients | Kind::Full => (50, 8000),
            Kind::SlowDisk | Kind::Loss | Kind::Delay => (500, 10_000),
            Kind::ClockJump | Kind::ClockRate => (1000, 15_000),
        };
        Duration::from_millis(self.chance.between(min, max))
    }

    fn fault(&mut self, kind: Kind) -> Option<Fault> {
        Some(match kind {
            Kind::Kill => Fault::Kill { server: self.whom() },
            Kind::KillAll => Fault::KillAll,
            Kind::Restart => Fault::Restart { server: self.whom() },
            Kind::Stop => Fault::Stop { server: self.whom() },
            Kind::Cut => self.cut(),
            Kind::CutLeader => {
                let (out, into) = self.directions();
                Fault::CutLeader { out, into }
            }
            Kind::CutClients => {
                let (out, into) = self.directions();
                Fault::CutClients { server: self.place(), out, into }
            }
            Kind::Wipe => {
                self.wipes_left = self.wipes_left.checked_sub(1)?;
                Fault::Wipe { server: self.place() }
            }
            Kind::KillClient => {
                let last = u64::from(self.clients.saturating_sub(1));
                let client = u32::try_from(self.chance.between(0, last)).unwrap_or(0);
                Fault::KillClient { client }
            }
            Kind::SlowDisk => {
                let each = Duration::from_millis(self.chance.between(5, 400));
                Fault::SlowDisk { server: self.whom(), each }
            }
            Kind::Full => Fault::Full { server: self.place() },
            Kind::ClockJump => self.clock_jump(),
            Kind::ClockRate => {
                // Within a tenth, which the documentation bears.
                let by = i64::try_from(self.chance.between(10_000, 90_000)).unwrap_or(0);
                let ppm = if self.chance.permille(500) { by } else { -by };
                Fault::ClockRate { server: self.place(), ppm }
            }
            Kind::Loss => {
                let (one, all): (usize, Vec<usize>) = (self.place(), (0..self.servers).collect());
                let mut others = self.chance.some_of(&all);
                others.retain(|other| *other != one);
                others.push(OUTSIDE);
                let links = links_of(one, &others, self.directions());
                Fault::Loss { links, permille: self.chance.between(10, 400) }
            }
            Kind::Delay => {
                let min = self.chance.between(1000, 60_000);
                let us = (min, min * self.chance.between(1, 5));
                Fault::Delay { server: self.whom(), us }
            }
        })
    }

    fn clock_jump(&mut self) -> Fault {
        let most = match self.chance.between(0, 2) {
            0 => 5000,
            1 => 3_600_000,
            _ => 400 * 86_400_000,
        };
        let by = i64::try_from(self.chance.between(1, most)).unwrap_or(0);
        let by_ms = if self.chance.permille(500) { by } else { -by };
        Fault::ClockJump { server: self.place(), by_ms }
    }

    /// One of the shapes of a partition.
    fn cut(&mut self) -> Fault {
        let (one, all): (usize, Vec<usize>) = (self.place(), (0..self.servers).collect());
        let half = self.chance.some_of(&all);
        let next = (one + 1) % self.servers.max(1);
        let shape = *self
            .chance
            .one_of(&[
                "one alone",
                "halves",
                "all alone",
                "one receives nothing",
                "one sends nothing",
                "a pair",
                "bridge",
            ])
            .unwrap_or(&"all alone");
        let is_cut = |from: usize, to: usize| match shape {
            "one alone" => from == one || to == one,
            "halves" => half.contains(&from) != half.contains(&to),
            "one receives nothing" => to == one,
            "one sends nothing" => from == one,
            "a pair" => (from, to) == (one, next) || (to, from) == (one, next),
            // The two sides have one server in common.
            "bridge" => from != one && to != one && (from < one) != (to < one),
            _ => true,
        };
        let pairs = all.iter().flat_map(|from| all.iter().map(move |to| (*from, *to)));
        let links: Vec<Link> =
            pairs.filter(|(from, to)| from != to && is_cut(*from, *to)).collect();
        Fault::Cut { shape, links }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn options(seed: u64) -> Options {
        let faults = Duration::from_secs(20);
        Options { seed, servers: None, faults, kinds: None, keeps: false }
    }

    #[test]
    fn a_seed_gives_one_plan_and_seeds_give_every_kind() {
        let mut kinds = BTreeSet::new();
        for seed in 0..200 {
            let options = options(seed);
            let drawn = plan(&options, 8);
            assert_eq!(drawn, plan(&options, 8));
            assert!(drawn.iter().all(|planned| planned.at + planned.span <= options.faults));
            let wipes = drawn.iter().filter(|planned| planned.fault.kind() == Kind::Wipe).count();
            assert!(wipes <= usize::from(servers(&options)) / 2, "{drawn:?}");
            kinds.extend(drawn.iter().map(|planned| planned.fault.kind()));
        }
        assert_eq!(kinds.len(), Kind::ALL.len(), "{kinds:?}");
    }
}
