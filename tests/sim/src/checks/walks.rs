//! Behind the last fault every server of the ensemble serves again: a client can walk over the whole
//! tree through it, and write.

use std::collections::BTreeSet;

use zoolet_replica::ServerId;

use super::{Counts, Run, Violation};

/// Looks at the walks.
pub(super) fn check(run: &Run<'_>, counts: &mut Counts) -> Vec<Violation> {
    let mut found = Vec::new();
    let members = members(run);
    for (server, walk) in &run.history.walks {
        let due = walk.begun_at + run.options.walks_within;
        if let Some((at, znodes)) = walk.done
            && at <= due
        {
            counts.walks += 1;
            counts.znodes_walked += znodes;
            continue;
        }
        let is_member = members.is_empty() || members.contains(server);
        if is_member && due <= run.history.ended_at {
            let what = format!(
                "no client has walked over the tree and written through server {server} within {} ms",
                run.options.walks_within.as_millis()
            );
            found.push(Violation { promise: "serves again", at: due, what });
        }
    }
    found
}

/// The servers of the last configuration; none if there is none.
fn members(run: &Run<'_>) -> BTreeSet<ServerId> {
    let config = run.model.last.tree.get("/zookeeper/config");
    let data = config.and_then(|znode| znode.data.clone()).unwrap_or_default();
    let text = String::from_utf8_lossy(&data).into_owned();
    let number = |line: &str| line.strip_prefix("server.")?.split_once('=')?.0.parse().ok();
    text.lines().filter_map(number).map(ServerId).collect()
}
