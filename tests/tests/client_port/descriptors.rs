//! Servers that may open few files.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use zoolet_jute::Xid;
use zoolet_tests::raw::{Incoming, RawConnection};
use zoolet_tests::servers::Servers;
use zoolet_tests::with_http::{SOON, WithHttp};
use zoolet_tests::{four_letter, wait};

use crate::support::*;

/// Returns the wrapper under which a server may have this many files open.
fn limited(descriptors_max: u32) -> Vec<OsString> {
    let script = format!("ulimit -n {descriptors_max}; exec \"$0\" \"$@\"");
    vec!["sh".into(), "-c".into(), script.into()]
}

/// The writes that fit into a segment of 64 KiB, the shortest that `preAllocSize` allows.
const WRITES_PER_SEGMENT: usize = 3;

/// Writes to `/x` until this many segments are full. Each takes a descriptor until a snapshot has its
/// entries. Returns whether all writes were done.
fn write_segments(writer: &mut RawConnection, segments: usize) -> bool {
    let data = vec![b'y'; 20_000];
    let is_done =
        |reply: &Incoming| matches!(reply, Incoming::Reply(header, _) if header.err.is_none());
    (0..segments * WRITES_PER_SEGMENT).all(|_| {
        let reply = writer.call(Xid(1), &set_data("/x", &data));
        reply.is_ok_and(|(_, reply)| is_done(&reply))
    })
}

/// Each connection to any port takes a file descriptor, and a log that cannot open its next segment
/// ends the server.
#[test]
fn strangers_on_all_ports_leave_the_log_its_descriptors() {
    let builder = Servers::zoolet().wrapper(limited(300)).property("maxClientCnxns", "0");
    let server = WithHttp::start(builder.property("preAllocSize", "64"));
    let address = server.servers.client_address(0).unwrap();
    let mut writer = RawConnection::open(address, 30_000).unwrap();
    done(&call(&mut writer, &create("/x", b"", 0)));
    let held: Vec<_> = (0..300).map_while(|_| RawConnection::open(address, 30_000).ok()).collect();
    assert!((100..300).contains(&held.len()), "{} clients", held.len());
    let _http: Vec<_> = (0..150).map(|_| connect(server.http)).collect();
    let _silent: Vec<_> = (0..150).map(|_| connect(address)).collect();
    assert!(write_segments(&mut writer, 33));
    assert_eq!(four_letter::ask(address, "ruok").unwrap(), "imok");
}

/// The connections of one moment must not take the descriptors of the log, which opens a file for each
/// segment meanwhile.
#[test]
fn a_burst_of_connects_stops_no_log() {
    let builder = Servers::zoolet().wrapper(limited(256)).property("maxClientCnxns", "0");
    let servers = builder.property("preAllocSize", "64").start().unwrap();
    let address = servers.client_address(0).unwrap();
    let mut writer = RawConnection::open(address, 30_000).unwrap();
    done(&call(&mut writer, &create("/x", b"", 0)));
    let connections = 200;
    let all = Barrier::new(connections + 1);
    thread::scope(|scope| {
        let connecting: Vec<_> = (0..connections)
            .map(|_| {
                scope.spawn(|| {
                    all.wait();
                    // Refused ones are closed.
                    RawConnection::open(address, 30_000).ok()
                })
            })
            .collect();
        all.wait();
        assert!(write_segments(&mut writer, 15));
        let held: Vec<_> = connecting.into_iter().filter_map(|one| one.join().unwrap()).collect();
        assert!((100..connections).contains(&held.len()), "{} clients", held.len());
        assert!(write_segments(&mut writer, 15));
    });
    assert_eq!(four_letter::ask(address, "ruok").unwrap(), "imok");
}

/// The server ended at the first segment for which it found no descriptor.
#[test]
fn a_log_without_a_descriptor_for_its_next_segment_waits_for_one() {
    let builder = Servers::zoolet().wrapper(limited(26)).property("preAllocSize", "64");
    let servers = builder.start().unwrap();
    let address = servers.client_address(0).unwrap();
    let mut writer = RawConnection::open(address, 30_000).unwrap();
    done(&call(&mut writer, &create("/x", b"", 0)));
    let held: Vec<TcpStream> = (0..200).map(|_| connect(address)).collect();
    // The server closes its clients' connections while its disk does not answer.
    assert!(!write_segments(&mut writer, 33), "it has descriptors");
    drop(held);
    let writes = || {
        let mut writer = RawConnection::open(address, 30_000).ok()?;
        write_segments(&mut writer, 3).then_some(())
    };
    wait::until(SOON, writes).expect("the log continues");
}

/// The last connections were refused all but probes, while idle ones kept their descriptors.
#[test]
fn an_idle_http_connection_gives_its_descriptor_to_a_newcomer() {
    // The server inherits 70 files, which no share of a port takes into account.
    let script = "for n in $(seq 10 79); do eval \"exec $n</dev/null\"; done; ulimit -n 256; \
                  exec \"$0\" \"$@\"";
    let shell = vec!["bash".into(), "-c".into(), script.into()];
    let builder = Servers::zoolet().wrapper(shell).property("maxClientCnxns", "0");
    let server = WithHttp::start(builder);
    let address = server.servers.client_address(0).unwrap();
    let _clients: Vec<_> =
        (0..200).map_while(|_| RawConnection::open(address, 30_000).ok()).collect();
    let mut open = Vec::new();
    // More than there are descriptors for, and fewer than the port has places.
    for number in 0..14 {
        let mut stream = connect(server.http);
        assert_eq!(status(&mut stream), 200, "connection {number}");
        open.push(stream);
    }
    let newest = open.last_mut().unwrap();
    assert_eq!(status(newest), 200, "it is kept");
    assert!(until_closed(&open[0]).is_some(), "the longest idle one is closed");
}

/// The status of an answer that leaves the connection open, and that no probe gets.
fn status(stream: &mut TcpStream) -> u16 {
    stream.write_all(b"GET /commands/ruok HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut answer = BufReader::new(stream);
    let (mut line, mut length, mut status) = (String::new(), 0, 0);
    while answer.read_line(&mut line).unwrap() > 2 {
        if let Some(text) = line.strip_prefix("HTTP/1.1 ") {
            status = text[..3].parse().unwrap();
        } else if let Some(text) = line.to_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().unwrap();
        }
        line.clear();
    }
    answer.read_exact(&mut vec![0; length]).unwrap();
    status
}

#[test]
fn a_server_with_few_descriptors_keeps_those_that_its_log_needs() {
    floods_a_server_with_descriptors(90);
}

#[test]
fn a_server_without_file_descriptors_waits_and_goes_on() {
    // Half of them are more than it has left when it has started.
    let servers = floods_a_server_with_descriptors(26);
    let output = servers.output(0).unwrap();
    let complaints = output.lines().filter(|line| line.contains("cannot accept")).count();
    assert!((1..10).contains(&complaints), "logged once in a while, not each time: {output}");
}

/// Opens many more connections than a server may have file descriptors.
fn floods_a_server_with_descriptors(descriptors_max: u32) -> Servers {
    let servers = Servers::zoolet().wrapper(limited(descriptors_max)).start().unwrap();
    let (address, pid) = (servers.client_address(0).unwrap(), servers.pid(0).unwrap());
    let mut witness = Witness::open(address);
    let held: Vec<TcpStream> = (0..200).map(|_| connect(address)).collect();
    thread::sleep(Duration::from_secs(1));
    let busy = processor_ticks(pid);
    thread::sleep(Duration::from_secs(2));
    let busy = processor_ticks(pid) - busy;
    assert!(busy < 100, "{busy} ticks of 10 ms in 2 s: it spins");
    witness.lives();
    done(&call(&mut witness.connection, &create("/starved", b"", 0)));
    drop(held);
    let start = Instant::now();
    while RawConnection::open(address, 10_000).is_err() {
        assert!(start.elapsed() < CLOSE_MAX, "no client is accepted any more");
    }
    witness.ends_well();
    servers
}

/// User and system time of a process.
fn processor_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let behind = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<&str> = behind.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
