//! A recording proxy between real clients and a real Apache `ZooKeeper`: where the golden vectors in
//! `jute/tests/golden` come from (`make golden`).
//!
//! Every server has a door, a loopback port of its own; a client that is given the doors' addresses
//! meets the servers behind them and notices nothing. What passes is kept frame by frame in both
//! directions. A whole run would be megabytes of the same few frames, so [`WireRecorder::golden`] keeps
//! the first few exchanges of every kind.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use bytes::{Bytes, BytesMut};
use zoolet_jute::{Decode, OpCode, ReplyHeader, RequestHeader, Xid, frame};

use crate::foreign::{self, Ensemble, EnsembleError};
use crate::servers::Servers;

/// How many exchanges of one kind are kept.
const KIND_MAX: usize = 3;
/// The longest frame that is kept, in bytes: a longer one shows nothing more.
const FRAME_BYTES_KEPT: usize = 1024;

/// Who sent a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    Client,
    Server,
}

/// The frames of one connection, in an order in which they may have been sent: a reply stands
/// behind its request.
#[derive(Debug, Default)]
struct Transcript {
    frames: Vec<(Sender, Bytes)>,
    /// Four-letter words and garbage are not frames; nothing of such a connection is kept.
    is_foreign: bool,
}

type Transcripts = Arc<Mutex<Vec<Arc<Mutex<Transcript>>>>>;

/// Servers with a recording door in front of each.
#[derive(Debug)]
pub struct WireRecorder {
    servers: Servers,
    doors: Vec<SocketAddr>,
    transcripts: Transcripts,
}

impl WireRecorder {
    /// Opens a door in front of each server. The doors stay until the process ends.
    pub fn open(servers: Servers) -> io::Result<Self> {
        let transcripts = Transcripts::default();
        let mut doors = Vec::new();
        for port in servers.client_ports() {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            doors.push(listener.local_addr()?);
            let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let transcripts = Arc::clone(&transcripts);
            thread::spawn(move || keep_door(&listener, server, &transcripts));
        }
        Ok(Self { servers, doors, transcripts })
    }

    /// What was recorded so far, as the text of a golden file.
    pub fn golden(&self, title: &str) -> String {
        let mut text = format!("# {title}\n");
        let mut kinds = BTreeMap::new();
        for transcript in lock(&self.transcripts).iter() {
            let transcript = lock(transcript);
            let kept =
                if transcript.is_foreign { Vec::new() } else { select(&transcript, &mut kinds) };
            if kept.is_empty() {
                continue;
            }
            text.push_str("connection\n");
            for (sender, payload) in kept {
                text.push_str(if sender == Sender::Client { "> " } else { "< " });
                for byte in &payload {
                    let _ = write!(text, "{byte:02x}");
                }
                text.push('\n');
            }
        }
        text
    }

    fn behind(&self, door: &str) -> Result<String, EnsembleError> {
        let ports: Vec<u16> = self.doors.iter().map(SocketAddr::port).collect();
        let index = foreign::index_of(&ports, door)?;
        Ok(self.servers.client_address(index)?.to_string())
    }
}

impl Ensemble for WireRecorder {
    fn connect_string(&self) -> String {
        let doors: Vec<String> = self.doors.iter().map(SocketAddr::to_string).collect();
        doors.join(",")
    }

    fn kill_server(&mut self, address: &str) -> Result<(), EnsembleError> {
        let server = self.behind(address)?;
        self.servers.kill_server(&server)
    }

    fn restart_server(&mut self, address: &str) -> Result<(), EnsembleError> {
        let server = self.behind(address)?;
        self.servers.restart_server(&server)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Relays each client's connection, with a pair of threads for each.
fn keep_door(listener: &TcpListener, server: SocketAddr, transcripts: &Transcripts) {
    for client in listener.incoming().flatten() {
        // A server that is down refuses, and its door closes the client's connection likewise.
        let Ok(upstream) = TcpStream::connect(server) else { continue };
        let ends = client.try_clone().and_then(|client| Ok((client, upstream.try_clone()?)));
        let Ok((client_end, server_end)) = ends else { continue };
        let transcript = Arc::new(Mutex::new(Transcript::default()));
        lock(transcripts).push(Arc::clone(&transcript));
        let other = Arc::clone(&transcript);
        thread::spawn(move || pass_on(client, upstream, Sender::Client, &transcript));
        thread::spawn(move || pass_on(server_end, client_end, Sender::Server, &other));
    }
}

/// Copies one direction until it ends, and writes down what passes before it goes on.
fn pass_on(mut from: TcpStream, mut to: TcpStream, sender: Sender, transcript: &Mutex<Transcript>) {
    let mut chunk = vec![0; 64 * 1024];
    let mut waiting = BytesMut::new();
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        let passed = chunk.get(..length).unwrap_or_default();
        waiting.extend_from_slice(passed);
        note(&mut waiting, sender, &mut lock(transcript));
        if to.write_all(passed).is_err() {
            break;
        }
    }
    // Either end may be gone already; then there is nothing left to shut down.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

fn note(waiting: &mut BytesMut, sender: Sender, transcript: &mut Transcript) {
    while !transcript.is_foreign {
        match frame::split(waiting, 64 * 1024 * 1024) {
            Ok(Some(payload)) => transcript.frames.push((sender, payload)),
            Ok(None) => return,
            Err(_) => transcript.is_foreign = true,
        }
    }
}

/// What makes two exchanges alike: operation and error, and the shape where there are several.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    op: i32,
    err: i32,
    shape: Vec<i32>,
}

/// The handshake, and the exchanges and events of which too few are there yet.
fn select(transcript: &Transcript, kinds: &mut BTreeMap<Kind, usize>) -> Vec<(Sender, Bytes)> {
    let frames = &transcript.frames;
    let first = |sender| frames.iter().position(|(by, _)| *by == sender);
    let (Some(request), Some(response)) = (first(Sender::Client), first(Sender::Server)) else {
        return Vec::new();
    };
    let mut keep = vec![false; frames.len()];
    let mut asked: Vec<(usize, RequestHeader)> = Vec::new();
    for (index, (sender, payload)) in frames.iter().enumerate() {
        let mut body = payload.clone();
        if index == request || index == response {
            continue;
        }
        if *sender == Sender::Client {
            if let Ok(header) = RequestHeader::decode(&mut body, "header") {
                asked.push((index, header));
            }
            continue;
        }
        let Ok(header) = ReplyHeader::decode(&mut body, "header") else { continue };
        if header.xid == Xid::NOTIFICATION {
            let event = i32::decode(&mut body, "event").unwrap_or_default();
            let kind = Kind { op: OpCode::Notification as i32, err: 0, shape: vec![event] };
            mark(&mut keep, &[index], frames, kind, kinds);
        } else if let Some(place) = asked.iter().position(|(_, asked)| asked.xid == header.xid) {
            let (question, asked) = asked.remove(place);
            let err = header.err.map_or(0, |code| code as i32);
            let question_body = frames.get(question).map(|(_, body)| body.clone());
            let shape = shape(asked.op, &question_body.unwrap_or_default(), &body);
            mark(&mut keep, &[question, index], frames, Kind { op: asked.op, err, shape }, kinds);
        }
    }
    if !keep.contains(&true) {
        return Vec::new();
    }
    let handshake = [request, response];
    let is_kept = |index: &usize| handshake.contains(index) || keep.get(*index) == Some(&true);
    let chosen = frames.iter().enumerate().filter(|(index, _)| is_kept(index));
    chosen.map(|(_, frame)| frame.clone()).collect()
}

fn mark(
    keep: &mut [bool],
    indices: &[usize],
    frames: &[(Sender, Bytes)],
    kind: Kind,
    kinds: &mut BTreeMap<Kind, usize>,
) {
    let is_long = |index: &usize| {
        frames.get(*index).is_none_or(|(_, payload)| payload.len() > FRAME_BYTES_KEPT)
    };
    if indices.iter().any(is_long) {
        return;
    }
    let count = kinds.entry(kind).or_default();
    if *count >= KIND_MAX {
        return;
    }
    *count += 1;
    for index in indices {
        if let Some(keep) = keep.get_mut(*index) {
            *keep = true;
        }
    }
}

/// The mode of a create and the operations of a multi tell exchanges apart.
fn shape(op: i32, request: &Bytes, reply: &Bytes) -> Vec<i32> {
    use zoolet_jute::{MultiOp, MultiResult, Parts, Request};

    let mut body = request.slice(8.min(request.len())..);
    match OpCode::from_i32(op).and_then(|op| Request::decode(op, &mut body).ok()) {
        Some(Request::Create(body) | Request::Create2(body) | Request::CreateContainer(body)) => {
            vec![body.flags, i32::from(body.data.is_some())]
        }
        Some(Request::CreateTtl(body)) => vec![body.flags],
        Some(Request::Multi(Parts(parts))) => {
            let mut shape: Vec<i32> =
                parts.iter().map(|part: &MultiOp| part.op_code() as i32).collect();
            shape.sort_unstable();
            shape.dedup();
            if let Ok(Parts(results)) = Parts::<MultiResult>::decode(&mut reply.clone(), "multi") {
                let failed = results.iter().any(|result| matches!(result, MultiResult::Error(_)));
                shape.push(i32::from(failed));
            }
            shape
        }
        Some(_) | None => Vec::new(),
    }
}
