//! What must hold in every run, whatever was done to the servers: one file for each promise. The names
//! are those of `ARCHITECTURE.md` (P1 to P12), and for locks K1 to K8:
//!
//! | | promise |
//! |---|---|
//! | K1 | a guarded resource never accepts a token below one that it has seen |
//! | K2 | the tokens of a lock rise with its grants |
//! | K3 | in the log a lock has one holder at a time, or as many as its kind allows |
//! | K4 | a waiter whose turn has come is granted the lock soon |
//! | K5 | nothing is left behind |
//! | K6 | a loss is reported before the lock is granted to another client |
//! | K7 | the grants of a fair lock come in the order of its queue |
//! | K8 | readers and semaphores keep the rules of their kinds: as K3 and K7; so do the recipes that are not locks |

mod alone;
mod answers;
mod bounded;
mod complaints;
mod convergence;
mod durability;
mod levels;
mod linearizable;
mod locks;
mod losses;
mod once;
mod reads;
mod recipes;
mod reconfigs;
mod replies;
mod report;
mod run;
mod same_log;
mod sessions;
#[cfg(test)]
mod tests;
mod walks;
mod watches;
mod zxids;

pub use report::{Counts, Options, Report, Violation};
pub use run::{Answer, Arrival, Call, Granted, Link, Notice, Run, is_write};

use crate::history::History;
use crate::model::Model;

/// The most violations that one check reports: the first ones say what is wrong.
const VIOLATIONS_MAX: usize = 20;

type Check = fn(&Run<'_>, &mut Counts) -> Vec<Violation>;

const CHECKS: [Check; 20] = [
    same_log::check,
    levels::check,
    complaints::check,
    zxids::check,
    replies::check,
    answers::check,
    reconfigs::check,
    once::check,
    durability::check,
    losses::check,
    reads::check,
    linearizable::check,
    alone::check,
    watches::check,
    sessions::check,
    locks::check,
    recipes::check,
    convergence::check,
    walks::check,
    bounded::check,
];

/// Runs every check.
pub fn all(history: &History, options: &Options) -> Report {
    let model = Model::of(history);
    let run = Run::of(history, &model, options);
    let mut report = Report::default();
    for check in CHECKS {
        let mut found = check(&run, &mut report.counts);
        found.sort_by_key(|violation| violation.at);
        let more = found.len().saturating_sub(VIOLATIONS_MAX);
        found.truncate(VIOLATIONS_MAX);
        if more > 0
            && let Some(last) = found.last_mut()
        {
            last.what = format!("{} (and {more} more)", last.what);
        }
        report.violations.extend(found);
    }
    report.violations.sort_by_key(|violation| violation.at);
    report
}
