//! Clients that take all sessions or all watches of a server: they keep out themselves, and leave a
//! trace in the log and in the figures.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use zoolet_jute::{AddWatchMode, AddWatchRequest, ErrorCode, Request, SetWatchesRequest, Zxid};
use zoolet_tests::raw::{Incoming, RawConnection};
use zoolet_tests::servers::Servers;
use zoolet_tests::{four_letter, wait};

use crate::support::*;

fn from(last: u8, address: SocketAddr) -> std::io::Result<RawConnection> {
    RawConnection::open_from(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last)), address, 40_000)
}

/// One address abandoned 5,000 sessions in 0.8 s. When all were used up, newcomers got a bare end
/// of the stream, without a line in the log or a figure.
#[test]
fn sessions_that_one_address_leaves_behind_keep_out_that_address_alone() {
    let servers = Servers::zoolet().property("sessionsMax", "8").start().unwrap();
    let address = servers.client_address(0).unwrap();
    for _ in 0..2 {
        // Its session stays.
        drop(from(2, address).unwrap());
    }
    assert!(from(2, address).is_err(), "a quarter of all sessions is for one address");
    assert_eq!(mntr(address, "limit_sessions_per_address_refused"), 1);
    assert_eq!(mntr(address, "limit_sessions_per_address_used"), 2);
    let mut others: Vec<_> =
        (3..=5).flat_map(|last| [last; 2]).map(|last| from(last, address)).collect();
    assert!(others.iter().all(Result::is_ok), "{others:?}");
    assert!(from(6, address).is_err(), "there are 8 sessions");
    assert_eq!(mntr(address, "limit_sessions_refused"), 1);
    let srvr = four_letter::ask(address, "srvr").unwrap();
    let line = "Limit reached: sessions 8 of 8, 1 refused (limits.sessions_max)\n";
    assert!(srvr.contains(line), "{srvr}");
    for (limit, last) in [("sessions_per_address", 2), ("sessions", 6)] {
        let refused = format!("limit reached: a new session of 127.0.0.{last} is refused");
        let setting = format!("limits.{limit}_max");
        servers.until_logged(0, &[&refused, &setting]).unwrap();
    }
    // A session that is closed makes room for another one.
    let closing = others[0].as_mut().unwrap();
    done(&call(closing, &Request::CloseSession));
    assert!(from(6, address).is_ok());
}

/// Six sessions filled the total, and every other client's watch failed while they stayed.
#[test]
fn watches_that_some_sessions_take_leave_room_for_others() {
    let builder = Servers::zoolet().property("watchesMax", "60");
    let servers = builder.property("sessionWatchesMax", "20").start().unwrap();
    let address = servers.client_address(0).unwrap();
    let mut strangers: Vec<_> = (0..3).map(|_| from(2, address).unwrap()).collect();
    for stranger in &mut strangers {
        for number in 0..20 {
            done(&call(stranger, &watch(&format!("/stranger{number}"))));
        }
        let refused = call(stranger, &watch("/stranger20"));
        let Incoming::Reply(header, _) = refused else { panic!("{refused:?}") };
        assert_eq!(header.err, Some(ErrorCode::ThrottledOp));
    }
    assert_eq!(mntr(address, "limit_session_watches_refused"), 3);
    assert_eq!(mntr(address, "limit_watches_used"), 60);
    // From another address, from the same one, and after a reconnect.
    done(&call(&mut from(3, address).unwrap(), &watch("/mine")));
    let mut small = from(2, address).unwrap();
    for number in 0..5 {
        done(&call(&mut small, &watch(&format!("/small{number}"))));
    }
    let resumed = Request::SetWatches(SetWatchesRequest {
        relative_zxid: Zxid(0),
        data_watches: Vec::new(),
        exist_watches: vec!["/mine".to_owned()],
        child_watches: Vec::new(),
    });
    done(&call(&mut from(4, address).unwrap(), &resumed));
    assert!(mntr(address, "limit_watches_refused") > 0);
    let closed = wait::until(Duration::from_secs(20), || {
        let log = servers.output(0).ok()?;
        log.contains("which has most, is closed").then_some(())
    });
    assert!(closed.is_some(), "{}", servers.output(0).unwrap());
    // After a reconnect, the stranger cannot evict small clients.
    let mut again = from(2, address).unwrap();
    let taken = (0..20).take_while(|number| {
        let answer = call(&mut again, &watch(&format!("/again{number}")));
        matches!(answer, Incoming::Reply(header, _) if header.err.is_none())
    });
    assert!(taken.count() <= 20);
    done(&call(&mut small, &watch("/small5")));
    assert!(mntr(address, "limit_watches_used") <= 60);
}

/// A stranger at another address does not even come near the total.
#[test]
fn watches_of_one_address_have_a_limit_of_their_own() {
    let builder = Servers::zoolet().property("watchesPerAddressMax", "30");
    let servers = builder.property("sessionWatchesMax", "20").start().unwrap();
    let address = servers.client_address(0).unwrap();
    let [mut first, mut second] = [(); 2].map(|()| from(2, address).unwrap());
    for number in 0..20 {
        done(&call(&mut first, &watch(&format!("/{number}"))));
    }
    for number in 0..10 {
        done(&call(&mut second, &watch(&format!("/{number}"))));
    }
    // The first one has not much more.
    let refused = call(&mut second, &watch("/10"));
    let Incoming::Reply(header, _) = refused else { panic!("{refused:?}") };
    assert_eq!(header.err, Some(ErrorCode::ThrottledOp));
    assert_eq!(mntr(address, "limit_watches_per_address_refused"), 1);
    assert_eq!(mntr(address, "limit_watches_per_address_used"), 30);
    done(&call(&mut from(3, address).unwrap(), &watch("/mine")));
    // A newcomer from the same address has nothing yet.
    done(&call(&mut from(2, address).unwrap(), &watch("/mine")));
}

fn watch(path: &str) -> Request {
    Request::AddWatch(AddWatchRequest { path: path.to_owned(), mode: AddWatchMode::Persistent })
}
