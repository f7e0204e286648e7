//! Every frame that a real client and a real Apache `ZooKeeper` exchanged is decoded and encoded
//! again to the same bytes. `make golden` records the files anew.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod recorded;

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use recorded::{CLIENTS, Recorded, What, frames};
use zoolet_jute::{
    ConnectRequest, ConnectResponse, Decode, Encode, ErrorCode, EventType, MultiOp, OpCode, Reply,
    ReplyHeader, Request, RequestHeader, WatcherEvent, Xid,
};

/// No client can be made to say these, or there is nothing to record.
const NOT_RECORDED: [(OpCode, &str); 5] = [
    (OpCode::Check, "a part of a multi, never a request of its own"),
    (OpCode::DeleteContainer, "internal to Apache's servers"),
    (OpCode::Sasl, "the reference has no login configured"),
    (OpCode::CreateSession, "internal to Apache's servers"),
    (OpCode::Error, "the marker of errors in the results of a multi"),
];

/// The bytes after decoding and encoding; fails when decoding leaves something over.
fn again(frame: &Recorded) -> Bytes {
    let mut input = frame.bytes.clone();
    let mut out = BytesMut::new();
    match frame.what {
        What::ConnectRequest => {
            ConnectRequest::decode(&mut input, "connect").unwrap().encode(&mut out);
        }
        What::ConnectResponse => {
            ConnectResponse::decode(&mut input, "connect").unwrap().encode(&mut out);
        }
        What::Request(op) => {
            let header = RequestHeader::decode(&mut input, "header").unwrap();
            let request = Request::decode(op, &mut input).expect(&frame.place);
            request.encode_with(header.xid, &mut out);
        }
        What::Reply(op) => {
            let header = ReplyHeader::decode(&mut input, "header").unwrap();
            let has_body = header.err.is_none() || !input.is_empty();
            header.encode(&mut out);
            if has_body {
                Reply::decode(op, &mut input).expect(&frame.place).encode(&mut out);
            }
        }
    }
    assert!(input.is_empty(), "{}: {} bytes are left over", frame.place, input.len());
    out.freeze()
}

#[test]
fn every_recorded_frame_is_encoded_as_it_was_sent() {
    let mut count = 0;
    for client in CLIENTS {
        for frame in frames(client) {
            assert_eq!(again(&frame), frame.bytes, "{} {:?}", frame.place, frame.what);
            count += 1;
        }
    }
    assert!(count > 500, "only {count} frames are recorded");
}

#[test]
fn every_operation_is_recorded_but_those_that_cannot_be() {
    let mut recorded = BTreeSet::new();
    for client in CLIENTS {
        for frame in frames(client) {
            if let What::Reply(op) = frame.what {
                recorded.insert(op);
            }
        }
    }
    let exempt: BTreeSet<OpCode> = NOT_RECORDED.iter().map(|(op, _)| *op).collect();
    let missing: Vec<&OpCode> =
        OpCode::ALL.iter().filter(|op| !recorded.contains(op) && !exempt.contains(op)).collect();
    assert!(missing.is_empty(), "{missing:?} are recorded nowhere");
    let needless: Vec<&OpCode> = exempt.intersection(&recorded).collect();
    assert!(needless.is_empty(), "{needless:?} are recorded");
}

#[test]
fn both_handshakes_and_all_special_xids_are_recorded() {
    let (mut old, mut new, mut xids) = (0, 0, BTreeSet::new());
    for frame in CLIENTS.into_iter().flat_map(frames) {
        match frame.what {
            What::ConnectRequest => match frame.bytes.len() {
                44 => old += 1,
                45 => new += 1,
                length => panic!("{}: {length} bytes", frame.place),
            },
            What::Reply(_) => {
                xids.insert(Xid::decode(&mut frame.bytes.clone(), "xid").unwrap());
            }
            What::ConnectResponse | What::Request(_) => {}
        }
    }
    assert!(old > 0 && new > 0, "{old} without the read-only byte, {new} with it");
    for special in [Xid::NOTIFICATION, Xid::PING, Xid::AUTH, Xid::SET_WATCHES] {
        assert!(xids.contains(&special), "xid {special} is not recorded");
    }
}

#[test]
fn all_parts_of_a_multi_and_all_events_of_servers_are_recorded() {
    let (mut parts, mut events) = (BTreeSet::new(), BTreeSet::new());
    for frame in CLIENTS.into_iter().flat_map(frames) {
        if let What::Request(OpCode::Multi) = frame.what
            && let Request::Multi(multi) =
                Request::decode(OpCode::Multi, &mut frame.bytes.slice(8..)).unwrap()
        {
            parts.extend(multi.0.iter().map(MultiOp::op_code));
        }
        if let What::Reply(OpCode::Notification) = frame.what {
            events.insert(
                WatcherEvent::decode(&mut frame.bytes.slice(16..), "event").unwrap().event_type,
            );
        }
    }
    let of_a_multi = [
        OpCode::Create,
        OpCode::Delete,
        OpCode::SetData,
        OpCode::Check,
        OpCode::CreateContainer,
        OpCode::CreateTtl,
    ];
    for op in of_a_multi {
        assert!(parts.contains(&op), "{op} is in no multi");
    }
    let of_a_server = [
        EventType::NodeCreated,
        EventType::NodeDeleted,
        EventType::NodeDataChanged,
        EventType::NodeChildrenChanged,
    ];
    for event in of_a_server {
        assert!(events.contains(&event), "{event:?} is not recorded");
    }
}

#[test]
fn the_errors_that_clients_meet_are_recorded() {
    let mut codes = BTreeSet::new();
    for frame in CLIENTS.into_iter().flat_map(frames) {
        if let What::Reply(_) = frame.what {
            codes.extend(ReplyHeader::decode(&mut frame.bytes.clone(), "header").unwrap().err);
        }
    }
    for code in [
        ErrorCode::NoNode,
        ErrorCode::NoAuth,
        ErrorCode::BadVersion,
        ErrorCode::NoChildrenForEphemerals,
        ErrorCode::NodeExists,
        ErrorCode::NotEmpty,
        ErrorCode::InvalidAcl,
        ErrorCode::AuthFailed,
        ErrorCode::ReconfigDisabled,
    ] {
        assert!(codes.contains(&code), "{code} is not recorded: {codes:?}");
    }
}
