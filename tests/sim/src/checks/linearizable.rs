//! Writes are linearizable, and so are reads behind a sync (P12).
//!
//! Both are held against everything that any client had seen when the call was made: a zxid that one
//! client has seen was committed, so what is called later comes behind it.

use std::collections::BTreeMap;

use zoolet_jute::{Request, SessionId, Zxid};

use super::{Call, Counts, Run, Violation, is_write};
use crate::SimTime;
use crate::history::{CallNumber, What};

/// What had been seen, and when.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    zxid: Zxid,
    at: SimTime,
}

#[derive(Debug, Default)]
struct Order {
    /// By any client.
    seen: Seen,
    /// When each write or sync was called.
    floors: BTreeMap<CallNumber, Seen>,
    /// By any client, when a session called a sync that has come back.
    synced: BTreeMap<SessionId, Seen>,
    found: Vec<Violation>,
}

/// Goes through the records in the order of true time.
pub(super) fn check(run: &Run<'_>, counts: &mut Counts) -> Vec<Violation> {
    let mut order = Order::default();
    for record in &run.history.records {
        #[allow(clippy::wildcard_enum_match_arm, reason = "the others show no zxid")]
        match &record.what {
            What::Called { call, request, .. }
                if is_write(request) || matches!(request, Request::Sync(_)) =>
            {
                order.floors.insert(*call, order.seen);
            }
            What::Returned { call, zxid, .. } => {
                let Some(call) = run.calls.get(call).filter(|_| zxid.0 > 0) else { continue };
                order.returned(run, counts, call, (*zxid, record.at));
                order.saw(*zxid, record.at);
            }
            What::Notified { zxid, .. } => order.saw(*zxid, record.at),
            _ => {}
        }
    }
    order.writes(run);
    order.found
}

impl Order {
    fn saw(&mut self, zxid: Zxid, at: SimTime) {
        if zxid > self.seen.zxid {
            self.seen = Seen { zxid, at };
        }
    }

    fn returned(
        &mut self,
        run: &Run<'_>,
        counts: &mut Counts,
        call: &Call<'_>,
        (zxid, at): (Zxid, SimTime),
    ) {
        let session = run.links.get(&call.connection).and_then(|link| link.granted);
        let Some(session) = session.map(|granted| granted.session) else { return };
        if let (Request::Sync(_), Some(floor)) = (call.request, self.floors.get(&call.number)) {
            counts.syncs += 1;
            let synced = self.synced.entry(session).or_default();
            if floor.zxid > synced.zxid {
                *synced = *floor;
            }
        }
        let Some(synced) = self.synced.get(&session).filter(|synced| zxid < synced.zxid) else {
            return;
        };
        let what = format!(
            "the reply to {} has zxid {zxid}; the session's last sync was called when a client had \
             seen {} at {}",
            run.describe(call),
            synced.zxid,
            synced.at
        );
        self.found.push(Violation { promise: "P12 sync", at, what });
    }

    /// Each write is behind what had been seen when it was called, whether its reply came or not.
    fn writes(&mut self, run: &Run<'_>) {
        for call in run.calls.values() {
            let Some(floor) = self.floors.get(&call.number) else { continue };
            for one in run.transactions_of(call).filter(|one| one.zxid <= floor.zxid) {
                let what = format!(
                    "{} is in the log at {}, and a client had seen {} at {}, before the call",
                    run.describe(call),
                    one.zxid,
                    floor.zxid,
                    floor.at
                );
                self.found.push(Violation { promise: "linearizable writes", at: call.at, what });
            }
        }
    }
}
