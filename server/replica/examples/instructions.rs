//! Counts the instructions of the hot paths and holds them against a stored base, so that a slip is
//! seen on any machine: `make instructions` runs `check`, which fails when a path takes more than
//! 1.1 times its base, and `make instructions_base` runs `write`, which makes the present counts the
//! base. Both need valgrind.
//!
//! `run PATH COUNT` does the work itself. A path is run twice under valgrind, the second time with
//! twice the count: the difference has neither the start of the program nor the preparation in it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that measures"
)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it runs valgrind")]

mod shared;

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write;
use std::fs;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use bytes::{Bytes, BytesMut};
use shared::{Server, Tree};
use zoolet_jute::{
    Decode, Encode, OpCode, PathWatchRequest, Reply, ReplyHeader, Request, RequestHeader,
    SetDataRequest, Stat, Xid, Zxid,
};

/// A path that takes more than this many times its base is a slip.
const RATIO_MAX: f64 = 1.10;
/// Runs of a path in the shorter of its two measurements.
const COUNT: u64 = 2_000;
/// The znodes that there are before a path is run.
const ZNODES: u64 = 3 * COUNT;
const WATCHERS: u64 = 100;
const DATA: &[u8] = &[7; 100];

type Run = fn(u64);

const PATHS: [(&str, Run); 9] = [
    ("decode-request", decode_request),
    ("encode-request", encode_request),
    ("encode-reply", encode_reply),
    ("apply-create", apply_create),
    ("apply-set", apply_set),
    ("apply-delete", apply_delete),
    ("step-get", step_get),
    ("step-set", step_set),
    ("step-set-100-watchers", step_set_100_watchers),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["run", path, count] => {
            let (_, run) = PATHS.iter().find(|(name, _)| name == path).expect("a path by its name");
            run(count.parse().expect("a count"));
            ExitCode::SUCCESS
        }
        ["check"] => check(),
        ["write"] => write(),
        _ => {
            eprintln!("usage: instructions check | write | run PATH COUNT");
            ExitCode::from(2)
        }
    }
}

/// Counts each path and compares it with the base of this toolchain.
fn check() -> ExitCode {
    let toolchain = toolchain();
    let mut bases = read_base();
    let Some(base) = bases.remove(&toolchain) else {
        eprintln!(
            "instructions: {} has no counts of {toolchain}: run `make instructions_base`, and \
             commit the file if the toolchain has changed",
            base_file().display()
        );
        return ExitCode::FAILURE;
    };
    let mut slips = 0;
    for (path, _) in PATHS {
        let count = instructions(path);
        let Some(before) = base.get(path).copied() else {
            eprintln!("instructions: {path} has no base: run `make instructions_base`");
            slips += 1;
            continue;
        };
        let ratio = count / before;
        println!("instructions: {path:22} {count:8.0}, base {before:8.0}, ratio {ratio:.3}");
        if ratio > RATIO_MAX {
            eprintln!(
                "instructions: {path} takes {count:.0} instructions, {ratio:.2} times its base of \
                 {before:.0}; at most {RATIO_MAX:.2} times is accepted. If that is meant, run \
                 `make instructions_base` and say why in the commit"
            );
            slips += 1;
        }
    }
    if slips == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Makes the present counts the base of this toolchain; those of others stay.
fn write() -> ExitCode {
    let mut bases = read_base();
    let counts = PATHS.map(|(path, _)| (path.to_owned(), instructions(path)));
    bases.insert(toolchain(), BTreeMap::from(counts));
    let mut text = String::from(
        "# Instructions of one run of each hot path, by toolchain; `make instructions_base` writes \
         this file.\n",
    );
    for (toolchain, counts) in &bases {
        for (path, count) in counts {
            writeln!(text, "{toolchain} {path} {count:.0}").expect("a String takes everything");
        }
    }
    fs::write(base_file(), text).expect("the base is written");
    println!("instructions: {} is written", base_file().display());
    ExitCode::SUCCESS
}

fn base_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/instructions.txt")
}

/// The counts of each path, by toolchain.
fn read_base() -> BTreeMap<String, BTreeMap<String, f64>> {
    let mut bases: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    let text = fs::read_to_string(base_file()).unwrap_or_default();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let [toolchain, path, count] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{}: expected TOOLCHAIN PATH COUNT in `{line}`", base_file().display());
        };
        let count = count.parse().unwrap_or_else(|_| panic!("invalid count in `{line}`"));
        bases.entry(toolchain.to_owned()).or_default().insert(path.to_owned(), count);
    }
    bases
}

/// The architecture and the compiler's release, which the counts depend on.
fn toolchain() -> String {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().expect("rustc runs");
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    let release = version.split_whitespace().nth(1).expect("rustc prints its release");
    format!("{}-rustc-{release}", env::consts::ARCH)
}

/// Returns the instructions of one run of a path.
fn instructions(path: &str) -> f64 {
    let once = total(path, COUNT);
    let twice = total(path, 2 * COUNT);
    let difference = u32::try_from(twice.saturating_sub(once)).expect("a short path");
    f64::from(difference) / f64::from(u32::try_from(COUNT).expect("a small count"))
}

/// Runs the work in a process of its own, and returns valgrind's count of all its instructions.
fn total(path: &str, count: u64) -> u64 {
    let program = env::current_exe().expect("this program has a path");
    let output = Command::new("valgrind")
        // Without its caches of small blocks the C library's work does not depend on what the heap
        // looks like: with them, the same code differs by a sixth between two builds.
        .env("GLIBC_TUNABLES", "glibc.malloc.mxfast=0:glibc.malloc.tcache_count=0")
        .args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"])
        .arg(program)
        .args(["run", path, &count.to_string()])
        .output()
        .expect("valgrind runs: is it installed?");
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{path}: {printed}");
    parse(&printed).unwrap_or_else(|| panic!("{path}: valgrind prints no `I refs`: {printed}"))
}

/// Finds the number of `==12== I   refs:      1,234,567`.
fn parse(printed: &str) -> Option<u64> {
    let line = printed.lines().find(|line| line.contains("refs:") && line.contains(" I "))?;
    line.rsplit_once(':')?.1.trim().replace(',', "").parse().ok()
}

fn znode(number: u64) -> String {
    format!("/load/n{number:09}")
}

/// An order that is not the one of the names.
fn shuffled(number: u64) -> u64 {
    number * 7_919 % ZNODES
}

fn set(path: String) -> Request {
    let data = Some(Bytes::from_static(DATA));
    Request::SetData(SetDataRequest { path, data, version: -1 })
}

fn decode_request(count: u64) {
    let mut out = BytesMut::new();
    set(znode(1)).encode_with(Xid(1), &mut out);
    let payload = out.freeze();
    for _ in 0..count {
        let mut input = black_box(payload.clone());
        let header = RequestHeader::decode(&mut input, "header").unwrap();
        assert_eq!(header.op, OpCode::SetData as i32);
        black_box(Request::decode(OpCode::SetData, &mut input).unwrap());
    }
}

fn encode_request(count: u64) {
    let request = set(znode(1));
    let mut out = BytesMut::with_capacity(256);
    for _ in 0..count {
        out.clear();
        black_box(&request).encode_with(Xid(1), &mut out);
        black_box(&out);
    }
}

fn encode_reply(count: u64) {
    let header = ReplyHeader { xid: Xid(1), zxid: Zxid(1), err: None };
    let reply = Reply::Stat(Stat::default());
    let mut out = BytesMut::with_capacity(256);
    for _ in 0..count {
        out.clear();
        black_box(&header).encode(&mut out);
        black_box(&reply).encode(&mut out);
        black_box(&out);
    }
}

/// A tree with znodes below one parent.
fn tree() -> Tree {
    let mut tree = Tree::new();
    tree.create("/load".to_owned());
    (0..ZNODES).for_each(|number| tree.create(znode(shuffled(number))));
    tree
}

fn apply_create(count: u64) {
    let mut tree = tree();
    (0..count).for_each(|number| tree.create(znode(ZNODES + shuffled(number))));
}

fn apply_set(count: u64) {
    let mut tree = tree();
    (0..count).for_each(|number| tree.set(znode(shuffled(number)), DATA));
}

fn apply_delete(count: u64) {
    let mut tree = tree();
    (0..count).for_each(|number| tree.delete(znode(shuffled(number))));
}

/// A server with a znode, and connections from 1 on.
fn server(connections: u64) -> Server {
    let mut server = Server::new();
    (1..=connections).for_each(|number| server.connect(number));
    assert_eq!(server.request(1, shared::create("/znode".to_owned())), 1);
    server
}

fn step_get(count: u64) {
    let mut server = server(1);
    let get = PathWatchRequest { path: "/znode".to_owned(), watch: false };
    for _ in 0..count {
        assert_eq!(server.request(1, Request::GetData(get.clone())), 1);
    }
}

/// The proposal, its entry of the log and the commit, too.
fn step_set(count: u64) {
    let mut server = server(1);
    for _ in 0..count {
        assert_eq!(server.request(1, set("/znode".to_owned())), 1);
    }
}

fn step_set_100_watchers(count: u64) {
    let mut server = server(WATCHERS);
    (1..=WATCHERS).for_each(|number| server.watch(number, "/znode".to_owned()));
    for _ in 0..count {
        // The reply, and an event for each.
        assert_eq!(server.request(1, set("/znode".to_owned())), 101);
    }
}
