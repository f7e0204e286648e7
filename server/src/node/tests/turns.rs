//! The turns of a server's tasks, which share one thread. Counted in work of the replica, or in turns of
//! another task, so that a slow machine changes nothing.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::yield_now;
use zoolet_jute::{
    ConnectRequest, Encode, MultiOp, OpCode, Parts, PathVersionRequest, PathWatchRequest,
    RequestHeader, SessionId, SetWatchesRequest, Xid, Zxid, frame,
};

use super::*;
use crate::config::Words;
use crate::host::Turn;
use crate::host::testing::{OtherTask, decoded_bytes};

fn frame_of(xid: i32, op: OpCode, body: &impl Encode) -> Bytes {
    let mut out = BytesMut::new();
    frame::put(&mut out, |out| {
        RequestHeader { xid: Xid(xid), op: op as i32 }.encode(out);
        body.encode(out);
    });
    out.freeze()
}

fn host_of(ensemble: &Ensemble) -> Arc<Host> {
    Arc::clone(&ensemble.servers[0].node.as_ref().unwrap().host)
}

async fn connect(ensemble: &Ensemble) -> TcpStream {
    let addresses = ensemble.servers[0].node.as_ref().unwrap().client_addrs();
    let address = *addresses.borrow();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout_ms: 30_000,
        session_id: SessionId::NONE,
        password: None,
        read_only: None,
    };
    let mut out = BytesMut::new();
    frame::put(&mut out, |out| request.encode(out));
    stream.write_all(&out).await.unwrap();
    read_frame(&mut stream).await;
    stream
}

async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut payload = vec![0; usize::try_from(stream.read_u32().await.unwrap()).unwrap()];
    stream.read_exact(&mut payload).await.unwrap();
    payload
}

/// Has each client send a request `requests` times, and waits for the replies.
async fn send_all(clients: Vec<TcpStream>, request: &Bytes, requests: usize) {
    let asking = clients.into_iter().map(|stream| {
        let request = request.clone();
        let (mut reader, mut writer) = stream.into_split();
        tokio::spawn(async move {
            let writing = async {
                for _ in 0..requests {
                    writer.write_all(&request).await.unwrap();
                }
            };
            let reading = async {
                for _ in 0..requests {
                    read_frame(&mut reader).await;
                }
            };
            tokio::join!(writing, reading);
        })
    });
    for client in asking.collect::<Vec<_>>() {
        timeout(PATIENCE, client).await.expect("no replies").unwrap();
    }
}

/// A connection worked through everything that its socket had, and through all of its requests of one
/// read in one hold. Heartbeats, timers and other clients waited for seconds.
#[tokio::test]
async fn connections_yield_to_other_tasks() {
    const CLIENTS: usize = 5;
    const REQUESTS: usize = 100;
    let ensemble = Ensemble::start(1, 0, |_| {}).await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(connect(&ensemble).await);
    }
    // Each of them is most of a hold, and its reply is short.
    let body = PathWatchRequest { path: "/a".repeat(8000), watch: false };
    let request = frame_of(1, OpCode::Exists, &body);
    let host = host_of(&ensemble);
    let (other, before) = (OtherTask::spawn(&host), host.work_done());
    send_all(clients, &request, REQUESTS).await;
    let (all, longest) = (host.work_done() - before, other.longest().await);
    assert!(all > 300 * Turn::WORK, "{all} units of work need no turns");
    // Several connections may have their first hold of a read at the same time.
    let work_max = 3 * CLIENTS as u64 * Turn::WORK;
    assert!(longest < work_max, "{longest} units of work between two turns of another task");
}

/// Each whole frame of a read was decoded at once, and none of that was charged: a refused request of a
/// megabyte cost as much as a ping.
#[tokio::test]
async fn connections_yield_while_they_decode() {
    const CLIENTS: usize = 5;
    const REQUESTS: usize = 20;
    let ensemble = Ensemble::start(1, 0, |_| {}).await;
    let check = MultiOp::Check(PathVersionRequest { path: "/".to_owned(), version: 0 });
    let mut body = BytesMut::new();
    Parts(vec![check; 50_000]).encode(&mut body);
    body.truncate(body.len() - 1);
    let mut request = BytesMut::new();
    frame::put(&mut request, |out| {
        RequestHeader { xid: Xid(1), op: OpCode::Multi as i32 }.encode(out);
        out.extend_from_slice(&body);
    });
    let request = request.freeze();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(connect(&ensemble).await);
    }
    let other = OtherTask::counting(decoded_bytes);
    send_all(clients, &request, REQUESTS).await;
    let longest = other.longest().await;
    // One connection decodes such a frame in each turn of the others, and hands the next one its place.
    let bytes_max = 2 * request.len() as u64;
    assert!(longest <= bytes_max, "{longest} bytes between two turns of another task");
}

/// `wchc` of 400,000 watches kept heartbeats and clients waiting for a second.
#[tokio::test]
async fn long_four_letter_words_yield_to_other_tasks() {
    const WATCHES: usize = 50_000;
    let words = |config: &mut ServerConfig| config.four_letter.words = Words::All;
    let ensemble = Ensemble::start(1, 0, words).await;
    let mut watcher = connect(&ensemble).await;
    let body = SetWatchesRequest {
        relative_zxid: Zxid(i64::MAX),
        data_watches: Vec::new(),
        exist_watches: (0..WATCHES).map(|n| format!("/{n:05}")).collect(),
        child_watches: Vec::new(),
    };
    watcher.write_all(&frame_of(-8, OpCode::SetWatches, &body)).await.unwrap();
    read_frame(&mut watcher).await;
    for (word, lines) in [("wchc", WATCHES), ("wchp", 2 * WATCHES), ("wchs", 1)] {
        let addresses = ensemble.servers[0].node.as_ref().unwrap().client_addrs();
        let address = *addresses.borrow();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let other = OtherTask::spawn(&host_of(&ensemble));
        yield_now().await;
        let before = other.turns();
        stream.write_all(word.as_bytes()).await.unwrap();
        stream.readable().await.unwrap();
        let turns = other.turns() - before;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.lines().count() > lines, "{} lines", answer.lines().count());
        assert!(turns >= WATCHES as u64 / 2000, "another task has {turns} turns during {word}");
    }
}
