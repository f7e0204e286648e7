//! When all is quiet, a cache shows what the tree has.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use zoolet_jute::Zxid;

use super::Noted;
use crate::SimTime;
use crate::checks::{Counts, Run, Violation};
use crate::history::RecipeStep;

const K8: &str = "K8 cache";

/// For how long a change may be unknown to a cache when no fault is under way.
pub(super) const FOLLOWS_WITHIN: Duration = Duration::from_secs(5);

/// Compares what caches show with the tree.
pub(super) fn check(
    run: &Run<'_>,
    path: &str,
    steps: &[Noted<'_>],
    counts: &mut Counts,
    found: &mut Vec<Violation>,
) {
    for noted in steps {
        if let RecipeStep::Shows { znodes } = noted.step
            && run.history.healed_at + FOLLOWS_WITHIN <= noted.at
        {
            let wrong = compare(run, path, (noted.at, znodes), counts);
            if !wrong.is_empty() {
                let client = noted.client.0;
                let what = format!("the cache of client {client} at {path} differs: {wrong:?}");
                found.push(Violation { promise: K8, at: noted.at, what });
            }
        }
    }
}

/// The paths that a cache shows in another way than the tree has them. What has changed a moment
/// before may be on its way.
fn compare(
    run: &Run<'_>,
    path: &str,
    (at, shown): (SimTime, &BTreeMap<String, (Zxid, Bytes)>),
    counts: &mut Counts,
) -> Vec<String> {
    let transactions = &run.model.transactions;
    let behind = transactions.iter().filter(|one| at < one.first_at + FOLLOWS_WITHIN);
    let fresh: BTreeSet<&str> =
        behind.flat_map(|one| &one.outcome.changes).map(|change| change.path.as_str()).collect();
    let known = transactions.iter().filter(|one| one.first_at <= at);
    let zxid = known.map(|one| one.zxid).max().unwrap_or_default();
    let mut replay = run.model.replay();
    let tree = &replay.to(zxid).tree;
    let root = tree.get(path).map(|znode| (path, znode));
    let there: BTreeMap<&str, (Zxid, Bytes)> = root
        .into_iter()
        .chain(tree.below(path))
        .map(|(path, znode)| (path, (znode.mzxid, znode.data.clone().unwrap_or_default())))
        .collect();
    let all: BTreeSet<&str> =
        there.keys().copied().chain(shown.keys().map(String::as_str)).collect();
    let mut wrong = Vec::new();
    for one in all.difference(&fresh) {
        counts.cached += 1;
        let (has, shows) = (there.get(one), shown.get(*one));
        if has != shows {
            wrong.push(format!("{one} is {has:?}, and it shows {shows:?}"));
        }
    }
    wrong
}
