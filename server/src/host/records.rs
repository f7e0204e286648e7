//! Who receives what has happened: the audit log, and the history.

use std::fmt::Debug;
use std::sync::Arc;

use zoolet_jute::Zxid;
use zoolet_replica::{AuditEvent, HistoryItem};

use super::Host;

/// Where the audit log's events go. All calls happen under the host's lock, so an implementation only
/// puts what it is given into a queue and returns.
pub(crate) trait Audit: Debug + Send + Sync + 'static {
    /// Takes an event, with the time on the wall clock in milliseconds since 1970.
    fn record(&self, wall_ms: i64, event: AuditEvent);
}

/// Where the history of what is applied goes. All calls happen under the host's lock, so an
/// implementation only puts what it is given into a queue and returns.
pub(crate) trait Historian: Debug + Send + Sync + 'static {
    /// Notes the state that the server has: what it will hand over comes behind it.
    fn began(&self, at: Zxid);

    /// Takes what was applied, in order.
    fn record(&self, items: &mut dyn Iterator<Item = HistoryItem>);

    /// Notes that some time has passed: what was recorded is to be seen, and what is too old by the
    /// wall clock, in milliseconds since 1970, is to go.
    fn tick(&self, wall_ms: i64);
}

impl Host {
    /// From now on the audit log's events go there.
    pub(crate) fn audit_to(&self, audit: Arc<dyn Audit>) {
        self.locked(|inner, _| inner.audit = Some(audit));
    }

    /// From now on what is applied goes there.
    pub(crate) fn history_to(&self, history: Arc<dyn Historian>) {
        self.locked(|inner, _| {
            history.began(inner.replica.state().last_zxid());
            inner.history = Some(history);
        });
    }
}
