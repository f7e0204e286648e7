//! Writes the corpus of the fuzz targets in `server/fuzz`: log entries and snapshots made from the
//! requests in `jute/fuzz/corpus`, logs, files of configuration, peers' frames. `make fuzz_corpus`.

#![allow(clippy::unwrap_used, reason = "a tool ends at the first thing wrong")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{BufMut, Bytes};
use zoolet_jute::{Decode, Id, OpCode, Request, RequestHeader, SessionId, Xid};
use zoolet_replica::state::State;
use zoolet_replica::{
    Batch, Boot, Command, Op, Origin, Policy, ProposalNumber, ServerId, Stamp, Term,
};

const SESSION: SessionId = SessionId(0x0100_0000_0000_0001);
const ORIGIN: Origin = Origin { server: ServerId(1), boot: Boot(1), stream: 1 };
const TERM: u64 = 7;
/// A moment, in milliseconds since 1970.
const NOW_MS: i64 = 1_700_000_000_000;

fn main() {
    let ops = ops();
    for (name, op) in &ops {
        let create = Op::CreateSession { timeout_ms: 10_000 };
        write("batch", name, &batch(vec![create, op.clone()]).encode());
    }
    let all = batch(ops.into_iter().map(|(_, op)| op).collect());
    write("batch", "all", &all.encode());
    write("snapshot", "fresh", &snapshot(&State::new()));
    let mut state = State::new();
    for command in all.commands {
        state.apply(Stamp { term: Term(TERM), now_ms: NOW_MS }, ORIGIN, command);
    }
    write("snapshot", "filled", &snapshot(&state));
    logs();
    configurations();
    peers();
}

/// What the requests of the recorded clients become in the log, and what no client asks for. The
/// closes are left out, for they would leave nothing in the snapshot.
fn ops() -> Vec<(String, Op)> {
    let mut ops = vec![
        ("open".to_owned(), Op::CreateSession { timeout_ms: 10_000 }),
        ("resume".to_owned(), Op::ResumeSession { timeout_ms: 20_000 }),
        (
            "config".to_owned(),
            Op::SetConfig {
                term: Term(TERM),
                text: "server.1=a:2888:3888;2181".to_owned(),
                is_first: true,
            },
        ),
    ];
    let mut files: Vec<PathBuf> = fs::read_dir(package().join("../jute/fuzz/corpus/request"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    for file in files {
        let mut input = Bytes::from(fs::read(&file).unwrap());
        let header = RequestHeader::decode(&mut input, "header").unwrap();
        let op = OpCode::from_i32(header.op).unwrap();
        let is_write = matches!(
            op,
            OpCode::Create
                | OpCode::Create2
                | OpCode::CreateContainer
                | OpCode::CreateTtl
                | OpCode::SetData
                | OpCode::SetAcl
                | OpCode::Delete
                | OpCode::Multi
                | OpCode::Reconfig
        );
        if is_write {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            ops.push((name, Op::Write(Request::decode(op, &mut input).unwrap())));
        }
    }
    ops.push(("reap".to_owned(), Op::DeleteContainer { path: "/container".to_owned() }));
    ops.push(("expire".to_owned(), Op::ExpireSession { generation: 9, term: Term(TERM) }));
    ops
}

fn batch(ops: Vec<Op>) -> Batch {
    let identities: Arc<[Id]> = Arc::new([Id::new("ip", "::1")]);
    let policy = Policy { extended_types: true, reconfig: true, ..Policy::default() };
    let commands = ops.into_iter().zip(1..).map(|(op, number)| Command {
        number: ProposalNumber(number),
        session: SESSION,
        attachment: ProposalNumber(1),
        cxid: Xid(1),
        policy,
        identities: Arc::clone(&identities),
        op,
    });
    Batch { origin: ORIGIN, now_ms: NOW_MS, commands: commands.collect() }
}

fn snapshot(state: &State) -> Vec<u8> {
    state.snapshot().flatten().collect()
}

/// Instructions: a kind, a length, that many bytes. Kind 0 ends a batch, kind 7 damages what was
/// made, the rest are the kinds of records of `docs/storage.md`.
fn logs() {
    let position = |index: u64| [1_u64, 1, index].map(u64::to_be_bytes).concat();
    let record =
        |kind: u8, fields: &[u8]| [&[kind, u8::try_from(fields.len()).unwrap()], fields].concat();
    // No vote, nothing committed, purged or last; the entries 1..1.
    let state =
        record(1, &[[0; 4].as_slice(), &1_u64.to_be_bytes(), &1_u64.to_be_bytes()].concat());
    let entry = |index: u64| record(2, &[position(index).as_slice(), &[1], b"body"].concat());
    let end = vec![0, 0];
    let whole = [state, entry(1), entry(2), end.clone(), entry(3), end.clone()].concat();
    let some = |index: u64| [&[1], position(index).as_slice()].concat();
    let truncate = [3_u64.to_be_bytes().as_slice(), &some(2)].concat();
    let marks = [
        ("vote", record(3, b"vote")),
        ("committed", record(4, &some(2))),
        ("truncated", record(5, &truncate)),
        ("purged", record(6, &position(1))),
        ("damaged", vec![7, 3, 2, 20, 255]),
    ];
    for (name, mark) in marks {
        write("wal", name, &[whole.clone(), mark, end.clone()].concat());
    }
}

fn configurations() {
    let toml = fs::read(package().join("../cluster.toml")).unwrap();
    write("config", "cluster.toml", &[&[0], toml.as_slice()].concat());
    let zoo = b"\x01tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=data\nclientPort=2181\n\
        server.1=127.0.0.1:2888:3888\nserver.2=127.0.0.1:2889:3889:observer\n\
        4lw.commands.whitelist=ruok, stat\nautopurge.purgeInterval=1\n";
    write("config", "zoo.cfg", zoo);
    let members = b"\x02server.1=[::1]:2888:3888:participant;2181\n\
        server.2=a:2888:3888:observer;0.0.0.0:2181\x01server.3=b:1:2;3\x012";
    write("config", "members", members);
}

/// The first byte says whether a handshake that is right comes first.
fn peers() {
    let frame = |kind: u8, body: &[u8]| {
        let mut out = Vec::new();
        out.put_u32(u32::try_from(9 + body.len()).unwrap());
        out.put_u8(kind);
        out.put_u64(1);
        out.put_slice(body);
        out
    };
    write("peer", "call", &[vec![1], frame(2, b"body")].concat());
    write("peer", "calls", &[vec![1], frame(1, b""), frame(5, &[0; 100])].concat());
    write("peer", "answer", &[vec![1], frame(0, b"not asked for")].concat());
    let cut_short = frame(1, &[0; 40]).into_iter().take(20).collect();
    write("peer", "short", &[vec![1], cut_short].concat());
    write("peer", "greeting", b"\x00zoopeer\n\x00\x04\x00\x52\x00\x00\x00\x00\x00\x00\x00\x07");
}

fn write(target: &str, name: &str, input: &[u8]) {
    let directory = package().join("fuzz").join("corpus").join(target);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join(name), input).unwrap();
}

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
