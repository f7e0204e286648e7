//! Frames that no client should send, and those at the limits of what it may.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};

use zoolet_jute::{
    ConnectResponse, Decode, Encode, ErrorCode, OpCode, PathWatchRequest, Reply, ReplyHeader,
    Request, Xid, frame,
};
use zoolet_tests::raw::{Incoming, RawConnection};
use zoolet_tests::servers::Servers;
use zoolet_tests::tools;

use crate::support::*;

/// Bytes in place of a handshake, all of which end the connection.
fn bad_handshakes() -> Vec<(&'static str, Vec<u8>)> {
    let whole = handshake();
    let mut negative_password = whole.clone();
    negative_password[28..32].copy_from_slice(&(-2_i32).to_be_bytes());
    let mut endless_password = whole.clone();
    endless_password[28..32].copy_from_slice(&i32::MAX.to_be_bytes());
    vec![
        ("a negative length", (-1_i32).to_be_bytes().to_vec()),
        ("the smallest length", i32::MIN.to_be_bytes().to_vec()),
        ("an endless length", i32::MAX.to_be_bytes().to_vec()),
        ("no payload", vec![0; 4]),
        ("a short payload", vec![0, 0, 0, 4, 0, 0, 0, 0]),
        ("a negative password", negative_password),
        ("an endless password", endless_password),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("TLS", vec![0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03]),
        ("random bytes", (0..200).map(|_| fastrand::u8(..)).collect::<Vec<_>>()),
    ]
    .into_iter()
    // Random bytes may begin with a length that waits for more; that is the deadline's business.
    .map(|(what, mut bytes)| {
        if what == "random bytes" {
            bytes[0] |= 0x80;
        }
        (what, bytes)
    })
    .collect()
}

#[test]
fn bad_handshakes_end_their_connection_and_no_other() {
    let (_servers, address) = server();
    let mut witness = Witness::open(address);
    for (what, bytes) in bad_handshakes() {
        let mut stream = connect(address);
        stream.write_all(&bytes).unwrap();
        let answer = until_closed(&stream).unwrap_or_else(|| panic!("{what}: not closed"));
        assert!(answer.is_empty(), "{what}");
        witness.lives();
    }
    witness.ends_well();
}

/// Frames behind a good handshake, and whether they end the connection.
fn bad_frames() -> Vec<(String, Vec<u8>, bool)> {
    let mut bad = vec![
        ("a negative length".to_owned(), (-1_i32).to_be_bytes().to_vec(), true),
        ("an endless length".to_owned(), i32::MAX.to_be_bytes().to_vec(), true),
        ("no payload".to_owned(), vec![0; 4], true),
        ("half a header".to_owned(), vec![0, 0, 0, 4, 0, 0, 0, 1], true),
        ("a second handshake".to_owned(), handshake(), true),
    ];
    for op in [-10, 20, 13, 0, 10, 23, 99, 108, i32::MAX, i32::MIN] {
        let payload = framed(|out| {
            Xid(7).encode(out);
            op.encode(out);
        });
        bad.push((format!("the operation {op}"), payload, true));
    }
    let whole = request(7, &create("/cut", b"data", 0));
    for length in 12..whole.len() {
        let payload = &whole[4..length];
        let cut = framed(|out| out.extend_from_slice(payload));
        bad.push((format!("a create cut after {} bytes", payload.len()), cut, false));
    }
    let endless_acl = framed(|out| {
        Xid(7).encode(out);
        (OpCode::Create as i32).encode(out);
        "/endless".to_owned().encode(out);
        (-1_i32).encode(out);
        i32::MAX.encode(out);
    });
    bad.push(("an endless ACL".to_owned(), endless_acl, false));
    bad
}

#[test]
fn bad_frames_disturb_no_other_connection() {
    let (_servers, address) = server();
    let mut witness = Witness::open(address);
    for (what, bytes, ends) in bad_frames() {
        let mut stream = connect(address);
        stream.write_all(&handshake()).unwrap();
        stream.write_all(&bytes).unwrap();
        if ends {
            assert!(until_closed(&stream).is_some(), "{what}: not closed");
        } else {
            // A body that does not decode is answered −5, and the session goes on (§1.3).
            stream.write_all(&request(8, &exists("/witness"))).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let answers = frames(&until_closed(&stream).unwrap());
            let codes: Vec<_> = answers[1..]
                .iter()
                .map(|answer| ReplyHeader::decode(&mut answer.clone(), "header").unwrap())
                .map(|header| (header.xid.0, header.err.map_or(0, |code| code as i32)))
                .collect();
            assert_eq!(codes, [(7, -5), (8, 0)], "{what}");
        }
        witness.lives();
    }
    witness.ends_well();
}

/// What a server says to a bad frame: error codes by xid, and whether it closes the connection.
/// `None` in place of a code is success.
type Verdict = (Vec<(i32, Option<i32>)>, bool);

fn verdict(server: SocketAddr, bytes: &[u8]) -> Verdict {
    let mut stream = connect(server);
    stream.write_all(&handshake()).unwrap();
    let mut head = [0; 4];
    stream.read_exact(&mut head).unwrap();
    let mut accepted = vec![0; u32::from_be_bytes(head) as usize];
    stream.read_exact(&mut accepted).unwrap();
    stream.write_all(bytes).unwrap();
    // A server that has closed already does not take it.
    let _ = stream.write_all(&request(8, &exists("/")));
    let mut answers = Vec::new();
    loop {
        let mut payload = match stream.read_exact(&mut head) {
            Ok(()) => vec![0; u32::from_be_bytes(head) as usize],
            Err(_) => return (answers, true),
        };
        stream.read_exact(&mut payload).unwrap();
        let header = ReplyHeader::decode(&mut payload.into(), "header").unwrap();
        answers.push((header.xid.0, header.err.map(|code| code as i32)));
        if header.xid == Xid(8) {
            return (answers, false);
        }
    }
}

/// Where zoolet is stricter than the reference.
fn is_meant_to_differ(what: &str) -> bool {
    // Apache accepts from clients what its own parts ask of each other (protocol §2.11, §2.17).
    ["the operation -10", "the operation 20"].contains(&what)
}

#[test]
fn bad_frames_are_answered_as_apache_answers_them() {
    if !tools::require_foreign("client_port", &["java", "mvn"]).unwrap() {
        return;
    }
    let apache = Servers::apache().start().unwrap();
    let expected_by = apache.client_address(0).unwrap();
    let (_servers, address) = server();
    let mut differences = Vec::new();
    for (what, bytes, _) in bad_frames() {
        let (mut expected, found) = (verdict(expected_by, &bytes), verdict(address, &bytes));
        // Apache may answer what comes right behind an unknown operation before it closes.
        let unknown = Some(ErrorCode::Unimplemented as i32);
        if let Some(at) = expected.0.iter().position(|(_, code)| *code == unknown) {
            expected.0.truncate(at + 1);
            expected.1 = true;
        }
        if (expected == found) == is_meant_to_differ(&what) {
            differences.push(format!("{what}: apache {expected:?}, zoolet {found:?}"));
        }
    }
    for (what, bytes) in bad_handshakes() {
        let answers = [expected_by, address].map(|server| {
            let mut stream = connect(server);
            // A server may close before it has read everything.
            let _ = stream.write_all(&bytes);
            until_closed(&stream)
        });
        if answers[0] != answers[1] {
            differences.push(format!("{what}: apache {:?}, zoolet {:?}", answers[0], answers[1]));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn frames_up_to_the_limit_are_taken_and_longer_ones_are_not() {
    let (_servers, address) = server();
    let mut witness = Witness::open(address);
    let empty = request(1, &create("/large", b"", 0)).len() - frame::LENGTH_BYTES;
    for (extra, is_taken) in [(0, true), (1, false)] {
        let data = vec![b'x'; FRAME_BYTES_MAX - empty + extra];
        let mut connection = RawConnection::open(address, 10_000).unwrap();
        // The server may close while the rest is still being written.
        let answer = connection.call(Xid(1), &create("/large", &data, 0));
        match answer {
            Ok((_, Incoming::Reply(header, _))) => assert!(is_taken && header.err.is_none()),
            Ok(_) | Err(_) => assert!(!is_taken, "{extra} bytes above the limit: {answer:?}"),
        }
        witness.lives();
    }
    // A reply has no limit: what fitted into a request with a short path can be read.
    let look = PathWatchRequest { path: "/large".into(), watch: false };
    let read = call(&mut witness.connection, &Request::GetData(look));
    assert!(matches!(read, Incoming::Reply(_, Some(Reply::Data(Some(data), _)))
        if data.len() == FRAME_BYTES_MAX - empty));
    witness.ends_well();
}

#[test]
fn frames_behind_the_handshake_are_answered_in_order_and_piece_by_piece() {
    let (_servers, address) = server();
    let mut bytes = handshake();
    bytes.extend(request(1, &create("/pipelined", b"1", 0)));
    for xid in 2..100 {
        bytes.extend(request(xid, &exists("/pipelined")));
    }
    bytes.extend(request(100, &Request::CloseSession));
    for piece in [bytes.len(), 1, 7] {
        let mut stream = connect(address);
        stream.set_nodelay(true).unwrap();
        for part in bytes.chunks(piece) {
            stream.write_all(part).unwrap();
        }
        // The server closes by itself behind the reply to the close.
        let answers = frames(&until_closed(&stream).unwrap());
        let xids: Vec<i32> = answers[1..]
            .iter()
            .map(|answer| ReplyHeader::decode(&mut answer.clone(), "header").unwrap().xid.0)
            .collect();
        assert_eq!(xids, (1..=100).collect::<Vec<_>>(), "in pieces of {piece}");
    }
}

/// The connection was closed over unread bytes before the session was in the log: the client got a
/// reset and no answer. Apache reads nothing more before it has answered the handshake.
#[test]
fn the_handshake_is_answered_before_a_bad_frame_ends_the_connection() {
    let (_servers, address) = server();
    let garbage = [(-1_i32).to_be_bytes().to_vec(), vec![0xff; 200_000]].concat();
    for behind in [garbage, framed(|_| {}), b"GET / HTTP/1.1\r\n\r\n".to_vec()] {
        let mut stream = connect(address);
        stream.write_all(&[handshake(), behind].concat()).unwrap();
        let mut received = Vec::new();
        // Neither a reset nor silence.
        stream.read_to_end(&mut received).unwrap();
        let [answer] = frames(&received).try_into().unwrap();
        let response = ConnectResponse::decode(&mut answer.clone(), "connect").unwrap();
        assert!(response.timeout_ms > 0 && response.session_id.0 != 0, "{response:?}");
    }
}
