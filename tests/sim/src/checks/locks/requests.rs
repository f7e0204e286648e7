//! K8: a holder who heeds requests for its lock gives it back soon when it is asked to.

use std::collections::BTreeMap;

use zoolet_jute::{Request, Zxid};
use zoolet_replica::Op;

use super::grants::Notes;
use crate::SimTime;
use crate::checks::{Counts, Run, Violation};

/// The mode of contenders who heed requests.
pub(super) const MODE: &str = "revocable";
/// What the znode of a holder has then (the form of Curator's `Revoker`).
const REQUEST: &[u8] = b"__REVOKE__";

/// Looks at the requests when all faults have ended, and what they have left is over.
pub(super) fn check(run: &Run<'_>, notes: &Notes, counts: &mut Counts, found: &mut Vec<Violation>) {
    let calm = run.history.healed_at + run.options.calm_after;
    let requests = requests(run, calm);
    for grant in notes.grants.iter().filter(|grant| grant.mode == MODE) {
        let Some((asked_at, zxid)) = requests.get(grant.znode.as_str()) else { continue };
        let due = grant.at.max(*asked_at) + run.options.grants_in_calm_within;
        if due > run.history.ended_at {
            continue;
        }
        counts.requests += 1;
        if grant.over().is_none_or(|over| over > due) {
            let what = format!("{}: it was asked for with {zxid} at {asked_at}", grant.describe());
            found.push(Violation { promise: "K8 requests", at: due, what });
        }
    }
}

/// The first request from some moment on, by the znode of the holder.
fn requests<'a>(run: &'a Run<'_>, from: SimTime) -> BTreeMap<&'a str, (SimTime, Zxid)> {
    let mut requests = BTreeMap::new();
    for one in &run.model.transactions {
        if let Op::Write(Request::SetData(body)) = &one.command.op
            && body.data.as_deref() == Some(REQUEST)
            && one.outcome.result.is_ok()
            && one.first_at >= from
        {
            requests.entry(body.path.as_str()).or_insert((one.first_at, one.zxid));
        }
    }
    requests
}
