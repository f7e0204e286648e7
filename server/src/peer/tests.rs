use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::link::Probes;
use super::*;
use crate::entropy::RealEntropy;
use crate::fatal::Fatal;
use crate::transport::{BoxFuture, Listener, Net, RealNet, Stream};

/// Kind 1 gives the body back at once, 2 after a while, 3 is never answered.
#[derive(Debug)]
struct Echo;

impl Service for Echo {
    fn call(&self, call: Call) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            match call.kind {
                1 => Answer::Now(call.body),
                2 => Answer::Later(Box::pin(async move {
                    sleep(Duration::from_millis(50)).await;
                    Some(call.body)
                })),
                _ => Answer::Later(Box::pin(async { None })),
            }
        })
    }
}

pub(super) const OURS: PeerIdentity =
    PeerIdentity { cluster: 7, founding: 0, server: 1, directory: 5 };
pub(super) const THEIRS: PeerIdentity = PeerIdentity { server: 2, directory: 6, ..OURS };

fn options() -> PeerPortOptions {
    PeerPortOptions {
        any_cluster: false,
        secret: None,
        tls: PeerTls::default(),
        ours: THEIRS,
        founding: Arc::default(),
        address: "127.0.0.1:0".to_owned(),
        frames: FrameLimits { small: 1000, large: 1000 },
        answers_max: 8,
        handshake_timeout: Duration::from_millis(300),
        hung_up: mpsc::channel(1).0,
        fatal: Fatal::default(),
    }
}

async fn port() -> PeerPort {
    PeerPort::listen(&RealNet, options(), Arc::new(Echo)).await.unwrap()
}

fn link(port: &PeerPort, ours: PeerIdentity, target: u64) -> Link {
    Link::open(link_options(port, ours, target))
}

fn link_options(port: &PeerPort, ours: PeerIdentity, target: u64) -> LinkOptions {
    LinkOptions {
        net: Arc::new(RealNet),
        ours,
        founding: Arc::new(AtomicU64::new(ours.founding)),
        secret: None,
        tls: PeerTls::default(),
        target: Target { server: target, directory: None },
        addresses: vec![port.local_addr().to_string()],
        lane: Lane::Request,
        frames: FrameLimits { small: 1000, large: 1000 },
        calls_max: 8,
        connect_timeout: Duration::from_secs(1),
        backoff_max: Duration::from_millis(100),
        stall_timeout: Duration::from_millis(200),
        probes: None,
        reach: Arc::default(),
        fatal: Fatal::default(),
    }
}

#[tokio::test]
async fn answers_find_their_calls_in_any_order() {
    let port = port().await;
    let link = link(&port, OURS, 2);
    let late = link.call(2, Bytes::from_static(b"late"));
    let soon = link.call(1, Bytes::from_static(b"soon"));
    assert_eq!(soon.await, Ok(Bytes::from_static(b"soon")));
    assert_eq!(late.await, Ok(Bytes::from_static(b"late")));
}

/// Counts the calls of kind 1, and gives the number back.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl Service for Counting {
    fn call(&self, _: Call) -> BoxFuture<'_, Answer> {
        let count = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        Box::pin(async move { Answer::Now(Bytes::copy_from_slice(&count.to_be_bytes())) })
    }
}

#[tokio::test]
async fn messages_without_an_answer_arrive_in_their_place_and_are_not_answered() {
    let service = Arc::new(Counting::default());
    let counted: Arc<dyn Service> = service.clone();
    let port = PeerPort::listen(&RealNet, options(), counted).await.unwrap();
    let link = link(&port, OURS, 2);
    let mut calls = Vec::new();
    for urgency in [Urgency::AfterOthers, Urgency::Now, Urgency::AfterOthers] {
        link.notify(1, Bytes::new(), urgency);
        calls.push(link.call(1, Bytes::new()));
    }
    for (number, call) in calls.into_iter().enumerate() {
        let counted = (number as u64 + 1) * 2;
        assert_eq!(call.await, Ok(Bytes::copy_from_slice(&counted.to_be_bytes())));
    }
    link.notify(1, Bytes::new(), Urgency::AfterOthers);
    // It is written although no call follows.
    let arrives = async {
        while service.0.load(Ordering::Relaxed) < 7 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(20), arrives).await.expect("it arrives");
    // No answer is owed, so the link is not given up as stalled.
    sleep(Duration::from_millis(400)).await;
    assert!(link.call(1, Bytes::new()).await.is_ok());
}

#[tokio::test]
async fn a_broken_connection_fails_what_was_sent_and_the_next_call_connects_anew() {
    let first = port().await;
    let address = first.local_addr();
    let link = link(&first, OURS, 2);
    assert!(link.call(1, Bytes::new()).await.is_ok());
    let pending = link.call(3, Bytes::new());
    sleep(Duration::from_millis(20)).await;
    drop(first);
    assert_eq!(pending.await, Err(CallError::Broken));
    assert_eq!(link.call(1, Bytes::new()).await, Err(CallError::Unreachable));

    let options = PeerPortOptions {
        any_cluster: false,
        secret: None,
        tls: PeerTls::default(),
        ours: THEIRS,
        founding: Arc::default(),
        address: address.to_string(),
        frames: FrameLimits { small: 1000, large: 1000 },
        answers_max: 8,
        handshake_timeout: Duration::from_secs(1),
        hung_up: mpsc::channel(1).0,
        fatal: Fatal::default(),
    };
    let _second = PeerPort::listen(&RealNet, options, Arc::new(Echo)).await.unwrap();
    sleep(Duration::from_millis(150)).await;
    assert!(link.call(1, Bytes::new()).await.is_ok());
}

#[tokio::test]
async fn a_peer_that_stops_answering_is_given_up() {
    let port = port().await;
    let link = link(&port, OURS, 2);
    let answer = timeout(Duration::from_secs(2), link.call(3, Bytes::new())).await;
    assert_eq!(answer, Ok(Err(CallError::Broken)));
}

/// Heartbeats with pauses between them, whose callers wait less long than a connection may be
/// silent: each made it look alive again, so that a leader kept a dead connection, and had no
/// majority for seconds after a partition had healed.
#[tokio::test]
async fn a_peer_that_stops_answering_is_given_up_though_no_call_waits_that_long() {
    let (port, net) = (port().await, Arc::new(Counted::default()));
    let link = Link::open(LinkOptions { net: net.clone(), ..link_options(&port, OURS, 2) });
    let is_given_up = async {
        while net.connects.load(Ordering::Relaxed) < 2 {
            let answer = link.call_within(3, Bytes::new(), Duration::from_millis(20)).await;
            assert!(answer.is_err());
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_secs(5), is_given_up).await.expect("it is never given up");
}

/// What a peer does when it is probed. Its answer to the call before takes two seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probed {
    /// The probe has its answer first.
    Answers,
    /// It answers one call after the other.
    InOrder,
    /// It knows nothing of the connection.
    Resets,
    /// It answers nothing.
    Silent,
}

#[derive(Debug)]
struct Slow {
    probed: Probed,
    probes: AtomicUsize,
}

impl Service for Slow {
    fn call(&self, call: Call) -> BoxFuture<'_, Answer> {
        let (probed, is_probe) = (self.probed, call.kind == RpcKind::Status.code());
        self.probes.fetch_add(usize::from(is_probe), Ordering::Relaxed);
        Box::pin(async move {
            let long = async move {
                sleep(Duration::from_secs(2)).await;
                Some(call.body)
            };
            match probed {
                Probed::Answers | Probed::InOrder if is_probe => Answer::Now(Bytes::new()),
                Probed::Answers => Answer::Later(Box::pin(long)),
                Probed::InOrder => Answer::Now(long.await.unwrap()),
                Probed::Resets if is_probe => Answer::Close,
                Probed::Resets | Probed::Silent => Answer::Later(Box::pin(async { None })),
            }
        })
    }
}

/// A leader waited five minutes for a follower to install a snapshot that had lost its power in the
/// midst of it, and sent it nothing else meanwhile.
#[tokio::test]
async fn a_peer_that_takes_long_is_probed() {
    let ms = Duration::from_millis;
    let long = ms(60_000);
    for (probed, stall_timeout, stall_timeout_before, answers) in [
        (Probed::Answers, ms(400), ms(400), true),
        (Probed::InOrder, ms(400), long, true),
        (Probed::Resets, long, long, false),
        (Probed::Silent, ms(400), ms(1200), false),
    ] {
        let service = Arc::new(Slow { probed, probes: AtomicUsize::default() });
        let answering: Arc<dyn Service> = service.clone();
        let port = PeerPort::listen(&RealNet, options(), answering).await.unwrap();
        let probes = Some(Probes { every: ms(100), stall_timeout_before });
        let link_options = link_options(&port, OURS, 2);
        let link = Link::open(LinkOptions { stall_timeout, probes, ..link_options });
        let expected =
            if answers { Ok(Bytes::from_static(b"long")) } else { Err(CallError::Broken) };
        // The second time, the first one's probes are not taken for those of a peer that answers at once.
        for _ in 0..=usize::from(answers) {
            let answer = timeout(ms(20_000), link.call(1, Bytes::from_static(b"long"))).await;
            assert_eq!(answer, Ok(expected.clone()), "{probed:?}");
        }
        let probes = service.probes.load(Ordering::Relaxed);
        let is_right = if probed == Probed::Resets { probes == 1 } else { probes > 3 };
        assert!(is_right, "{probed:?}: {probes} probes");
    }
}

/// The network, and how often it was used.
#[derive(Debug, Default)]
struct Counted {
    connects: AtomicUsize,
}

impl Net for Counted {
    fn listen<'a>(
        &'a self,
        address: &'a str,
        backlog: u32,
    ) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        RealNet.listen(address, backlog)
    }

    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        self.connects.fetch_add(1, Ordering::Relaxed);
        RealNet.connect(address)
    }
}

#[tokio::test]
async fn another_cluster_or_server_is_refused() {
    let port = port().await;
    let stranger = PeerIdentity { cluster: 8, ..OURS };
    assert_eq!(link(&port, stranger, 2).call(1, Bytes::new()).await, Err(CallError::Unreachable));
    assert_eq!(link(&port, OURS, 3).call(1, Bytes::new()).await, Err(CallError::Unreachable));
}

#[tokio::test]
async fn another_founding_is_refused_and_none_is_not() {
    let founding = Arc::new(AtomicU64::new(8));
    let options = PeerPortOptions { founding: Arc::clone(&founding), ..options() };
    let port = PeerPort::listen(&RealNet, options, Arc::new(Echo)).await.unwrap();
    let of = |founding| link(&port, PeerIdentity { founding, ..OURS }, 2);
    assert_eq!(of(9).call(1, Bytes::new()).await, Err(CallError::Unreachable));
    for known in [0, 8] {
        assert_eq!(of(known).call(1, Bytes::new()).await, Ok(Bytes::new()));
    }
    founding.store(0, Ordering::Relaxed);
    assert_eq!(of(9).call(1, Bytes::new()).await, Ok(Bytes::new()));
}

/// The calls meant for a server reached an empty one that had its number and address.
#[tokio::test]
async fn another_directory_of_the_same_server_is_refused_and_named() {
    let port = port().await;
    for (directory, expected) in
        [(Some(6), Ok(Bytes::new())), (Some(7), Err(CallError::Unreachable))]
    {
        let target = Target { server: 2, directory };
        let options = LinkOptions { target, ..link_options(&port, OURS, 2) };
        let reach = Arc::clone(&options.reach);
        assert_eq!(Link::open(options).call(1, Bytes::new()).await, expected);
        assert_eq!(reach.directory(), Some(6));
    }
}

#[tokio::test]
async fn a_caller_whose_number_no_server_has_is_refused() {
    let port = port().await;
    for server in [256, 1000, u64::MAX] {
        let stranger = PeerIdentity { server, ..OURS };
        let answer = link(&port, stranger, 2).call(1, Bytes::new()).await;
        assert_eq!(answer, Err(CallError::Unreachable), "{server}");
    }
    for server in [0, 255] {
        let known = PeerIdentity { server, ..OURS };
        assert!(link(&port, known, 2).call(1, Bytes::new()).await.is_ok());
    }
}

#[tokio::test]
async fn a_client_on_the_peer_port_is_closed_without_an_answer() {
    let port = port().await;
    let mut stream = TcpStream::connect(port.local_addr()).await.unwrap();
    // The ConnectRequest of a Java client.
    let mut request = vec![0, 0, 0, 45];
    request.extend([0; 45]);
    stream.write_all(&request).await.unwrap();
    let mut answer = Vec::new();
    let read = timeout(Duration::from_secs(2), stream.read_to_end(&mut answer)).await.unwrap();
    // A reset is as good as an end: the port did not read all that was sent.
    assert!(read.is_err() || answer.is_empty());

    let mut silent = TcpStream::connect(port.local_addr()).await.unwrap();
    let read = timeout(Duration::from_secs(2), silent.read_to_end(&mut answer)).await.unwrap();
    assert!(read.is_err() || answer.is_empty());
}

#[tokio::test]
async fn a_frame_that_is_too_long_is_not_sent_and_not_taken() {
    let port = port().await;
    let link = link(&port, OURS, 2);
    assert_eq!(link.call(1, Bytes::from(vec![0; 2000])).await, Err(CallError::Full));

    let mut stream = RealNet.connect(&port.local_addr().to_string()).await.unwrap();
    let target = Target { server: 2, directory: Some(6) };
    handshake::greet(&mut *stream, OURS, (target, Lane::Control), None).await.unwrap();
    stream.write_all(&[0x7f, 0xff, 0xff, 0xff, 1]).await.unwrap();
    let mut answer = Vec::new();
    let read = timeout(Duration::from_secs(2), stream.read_to_end(&mut answer)).await.unwrap();
    assert!(read.is_err() || answer.is_empty());
}

#[tokio::test]
async fn a_caller_of_another_version_receives_the_version_that_is_spoken() {
    let port = port().await;
    let mut stream = TcpStream::connect(port.local_addr()).await.unwrap();
    let mut hello = b"zoopeer\n".to_vec();
    hello.extend(1_u16.to_be_bytes());
    stream.write_all(&hello).await.unwrap();
    let mut answer = Vec::new();
    let read = timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.unwrap();
    assert_eq!(read.unwrap(), 11);
    // Its version, and that it refuses the caller's.
    assert_eq!((&answer[..8], &answer[8..]), (&b"zoopeer\n"[..], &[0, 4, 1][..]));
}

#[tokio::test]
async fn without_a_named_cluster_others_are_let_in_under_their_numbers() {
    let options = PeerPortOptions { any_cluster: true, ..options() };
    let port = PeerPort::listen(&RealNet, options, Arc::new(Echo)).await.unwrap();
    let other = PeerIdentity { cluster: 8, ..OURS };
    assert_eq!(link(&port, other, 2).call(1, Bytes::new()).await, Ok(Bytes::new()));
    assert_eq!(link(&port, other, 3).call(1, Bytes::new()).await, Err(CallError::Unreachable));
}

pub(super) fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes(), Arc::new(RealEntropy))
}

/// Any program that reached the peer port could vote, forge the origins of commands and send snapshots.
#[tokio::test]
async fn only_who_knows_the_secret_is_let_in() {
    let known = Some(secret("the secret of this ensemble"));
    let port_options = PeerPortOptions { secret: known.clone(), ..options() };
    let port = PeerPort::listen(&RealNet, port_options, Arc::new(Echo)).await.unwrap();
    let call = |secret| {
        let link = Link::open(LinkOptions { secret, ..link_options(&port, OURS, 2) });
        async move { link.call(1, Bytes::from_static(b"hi")).await }
    };
    assert_eq!(call(known).await, Ok(Bytes::from_static(b"hi")));
    assert_eq!(call(None).await, Err(CallError::Unreachable));
    assert_eq!(
        call(Some(secret("the secret of other servers"))).await,
        Err(CallError::Unreachable)
    );
}

#[tokio::test]
async fn a_server_that_does_not_know_the_secret_is_not_called() {
    for theirs in [None, Some(secret("the secret of other servers"))] {
        let port_options = PeerPortOptions { secret: theirs, ..options() };
        let port = PeerPort::listen(&RealNet, port_options, Arc::new(Echo)).await.unwrap();
        let ours = Some(secret("the secret of this ensemble"));
        let link = Link::open(LinkOptions { secret: ours, ..link_options(&port, OURS, 2) });
        assert_eq!(link.call(1, Bytes::new()).await, Err(CallError::Unreachable));
    }
}

/// A proof that was overheard opens no other connection, and the called side's own proof is not
/// the caller's.
#[tokio::test]
async fn a_handshake_that_was_recorded_cannot_be_played_again() {
    let known = Some(secret("the secret of this ensemble"));
    let port_options = PeerPortOptions { secret: known.clone(), ..options() };
    let port = PeerPort::listen(&RealNet, port_options, Arc::new(Echo)).await.unwrap();
    let (near, mut far) = tokio::io::duplex(4096);
    let mut near: Box<dyn Stream> = Box::new(near);
    let greeting = tokio::spawn(async move {
        let target = Target { server: 2, directory: None };
        handshake::greet(&mut *near, OURS, (target, Lane::Request), known.as_ref()).await.map(drop)
    });
    // The recorder sits between the two, and passes everything on.
    let mut real = TcpStream::connect(port.local_addr()).await.unwrap();
    let mut hello = vec![0; 8 + 2 + 2 + 32 + 8 + 8 + 1 + 1 + 32];
    far.read_exact(&mut hello).await.unwrap();
    real.write_all(&hello).await.unwrap();
    let mut welcome = vec![0; 8 + 2 + 1 + 2 + 32 + 32 + 32];
    real.read_exact(&mut welcome).await.unwrap();
    far.write_all(&welcome).await.unwrap();
    let mut proof = vec![0; 32];
    far.read_exact(&mut proof).await.unwrap();
    greeting.await.unwrap().unwrap();

    let called_proof = welcome.split_off(welcome.len() - 32);
    for answer in [proof, called_proof, vec![0; 32]] {
        let mut replayed = TcpStream::connect(port.local_addr()).await.unwrap();
        replayed.write_all(&hello).await.unwrap();
        let mut fresh = vec![0; 8 + 2 + 1 + 2 + 32 + 32 + 32];
        replayed.read_exact(&mut fresh).await.unwrap();
        replayed.write_all(&answer).await.unwrap();
        // A call of kind 1 with an empty body.
        replayed.write_all(&[0, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0, 0, 1]).await.unwrap();
        let mut answered = Vec::new();
        let read = timeout(Duration::from_secs(20), replayed.read_to_end(&mut answered)).await;
        assert!(read.unwrap().is_err() || answered.is_empty(), "it was let in");
    }
}

/// A frame of a gigabyte was taken on every lane.
#[tokio::test]
async fn each_lane_has_a_limit_of_its_own() {
    let frames = FrameLimits { small: 500, large: 5000 };
    let port_options = PeerPortOptions { frames, ..options() };
    let port = PeerPort::listen(&RealNet, port_options, Arc::new(Echo)).await.unwrap();
    let generous = FrameLimits { small: 1 << 20, large: 1 << 20 };
    for (lane, fits, is_too_long) in [
        (Lane::Control, 400, 600),
        (Lane::Query, 400, 600),
        (Lane::Append, 4900, 5100),
        (Lane::Request, 4900, 5100),
        (Lane::Snapshot, 4900, 5100),
    ] {
        let link_options = LinkOptions { frames: generous, lane, ..link_options(&port, OURS, 2) };
        let link = Link::open(link_options);
        let call = |bytes: usize| link.call(1, Bytes::from(vec![7; bytes]));
        assert_eq!(call(fits).await.map(|body| body.len()), Ok(fits), "{lane}");
        assert_eq!(call(is_too_long).await, Err(CallError::Broken), "{lane}");
    }
}
