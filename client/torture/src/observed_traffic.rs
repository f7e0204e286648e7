//! What a contender has created, and the deletions that it waited for and was notified of, as its
//! proxy sees them.
//!
//! A contender that gives up leaves its watch at the server until it asks for its removal. An event
//! of such a watch wakes no waiter, whether it comes before that request or behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use zoolet_jute::{
    Decode, EventType, MultiOp, MultiResult, OpCode, Parts, Reply, ReplyHeader, Request,
    RequestHeader, WatcherEvent, WatcherType,
};

/// A contender's creates, and both sides of its watches.
#[derive(Debug, Default)]
pub(crate) struct ObservedTraffic {
    made: BTreeSet<String>,
    deleted: BTreeSet<String>,
    /// How often a znode was written or created by a transaction that was carried out.
    commits: BTreeMap<String, usize>,
    /// Whose watches the contender has had removed.
    renounced: BTreeSet<String>,
}

impl ObservedTraffic {
    /// Notes a request: the bytes behind a frame's length.
    pub(crate) fn request(&mut self, mut body: Bytes) {
        let Ok(header) = RequestHeader::decode(&mut body, "header") else { return };
        let Some(
            op @ (OpCode::Create
            | OpCode::Create2
            | OpCode::Multi
            | OpCode::GetData
            | OpCode::RemoveWatches),
        ) = OpCode::from_i32(header.op)
        else {
            return;
        };
        match Request::decode(op, &mut body) {
            Ok(Request::Create(request) | Request::Create2(request)) => {
                self.made.insert(request.path);
            }
            Ok(Request::Multi(Parts(parts))) => {
                for part in parts {
                    if let MultiOp::Create(request) | MultiOp::Create2(request) = part {
                        self.made.insert(request.path);
                    }
                }
            }
            Ok(Request::GetData(request)) if request.watch => {
                self.renounced.remove(&request.path);
            }
            Ok(Request::RemoveWatches(request)) if request.watcher_type == WatcherType::Data => {
                self.deleted.remove(&request.path);
                self.renounced.insert(request.path);
            }
            _ => {}
        }
    }

    /// Notes an event.
    pub(crate) fn event(&mut self, mut body: Bytes) {
        let Ok(_) = ReplyHeader::decode(&mut body, "header") else { return };
        let Ok(event) = WatcherEvent::decode(&mut body, "event") else { return };
        if event.event_type == EventType::NodeDeleted && !self.renounced.contains(&event.path) {
            self.deleted.insert(event.path);
        }
    }

    /// Notes a transaction that was carried out, by the znodes that it has written or created.
    pub(crate) fn committed(&mut self, paths: Vec<String>) {
        for path in paths {
            *self.commits.entry(path).or_default() += 1;
        }
    }

    /// How many transactions have written or created this znode.
    pub(crate) fn commits(&self, path: &str) -> usize {
        self.commits.get(path).copied().unwrap_or(0)
    }

    /// The znodes whose creation was asked for, sequential ones without their numbers.
    pub(crate) fn made(&self) -> &BTreeSet<String> {
        &self.made
    }

    /// The deleted znodes.
    pub(crate) fn deleted(&self) -> &BTreeSet<String> {
        &self.deleted
    }
}

/// The transactions of one connection that are not answered.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    asked: Mutex<BTreeMap<i32, Vec<String>>>,
}

impl Commits {
    /// Notes a request: the bytes behind a frame's length.
    pub(crate) fn note(&self, xid: i32, body: &Bytes) {
        let mut body = body.clone();
        let Ok(header) = RequestHeader::decode(&mut body, "header") else { return };
        if OpCode::from_i32(header.op) != Some(OpCode::Multi) {
            return;
        }
        let Ok(Request::Multi(Parts(parts))) = Request::decode(OpCode::Multi, &mut body) else {
            return;
        };
        let paths = parts.into_iter().filter_map(|part| match part {
            MultiOp::Create(body) | MultiOp::Create2(body) => Some(body.path),
            MultiOp::SetData(body) => Some(body.path),
            MultiOp::CreateContainer(_)
            | MultiOp::CreateTtl(_)
            | MultiOp::Delete(_)
            | MultiOp::Check(_) => None,
        });
        self.lock().insert(xid, paths.collect());
    }

    /// Returns what a transaction has written and created if this reply says that it was carried out.
    pub(crate) fn committed(&self, xid: i32, body: impl FnOnce() -> Bytes) -> Vec<String> {
        let Some(paths) = self.lock().remove(&xid) else { return Vec::new() };
        let mut body = body();
        let is_done = ReplyHeader::decode(&mut body, "header").is_ok_and(|it| it.err.is_none())
            && matches!(
                Reply::decode(OpCode::Multi, &mut body),
                Ok(Reply::Multi(Parts(results)))
                    if !results.iter().any(|result| matches!(result, MultiResult::Error(_)))
            );
        if is_done { paths } else { Vec::new() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<i32, Vec<String>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use zoolet_jute::{
        CreateRequest, KeeperState, PathWatchRequest, Reply, WatchesRequest, Xid, Zxid,
    };

    use super::*;

    fn request(traffic: &mut ObservedTraffic, request: &Request) {
        let mut body = BytesMut::new();
        request.encode_with(Xid(7), &mut body);
        traffic.request(body.freeze());
    }

    fn watches(traffic: &mut ObservedTraffic) {
        let body = PathWatchRequest { path: "/a".to_owned(), watch: true };
        request(traffic, &Request::GetData(body));
    }

    fn renounces(traffic: &mut ObservedTraffic) {
        let body = WatchesRequest { path: "/a".to_owned(), watcher_type: WatcherType::Data };
        request(traffic, &Request::RemoveWatches(body));
    }

    fn goes(traffic: &mut ObservedTraffic, event_type: EventType) {
        let state = KeeperState::SyncConnected;
        let event = Reply::Event(WatcherEvent { event_type, state, path: "/a".to_owned() });
        let header = ReplyHeader { xid: Xid::NOTIFICATION, zxid: Zxid(9), err: None };
        let mut body = BytesMut::new();
        event.encode_with(header, &mut body);
        traffic.event(body.freeze());
    }

    fn is_notified(steps: &[fn(&mut ObservedTraffic)]) -> bool {
        let mut traffic = ObservedTraffic::default();
        for step in steps {
            step(&mut traffic);
        }
        traffic.deleted().contains("/a")
    }

    #[test]
    fn a_waiter_is_notified() {
        let deleted = |traffic: &mut ObservedTraffic| goes(traffic, EventType::NodeDeleted);
        assert!(is_notified(&[watches, deleted]));
        assert!(is_notified(&[watches, renounces, watches, deleted]));
        assert!(!is_notified(&[watches, |traffic| goes(traffic, EventType::NodeDataChanged)]));
    }

    #[test]
    fn one_that_waits_no_longer_is_not_notified() {
        let deleted = |traffic: &mut ObservedTraffic| goes(traffic, EventType::NodeDeleted);
        assert!(!is_notified(&[watches, renounces, deleted]));
        assert!(!is_notified(&[watches, deleted, renounces]));
    }

    #[test]
    fn what_is_created_alone_and_among_others_is_known() {
        let create = |path: &str| CreateRequest {
            path: path.to_owned(),
            data: None,
            acl: Some(Vec::new()),
            flags: 0,
        };
        let mut traffic = ObservedTraffic::default();
        request(&mut traffic, &Request::Create(create("/one-")));
        request(&mut traffic, &Request::Create2(create("/two-")));
        let parts = vec![MultiOp::Create(create("/three-")), MultiOp::Create2(create("/four-"))];
        request(&mut traffic, &Request::Multi(Parts(parts)));
        watches(&mut traffic);
        let made: Vec<&str> = traffic.made().iter().map(String::as_str).collect();
        assert_eq!(made, ["/four-", "/one-", "/three-", "/two-"]);
    }

    #[test]
    fn transactions_that_were_carried_out_are_counted() {
        use zoolet_jute::{ErrorCode, SetDataRequest, Stat};
        let commits = |result: MultiResult| {
            let commits = Commits::default();
            let set = SetDataRequest { path: "/n".to_owned(), data: None, version: 3 };
            let request = Request::Multi(Parts(vec![MultiOp::SetData(set)]));
            let mut body = BytesMut::new();
            request.encode_with(Xid(7), &mut body);
            commits.note(7, &body.freeze());
            let header = ReplyHeader { xid: Xid(7), zxid: Zxid(9), err: None };
            let mut reply = BytesMut::new();
            Reply::Multi(Parts(vec![result])).encode_with(header, &mut reply);
            let reply = reply.freeze();
            assert_eq!(commits.committed(8, || reply.clone()), [""; 0]);
            let mut traffic = ObservedTraffic::default();
            traffic.committed(commits.committed(7, || reply.clone()));
            assert_eq!(commits.committed(7, || reply), [""; 0], "a reply comes once");
            traffic.commits("/n")
        };
        assert_eq!(commits(MultiResult::SetData(Stat::default())), 1);
        assert_eq!(commits(MultiResult::Error(Some(ErrorCode::BadVersion))), 0);
    }

    #[test]
    fn what_cannot_be_read_is_passed_over() {
        let mut traffic = ObservedTraffic::default();
        traffic.request(Bytes::from_static(&[0, 0, 0, 1]));
        traffic.request(Bytes::from_static(&[0, 0, 0, 1, 0, 0, 0, 4, 0, 0]));
        traffic.event(Bytes::from_static(&[0xff]));
        assert!(traffic.deleted().is_empty());
    }
}
