//! The number of a start, and directories that are not this server's.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use zoolet_replica::{Boot, ServerId};
use zoolet_storage::{Disk, MemoryDisk, StorageError, WalOptions};

use super::ensemble::CONNECT_TIMEOUT;
use crate::config::{Autocreate, StartMode};
use crate::entropy::RealEntropy;
use crate::replication::{
    BatchLimits, ConfiguredMember, JoinError, ReplicationOptions, SnapshotPace, Timing, boot, open,
};

#[test]
fn a_later_start_has_the_larger_number_whatever_the_clock_says() {
    let disk = MemoryDisk::new();
    disk.create_dir_all(Path::new("data")).unwrap();
    let next = |wall_ms| boot::next(&disk, Path::new("data"), wall_ms).unwrap();
    assert_eq!(next(1000), Boot(1000));
    assert_eq!(next(1000), Boot(1001));
    assert_eq!(next(-5), Boot(1002));
    assert_eq!(next(5000), Boot(5000));
}

#[test]
fn a_number_is_not_used_before_it_is_durable() {
    for change in 1..=4 {
        let disk = MemoryDisk::with_faults();
        disk.create_dir_all(Path::new("data")).unwrap();
        assert_eq!(boot::next(&disk, Path::new("data"), 10).unwrap(), Boot(10));
        disk.fail_change(change, zoolet_storage::Fault::Io);
        assert!(boot::next(&disk, Path::new("data"), 0).is_err(), "change {change}");
        assert!(boot::next(&disk, Path::new("data"), 0).unwrap() > Boot(10), "change {change}");
    }
}

#[test]
fn the_directory_of_another_server_is_refused() {
    let disk = MemoryDisk::new();
    let options = |server: u8, cluster_id| {
        let member = |number| ConfiguredMember {
            server: ServerId(number),
            address: format!("127.0.0.1:{number}"),
            is_voter: true,
            line: String::new(),
        };
        ReplicationOptions {
            server: ServerId(server),
            cluster_id,
            cluster_named: true,
            reconfig: false,
            standalone: false,
            voters_min: 2,
            members: vec![member(1), member(2)],
            listen: None,
            disk: Arc::new(disk.clone()),
            directory: PathBuf::from("data"),
            log_directory: PathBuf::from("data"),
            secret: None,
            tls: crate::peer::PeerTls::default(),
            entry_bytes_max: 1 << 20,
            batches: BatchLimits::default(),
            wal: WalOptions::default(),
            snapshot_pace: SnapshotPace { commands: 1, log_bytes_max: 0, log_percent: 0 },
            entropy: Arc::new(RealEntropy),
            autocreate: Autocreate::default(),
            start_mode: StartMode::default(),
            connect_timeout: CONNECT_TIMEOUT,
            snapshots_retained: 3,
            timing: Timing::from_tick(Duration::from_secs(2)),
        }
    };
    drop(open(options(1, 7), 1).unwrap());
    let refused = |server, cluster| open(options(server, cluster), 2).unwrap_err();
    assert!(matches!(refused(2, 7), JoinError::Storage(StorageError::WrongServer { .. })));
    assert!(matches!(refused(1, 8), JoinError::Storage(StorageError::WrongCluster { .. })));
    assert!(matches!(refused(3, 7), JoinError::NotAMember(ServerId(3))));
    open(options(1, 7), 2).unwrap();
}
