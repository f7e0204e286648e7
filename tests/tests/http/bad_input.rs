//! Bad, large and slow requests: each is refused or closed, and the server goes on.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use zoolet_jute::{Request, SetWatchesRequest, Xid, Zxid};
use zoolet_tests::raw::{Incoming, RawConnection};
use zoolet_tests::servers::Servers;
use zoolet_tests::{four_letter, http};

use crate::support::*;

/// A server that closes idle connections soon.
fn server(idle_ms: u64) -> WithHttp {
    WithHttp::start(Servers::zoolet().property("admin.idleTimeout", &idle_ms.to_string()))
}

#[track_caller]
fn assert_lives(server: &WithHttp) {
    assert_eq!(http::get(server.http, "/ready").unwrap().status, 200);
    let client_port = server.servers.client_address(0).unwrap();
    assert_eq!(four_letter::ask(client_port, "ruok").unwrap(), "imok");
}

/// The status of the first answer to these bytes; 0 if there is none.
fn status(address: SocketAddr, bytes: &[u8]) -> u16 {
    let answer = http::send(address, bytes).unwrap_or_default();
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

#[test]
fn bad_requests_are_refused() {
    let server = server(1000);
    let long = "x".repeat(64 << 10);
    let headers = (0..100).map(|number| format!("h{number}: x\r\n")).collect::<Vec<_>>().concat();
    let close = "Host: a\r\nConnection: close\r\n\r\n";
    for (what, request, expected) in [
        ("a long path", format!("GET /{long} HTTP/1.1\r\n{close}"), 431),
        ("a long header", format!("GET /health HTTP/1.1\r\na: {long}\r\n{close}"), 431),
        ("many headers", format!("GET /health HTTP/1.1\r\n{headers}{close}"), 431),
        ("no HTTP", "\0\0\0\0\x7f\r\n\r\n".to_owned(), 400),
        ("another version", format!("GET /health HTTP/9.9\r\n{close}"), 400),
        ("POST", format!("POST /commands/ruok HTTP/1.1\r\nContent-Length: 9\r\n{close}"), 405),
        (
            "a long body",
            format!("POST /x HTTP/1.1\r\nContent-Length: 999999999999\r\n{close}"),
            405,
        ),
        (
            "two lengths",
            format!("GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n{close}"),
            400,
        ),
        ("TRACE", format!("TRACE /health HTTP/1.1\r\n{close}"), 405),
        ("DELETE", format!("DELETE /metrics HTTP/1.1\r\n{close}"), 405),
        ("CONNECT", format!("CONNECT a:1 HTTP/1.1\r\n{close}"), 405),
        ("a parent", format!("GET /commands/../metrics HTTP/1.1\r\n{close}"), 404),
        ("a file", format!("GET /../../etc/passwd HTTP/1.1\r\n{close}"), 404),
        ("an escape", format!("GET /%6detrics HTTP/1.1\r\n{close}"), 404),
        ("a null", format!("GET /commands/%00 HTTP/1.1\r\n{close}"), 200),
        ("an unknown command", format!("GET /commands/x HTTP/1.1\r\n{close}"), 200),
        ("the root", format!("GET / HTTP/1.1\r\n{close}"), 404),
        ("HEAD", format!("HEAD /metrics HTTP/1.1\r\n{close}"), 200),
    ] {
        let got = status(server.http, request.as_bytes());
        // A client that still sends may see the connection closed before it reads the answer.
        assert!(got == expected || (got == 0 && request.len() > 8192), "{what}: {got}");
        assert_lives(&server);
    }
}

#[test]
fn requests_behind_each_other_are_answered_in_order() {
    let server = server(5000);
    let one = |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n{more}\r\n");
    let requests =
        [one("/health", ""), one("/nothing", ""), one("/commands/ruok", "Connection: close\r\n")];
    let answers = http::send(server.http, requests.concat().as_bytes()).unwrap();
    let statuses: Vec<&str> =
        answers.lines().filter_map(|line| line.strip_prefix("HTTP/1.1 ")?.get(..3)).collect();
    assert_eq!(statuses, ["200", "404", "200"], "{answers}");
}

/// A head that comes byte by byte.
#[test]
fn slow_connections_are_closed() {
    let server = server(500);
    let mut stream = TcpStream::connect(server.http).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let start = Instant::now();
    let mut closed = false;
    for byte in b"GET /health HTTP/1.1\r\nx: ".iter().chain([b'x'; 200].iter()) {
        let mut answer = [0; 1024];
        let is_open = match stream.read(&mut answer) {
            Ok(count) => count > 0,
            Err(error) => matches!(error.kind(), std::io::ErrorKind::WouldBlock),
        };
        closed = !is_open || stream.write_all(&[*byte]).is_err();
        if closed {
            break;
        }
    }
    assert!(closed && start.elapsed() < SOON, "open after {:?}", start.elapsed());
    assert_lives(&server);
}

/// A hundred idle connections once kept every other out, a liveness probe too, and an orchestrator
/// restarts a server whose probe fails.
#[test]
fn a_thousand_idle_connections_are_bounded_and_harm_no_other() {
    let server = server(60_000);
    let idle: Vec<TcpStream> =
        (0..1000).map(|_| TcpStream::connect(server.http).unwrap()).collect();
    for _ in 0..3 {
        let health = http::get(server.http, "/health").expect("idle connections give way");
        assert_eq!(health.status, 200, "{health:?}");
    }
    let client_port = server.servers.client_address(0).unwrap();
    assert_eq!(four_letter::ask(client_port, "ruok").unwrap(), "imok");
    let mntr = four_letter::ask(client_port, "mntr").unwrap();
    let open = mntr.lines().find_map(|line| line.strip_prefix("zk_open_file_descriptor_count\t"));
    let open: usize = open.unwrap().parse().unwrap();
    assert!(open < 200, "{open} files are open");
    drop(idle);
    assert_lives(&server);
}

/// A connection that waits for a listing is busy, and busy ones never give way: a hundred of them
/// kept every probe out, and an orchestrator restarts a server whose probe fails.
#[test]
fn probes_are_answered_when_all_other_places_are_busy() {
    let server = server(60_000);
    let mut client =
        RawConnection::open(server.servers.client_address(0).unwrap(), 60_000).unwrap();
    // A listing that no socket's buffers hold.
    for round in 0..20 {
        let path = |number| format!("/missing/{}/{round}-{number}", "x".repeat(400));
        let exist_watches = (0..2000).map(path).collect();
        let (data_watches, child_watches) = (Vec::new(), Vec::new());
        let relative_zxid = Zxid(0);
        let request =
            SetWatchesRequest { relative_zxid, data_watches, exist_watches, child_watches };
        client.send(Xid(-8), &Request::SetWatches(request)).unwrap();
        assert!(matches!(client.receive().unwrap(), Incoming::Reply(..)));
    }
    let ask = || {
        let mut stream = TcpStream::connect(server.http).unwrap();
        stream.write_all(b"GET /commands/watches HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        stream
    };
    // One takes the listing and does not read it; the others wait for their turn.
    let mut busy: Vec<TcpStream> = (0..101).map(|_| ask()).collect();
    let start = Instant::now();
    while !http::get(server.http, "/metrics").is_ok_and(|answer| answer.status == 503) {
        assert!(start.elapsed() < SOON, "the places are not taken");
        // The first ones may have waited for too long, which frees their places.
        busy.push(ask());
    }
    for path in ["/health", "/ready"].into_iter().cycle().take(20) {
        assert_eq!(http::get(server.http, path).unwrap().status, 200, "{path}");
    }
    server.servers.until_logged(0, &["too many HTTP connections"]).unwrap();
    drop(busy);
    let start = Instant::now();
    let metrics = loop {
        match http::get(server.http, "/metrics") {
            Ok(answer) if answer.status == 200 => break answer.body,
            other => assert!(start.elapsed() < SOON, "{other:?}"),
        }
    };
    assert!(!metrics.contains("\nzoolet_http_refused_requests 0\n"), "{metrics}");
}

/// A client that did not speak HTTP got an empty answer, and the log did not mention it.
#[test]
fn what_is_not_http_is_named_in_the_answer_and_in_the_log() {
    const HELLO: [u8; 6] = [0x16, 0x03, 0x01, 0x02, 0x00, 0x01];
    let server = server(5000);
    for (bytes, said) in [
        (&HELLO[..], "TLS hello: this port speaks plain HTTP"),
        (b"\0\0\0\x2d\0\0\0\0", "this is not HTTP: it begins with the byte 0x00"),
    ] {
        let answer = http::send(server.http, bytes).unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        assert!(answer.contains(said), "{answer}");
    }
    server.servers.until_logged(0, &["malformed HTTP request refused", "TLS"]).unwrap();
    // hyper answers this one, without a text.
    let negative = b"GET /health HTTP/1.1\r\nContent-Length: -1\r\n\r\n";
    assert_eq!(status(server.http, negative), 400);
    assert_lives(&server);
}

/// Clients of an `AdminServer` ask for it by POST; the answer was 405, use GET.
#[test]
fn a_restore_over_http_is_refused_by_any_method() {
    let server = server(5000);
    for (method, command) in [("GET", "restore"), ("POST", "restore"), ("POST", "shed_connections")]
    {
        let lines = "Host: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        let request = format!("{method} /commands/{command} HTTP/1.1\r\n{lines}");
        let answer = http::send(server.http, request.as_bytes()).unwrap();
        assert!(answer.starts_with("HTTP/1.1 501 "), "{method} {command}: {answer}");
        assert!(answer.contains("not available: "), "{method} {command}: {answer}");
        let names_tool = answer.contains("`zoolet restore`, see docs/runbook.md");
        assert_eq!(names_tool, command == "restore", "{answer}");
    }
}
