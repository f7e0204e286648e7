//! The bytes on the disk and between servers.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use openraft::EntryPayload;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest, VoteResponse,
};

use crate::consensus::{Echo, MemberNode};
use crate::node_id::NodeId;
use crate::raft::codec;
use crate::raft::types::{
    Body, LogEntry, RaftMembership, SnapshotMeta, StoredMembership, Vote, log_id,
};
use crate::wire::Reader;

fn membership() -> RaftMembership {
    let member = |address: &str| MemberNode {
        address: address.to_owned(),
        line: "h:1:2:observer".to_owned(),
    };
    let members = BTreeMap::from([
        (NodeId(1), member("a:1")),
        (NodeId(2), member("b:2")),
        (NodeId(3), member("")),
    ]);
    RaftMembership::new(
        vec![BTreeSet::from([1, 2].map(NodeId)), BTreeSet::from([NodeId(2)])],
        members,
    )
    .unwrap()
}

fn append_request() -> AppendEntriesRequest<crate::raft::types::TypeConfig> {
    let entry = |index, payload| LogEntry { log_id: log_id(2, index), payload };
    AppendEntriesRequest {
        vote: Vote::new_committed(3, NodeId(1)),
        prev_log_id: Some(log_id(2, 6)),
        entries: vec![
            entry(7, EntryPayload::Blank),
            entry(8, EntryPayload::Normal(Body(Bytes::from_static(b"batch")))),
            entry(9, EntryPayload::Membership(membership())),
        ],
        leader_commit: None,
    }
}

#[test]
fn an_entry_does_not_keep_the_message_it_came_in() {
    let message = codec::encode_append_message(false, false, None, &append_request());
    let read = Reader(message.clone()).append_message().unwrap();
    assert_eq!(read.request.entries.len(), 3);
    assert!(message.is_unique());
}

#[test]
fn what_is_written_is_read_again() {
    let request = append_request();
    for is_prev_taken in [false, true] {
        let bytes = codec::encode_append_message(!is_prev_taken, is_prev_taken, None, &request);
        let without = bytes.slice(..bytes.len() - 2);
        let read = Reader(bytes).append_message().unwrap();
        assert_eq!((read.suspects_quorum, read.is_prev_taken), (!is_prev_taken, is_prev_taken));
        assert_eq!(format!("{request:?}"), format!("{:?}", read.request));
        assert_eq!(read.request.entries, request.entries);
        assert_eq!(read.echo, Echo::NoneYet);
        let read = Reader(without).append_message().expect("as an older release sends it");
        assert_eq!((read.is_prev_taken, read.echo), (false, Echo::Unsupported));
        assert_eq!(read.request.entries, request.entries);
    }

    let bytes = codec::encode_append_message(false, false, Some(77), &request);
    assert_eq!(Reader(bytes).append_message().unwrap().echo, Echo::Stamp(77));

    for response in [
        AppendEntriesResponse::Success,
        AppendEntriesResponse::PartialSuccess(Some(log_id(1, 2))),
        AppendEntriesResponse::Conflict,
        AppendEntriesResponse::HigherVote(Vote::new(4, NodeId(2))),
    ] {
        let bytes = codec::encode_append_response(&response, 78);
        let without = bytes.slice(..bytes.len() - 8);
        for (bytes, stamp) in [(bytes, Some(78)), (without, None)] {
            let mut reader = Reader(bytes);
            assert_eq!(reader.append_response().unwrap(), response);
            assert_eq!(reader.stamp(), stamp, "an older release sends none");
        }
    }

    let mut request = VoteRequest::new(Vote::new(4, NodeId(2)), Some(log_id(3, 9)));
    request.leadership_transfer = true;
    assert_eq!(Reader(codec::encode_vote_request(&request)).vote_request().unwrap(), request);
    let response = VoteResponse::new(Vote::new(4, NodeId(2)), None, true);
    let mut reader = Reader(codec::encode_vote_response(&response));
    assert_eq!(reader.vote_response().unwrap(), response);
    assert!(reader.0.is_empty());
    let request = TransferLeaderRequest::new(Vote::new_committed(4, NodeId(2)), NodeId(3), None);
    let read = Reader(codec::encode_transfer_request(&request)).transfer_request();
    assert_eq!(read.unwrap(), request);

    let vote = Vote::new_committed(u64::MAX, NodeId(254));
    assert_eq!(codec::decode_vote(codec::encode_vote(&vote)).unwrap(), vote);
    let meta = SnapshotMeta {
        last_log_id: Some(log_id(2, 9)),
        last_membership: StoredMembership::new(Some(log_id(1, 0)), membership()),
    };
    let bytes = codec::encode_snapshot_meta(9, &meta);
    assert_eq!(Reader(bytes).snapshot_meta().unwrap(), (9, meta));
    let empty = SnapshotMeta::default();
    assert_eq!(Reader(codec::encode_snapshot_meta(0, &empty)).snapshot_meta().unwrap(), (0, empty));
}

#[test]
fn the_bytes_on_the_disk_stay_as_they_are() {
    let vote = codec::encode_vote(&Vote::new_committed(2, NodeId(3)));
    assert_eq!(*vote, [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 1]);
    let members = BTreeMap::from([(
        NodeId(3),
        MemberNode { address: "h:9".to_owned(), line: String::new() },
    )]);
    let alone = RaftMembership::new(vec![BTreeSet::from([NodeId(3)])], members).unwrap();
    let (kind, body) = codec::encode_payload(&EntryPayload::Membership(alone));
    assert_eq!(kind, 2);
    let expected = [
        vec![1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3],
        vec![0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 3],
        b"h:9".to_vec(),
    ];
    assert_eq!(*body, expected.concat());
}

#[test]
fn bytes_that_are_cut_or_changed_are_errors_and_no_more() {
    let whole = codec::encode_append_message(false, true, None, &append_request());
    // Without the last byte or two it is what an older release sends.
    for length in 0..whole.len() - 2 {
        assert!(Reader(whole.slice(..length)).append_message().is_err(), "{length}");
    }
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut changed = whole.to_vec();
            changed[at] = value;
            // Most of them are requests as well; what counts is that reading them ends.
            let _ = Reader(changed.into()).append_message();
        }
    }
    assert!(codec::decode_vote(Bytes::from_static(&[2; 18])).is_err());
    assert!(codec::decode_entry(log_id(1, 1), 9, Bytes::new()).is_err());
}
