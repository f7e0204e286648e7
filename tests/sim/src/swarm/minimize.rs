//! A run that fails made smaller: fewer faults, fewer clients, a shorter time, as long as it still
//! breaks the same promise.
//!
//! What is left out changes nothing of the rest: the plan is drawn in full, the clients keep their
//! numbers, and up to its end a shorter run is the longer one.

use std::io;

use crate::run::Options;

/// The shortest time by which a run is made shorter, in milliseconds.
const STEP_MS: u64 = 1000;

/// What there is to leave out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size {
    /// The numbers of the faults in the plan.
    pub faults: Vec<usize>,
    /// How many clients there are.
    pub clients: u8,
    /// When the first fault may begin, in simulated milliseconds.
    pub from_ms: u64,
    /// When all have ended.
    pub until_ms: u64,
}

/// Carries a run out, and returns the names of the promises that it breaks.
type RunOnce<'a> = &'a mut dyn FnMut(&Options) -> io::Result<Vec<String>>;

/// A search for a smaller run.
struct Search<'a> {
    /// The promise that it must break.
    promise: String,
    best: Options,
    run: RunOnce<'a>,
    say: &'a mut dyn FnMut(String),
}

/// Drops faults, clients and time while the run breaks the promise that it breaks first. `say` gets
/// what is left.
pub fn minimize(
    options: &Options,
    size: &Size,
    run: RunOnce<'_>,
    say: &mut dyn FnMut(String),
) -> io::Result<Option<Options>> {
    let Some(promise) = run(options)?.into_iter().next() else { return Ok(None) };
    say(format!("broken: {promise}"));
    let mut search = Search { promise, best: options.clone(), run, say };
    search.shorten(size)?;
    search.drop_faults(&size.faults)?;
    search.drop_clients(size.clients)?;
    search.shorten(size)?;
    Ok(Some(search.best))
}

impl Search<'_> {
    /// Whether a run breaks the same promise. Then it is the best one so far.
    fn still_breaks(&mut self, tried: Options, what: &str) -> io::Result<bool> {
        let breaks = (self.run)(&tried)?.contains(&self.promise);
        if breaks {
            (self.say)(format!("{what}: still broken"));
            self.best = tried;
        }
        Ok(breaks)
    }

    /// Ends all faults earlier: half of the time that is left, then a quarter, and so on.
    fn shorten(&mut self, size: &Size) -> io::Result<()> {
        let mut enough_ms = self.best.heal_at_ms.unwrap_or(size.until_ms).min(size.until_ms);
        let mut short_ms = size.from_ms;
        while enough_ms.saturating_sub(short_ms) > STEP_MS {
            let middle = short_ms.midpoint(enough_ms);
            let tried = Options { heal_at_ms: Some(middle), ..self.best.clone() };
            if self.still_breaks(tried, &format!("healed at {middle} ms"))? {
                enough_ms = middle;
            } else {
                short_ms = middle;
            }
        }
        Ok(())
    }

    /// Halves first, then quarters, down to one.
    fn drop_faults(&mut self, faults: &[usize]) -> io::Result<()> {
        let mut kept = faults.to_vec();
        let mut piece = kept.len().div_ceil(2);
        while piece > 0 {
            let mut at = 0;
            while at < kept.len() {
                let end = (at + piece).min(kept.len());
                let mut fewer = kept.clone();
                let dropped: Vec<usize> = fewer.drain(at..end).collect();
                let mut tried = self.best.clone();
                tried.without.extend(&dropped);
                tried.without.sort_unstable();
                let what = format!("without faults {dropped:?}, {} are left", fewer.len());
                if self.still_breaks(tried, &what)? {
                    kept = fewer;
                } else {
                    at = end;
                }
            }
            piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
        }
        Ok(())
    }

    fn drop_clients(&mut self, clients: u8) -> io::Result<()> {
        for client in 0..clients {
            if !self.best.idle.contains(&client) {
                let mut tried = self.best.clone();
                tried.idle.push(client);
                self.still_breaks(tried, &format!("without client {client}"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size() -> Size {
        Size { faults: (0..9).collect(), clients: 5, from_ms: 3000, until_ms: 48_000 }
    }

    #[test]
    fn what_the_promise_does_not_need_is_left_out() {
        // It takes faults 2 and 7, client 3 and 20 s; less than that breaks another promise.
        let mut run = |options: &Options| {
            let has = |fault| !options.without.contains(&fault);
            let is_long = options.heal_at_ms.is_none_or(|ms| ms >= 20_000);
            let breaks = has(2) && has(7) && !options.idle.contains(&3) && is_long;
            let names: &[&str] = if breaks { &["P9", "P10"] } else { &["P10"] };
            Ok(names.iter().map(|name| (*name).to_owned()).collect())
        };
        let smaller = minimize(&Options::default(), &size(), &mut run, &mut |_| {});
        let smaller = smaller.unwrap().unwrap();
        assert_eq!(smaller.without, [0, 1, 3, 4, 5, 6, 8]);
        assert_eq!(smaller.idle, [0, 1, 2, 4]);
        let heal_at_ms = smaller.heal_at_ms.unwrap();
        assert!((20_000..21_000).contains(&heal_at_ms), "{heal_at_ms}");
    }

    #[test]
    fn a_run_that_breaks_nothing_is_not_made_smaller() {
        let mut run = |_: &Options| Ok(Vec::new());
        let smaller = minimize(&Options::default(), &size(), &mut run, &mut |_| {});
        assert_eq!(smaller.unwrap(), None);
    }
}
