//! Writes the corpus of the fuzz targets in `jute/fuzz` from the golden vectors: the first two
//! exchanges of each kind. `make fuzz_corpus`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a tool ends at the first thing wrong")]

#[path = "../tests/recorded/mod.rs"]
mod recorded;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bytes::{BufMut, BytesMut};
use recorded::{CLIENTS, What, frames};
use zoolet_jute::OpCode;

/// The inputs of one kind.
const KIND_MAX: u32 = 2;
/// Where the body of a request begins.
const REQUEST_HEADER_BYTES: usize = 8;
/// Where the body of a reply begins.
const REPLY_HEADER_BYTES: usize = 16;

fn main() {
    let mut kinds = BTreeMap::new();
    for frame in CLIENTS.into_iter().flat_map(frames) {
        let payload = &frame.bytes;
        let mut framed = BytesMut::new();
        framed.put_u32(u32::try_from(payload.len()).unwrap());
        framed.extend_from_slice(payload);
        let name = match frame.what {
            What::ConnectRequest => {
                write(&mut kinds, "connect_request", "connect", payload);
                "connect".to_owned()
            }
            What::ConnectResponse => {
                write(&mut kinds, "connect_response", "connect", payload);
                continue;
            }
            What::Request(op) => {
                write(&mut kinds, "request", op.name(), payload);
                if matches!(op, OpCode::Multi | OpCode::MultiRead) {
                    let body = payload.get(REQUEST_HEADER_BYTES..);
                    let body = body.unwrap_or_else(|| panic!("{}: no body", frame.place));
                    write(&mut kinds, "multi", op.name(), body);
                }
                continue;
            }
            What::Reply(op) => {
                let place = OpCode::ALL.iter().position(|known| *known == op).unwrap();
                let mut input = vec![u8::try_from(place).unwrap()];
                input.extend_from_slice(payload);
                write(&mut kinds, "reply", op.name(), &input);
                let body = payload.get(REPLY_HEADER_BYTES..).unwrap_or_default();
                if op == OpCode::Notification {
                    write(&mut kinds, "event", "event", body);
                } else if matches!(op, OpCode::Multi | OpCode::MultiRead) && !body.is_empty() {
                    write(&mut kinds, "multi", &format!("{op}-results"), body);
                }
                op.name().to_owned()
            }
        };
        write(&mut kinds, "frame", &name, &framed);
    }
}

fn write(kinds: &mut BTreeMap<(String, String), u32>, target: &str, kind: &str, input: &[u8]) {
    let count = kinds.entry((target.to_owned(), kind.to_owned())).or_default();
    if *count == KIND_MAX {
        return;
    }
    *count += 1;
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz").join("corpus").join(target);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join(format!("{kind}-{count}")), input).unwrap();
}
