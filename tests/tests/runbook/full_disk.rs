//! "A disk is full": the log says so, the server ends or goes on, and nothing that was acknowledged
//! is lost. Needs root, for file systems of its own.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use zoolet_client::{Client, ClientOptions, CreateMode};
use zoolet_tests::mount::Mount;
use zoolet_tests::tools::{self, ToolError};
use zoolet_tests::wait;

use crate::support::{Ensemble, PATIENCE, badly_with, well};

/// The disk of a server, and how much of it another program takes.
const DISK_BYTES: usize = 16 << 20;
const TAKEN_BYTES: usize = 6 << 20;
const ZNODE_BYTES: usize = 100_000;
/// More than fit on the disk.
const WRITES_MAX: usize = DISK_BYTES / ZNODE_BYTES;
/// A disk on which a snapshot of one large znode has no room, and what is left of it.
const SMALL_DISK_BYTES: usize = 2 << 20;
const LEFT_BYTES: usize = 100 << 10;

/// Gives a server a disk of its own; without root, says that the suite needs it.
fn mounted(ensemble: &Ensemble, id: usize, bytes: usize) -> Option<Mount> {
    let mounted = Mount::memory(bytes, &ensemble.disk(id));
    if mounted.is_err() {
        let missing = ToolError::Missing { what: "root, to mount a file system".to_owned() };
        tools::skip_unless_required("runbook", missing).unwrap();
    }
    mounted.ok()
}

/// Another program writes to the disk until nothing fits any more.
fn fill(file: &Path) {
    let mut file = File::create(file).unwrap();
    while file.write(&[1; 4096]).is_ok() {}
}

async fn connect(servers: &str) -> Client {
    let options = ClientOptions::new().session_timeout(Duration::from_secs(10));
    options.connect(servers).await.unwrap()
}

/// What was acknowledged: paths and data.
#[derive(Default)]
struct Acknowledged(Vec<(String, Vec<u8>)>);

impl Acknowledged {
    /// Writes once. A call fails at most because its connection was lost.
    async fn write(&mut self, client: &Client) {
        let data = vec![u8::try_from(self.0.len() % 256).unwrap(); ZNODE_BYTES];
        match client.create("/fill-", &data, CreateMode::PersistentSequential).await {
            Ok((path, _)) => self.0.push((path, data)),
            Err(error) => assert!(error.may_have_happened(), "{error}"),
        }
    }

    async fn are_there(&self, client: &Client) {
        for (path, data) in &self.0 {
            let (found, _) = client.get(path).await.unwrap();
            assert!(found.as_ref() == data.as_slice(), "{path} is not what was written");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leader_with_a_full_disk_ends_and_has_everything_when_there_is_room() {
    let mut ensemble = Ensemble::with("[log]\nsegment_bytes = 1048576\n");
    let disks: Vec<Mount> = (1..=3).map_while(|id| mounted(&ensemble, id, DISK_BYTES)).collect();
    if disks.len() < 3 {
        return;
    }
    ensemble.start_all();
    let full = ensemble.leader();
    let taken = ensemble.disk(full).join("taken");
    fs::write(&taken, vec![1; TAKEN_BYTES]).unwrap();

    let all = ensemble.connect_string(&[1, 2, 3]);
    let client = connect(&all).await;
    let session = client.session().id;
    let mut acknowledged = Acknowledged::default();
    let ended = loop {
        acknowledged.write(&client).await;
        assert!(acknowledged.0.len() < WRITES_MAX, "it goes on: {}", ensemble.output(full));
        if let Some(ended) = ensemble.ended(full) {
            break ended;
        }
    };
    assert_eq!(ended.code(), Some(1));
    ensemble.until_logged(full, "zoolet: the server has failed: the disk is full: cannot ");
    assert!(!ensemble.output(full).contains("panicked"), "{}", ensemble.output(full));

    // The others serve.
    let known = acknowledged.0.len();
    while acknowledged.0.len() < known + 5 {
        acknowledged.write(&client).await;
    }
    let status = ensemble.zooletctl(&[1, 2, 3], &["status"]);
    let shown = badly_with(&status, 1);
    assert!(shown.contains("2 of 3 servers serve"), "{shown}");
    assert!(shown.contains(&format!("{}  connection refused", ensemble.client(full))), "{shown}");

    // A start without room, as a service manager makes it, ends in the same way.
    fill(&ensemble.disk(full).join("more"));
    let before = ensemble.output(full).len();
    ensemble.start(full, &[]);
    assert_eq!(ensemble.until_ended(full).code(), Some(1));
    let said = ensemble.output(full).split_off(before);
    assert!(said.contains("the disk is full: cannot "), "{said}");

    for name in ["taken", "more"] {
        fs::remove_file(ensemble.disk(full).join(name)).unwrap();
    }
    ensemble.start(full, &[]);
    ensemble.until_serving(&[full]);
    let shown = well(&ensemble.zooletctl(&[1, 2, 3], &["status"]));
    assert!(shown.contains("3 of 3 servers serve"), "{shown}");
    assert_eq!(client.session().id, session);
    let other = connect(&ensemble.connect_string(&[full])).await;
    other.sync("/").await.unwrap();
    acknowledged.are_there(&other).await;
    acknowledged.write(&other).await;
    acknowledged.are_there(&client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_that_cannot_write_a_snapshot_goes_on_until_there_is_room() {
    let mut ensemble = Ensemble::with("[snapshot]\ncommands = 20\n");
    let Some(_disk) = mounted(&ensemble, 3, SMALL_DISK_BYTES) else { return };
    // The log has a disk of its own.
    let (data, log) = (ensemble.data(3), ensemble.path("log-disk"));
    let with_log = |data: &str| format!("{data}data_log_dir = \"{}\"\n", log.display());
    let data = format!("data_dir = \"{}\"\n", data.display());
    ensemble.edit(3, &data, &with_log(&data));
    ensemble.start_all();
    let taken = ensemble.disk(3).join("taken");
    fs::write(&taken, vec![1; SMALL_DISK_BYTES - LEFT_BYTES]).unwrap();

    let client = connect(&ensemble.connect_string(&[3])).await;
    client.create("/large", &vec![7; 2 * LEFT_BYTES], CreateMode::Persistent).await.unwrap();
    for at in 0..20 {
        client.create(&format!("/{at}"), b"", CreateMode::Persistent).await.unwrap();
    }
    ensemble.until_logged(3, "cannot write a snapshot");
    ensemble.until_logged(3, "the disk is full: cannot ");
    client.create("/more", b"", CreateMode::Persistent).await.unwrap();
    assert_eq!(ensemble.ask(3, "/health").0, 200);
    assert_eq!(ensemble.ask(3, "/ready").0, 200);
    let before = ensemble.snapshot_index(3);

    fs::remove_file(&taken).unwrap();
    let is_taken = wait::until(PATIENCE, || (ensemble.snapshot_index(3) > before).then_some(()));
    assert!(is_taken.is_some(), "no snapshot: {}", ensemble.output(3));
    ensemble.kill(3);
    ensemble.start(3, &[]);
    ensemble.until_serving(&[3]);
    let client = connect(&ensemble.connect_string(&[3])).await;
    client.sync("/").await.unwrap();
    assert!(client.exists("/more").await.unwrap().is_some());
    assert_eq!(client.get("/large").await.unwrap().0.len(), 2 * LEFT_BYTES);
}
