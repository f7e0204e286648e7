//! K1: what is written under a lock by a transaction commits only while the lock's znode is there.

use zoolet_jute::{MultiOp, Request, Zxid};
use zoolet_replica::Op;

use super::K1;
use super::queue::Queues;
use crate::checks::{Counts, Run, Violation};
use crate::load::GUARDED;
use crate::model::{ChangeKind, Transaction, path};

/// Looks at all such writes that the log has.
pub(super) fn check(
    run: &Run<'_>,
    queues: &Queues,
    counts: &mut Counts,
    found: &mut Vec<Violation>,
) {
    for one in &run.model.transactions {
        let is_done = one
            .outcome
            .changes
            .iter()
            .any(|change| change.kind == ChangeKind::DataChanged && change.path == GUARDED);
        let Some((token, znode)) = writer(one).filter(|_| is_done) else { continue };
        counts.guarded_in_log += 1;
        let queue = path::parent(&znode).and_then(|directory| queues.get(directory));
        let place = queue.and_then(|queue| queue.find(&znode, token, one.command.session));
        let is_there = |deleted: Option<Zxid>| deleted.is_none_or(|deleted| deleted > one.zxid);
        if !place.is_some_and(|place| place.created < one.zxid && is_there(place.deleted)) {
            let what = format!(
                "session {} has written under {znode}, token {:#x}, with {}, and that znode is not there",
                one.command.session, token.0, one.zxid
            );
            found.push(Violation { promise: K1, at: one.first_at, what });
        }
    }
}

/// The token and the lock's znode of who writes.
fn writer(one: &Transaction) -> Option<(Zxid, String)> {
    let Op::Write(Request::Multi(parts)) = &one.command.op else { return None };
    let data = parts.0.iter().find_map(|part| {
        let MultiOp::SetData(body) = part else { return None };
        body.data.as_ref().filter(|_| body.path == GUARDED)
    })?;
    let text = std::str::from_utf8(data).ok()?;
    let (token, znode) = text.split_once(' ')?;
    Some((Zxid(token.parse().ok()?), znode.to_owned()))
}
