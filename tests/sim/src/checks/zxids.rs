//! P5 and P11: a client never goes back in time, over all the connections of its session.

use std::collections::BTreeMap;

use zoolet_jute::{SessionId, Zxid};

use super::{Counts, Run, Violation};
use crate::SimTime;
use crate::history::{Connection, What};

const P11: &str = "P11 no way back";

/// Looks at the zxids in the headers of replies.
pub(super) fn check(run: &Run<'_>, _: &mut Counts) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut seen: BTreeMap<SessionId, (Zxid, SimTime)> = BTreeMap::new();
    for record in &run.history.records {
        let What::Returned { call, zxid, .. } = &record.what else { continue };
        let Some(call) = run.calls.get(call).filter(|_| zxid.0 > 0) else { continue };
        let Some(granted) = run.links.get(&call.connection).and_then(|link| link.granted) else {
            continue;
        };
        let mut violated = |promise, why: String| {
            let what = format!("the reply with zxid {zxid} to {}: {why}", run.describe(call));
            found.push(Violation { promise, at: record.at, what });
        };
        if !run.model.knows(*zxid) {
            violated("P5 zxids", "the log has no such zxid".to_owned());
        }
        if *zxid < granted.last_seen {
            let why = format!("the client had seen {} before it connected", granted.last_seen);
            violated(P11, why);
        }
        let (newest, at) = seen.get(&granted.session).copied().unwrap_or_default();
        if *zxid < newest {
            violated(P11, format!("the session had a reply with {newest} at {at}"));
        }
        if *zxid >= newest {
            seen.insert(granted.session, (*zxid, record.at));
        }
        if let Some(attach) = run.links.get(&call.connection).and_then(|link| run.attach(link))
            && *zxid < attach.zxid
        {
            let why = format!("the connection got its session with {}", attach.zxid);
            violated(P11, why);
        }
    }
    attachments(run, &mut found);
    found
}

/// A session that a client was granted was begun or resumed by the log.
fn attachments(run: &Run<'_>, found: &mut Vec<Violation>) {
    let mut known = BTreeMap::new();
    for (Connection(number), link) in &run.links {
        let Some(granted) = link.granted else { continue };
        let why = match granted.attach.map(|attach| known.insert(attach, *number)) {
            None => "has applied no command that begins or resumes it".to_owned(),
            Some(None) => continue,
            Some(Some(other)) => format!("the same command has given it to connection {other}"),
        };
        let what = format!(
            "server {} has granted session {} on connection {number}, and {why}",
            granted.server, granted.session
        );
        found.push(Violation { promise: "P11 sessions", at: granted.at, what });
    }
}
