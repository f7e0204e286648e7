//! What a run has to say: to people, to machines, and as a picture.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use serde_json::json;

use crate::check::{Judged, Promise, Verdict, Violation, check};
use crate::recipe::Recipe;
use crate::run_history::{Claim, Mode, RunHistory};
use crate::settings::Settings;
use crate::svg;

/// How many violations the summary tells in full.
const VIOLATIONS_SHOWN_MAX: usize = 10;

/// Times of hand-offs: from the moment at which a holder begins to release to the moment at which
/// the next one, which waits, gets the grant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    sorted_us: Vec<u64>,
}

impl Times {
    /// From microseconds in any order.
    pub fn new(mut times_us: Vec<u64>) -> Self {
        times_us.sort_unstable();
        Self { sorted_us: times_us }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.sorted_us.len()
    }

    /// All of them, in microseconds, the shortest first.
    pub fn micros(&self) -> &[u64] {
        &self.sorted_us
    }

    /// The time that `per_mille` of a thousand do not exceed.
    pub fn per_mille(&self, share: usize) -> Duration {
        let last = self.sorted_us.len().saturating_sub(1);
        let us = self.sorted_us.get(last * share / 1000).copied().unwrap_or(0);
        Duration::from_micros(us)
    }

    /// How many there are below 1 ms, 2 ms, 4 ms and so on.
    pub fn histogram(&self) -> BTreeMap<u64, usize> {
        let mut histogram = BTreeMap::new();
        for us in &self.sorted_us {
            let bound_ms = (us / 1000 + 1).next_power_of_two();
            *histogram.entry(bound_ms).or_default() += 1;
        }
        histogram
    }

    /// The count, the median, the 99th percentile, the longest, and the histogram.
    pub fn json(&self) -> serde_json::Value {
        let histogram: BTreeMap<String, usize> = self
            .histogram()
            .into_iter()
            .map(|(bound_ms, count)| (format!("below_{bound_ms}_ms"), count))
            .collect();
        json!({
            "count": self.count(),
            "p50_us": micros(self.per_mille(500)),
            "p99_us": micros(self.per_mille(990)),
            "max_us": micros(self.per_mille(1000)),
            "histogram": histogram,
        })
    }
}

/// What a run has shown.
#[derive(Clone, Debug)]
pub struct Report {
    /// What decided the schedule.
    pub seed: u64,
    /// How long the faults went on.
    pub duration: Duration,
    /// The session timeout that the servers granted.
    pub session_timeout: Duration,
    /// How many contended.
    pub contenders: usize,
    /// The faults that have struck, by kind.
    pub faults: BTreeMap<&'static str, usize>,
    /// Grants, by recipe.
    pub grants: BTreeMap<Recipe, usize>,
    /// What was done with recipes that are not locks, by recipe: items put, numbers added, barriers
    /// found open or passed, znodes written.
    pub others: BTreeMap<Recipe, usize>,
    /// Worker-offs after a release.
    pub handed_over: Times,
    /// Worker-offs after a holder was lost, from the end of its belief.
    pub taken_over: Times,
    /// What the checks found.
    pub verdict: Verdict,
    /// Events of the committed log.
    pub log_events: usize,
    svg: String,
}

impl Report {
    pub(crate) fn new(
        settings: &Settings,
        session_timeout: Duration,
        history: &RunHistory,
    ) -> Self {
        let locks = settings.recipes.iter().filter(|recipe| recipe.is_lock());
        let grants = locks.map(|recipe| (*recipe, history.grants(*recipe))).collect();
        let mut others = BTreeMap::new();
        for tally in &history.tallies {
            if let Some(lock) = history.lock(&tally.path) {
                *others.entry(lock.recipe).or_default() += tally.given.len();
            }
        }
        for (recipe, count) in [
            (Recipe::Barrier, history.openings.len()),
            (Recipe::DoubleBarrier, history.passages.len()),
        ] {
            if count > 0 {
                others.insert(recipe, count);
            }
        }
        let (handed_over, taken_over) = hand_offs(history);
        Self {
            seed: settings.seed,
            duration: settings.duration,
            session_timeout,
            contenders: settings.contenders,
            faults: history.struck.clone(),
            grants,
            others,
            handed_over,
            taken_over,
            verdict: check(history),
            log_events: history.log.len(),
            svg: svg::draw(history, |contender| format!("contender {contender}")),
        }
    }

    /// Whether every promise was kept.
    pub fn passed(&self) -> bool {
        self.verdict.violations.is_empty()
    }

    /// How many grants there were of all locks.
    pub fn grants_total(&self) -> usize {
        self.grants.values().sum()
    }

    /// The holders of one lock over time, as an SVG picture.
    pub fn svg(&self) -> &str {
        &self.svg
    }

    /// Everything but the picture, as a JSON object.
    pub fn json(&self) -> serde_json::Value {
        let counted = |counts: &BTreeMap<Recipe, usize>| {
            counts.iter().map(|(recipe, count)| (recipe.name().to_owned(), *count)).collect()
        };
        let (grants, others): (BTreeMap<String, usize>, BTreeMap<String, usize>) =
            (counted(&self.grants), counted(&self.others));
        let by_recipe: BTreeMap<&str, serde_json::Value> = self
            .verdict
            .by_recipe
            .iter()
            .map(|(recipe, judged)| {
                let Judged { verified, unverified, wakes, hand_overs } = judged;
                let judged = json!({
                    "grants_verified": verified,
                    "grants_unverified": unverified,
                    "wakes": wakes,
                    "hand_overs": hand_overs,
                });
                (recipe.name(), judged)
            })
            .collect();
        let violations: Vec<_> = self
            .verdict
            .violations
            .iter()
            .map(|violation| json!({"promise": violation.promise.name(), "what": violation.what}))
            .collect();
        json!({
            "seed": self.seed,
            "passed": self.passed(),
            "seconds": self.duration.as_secs_f64(),
            "contenders": self.contenders,
            "session_timeout_ms": micros(self.session_timeout) / 1000,
            "faults": self.faults,
            "grants": grants,
            "grants_total": self.grants_total(),
            "others": others,
            "handed_over": self.handed_over.json(),
            "taken_over": self.taken_over.json(),
            "stale_writes_refused": self.verdict.refused,
            "early_grants": self.verdict.early_grants,
            "wakes_judged": self.verdict.wakes,
            "hand_overs_judged": {
                "count": self.verdict.hand_overs,
                "max_us": micros(self.verdict.hand_over_max),
            },
            "log": {
                "events": self.log_events,
                "gaps": self.verdict.gaps,
                "grants_verified": self.verdict.verified,
                "grants_unverified": self.verdict.unverified,
            },
            "by_recipe": by_recipe,
            "violations": violations,
        })
    }
}

impl fmt::Display for Report {
    /// What a person wants to know.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = &self.verdict;
        writeln!(
            f,
            "seed {}: {:.0?} of faults, {} contenders, sessions of {:?}",
            self.seed, self.duration, self.contenders, self.session_timeout
        )?;
        let list = |counts: &mut dyn Iterator<Item = (String, usize)>| {
            counts.fold(String::new(), |mut text, (name, count)| {
                let comma = if text.is_empty() { "" } else { ", " };
                // Writing to a String cannot fail.
                let _ = write!(text, "{comma}{name} {count}");
                text
            })
        };
        let mut faults = self.faults.iter().map(|(name, count)| ((*name).to_owned(), *count));
        writeln!(f, "  faults      {}", list(&mut faults))?;
        let both = self.grants.iter().chain(&self.others);
        let mut grants = both.map(|(recipe, count)| (recipe.name().to_owned(), *count));
        writeln!(f, "  grants      {}: {}", self.grants_total(), list(&mut grants))?;
        for (name, times) in [("handed over", &self.handed_over), ("taken over ", &self.taken_over)]
        {
            writeln!(
                f,
                "  {name} {} times: median {:.1?}, 99 % within {:.1?}, all within {:.1?}",
                times.count(),
                times.per_mille(500),
                times.per_mille(990),
                times.per_mille(1000)
            )?;
        }
        writeln!(
            f,
            "  judged      {} wakes; {} hand-overs that nothing disturbed: all within {:.1?}",
            verdict.wakes, verdict.hand_overs, verdict.hand_over_max
        )?;
        let in_vain =
            if verdict.refused == 0 { ": this run proves nothing about fencing" } else { "" };
        writeln!(f, "  stale writes refused: {}{in_vain}", verdict.refused)?;
        writeln!(
            f,
            "  log         {} events, {} gaps; {} grants verified, {} open",
            self.log_events, verdict.gaps, verdict.verified, verdict.unverified
        )?;
        if verdict.early_grants > 0 {
            let early = verdict.early_grants;
            writeln!(
                f,
                "  {early} grants came before the loss was reported, while servers stood still"
            )?;
        }
        for violation in shown(&verdict.violations) {
            writeln!(f, "  BROKEN {violation}")?;
        }
        match verdict.violations.len() {
            0 => write!(f, "  every promise was kept"),
            count => write!(f, "  {count} violations; --seed {} makes the same plan", self.seed),
        }
    }
}

/// The violations that the summary shows: the first of each promise, then the second of each, so
/// that many of one promise do not hide another.
fn shown(violations: &[Violation]) -> Vec<&Violation> {
    let mut seen: BTreeMap<Promise, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, &Violation)> = Vec::new();
    for violation in violations {
        let rank = seen.entry(violation.promise).or_default();
        *rank += 1;
        ranked.push((*rank, violation));
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().take(VIOLATIONS_SHOWN_MAX).map(|(_, violation)| violation).collect()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// From one holder to the next, who waits already: after a release, and after a loss. Who drops a
/// guard waits for no reply, so it is unknown which of the two it is.
fn hand_offs(history: &RunHistory) -> (Times, Times) {
    let (mut released, mut lost) = (Vec::new(), Vec::new());
    for lock in history.locks.iter().filter(|lock| lock.recipe.permits() == 1) {
        let claims: Vec<&Claim> = history
            .claims_of(lock)
            .into_iter()
            .filter(|claim| claim.mode == Mode::Exclusive)
            .collect();
        for (former, next) in claims.iter().zip(claims.iter().skip(1)) {
            // A contender that queued behind the end of the former grant did not wait for it.
            let waited = next.token < next.seen && next.token > former.token;
            let early = next.granted_us < former.believed_until_us;
            if !waited || early || former.dropped {
                continue;
            }
            let took = next.granted_us - former.believed_until_us;
            if former.released { released.push(took) } else { lost.push(took) }
        }
    }
    (Times::new(released), Times::new(lost))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A semaphore with a permit too many broke both, and the summary showed one of them.
    #[test]
    fn every_broken_promise_is_shown() {
        let violation = |promise, number: usize| Violation { promise, what: number.to_string() };
        let many = (0..20).map(|number| violation(Promise::InTurn, number));
        let all: Vec<Violation> = many.chain([violation(Promise::OneHolder, 20)]).collect();
        let shown: Vec<Violation> = shown(&all).into_iter().cloned().collect();
        assert_eq!(shown.len(), VIOLATIONS_SHOWN_MAX);
        assert_eq!(shown[..3], [all[0].clone(), all[20].clone(), all[1].clone()]);
    }
}
