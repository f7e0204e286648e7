//! Clients that do not read, or hardly: unread data is bounded for each connection, for each address and in total, and a connection that does not read ends.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use zoolet_jute::{
    AddWatchMode, AddWatchRequest, MultiReadOp, Parts, PathWatchRequest, Request, SetDataRequest,
    Xid,
};
use zoolet_server::embed::Ensemble;
use zoolet_server::embed::config::Words;
use zoolet_tests::raw::{Incoming, RawConnection};
use zoolet_tests::{four_letter, wait};

use crate::support::*;

const MIB: usize = 1 << 20;

/// 59 connections that watched one path of 900 KB took 3.5 GiB: each kept its own copies of all
/// events, and nothing bounded the sum.
#[test]
fn unread_events_of_one_address_leave_memory_bounded() {
    let (servers, address) = server();
    let pid = servers.pid(0).unwrap();
    let mut writer =
        RawConnection::open_from(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9)), address, 30_000).unwrap();
    let path = format!("/{}", "p".repeat(900_000));
    done(&call(&mut writer, &create(&path, b"", 0)));
    let mut watchers = Vec::new();
    for _ in 0..59 {
        let mut watcher = RawConnection::open(address, 30_000).unwrap();
        done(&call(&mut watcher, &watch(&path)));
        watchers.push(watcher);
    }
    let before = memory_kib(pid);
    for _ in 0..20 {
        done(&call(&mut writer, &set_data(&path)));
    }
    let growth = memory_kib(pid).saturating_sub(before);
    assert!(growth < 400 * 1024, "{growth} KiB more under 59 connections that do not read");
    assert!(mntr(address, "limit_outbox_bytes_per_address_refused") > 0, "none was closed");
    let used = mntr(address, "limit_outbox_bytes_per_address_used");
    assert!(used <= mntr(address, "limit_outbox_bytes_per_address_max"), "{used} bytes");
    done(&call(&mut writer, &exists("/")));
}

/// Forty connections that did not read a multiRead of 30 MB each took 1.2 GiB: data that the state
/// had replaced, or that was copied into the replies, was not counted.
#[test]
fn unread_data_of_one_address_leaves_memory_bounded() {
    const ZNODES: usize = 20;
    let (servers, address) = server();
    let pid = servers.pid(0).unwrap();
    let mut writer =
        RawConnection::open_from(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9)), address, 30_000).unwrap();
    let path = |number: usize| format!("/data-{}", number % ZNODES);
    for number in 0..ZNODES {
        done(&call(&mut writer, &create(&path(number), b"", 0)));
    }
    done(&call(&mut writer, &create("/short", &[b'x'; 12_000], 0)));
    let look = |path: String| MultiReadOp::GetData(PathWatchRequest { path, watch: false });
    let replaced: Vec<_> = (0..ZNODES).map(|number| look(path(number))).collect();
    let copied = vec![look("/short".to_owned()); 2000];
    for parts in [replaced, copied] {
        let before = memory_kib(pid);
        let mut readers = Vec::new();
        for round in 0..25_u8 {
            for number in 0..ZNODES {
                let data = Some(Bytes::from(vec![round; 900_000]));
                let set = SetDataRequest { path: path(number), data, version: -1 };
                done(&call(&mut writer, &Request::SetData(set)));
            }
            let mut reader = RawConnection::open(address, 30_000).unwrap();
            reader.send(Xid(1), &Request::MultiRead(Parts(parts.clone()))).unwrap();
            // The reply has begun, so that all of it is in the outbox.
            reader.wait_for_bytes().unwrap();
            readers.push(reader);
        }
        let growth = memory_kib(pid).saturating_sub(before);
        assert!(growth < 256 * 1024, "{growth} KiB more under 25 connections that do not read");
        assert!(mntr(address, "limit_outbox_bytes_per_address_refused") > 0, "none was closed");
        four_letter::ask(address, "srst").unwrap();
        drop(readers);
    }
    done(&call(&mut writer, &exists("/")));
}

/// The busiest address pays for the total, and another one keeps its unread events.
#[tokio::test(flavor = "multi_thread")]
async fn the_total_is_kept_by_closing_connections_of_the_busiest_address() {
    let builder = Ensemble::builder().configure(|config| {
        config.limits.outbox_bytes_per_address_max = 64 * MIB;
        config.limits.outbox_bytes_total_max = 16 * MIB;
        config.four_letter.words = Words::All;
    });
    let ensemble = builder.start().await.unwrap();
    let address = ensemble.client_addr(0).unwrap();
    let asked = tokio::task::spawn_blocking(move || {
        let from = |last| IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
        let mut writer = RawConnection::open(address, 30_000).unwrap();
        let paths = [0, 1].map(|number| format!("/{number}{}", "p".repeat(250_000)));
        for path in &paths {
            done(&call(&mut writer, &create(path, b"", 0)));
        }
        let open = |last, path: &str| {
            let mut watcher = RawConnection::open_from(from(last), address, 30_000).unwrap();
            done(&call(&mut watcher, &watch(path)));
            watcher
        };
        let mut quiet = open(2, &paths[0]);
        let busy: Vec<_> = (0..20).map(|_| open(3, &paths[1])).collect();
        for _ in 0..4 {
            done(&call(&mut writer, &set_data(&paths[0])));
        }
        let deadline = Instant::now() + Duration::from_mins(2);
        while mntr(address, "limit_outbox_bytes_total_refused") == 0 {
            assert!(Instant::now() < deadline, "no connection was closed");
            done(&call(&mut writer, &set_data(&paths[1])));
        }
        let used = mntr(address, "limit_outbox_bytes_total_used");
        assert!(used <= 16 * MIB as u64, "{used} bytes");
        for _ in 0..4 {
            assert!(matches!(quiet.receive().unwrap(), Incoming::Event(..)));
        }
        done(&call(&mut quiet, &exists("/")));
        drop(busy);
    });
    asked.await.unwrap();
    ensemble.shutdown().await;
}

/// A client that took one byte before each timeout kept its backlog forever. One on a slow
/// link gets all of its replies.
#[tokio::test(flavor = "multi_thread")]
async fn a_trickle_ends_a_connection_and_a_slow_link_does_not() {
    const REPLIES: i32 = 20;
    const REPLY_BYTES: usize = 1_000_000;
    let builder = Ensemble::builder().configure(|config| {
        config.limits.drain_window_ms = 5000;
        config.four_letter.words = Words::All;
    });
    let ensemble = builder.start().await.unwrap();
    let address = ensemble.client_addr(0).unwrap();
    let asked = tokio::task::spawn_blocking(move || {
        let mut writer = RawConnection::open(address, 30_000).unwrap();
        done(&call(&mut writer, &create("/big", &vec![b'x'; REPLY_BYTES], 0)));
        // Reads `bytes` after each pause; returns the number received until the server closed the
        // connection, or all were there.
        let read_slowly = |bytes: usize, pause: Duration| {
            let mut stream = connect(address);
            let look = PathWatchRequest { path: "/big".into(), watch: false };
            let mut sent = handshake();
            for xid in 1..=REPLIES {
                sent.extend(request(xid, &Request::GetData(look.clone())));
            }
            std::io::Write::write_all(&mut stream, &sent).unwrap();
            let deadline = Instant::now() + Duration::from_mins(2);
            let (mut buffer, mut count) = (vec![0; bytes], 0);
            while count < REPLIES as usize * REPLY_BYTES && Instant::now() < deadline {
                std::thread::sleep(pause);
                match std::io::Read::read(&mut stream, &mut buffer) {
                    Ok(0) | Err(_) => break,
                    Ok(read) => count += read,
                }
                if bytes == 1 && mntr(address, "num_alive_connections") <= 2 {
                    break;
                }
            }
            count
        };
        let all = REPLIES as usize * REPLY_BYTES;
        assert!(read_slowly(512 << 10, Duration::from_millis(100)) >= all);
        let gone = || (mntr(address, "num_alive_connections") <= 2).then_some(());
        assert!(wait::until(Duration::from_secs(30), gone).is_some());
        assert!(read_slowly(1, Duration::from_millis(100)) < 1200, "it was not closed in 120 s");
        done(&call(&mut writer, &exists("/big")));
    });
    asked.await.unwrap();
    ensemble.shutdown().await;
}

fn watch(path: &str) -> Request {
    Request::AddWatch(AddWatchRequest { path: path.to_owned(), mode: AddWatchMode::Persistent })
}

fn set_data(path: &str) -> Request {
    let data = Some(Bytes::from_static(b"new"));
    Request::SetData(SetDataRequest { path: path.to_owned(), data, version: -1 })
}
