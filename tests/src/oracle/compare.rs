//! What it means for two servers to have done the same.

use std::collections::BTreeMap;

use zoolet_jute::{MultiResult, Parts, Reply, SessionId, Stat, Zxid};

use super::differences;
use super::generate::Step;
use super::side::Outcome;
use crate::raw::Incoming;

/// How two outcomes compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// They are the same.
    Same,
    /// They differ in a way that is meant.
    MeantDifference,
}

/// Which zxid and session of the subject stand for which of the reference.
#[derive(Debug, Default)]
pub(super) struct Mapping {
    zxids: BTreeMap<Zxid, Zxid>,
    sessions: BTreeMap<SessionId, SessionId>,
    /// The znodes of catch-up events that only the reference has sent.
    withheld: Vec<String>,
}

impl Mapping {
    /// Notes which sessions belong together.
    pub(super) fn sessions(&mut self, reference: &[SessionId], subject: &[SessionId]) {
        for (left, right) in reference.iter().zip(subject) {
            self.sessions.insert(*left, *right);
        }
    }

    /// Compares all that one step brought about.
    pub(super) fn agree(
        &mut self,
        step: &Step,
        left: &Outcome,
        right: &Outcome,
    ) -> Result<Verdict, String> {
        let verdict = if differences::is_meant(step, &left.reply, &right.reply) {
            Verdict::MeantDifference
        } else {
            self.agree_on_reply(&left.reply, &right.reply)?;
            Verdict::Same
        };
        if left.closed != right.closed {
            return Err(format!("closed: {} and {}", left.closed, right.closed));
        }
        for (session, (left, right)) in left.events.iter().zip(&right.events).enumerate() {
            self.agree_on_events(step, left, right)
                .map_err(|why| format!("events of session {session}: {why}"))?;
        }
        Ok(verdict)
    }

    /// The znodes whose catch-up events the subject has withheld in the last step: the caller must
    /// see that the session may not read them (see [`differences::WITHHELD`]).
    pub(super) fn take_withheld(&mut self) -> Vec<String> {
        std::mem::take(&mut self.withheld)
    }

    fn agree_on_reply(&mut self, left: &Incoming, right: &Incoming) -> Result<(), String> {
        match (left, right) {
            (Incoming::Closed, Incoming::Closed) => Ok(()),
            (Incoming::Reply(left, left_body), Incoming::Reply(right, right_body)) => {
                if left.xid != right.xid {
                    return Err(format!("xid {} and {}", left.xid, right.xid));
                }
                if left.err != right.err {
                    return Err(format!("error {:?} and {:?}", left.err, right.err));
                }
                // Zero and minus one have a meaning; other zxids of headers depend on how many
                // transactions a server made of what failed.
                if (left.zxid.0 <= 0 || right.zxid.0 <= 0) && left.zxid != right.zxid {
                    return Err(format!("header zxid {} and {}", left.zxid, right.zxid));
                }
                match (left_body, right_body) {
                    (None, None) => Ok(()),
                    (Some(left), Some(right)) => self.agree_on_body(left, right),
                    (Some(_), None) | (None, Some(_)) => Err("one body is missing".to_owned()),
                }
            }
            _ => Err("one replied, the other closed".to_owned()),
        }
    }

    fn agree_on_body(&mut self, left: &Reply, right: &Reply) -> Result<(), String> {
        let (left_stats, right_stats) = (stats(left), stats(right));
        if left_stats.len() != right_stats.len() {
            return Err("another number of Stats".to_owned());
        }
        for (left, right) in left_stats.iter().zip(&right_stats) {
            self.agree_on_stat(left, right)?;
        }
        let (left, right) = (without_stats(left), without_stats(right));
        if left == right { Ok(()) } else { Err(format!("{left:?} and {right:?}")) }
    }

    fn agree_on_stat(&mut self, left: &Stat, right: &Stat) -> Result<(), String> {
        for (field, left, right) in [
            ("czxid", left.czxid, right.czxid),
            ("mzxid", left.mzxid, right.mzxid),
            ("pzxid", left.pzxid, right.pzxid),
        ] {
            self.agree_on_zxid(left, right).map_err(|why| format!("{field}: {why}"))?;
        }
        let owner = match left.ephemeral_owner {
            SessionId::NONE => SessionId::NONE,
            owner => self.sessions.get(&owner).copied().unwrap_or(owner),
        };
        let mapped = Stat {
            czxid: right.czxid,
            mzxid: right.mzxid,
            pzxid: right.pzxid,
            ctime: right.ctime,
            mtime: right.mtime,
            ephemeral_owner: owner,
            ..*left
        };
        if mapped == *right { Ok(()) } else { Err(format!("{mapped:?} and {right:?}")) }
    }

    /// The mapping keeps the order and holds once it was met.
    fn agree_on_zxid(&mut self, left: Zxid, right: Zxid) -> Result<(), String> {
        if left.0 <= 0 || right.0 <= 0 {
            return if left == right { Ok(()) } else { Err(format!("{left} and {right}")) };
        }
        let before = self.zxids.range(..left).next_back();
        let after = self.zxids.range(left..).next();
        let fits = match after {
            Some((met, image)) if *met == left => *image == right,
            _ => {
                before.is_none_or(|(_, image)| *image < right)
                    && after.is_none_or(|(_, image)| right < *image)
            }
        };
        if !fits {
            return Err(format!("{left} and {right}, between {before:?} and {after:?}"));
        }
        self.zxids.insert(left, right);
        Ok(())
    }

    fn agree_on_events(
        &mut self,
        step: &Step,
        left: &[Incoming],
        right: &[Incoming],
    ) -> Result<(), String> {
        let (mut left, mut right) = (flatten(left), flatten(right));
        if step.deletes_in_any_order() {
            left.sort_by(|a, b| (&a.1, &a.2).cmp(&(&b.1, &b.2)));
            right.sort_by(|a, b| (&a.1, &a.2).cmp(&(&b.1, &b.2)));
        }
        if step.is_set_watches() {
            left.retain(|event| {
                let is_sent = event.0 != Zxid::NONE || right.contains(event);
                if !is_sent {
                    self.withheld.push(event.2.clone());
                }
                is_sent
            });
        }
        if left.len() != right.len() {
            return Err(format!("{left:?} and {right:?}"));
        }
        for (left, right) in left.iter().zip(&right) {
            if (&left.1, &left.2) != (&right.1, &right.2) {
                return Err(format!("{left:?} and {right:?}"));
            }
            self.agree_on_zxid(left.0, right.0)?;
        }
        Ok(())
    }
}

/// Java writes a supplementary character as two surrogates of three bytes each, which no reader of
/// UTF-8 accepts: six replacement characters (protocol §1.2). zoolet sends it back as it came.
fn as_java_sends_it(path: &str) -> String {
    let supplementary = |c: char| c > '\u{ffff}';
    path.replace(supplementary, "\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}")
}

fn flatten(events: &[Incoming]) -> Vec<(Zxid, i32, String)> {
    let mut flat = Vec::new();
    for event in events {
        if let Incoming::Event(zxid, event) = event {
            flat.push((*zxid, event.event_type as i32, as_java_sends_it(&event.path)));
        }
    }
    flat
}

/// Every Stat of a reply, in order.
pub(super) fn stats(reply: &Reply) -> Vec<Stat> {
    match reply {
        Reply::PathStat(_, stat)
        | Reply::Stat(stat)
        | Reply::Data(_, stat)
        | Reply::Acl(_, stat)
        | Reply::ChildrenStat(_, stat) => vec![*stat],
        Reply::Multi(Parts(results)) => results.iter().filter_map(result_stat).collect(),
        Reply::Empty
        | Reply::Path(_)
        | Reply::Sync(_)
        | Reply::Children(_)
        | Reply::Count(_)
        | Reply::AddWatch(_)
        | Reply::WhoAmI(_)
        | Reply::Sasl(_)
        | Reply::Event(_) => Vec::new(),
    }
}

fn result_stat(result: &MultiResult) -> Option<Stat> {
    match result {
        MultiResult::Create2 { stat, .. }
        | MultiResult::SetData(stat)
        | MultiResult::Data { stat, .. } => Some(*stat),
        MultiResult::Create { .. }
        | MultiResult::Delete
        | MultiResult::Check
        | MultiResult::Children(_)
        | MultiResult::Error(_) => None,
    }
}

/// The reply with its Stats blanked and what has no order sorted.
fn without_stats(reply: &Reply) -> Reply {
    let mut reply = reply.clone();
    match &mut reply {
        Reply::PathStat(_, stat) | Reply::Stat(stat) | Reply::Data(_, stat) => {
            *stat = Stat::default();
        }
        // Apache expands `auth` to a connection's identities in hash order.
        Reply::Acl(acl, stat) => {
            acl.sort();
            *stat = Stat::default();
        }
        Reply::ChildrenStat(children, stat) => {
            *stat = Stat::default();
            children.sort();
        }
        Reply::Children(children) => children.sort(),
        Reply::Sync(Some(path)) => *path = as_java_sends_it(path),
        Reply::WhoAmI(identities) => {
            identities.sort_by(|a, b| (&a.auth_scheme, &a.user).cmp(&(&b.auth_scheme, &b.user)));
        }
        Reply::Multi(Parts(results)) => {
            for result in results {
                match result {
                    MultiResult::Create2 { stat, .. }
                    | MultiResult::SetData(stat)
                    | MultiResult::Data { stat, .. } => *stat = Stat::default(),
                    MultiResult::Children(children) => children.sort(),
                    MultiResult::Create { .. }
                    | MultiResult::Delete
                    | MultiResult::Check
                    | MultiResult::Error(_) => {}
                }
            }
        }
        Reply::Empty
        | Reply::Path(_)
        | Reply::Sync(None)
        | Reply::Count(_)
        | Reply::AddWatch(_)
        | Reply::Sasl(_)
        | Reply::Event(_) => {}
    }
    reply
}
