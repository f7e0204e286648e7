//! Loads on a scripted server, in time that is not waited for, and on real servers.

mod fake;
mod real;
mod recorded;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zoolet_jute::Request;

use crate::history::{CallNumber, Connection, History, What};

/// What must hold in every history of a load, whatever the servers do. Returns how many calls there
/// are and how many of them have returned.
fn check_sane(history: &History) -> (usize, usize) {
    let mut open: BTreeMap<Connection, VecDeque<CallNumber>> = BTreeMap::new();
    let mut connected = BTreeSet::new();
    let mut ended = BTreeSet::new();
    let mut pings = BTreeSet::new();
    let mut place: BTreeMap<CallNumber, Connection> = BTreeMap::new();
    let (mut calls, mut returns) = (0, 0);
    for record in &history.records {
        match &record.what {
            What::Connected { connection, .. } => {
                assert!(connected.insert(*connection), "{record:?} comes twice");
                assert!(!ended.contains(connection), "{record:?} comes behind the end");
            }
            What::Disconnected { connection } => {
                assert!(ended.insert(*connection), "{record:?} comes twice");
            }
            What::Called { call, connection, request, .. } => {
                if *request == Request::Ping {
                    pings.insert(*call);
                }
                assert!(!ended.contains(connection), "{record:?} comes behind the end");
                assert!(place.insert(*call, *connection).is_none(), "{record:?} comes twice");
                open.entry(*connection).or_default().push_back(*call);
                calls += 1;
            }
            What::Returned { call, .. } => {
                let connection = place[call];
                assert!(connected.contains(&connection), "{record:?} precedes the handshake");
                assert!(!ended.contains(&connection), "{record:?} comes behind the end");
                let open = open.get_mut(&connection).unwrap();
                // A ping may be answered behind later requests, and never before earlier ones.
                let waits = |other: &&CallNumber| pings.contains(call) || !pings.contains(other);
                assert_eq!(open.iter().find(waits), Some(call), "{record:?} is out of turn");
                open.retain(|open| open != call);
                returns += 1;
            }
            What::Notified { connection, .. } => {
                assert!(connected.contains(connection), "{record:?} precedes the handshake");
                assert!(!ended.contains(connection), "{record:?} comes behind the end");
            }
            What::Complained { client, why } => panic!("client {} complains: {why}", client.0),
            What::Lock { .. } | What::Recipe { .. } | What::ClientDied { .. } => {}
        }
    }
    (calls, returns)
}
