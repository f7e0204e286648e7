//! Whatever bytes come in, decoding returns a value or an error. It never panics, and it never
//! allocates what a length claims before the bytes are there.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use bytes::{BufMut, Bytes, BytesMut};
use zoolet_jute::{
    Acl, AddWatchMode, AddWatchRequest, AuthPacket, ConnectRequest, ConnectResponse, CreateRequest,
    CreateTtlRequest, Decode, DecodeError, Encode, Id, MultiOp, MultiReadOp, NullablePathRequest,
    OpCode, Parts, PathRequest, PathVersionRequest, PathWatchRequest, ReconfigRequest, Reply,
    Request, SessionId, SetAclRequest, SetDataRequest, SetWatches2Request, SetWatchesRequest,
    WatcherType, WatchesRequest, Zxid, frame,
};

fn create() -> CreateRequest {
    CreateRequest {
        path: "/a".into(),
        data: Some(Bytes::from_static(b"data")),
        acl: Some(vec![
            Acl { perms: 31, id: Id::new("world", "anyone") },
            Acl { perms: 1, id: Id { scheme: Some("auth".into()), id: None } },
        ]),
        flags: 3,
    }
}

fn ttl() -> CreateTtlRequest {
    let CreateRequest { path, acl, .. } = create();
    CreateTtlRequest { path, data: None, acl, flags: 5, ttl_ms: 60_000 }
}

fn set_data() -> SetDataRequest {
    SetDataRequest { path: "/a".into(), data: Some(Bytes::new()), version: -1 }
}

fn delete() -> PathVersionRequest {
    PathVersionRequest { path: "/a/b".into(), version: 7 }
}

fn read() -> PathWatchRequest {
    PathWatchRequest { path: "/ä/b".into(), watch: true }
}

fn writes() -> Vec<Request> {
    let parts = vec![
        MultiOp::Create(create()),
        MultiOp::Create2(create()),
        MultiOp::CreateContainer(CreateRequest { flags: 4, ..create() }),
        MultiOp::CreateTtl(ttl()),
        MultiOp::Delete(delete()),
        MultiOp::SetData(set_data()),
        MultiOp::Check(delete()),
    ];
    vec![
        Request::Create(create()),
        Request::Create2(CreateRequest { acl: None, ..create() }),
        Request::CreateContainer(create()),
        Request::CreateTtl(ttl()),
        Request::Delete(delete()),
        Request::SetData(set_data()),
        Request::SetAcl(SetAclRequest { path: "/".into(), acl: Some(Vec::new()), version: 0 }),
        Request::Multi(Parts(parts)),
        Request::Reconfig(ReconfigRequest {
            joining_servers: None,
            leaving_servers: Some(String::new()),
            new_members: Some("server.1=a:1:2".into()),
            config_id: -1,
        }),
    ]
}

fn reads() -> Vec<Request> {
    let paths = || vec!["/a".to_owned(), String::new()];
    vec![
        Request::Exists(read()),
        Request::GetData(read()),
        Request::GetChildren(read()),
        Request::GetChildren2(read()),
        Request::GetAcl(PathRequest { path: "/a".into() }),
        Request::Sync(NullablePathRequest { path: None }),
        Request::MultiRead(Parts(vec![
            MultiReadOp::GetChildren(read()),
            MultiReadOp::GetData(read()),
        ])),
        Request::CheckWatches(WatchesRequest { path: "/a".into(), watcher_type: WatcherType::Any }),
        Request::Auth(AuthPacket { auth_type: 0, scheme: None, auth: None }),
        Request::SetWatches(SetWatchesRequest {
            relative_zxid: Zxid(-1),
            data_watches: paths(),
            exist_watches: Vec::new(),
            child_watches: paths(),
        }),
        Request::SetWatches2(SetWatches2Request {
            relative_zxid: Zxid(i64::MAX),
            data_watches: paths(),
            exist_watches: paths(),
            child_watches: paths(),
            persistent_watches: paths(),
            persistent_recursive_watches: paths(),
        }),
        Request::Sasl(Some(Bytes::from_static(b"token"))),
        Request::GetEphemerals(NullablePathRequest { path: Some("/a".into()) }),
        Request::GetAllChildrenNumber(PathRequest { path: "/".into() }),
        Request::AddWatch(AddWatchRequest {
            path: "/a".into(),
            mode: AddWatchMode::PersistentRecursive,
        }),
        Request::Ping,
        Request::WhoAmI,
        Request::CloseSession,
    ]
}

fn encoded(value: &impl Encode) -> Bytes {
    let mut out = BytesMut::new();
    value.encode(&mut out);
    out.freeze()
}

#[test]
fn every_request_comes_back_as_it_went_in_and_null_is_not_empty() {
    for request in writes().into_iter().chain(reads()) {
        let mut bytes = encoded(&request);
        assert_eq!(Request::decode(request.op_code(), &mut bytes).unwrap(), request);
        assert!(bytes.is_empty(), "{request:?}");
    }
}

#[test]
fn a_request_that_is_cut_anywhere_is_an_error() {
    for request in writes().into_iter().chain(reads()) {
        let whole = encoded(&request);
        for length in 0..whole.len() {
            let cut = Request::decode(request.op_code(), &mut whole.slice(..length));
            assert!(cut.is_err(), "{length} of {} bytes of {request:?}", whole.len());
        }
    }
}

#[test]
fn a_hostile_length_is_refused_before_anything_is_allocated() {
    for count in [i32::MAX, 0x7000_0000, 1 << 24] {
        let mut body = BytesMut::new();
        body.put_i32(count);
        body.put_slice(b"abc");
        let error = Vec::<String>::decode(&mut body.clone().freeze(), "paths").unwrap_err();
        assert_eq!(error, DecodeError::UnexpectedEnd { field: "paths" });
        let error = Bytes::decode(&mut body.freeze(), "data").unwrap_err();
        assert_eq!(error, DecodeError::UnexpectedEnd { field: "data" });
    }
    for length in [-2, i32::MIN] {
        let error = Bytes::decode(&mut encoded(&length), "data").unwrap_err();
        assert_eq!(error, DecodeError::NegativeLength { field: "data", length });
    }
}

#[test]
fn a_frame_waits_for_its_bytes_and_is_refused_by_its_length_alone() {
    let mut whole = BytesMut::new();
    frame::put(&mut whole, |out| out.put_slice(b"payload"));
    for length in 0..whole.len() {
        let mut part = BytesMut::from(&whole[..length]);
        assert_eq!(frame::split(&mut part, 100), Ok(None), "{length} bytes");
        assert_eq!(part.len(), length);
    }
    assert_eq!(frame::split(&mut whole.clone(), 7), Ok(Some(Bytes::from_static(b"payload"))));
    assert!(matches!(
        frame::split(&mut whole, 6),
        Err(DecodeError::TooLong { length: 7, max: 6, .. })
    ));
    let mut negative = BytesMut::from(&[0xff, 0xff, 0xff, 0xfe][..]);
    assert!(matches!(frame::split(&mut negative, 6), Err(DecodeError::NegativeLength { .. })));
}

/// Flips, cuts and overwrites valid encodings, and decodes the result as everything there is.
#[test]
fn mutated_bytes_never_panic() {
    let seeds: Vec<Bytes> = writes().iter().chain(&reads()).map(encoded).collect();
    let mut rng = fastrand::Rng::with_seed(7);
    for round in 0..30_000 {
        let mut bytes = seeds[round % seeds.len()].to_vec();
        for _ in 0..rng.usize(1..6) {
            if bytes.is_empty() {
                bytes.push(rng.u8(..));
            }
            let at = rng.usize(..bytes.len());
            match rng.u8(..3) {
                0 => bytes[at] ^= 1 << rng.u8(..8),
                1 => bytes[at] = [0, 0x7f, 0x80, 0xff][rng.usize(..4)],
                _ => bytes.truncate(at),
            }
        }
        let bytes = Bytes::from(bytes);
        for op in OpCode::ALL {
            // What it decodes to does not matter here, only that it does.
            let _ = Request::decode(*op, &mut bytes.clone());
            let _ = Reply::decode(*op, &mut bytes.clone());
        }
        let _ = ConnectRequest::decode(&mut bytes.clone(), "connect");
        let _ = ConnectResponse::decode(&mut bytes.clone(), "connect");
    }
}

#[test]
fn the_read_only_byte_of_the_handshake_is_there_or_not() {
    for read_only in [None, Some(false), Some(true)] {
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(1),
            timeout_ms: 8000,
            session_id: SessionId(0x0100_000b_d0bd_0000),
            password: Some(Bytes::from_static(&[7; 16])),
            read_only,
        };
        let mut bytes = encoded(&request);
        assert_eq!(bytes.len(), if read_only.is_some() { 45 } else { 44 });
        assert_eq!(ConnectRequest::decode(&mut bytes, "connect").unwrap(), request);
        let response = ConnectResponse::expired(read_only);
        let mut bytes = encoded(&response);
        assert_eq!(bytes.len(), if read_only.is_some() { 37 } else { 36 });
        assert_eq!(ConnectResponse::decode(&mut bytes, "connect").unwrap(), response);
    }
}
