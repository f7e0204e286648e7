//! The golden files: what real clients and a real Apache `ZooKeeper` said to each other.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use zoolet_jute::{Decode, OpCode, ReplyHeader, RequestHeader, Xid};

/// The clients whose exchanges are recorded; each has a file of that name.
pub(crate) const CLIENTS: [&str; 4] = ["java", "kazoo", "c", "go"];

/// A frame's payload, and what it is.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// File and line, for messages.
    pub(crate) place: String,
    pub(crate) bytes: Bytes,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    ConnectRequest,
    ConnectResponse,
    /// The operation of the header.
    Request(OpCode),
    /// The operation of the request that it answers, or the notification.
    Reply(OpCode),
}

/// All frames of a client's file. The request with the same xid decides what a reply is.
pub(crate) fn frames(client: &str) -> Vec<Recorded> {
    let name = format!("tests/golden/{client}.hex");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut frames = Vec::new();
    let (mut asked, mut is_greeted, mut is_answered) = (Vec::new(), false, false);
    for (number, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", number + 1);
        if line == "connection" {
            assert!(asked.is_empty(), "{place}: {asked:?} have no reply");
            (is_greeted, is_answered) = (false, false);
        }
        let Some((direction @ (">" | "<"), digits)) = line.split_once(' ') else { continue };
        let bytes = from_hex(digits).unwrap_or_else(|| panic!("{place}: not hexadecimal"));
        let what = match (direction, is_greeted, is_answered) {
            (">", false, _) => {
                is_greeted = true;
                What::ConnectRequest
            }
            ("<", true, false) => {
                is_answered = true;
                What::ConnectResponse
            }
            (">", true, _) => {
                let header = RequestHeader::decode(&mut bytes.clone(), "header").unwrap();
                let op = OpCode::from_i32(header.op).unwrap();
                asked.push((header.xid, op));
                What::Request(op)
            }
            _ => What::Reply(answered(&mut asked, &bytes, &place)),
        };
        frames.push(Recorded { place, bytes, what });
    }
    assert!(asked.is_empty(), "{name}: {asked:?} have no reply");
    frames
}

fn answered(asked: &mut Vec<(Xid, OpCode)>, bytes: &Bytes, place: &str) -> OpCode {
    let header = ReplyHeader::decode(&mut bytes.clone(), "header").unwrap();
    if header.xid == Xid::NOTIFICATION {
        return OpCode::Notification;
    }
    let found = asked.iter().position(|(xid, _)| *xid == header.xid);
    asked.remove(found.unwrap_or_else(|| panic!("{place}: a reply without a request"))).1
}

fn from_hex(digits: &str) -> Option<Bytes> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect::<Option<Vec<u8>>>().map(Bytes::from)
}
