//! Clients that want more than their share: of connections, memory, time.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr};
use std::time::{Duration, Instant};

use bytes::Bytes;
use zoolet_jute::{
    AuthPacket, ConnectResponse, Decode, ErrorCode, MultiReadOp, NullablePathRequest, Parts,
    PathVersionRequest, PathWatchRequest, Reply, ReplyHeader, Request, SetDataRequest, Xid,
};
use zoolet_server::embed::Ensemble;
use zoolet_tests::four_letter;
use zoolet_tests::raw::{Incoming, RawConnection};
use zoolet_tests::servers::Servers;

use crate::support::*;

#[test]
fn thousands_of_hostile_connections_leave_memory_bounded() {
    let (servers, address) = server();
    let pid = servers.pid(0).unwrap();
    let mut witness = Witness::open(address);
    let before = memory_kib(pid);
    for round in 0..10 {
        let mut held = Vec::new();
        for index in 0..300 {
            let mut stream = connect(address);
            // A megabyte is promised and a little comes, with a handshake or without.
            if index % 2 == 0 {
                stream.write_all(&handshake()).unwrap();
            }
            let promise = u32::try_from(FRAME_BYTES_MAX).unwrap().to_be_bytes();
            stream.write_all(&promise).unwrap();
            // The server refuses such a handshake at once.
            let _ = stream.write_all(&vec![0; fastrand::usize(..1000)]);
            held.push(stream);
        }
        witness.lives();
        let growth = memory_kib(pid).saturating_sub(before);
        assert!(growth < GROWTH_KIB_MAX, "{growth} KiB more in round {round}");
    }
    witness.ends_well();
}

/// Frames that clients of 17 addresses did not finish took a gibibyte.
#[test]
fn unfinished_requests_leave_memory_and_room_for_others() {
    let (servers, address) = server();
    let pid = servers.pid(0).unwrap();
    let mut witness = Witness::open(address);
    let before = memory_kib(pid);
    let frame = request(1, &create("/large", &vec![b'x'; 900_000], 0));
    let unfinished = &frame[..frame.len() - 1];
    let mut held = Vec::new();
    for last in 2..8 {
        for _ in 0..50 {
            let source = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
            let mut connection = RawConnection::open_from(source, address, 40_000).unwrap();
            // The server does not read all of it.
            let _ = connection.send_bytes(unfinished, Duration::from_millis(20));
            held.push(connection);
        }
    }
    let growth = memory_kib(pid).saturating_sub(before);
    assert!(growth < 128 * 1024, "{growth} KiB more under 300 unfinished requests");
    done(&call(&mut witness.connection, &create("/mine", &vec![b'x'; 900_000], 0)));
    assert!(mntr(address, "limit_large_request_bytes_refused") > 0, "none was closed");
    drop(held);
    witness.ends_well();
}

/// A client that does not send its request, or does not read, does not keep the room for large
/// requests from others.
#[test]
fn a_client_that_stalls_gives_the_room_for_large_requests_up() {
    let servers = Servers::zoolet().property("largeRequestMaxBytes", "65536").start().unwrap();
    let address = servers.client_address(0).unwrap();
    let mut witness = Witness::open(address);
    for number in 0..5 {
        let chunk = create(&format!("/big-{number}"), &vec![b'x'; 60_000], 0);
        done(&call(&mut witness.connection, &chunk));
    }
    let look = |xid| {
        let part = |number| {
            let path = format!("/big-{number}");
            MultiReadOp::GetData(PathWatchRequest { path, watch: false })
        };
        // 4.8 MB, which are more than the buffers of the sockets.
        let parts = (0..80).map(|at| part(at % 5)).collect();
        request(xid, &Request::MultiRead(Parts(parts)))
    };
    let large = request(2, &create("/large", &vec![b'x'; 60_000], 0));
    let unread: Vec<u8> = (1..20).flat_map(look).collect();
    let stalls = [(12, large[..large.len() - 1].to_vec()), (0, [&unread, &large[..4]].concat())];
    for (number, (idle_s, bytes)) in stalls.into_iter().enumerate() {
        let source = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
        let mut stalled = RawConnection::open_from(source, address, 40_000).unwrap();
        for _ in 0..idle_s {
            std::thread::sleep(Duration::from_secs(1));
            witness.lives();
        }
        stalled.send_bytes(&bytes, Duration::from_secs(1)).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        // The connection fails if this takes 20 s.
        let mine = create(&format!("/mine-{number}"), &vec![b'x'; 60_000], 0);
        done(&call(&mut witness.connection, &mine));
    }
    witness.ends_well();
}

#[test]
fn a_client_that_does_not_read_is_ignored_or_closed_and_delays_no_other() {
    let servers = Servers::zoolet().property("zookeeper.snapCount", "100000").start().unwrap();
    let (address, pid) = (servers.client_address(0).unwrap(), servers.pid(0).unwrap());
    let mut witness = Witness::open(address);
    done(&call(&mut witness.connection, &create("/big", &vec![b'x'; 900_000], 0)));
    let before = memory_kib(pid);
    let look = PathWatchRequest { path: "/big".into(), watch: true };
    let mut slow = Vec::new();
    for _ in 0..10 {
        let mut stream = connect(address);
        stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        stream.write_all(&handshake()).unwrap();
        for xid in 1..2000 {
            // The server reads no more requests than it has room for answers.
            if stream.write_all(&request(xid, &Request::GetData(look.clone()))).is_err() {
                break;
            }
        }
        slow.push(stream);
        witness.lives();
    }
    for version in 0..20 {
        let data = Some(Bytes::from(vec![b'y'; 900_000]));
        let set = SetDataRequest { path: "/big".into(), data, version };
        let start = Instant::now();
        done(&call(&mut witness.connection, &Request::SetData(set)));
        assert!(start.elapsed() < ANSWER_MAX, "a write waited {:?}", start.elapsed());
    }
    // Each holds at most its high-water mark and a reply, 20 generations of the znode beside.
    let growth = memory_kib(pid).saturating_sub(before);
    assert!(growth < 200 * 1024, "{growth} KiB more under ten clients that do not read");
    drop(slow);
    witness.ends_well();
}

/// One request is served at a time, and each wait for the disk makes those behind it older.
#[test]
fn requests_that_wait_too_long_are_refused_and_counted_and_not_executed() {
    const REQUESTS: i32 = 300;
    let builder = Servers::zoolet().property("globalOutstandingLimit", "1");
    let servers = builder.property("zookeeper.throttled_op_wait_time", "2").start().unwrap();
    let address = servers.client_address(0).unwrap();
    let mut connection = RawConnection::open(address, 10_000).unwrap();
    for number in 0..REQUESTS {
        connection.send(Xid(number), &create(&format!("/n{number}"), b"", 0)).unwrap();
    }
    let mut refused = Vec::new();
    for number in 0..REQUESTS {
        let Incoming::Reply(header, _) = connection.receive().unwrap() else { panic!("no reply") };
        assert_eq!(header.xid, Xid(number), "replies come in order");
        match header.err {
            None => {}
            Some(ErrorCode::ThrottledOp) => refused.push(number),
            Some(error) => panic!("{error:?}"),
        }
    }
    assert!(!refused.is_empty() && refused.len() < REQUESTS as usize, "{} refused", refused.len());
    let counted = format!("zk_throttled_ops\t{}\n", refused.len());
    assert!(four_letter::ask(address, "mntr").unwrap().contains(&counted), "{counted}");
    for number in refused {
        // On a busy machine, this may wait too long as well.
        let start = Instant::now();
        let header = loop {
            assert!(start.elapsed() < CLOSE_MAX, "{address} refuses every request");
            let found = call(&mut connection, &exists(&format!("/n{number}")));
            let Incoming::Reply(header, _) = found else { panic!("no reply") };
            if header.err != Some(ErrorCode::ThrottledOp) {
                break header;
            }
        };
        assert_eq!(header.err, Some(ErrorCode::NoNode), "/n{number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_longer_than_the_outbox_goes_out() {
    let builder = Ensemble::builder().configure(|config| {
        config.limits.outbox_bytes_max = 64 << 10;
    });
    let ensemble = builder.start().await.unwrap();
    let address = ensemble.client_addr(0).unwrap();
    let asked = tokio::task::spawn_blocking(move || {
        let mut connection = RawConnection::open(address, 10_000).unwrap();
        let data = vec![b'x'; 900_000];
        done(&call(&mut connection, &create("/long", &data, 0)));
        let look = PathWatchRequest { path: "/long".into(), watch: false };
        for _ in 0..3 {
            let read = call(&mut connection, &Request::GetData(look.clone()));
            assert!(matches!(read, Incoming::Reply(_, Some(Reply::Data(Some(read), _)))
                if read == data));
        }
    });
    asked.await.unwrap();
    ensemble.shutdown().await;
}

/// Everything that waits behind a write is due at once, and before the client can have read any of
/// it. That must neither take the server's memory nor look like a client that does not read.
#[test]
fn long_lists_behind_a_write_leave_memory_bounded() {
    let (servers, address) = server();
    let pid = servers.pid(0).unwrap();
    let mut witness = Witness::open(address);
    done(&call(&mut witness.connection, &create("/many", b"", 0)));
    for round in 0..20 {
        let children: Vec<_> = (0..250)
            .map(|child| create(&format!("/many/{round}-{child}-{}", "x".repeat(60)), b"", 0))
            .collect();
        ask_at_once(address, &children);
    }
    let before = peak_memory_kib(pid);
    let look = PathWatchRequest { path: "/many".into(), watch: false };
    for first in [set_data("/many", b"new"), sync("/many")] {
        let mut asked = vec![first];
        asked.extend((0..300).map(|_| Request::GetChildren(look.clone())));
        ask_at_once(address, &asked);
    }
    let growth = peak_memory_kib(pid).saturating_sub(before);
    assert!(growth < GROWTH_KIB_MAX, "{growth} KiB more");
    witness.ends_well();
}

#[test]
fn a_client_that_reads_what_waited_behind_a_write_is_not_slow() {
    let (_servers, address) = server();
    let data = vec![b'x'; 1_000_000];
    ask_at_once(address, &[create("/big", &data, 0)]);
    let look = PathWatchRequest { path: "/big".into(), watch: false };
    for first in [set_data("/big", &data), sync("/big")] {
        // More than the 64 MiB that an outbox holds.
        let mut asked = vec![first];
        asked.extend((0..80).map(|_| Request::GetData(look.clone())));
        ask_at_once(address, &asked);
    }
}

/// Sends all requests before it reads anything, and sees that each is answered, in order.
fn ask_at_once(address: SocketAddr, requests: &[Request]) {
    let stream = connect(address);
    let mut input = stream.try_clone().unwrap();
    let mut sent = handshake();
    for (xid, asked) in (1..).zip(requests) {
        sent.extend(request(xid, asked));
    }
    sent.extend(request(0, &Request::CloseSession));
    input.write_all(&sent).unwrap();
    let answers = frames(&until_closed(&stream).unwrap());
    assert_eq!(answers.len(), 1 + requests.len() + 1, "an answer for each");
    for (xid, answer) in (1..).zip(&answers[1..=requests.len()]) {
        let header = ReplyHeader::decode(&mut answer.clone(), "header").unwrap();
        assert_eq!((header.xid.0, header.err), (xid, None));
    }
}

fn sync(path: &str) -> Request {
    Request::Sync(NullablePathRequest { path: Some(path.into()) })
}

/// The most memory that a process has had.
fn peak_memory_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_short_request_for_a_reply_of_gigabytes_leaves_memory_bounded() {
    let (servers, address) = server();
    let pid = servers.pid(0).unwrap();
    let mut witness = Witness::open(address);
    done(&call(&mut witness.connection, &create("/big", &vec![b'x'; 1_000_000], 0)));
    let before = memory_kib(pid);
    let look = PathWatchRequest { path: "/big".into(), watch: false };
    let parts = vec![MultiReadOp::GetData(look); 40_000];
    let answer = call(&mut witness.connection, &Request::MultiRead(Parts(parts)));
    let Incoming::Reply(header, None) = answer else { panic!("{answer:?}") };
    assert_eq!(header.err, Some(ErrorCode::MarshallingError));
    let growth = memory_kib(pid).saturating_sub(before);
    assert!(growth < GROWTH_KIB_MAX, "{growth} KiB more");
    witness.ends_well();
}

#[test]
fn connections_are_limited_by_address_and_in_number() {
    for (key, max) in [("maxClientCnxns", 4), ("maxCnxns", 6)] {
        let servers = Servers::zoolet().property(key, &max.to_string()).start().unwrap();
        let address = servers.client_address(0).unwrap();
        let held: Vec<_> =
            (0..max).map(|_| RawConnection::open(address, 10_000).unwrap()).collect();
        let one_more = connect(address);
        assert_eq!(until_closed(&one_more), Some(Vec::new()), "{key}");
        drop(held);
        let start = Instant::now();
        while RawConnection::open(address, 10_000).is_err() {
            assert!(start.elapsed() < CLOSE_MAX, "{key}: no room though all are gone");
        }
    }
}

/// A probe found a server dead whose places were all taken.
#[test]
fn four_letter_words_are_answered_when_all_places_are_taken() {
    for (key, max) in [("maxClientCnxns", 4), ("maxCnxns", 6)] {
        let servers = Servers::zoolet().property(key, &max.to_string()).start().unwrap();
        let address = servers.client_address(0).unwrap();
        let _held: Vec<_> =
            (0..max).map(|_| RawConnection::open(address, 10_000).unwrap()).collect();
        // Silent strangers have these places, too.
        let _silent: Vec<_> = (0..40).map(|_| connect(address)).collect();
        for _ in 0..3 {
            assert_eq!(four_letter::ask(address, "ruok").unwrap(), "imok", "{key}");
        }
        assert!(RawConnection::open(address, 10_000).is_err(), "{key}: only words have places");
        let refused = || {
            let mntr = four_letter::ask(address, "mntr").unwrap();
            let line = mntr.lines().find_map(|line| line.strip_prefix("zk_connection_rejected\t"));
            line.unwrap().parse::<usize>().unwrap()
        };
        let start = Instant::now();
        while refused() < 41 {
            assert!(start.elapsed() < CLOSE_MAX, "{key}: {} refused", refused());
            std::thread::sleep(Duration::from_millis(100));
        }
        let log = servers.output(0).unwrap();
        assert!(log.contains("limit reached: a connection of 127.0.0.1"), "{log}");
    }
}

/// A thousand silent connections from 17 addresses kept new clients out for as long as they lasted.
#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_give_way_to_new_clients() {
    const PLACES: usize = 20;
    let builder = Ensemble::builder().configure(|config| {
        config.limits.handshakes_max = PLACES;
        config.limits.handshake_timeout_ms = 600_000;
        config.limits.connections_per_address_max = 0;
    });
    let ensemble = builder.start().await.unwrap();
    let address = ensemble.client_addr(0).unwrap();
    let asked = tokio::task::spawn_blocking(move || {
        let mut half: Vec<_> = (0..PLACES).map(|_| connect(address)).collect();
        for stream in half.iter_mut().take(PLACES / 2) {
            stream.write_all(&[0, 0]).unwrap();
        }
        for _ in 0..2 * PLACES {
            let start = Instant::now();
            // Silent connections from its own address are evicted after a moment.
            while RawConnection::open(address, 10_000).is_err() {
                assert!(start.elapsed() < CLOSE_MAX, "new clients are kept out");
            }
        }
    });
    asked.await.unwrap();
    ensemble.shutdown().await;
}

#[test]
fn a_handshake_must_come_in_time() {
    let servers = Servers::zoolet().property("nio.sessionlessCnxnTimeout", "1000").start().unwrap();
    let address = servers.client_address(0).unwrap();
    let mut stream = connect(address);
    let start = Instant::now();
    // A byte now and then does not put it off.
    for byte in handshake().iter().cycle() {
        if stream.write_all(&[*byte]).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
        assert!(start.elapsed() < CLOSE_MAX, "not closed");
    }
    assert!(start.elapsed() >= Duration::from_millis(900), "{:?}", start.elapsed());
}

#[test]
fn what_was_asked_before_a_half_close_is_done() {
    let (_servers, address) = server();
    let mut stream = connect(address);
    stream.write_all(&handshake()).unwrap();
    for xid in 1..=50 {
        stream.write_all(&request(xid, &create("/half-", b"", 2))).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    let answers = frames(&until_closed(&stream).unwrap());
    // As Apache ZooKeeper, the server closes its side with whatever replies it has not sent.
    let mut reader = RawConnection::open(address, 10_000).unwrap();
    let look = PathWatchRequest { path: "/".into(), watch: false };
    let Incoming::Reply(_, Some(Reply::Children(names))) =
        call(&mut reader, &Request::GetChildren(look))
    else {
        panic!("no children");
    };
    assert_eq!(names.iter().filter(|name| name.starts_with("half-")).count(), 50);
    assert!((1..=1 + 50).contains(&answers.len()), "{} answers", answers.len());
    assert!(ConnectResponse::decode(&mut answers[0].clone(), "connect").is_ok());
    for (xid, answer) in (1..=50).zip(&answers[1..]) {
        let header = ReplyHeader::decode(&mut answer.clone(), "header").unwrap();
        assert_eq!((header.xid.0, header.err), (xid, None));
    }
}

#[test]
fn a_flood_of_writes_is_slowed_down_and_none_is_dropped() {
    let (servers, address) = server();
    let pid = servers.pid(0).unwrap();
    let mut witness = Witness::open(address);
    let before = memory_kib(pid);
    let writer = connect(address);
    let mut input = writer.try_clone().unwrap();
    let reader = std::thread::spawn(move || until_closed(&writer));
    input.write_all(&handshake()).unwrap();
    input.write_all(&request(1, &create("/flood", b"", 0))).unwrap();
    let delete = PathVersionRequest { path: "/absent".into(), version: -1 };
    for xid in 2..=20_000 {
        let set = SetDataRequest {
            path: "/flood".into(),
            data: Some(Bytes::from(vec![b'z'; 500])),
            version: -1,
        };
        input.write_all(&request(xid, &Request::SetData(set))).unwrap();
        if xid % 5000 == 0 {
            witness.lives();
        }
    }
    input.write_all(&request(20_001, &Request::Delete(delete))).unwrap();
    input.write_all(&request(20_002, &Request::CloseSession)).unwrap();
    let answers = frames(&reader.join().unwrap().unwrap());
    assert_eq!(answers.len(), 1 + 20_002, "an answer for each");
    for (xid, answer) in (1..=20_000).zip(&answers[1..]) {
        let header = ReplyHeader::decode(&mut answer.clone(), "header").unwrap();
        assert_eq!((header.xid.0, header.err), (xid, None));
    }
    let growth = memory_kib(pid).saturating_sub(before);
    assert!(growth < 2 * GROWTH_KIB_MAX, "{growth} KiB more");
    witness.ends_well();
}

#[test]
fn identities_are_bounded_in_bytes_because_every_write_carries_them() {
    let (_servers, address) = server();
    let mut witness = Witness::open(address);
    for _ in 0..4 {
        let mut greedy = RawConnection::open(address, 10_000).unwrap();
        let mut last = None;
        for number in 0..60 {
            let auth = format!("{number}{}:secret", "x".repeat(900_000));
            let auth = AuthPacket {
                auth_type: 0,
                scheme: Some("digest".to_owned()),
                auth: Some(Bytes::from(auth)),
            };
            match greedy.call(Xid::AUTH, &Request::Auth(auth)) {
                Ok((_, Incoming::Reply(header, _))) if header.err.is_none() => {}
                other => {
                    last = Some(other);
                    break;
                }
            }
        }
        assert!(
            matches!(&last, Some(Ok((_, Incoming::Reply(header, _))))
                if header.err == Some(ErrorCode::AuthFailed)),
            "a name of a megabyte is not an identity: {last:?}"
        );
        witness.lives();
    }
    done(&call(&mut witness.connection, &create("/after", b"", 0)));
    witness.ends_well();
}
