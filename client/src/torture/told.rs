//! What a contender has created, and the deletions that it waited for and was told of, as its proxy
//! sees them.
//!
//! A contender that gives up leaves its watch at the server until it asks for its removal. An event
//! of such a watch wakes nobody, whether it comes before that request or behind it.

use std::collections::BTreeSet;

use bytes::Bytes;
use zoolet_jute::{
    Decode, EventType, MultiOp, OpCode, Parts, ReplyHeader, Request, RequestHeader, WatcherEvent,
    WatcherType,
};

/// A contender's creates, and both sides of its watches.
#[derive(Debug, Default)]
pub(super) struct Told {
    made: BTreeSet<String>,
    deleted: BTreeSet<String>,
    /// Whose watches the contender has had removed.
    renounced: BTreeSet<String>,
}

impl Told {
    /// Notes a request: the bytes behind a frame's length.
    pub(super) fn request(&mut self, mut body: Bytes) {
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
    pub(super) fn event(&mut self, mut body: Bytes) {
        let Ok(_) = ReplyHeader::decode(&mut body, "header") else { return };
        let Ok(event) = WatcherEvent::decode(&mut body, "event") else { return };
        if event.event_type == EventType::NodeDeleted && !self.renounced.contains(&event.path) {
            self.deleted.insert(event.path);
        }
    }

    /// The znodes whose creation was asked for, sequential ones without their numbers.
    pub(super) fn made(&self) -> &BTreeSet<String> {
        &self.made
    }

    /// The deleted znodes.
    pub(super) fn deleted(&self) -> &BTreeSet<String> {
        &self.deleted
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use zoolet_jute::{
        CreateRequest, KeeperState, PathWatchRequest, Reply, WatchesRequest, Xid, Zxid,
    };

    use super::*;

    fn request(told: &mut Told, request: &Request) {
        let mut body = BytesMut::new();
        request.encode_with(Xid(7), &mut body);
        told.request(body.freeze());
    }

    fn watches(told: &mut Told) {
        let body = PathWatchRequest { path: "/a".to_owned(), watch: true };
        request(told, &Request::GetData(body));
    }

    fn renounces(told: &mut Told) {
        let body = WatchesRequest { path: "/a".to_owned(), watcher_type: WatcherType::Data };
        request(told, &Request::RemoveWatches(body));
    }

    fn goes(told: &mut Told, event_type: EventType) {
        let state = KeeperState::SyncConnected;
        let event = Reply::Event(WatcherEvent { event_type, state, path: "/a".to_owned() });
        let header = ReplyHeader { xid: Xid::NOTIFICATION, zxid: Zxid(9), err: None };
        let mut body = BytesMut::new();
        event.encode_with(header, &mut body);
        told.event(body.freeze());
    }

    fn is_told(steps: &[fn(&mut Told)]) -> bool {
        let mut told = Told::default();
        for step in steps {
            step(&mut told);
        }
        told.deleted().contains("/a")
    }

    #[test]
    fn who_waits_is_told() {
        let deleted = |told: &mut Told| goes(told, EventType::NodeDeleted);
        assert!(is_told(&[watches, deleted]));
        assert!(is_told(&[watches, renounces, watches, deleted]));
        assert!(!is_told(&[watches, |told| goes(told, EventType::NodeDataChanged)]));
    }

    #[test]
    fn who_waits_no_longer_is_not_told() {
        let deleted = |told: &mut Told| goes(told, EventType::NodeDeleted);
        assert!(!is_told(&[watches, renounces, deleted]));
        assert!(!is_told(&[watches, deleted, renounces]));
    }

    #[test]
    fn what_is_created_alone_and_among_others_is_known() {
        let create = |path: &str| CreateRequest {
            path: path.to_owned(),
            data: None,
            acl: Some(Vec::new()),
            flags: 0,
        };
        let mut told = Told::default();
        request(&mut told, &Request::Create(create("/one-")));
        request(&mut told, &Request::Create2(create("/two-")));
        let parts = vec![MultiOp::Create(create("/three-")), MultiOp::Create2(create("/four-"))];
        request(&mut told, &Request::Multi(Parts(parts)));
        watches(&mut told);
        let made: Vec<&str> = told.made().iter().map(String::as_str).collect();
        assert_eq!(made, ["/four-", "/one-", "/three-", "/two-"]);
    }

    #[test]
    fn what_cannot_be_read_is_passed_over() {
        let mut told = Told::default();
        told.request(Bytes::from_static(&[0, 0, 0, 1]));
        told.request(Bytes::from_static(&[0, 0, 0, 1, 0, 0, 0, 4, 0, 0]));
        told.event(Bytes::from_static(&[0xff]));
        assert!(told.deleted().is_empty());
    }
}
