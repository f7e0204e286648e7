//! Foundings that were interrupted.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::sleep;
use zoolet_storage::{Disk, Identity, Wal, WalOptions};

use super::ensemble::Ensemble;
use crate::config::Autocreate;
use crate::replication::ReplicationOptions;
use crate::replication::directories::Directories;
use crate::replication::founding::{Founding, Request, ballot};

const FOUNDING: u64 = 0x3113_9f2b_c6ef_2930;

/// `db.autocreate=false` was ignored: servers that had lost their data founded an empty ensemble.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_must_not_begin_empty_gets_the_data_of_the_others() {
    let mut ensemble = Ensemble::new(3, 0).await;
    let options = |ensemble: &Ensemble, at| {
        let autocreate = Autocreate { db: false, ..Autocreate::default() };
        ReplicationOptions { autocreate, ..ensemble.options(at) }
    };
    let initialize = |ensemble: &Ensemble, at| {
        ensemble.disk(at).create_dir_all("data".as_ref()).unwrap();
        ensemble.disk(at).create("data/initialize".as_ref()).unwrap();
    };
    initialize(&ensemble, 0);
    for at in 0..3 {
        let options = options(&ensemble, at);
        ensemble.start_with(at, options).await;
    }
    // Longer than a founding by two of three takes.
    sleep(Duration::from_secs(3)).await;
    assert_eq!([0, 1, 2].map(|at| ensemble.founding(at)), [0; 3], "one server is not a majority");
    ensemble.kill(1).await;
    initialize(&ensemble, 1);
    let options = options(&ensemble, 1);
    ensemble.start_with(1, options).await;
    ensemble.ready().await;
    ensemble.commit(2, 3).await;
}

/// Servers 1 and 3 had begun without server 2, which finished what server 1 had taken: a founding
/// without its own directory. Then all of them lost their power. Seed 60000020 of the simulator.
#[tokio::test(flavor = "multi_thread")]
async fn a_founding_is_finished_whatever_was_promised_before() {
    let mut ensemble = Ensemble::new(3, 0).await;
    let directories = [11, 0, 13];
    let voter = |at: usize| (at as u64 + 1, (directories[at], ensemble.address(at)));
    let voters: BTreeMap<u64, (u64, String)> = (0..3).map(voter).collect();
    let founding = Founding { id: FOUNDING, voters };
    let taken = |ballot| Request::Accept { ballot, founding: founding.clone() };
    let lives = [
        (11, 0, vec![taken(ballot(5, 1)), Request::Prepare { ballot: ballot(6, 1) }]),
        (12, FOUNDING, vec![taken(ballot(8, 2))]),
        (13, 0, vec![Request::Prepare { ballot: ballot(8, 2) }]),
    ];
    for (at, (directory_id, founding, requests)) in lives.into_iter().enumerate() {
        let options = ensemble.options(at);
        let directories = Directories::open(&options).unwrap();
        let server_id = at as u64 + 1;
        let identity = Identity { cluster_id: 7, server_id, directory_id, founding };
        // The first segment is durable before the identity names a founding.
        directories.claim(Identity { founding: 0, ..identity }).unwrap();
        drop(Wal::open(options.disk, &directories.wal_path(), WalOptions::default()).unwrap());
        directories.write(identity).unwrap();
        let mut acceptor = directories.acceptor().unwrap();
        for request in requests {
            acceptor.step(request).unwrap();
        }
    }
    for at in 0..3 {
        ensemble.start(at).await;
    }
    ensemble.ready().await;
    ensemble.commit(1, 3).await;
    assert_eq!([0, 1, 2].map(|at| ensemble.founding(at)), [FOUNDING; 3]);
}
