//! One connection's events: those that must come, and those that have come.

use std::collections::VecDeque;

use zoolet_jute::{Acl, EventType, Id, KeeperState, Zxid, perms};

use crate::checks::{Counts, Notice};
use crate::model::Who;

/// An event that is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) zxid: Zxid,
    pub(super) event_type: EventType,
    pub(super) path: String,
    /// Whether it may be withheld: the right to read is not known.
    pub(super) is_optional: bool,
    /// Whether it may come in any order with the others of its transaction: the ephemeral znodes of an
    /// ended session go in none (protocol §7.7).
    pub(super) has_no_order: bool,
}

impl Expected {
    fn is(&self, notice: &Notice<'_>) -> bool {
        self.zxid == notice.zxid
            && self.event_type == notice.event.event_type
            && self.path == notice.event.path
            && notice.event.state == KeeperState::SyncConnected
    }

    fn describe(&self) -> String {
        format!("{:?} of {} by {}", self.event_type, self.path, self.zxid)
    }
}

fn describe(notice: &Notice<'_>) -> String {
    let event = notice.event;
    let is_usual = event.state == KeeperState::SyncConnected;
    let state = if is_usual { String::new() } else { format!(" in state {:?}", event.state) };
    format!("{:?} of {} by {}{state}, at {}", event.event_type, event.path, notice.zxid, notice.at)
}

/// A connection.
#[derive(Debug, Default)]
pub(super) struct Watcher<'a> {
    /// Whom it has proved to be for certain.
    pub(super) who: Who,
    /// What it may have proved beyond that, in order: the replies to auth requests are on their way.
    pub(super) maybe: VecDeque<Vec<Id>>,
    /// What has come, in order, and is not accounted for.
    pub(super) received: VecDeque<Notice<'a>>,
    /// What must come.
    pub(super) expected: VecDeque<Expected>,
    /// It has lost events to a jump of its server's state, and must not be served any more.
    pub(super) must_end: Option<Zxid>,
    pub(super) is_given_up: bool,
}

impl<'a> Watcher<'a> {
    /// Whether it may be notified, as its server sees it; `None` if that is not known.
    pub(super) fn may_read(&self, acl: &[Acl]) -> Option<bool> {
        let mut who = self.who.clone();
        let now = who.may(acl, perms::READ);
        for more in &self.maybe {
            who.ids.extend(more.iter().cloned());
            if who.may(acl, perms::READ) != now {
                return None;
            }
        }
        now
    }

    /// An event is on its way, unless the connection may not read the znode.
    pub(super) fn expect(
        &mut self,
        zxid: Zxid,
        (event_type, path): (EventType, &str),
        may_read: Option<bool>,
        has_no_order: bool,
    ) {
        if may_read != Some(false) {
            let (path, is_optional) = (path.to_owned(), may_read.is_none());
            let expected = Expected { zxid, event_type, path, is_optional, has_no_order };
            self.expected.push_back(expected);
        }
    }

    /// A reply with `zxid` has come, and `received` events before it: all events up to there must
    /// have come.
    pub(super) fn settle(
        &mut self,
        zxid: Zxid,
        arrived: impl IntoIterator<Item = Notice<'a>>,
        counts: &mut Counts,
    ) -> Result<(), String> {
        self.received.extend(arrived);
        while let Some(expected) = self.expected.pop_front() {
            if self.take(&expected, counts) {
                continue;
            }
            let next = self
                .received
                .front()
                .map(|notice| format!("; the next one is {}", describe(notice)));
            return Err(format!(
                "{} has not come{}",
                expected.describe(),
                next.unwrap_or_default()
            ));
        }
        // A long command's events can precede a reply that shows the state before it.
        match self.received.iter().find(|notice| notice.zxid <= zxid) {
            Some(notice) => Err(format!("{} came, and no watch has fired it", describe(notice))),
            None => Ok(()),
        }
    }

    /// The connection has ended: what had not come by then may be lost.
    pub(super) fn end(
        &mut self,
        arrived: impl IntoIterator<Item = Notice<'a>>,
        counts: &mut Counts,
    ) -> Result<(), String> {
        self.received.extend(arrived);
        while !self.received.is_empty()
            && let Some(expected) = self.expected.pop_front()
        {
            if !self.take(&expected, counts) {
                let next = self.received.front().map(describe).unwrap_or_default();
                return Err(format!("{} has not come before {next}", expected.describe()));
            }
        }
        counts.events_unchecked += u64::try_from(self.expected.len()).unwrap_or(0);
        match self.received.front() {
            Some(notice) => Err(format!("{} came, and no watch has fired it", describe(notice))),
            None => Ok(()),
        }
    }

    fn take(&mut self, expected: &Expected, counts: &mut Counts) -> bool {
        let of_transaction = self.received.iter().take_while(|notice| notice.zxid == expected.zxid);
        let looked_at = if expected.has_no_order { usize::MAX } else { 1 };
        let place = of_transaction.take(looked_at).position(|notice| expected.is(notice));
        if let Some(place) = place {
            self.received.remove(place);
            counts.events += 1;
            true
        } else {
            counts.events_unchecked += u64::from(expected.is_optional);
            expected.is_optional
        }
    }
}
