//! A disk that gets full under writes: the server says so and ends, and with room for its log again
//! it goes on with everything that was acknowledged. Needs root, for a file system of its own.

use std::fs;
use std::time::Duration;

use tokio::task::block_in_place;
use tokio::time::sleep;
use zoolet_client::{ClientOptions, CreateMode};
use zoolet_tests::faults::connect;
use zoolet_tests::mount::Mount;
use zoolet_tests::process::is_alive;
use zoolet_tests::servers::Servers;
use zoolet_tests::tools::{self, ToolError};
use zoolet_tests::wait::until;

/// The disk, and how much of it somebody else has taken.
const DISK_BYTES: usize = 16 << 20;
const TAKEN_BYTES: usize = 6 << 20;
const ZNODE_BYTES: usize = 100_000;
/// More than fit on the disk.
const WRITES_MAX: usize = DISK_BYTES / ZNODE_BYTES;
/// How long a server that cannot write may take to end.
const END_MAX: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_full_disk_says_so_and_goes_on_when_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let Ok(disk) = Mount::memory(DISK_BYTES, &directory.path().join("disk")) else {
        let missing = ToolError::Missing { what: "root, to mount a file system".to_owned() };
        tools::skip_unless_required("full_disk", missing).unwrap();
        return;
    };
    let taken = disk.directory.join("taken");
    fs::write(&taken, vec![1; TAKEN_BYTES]).unwrap();
    let data = disk.directory.join("data");
    let zoolet = Servers::zoolet().property("dataDir", data.to_str().unwrap());
    let mut servers = zoolet.start().unwrap();
    let connect_string = servers.connect_string();

    let options = ClientOptions::new().session_timeout(Duration::from_secs(4));
    let client = options.connect(&connect_string).await.unwrap();
    let pid = servers.pid(0).unwrap();
    let (mut acknowledged, mut ends) = (Vec::new(), false);
    while !ends && acknowledged.len() < WRITES_MAX {
        let written = vec![u8::try_from(acknowledged.len()).unwrap(); ZNODE_BYTES];
        tokio::select! {
            created = client.create("/fill-", &written, CreateMode::PersistentSequential) => {
                match created {
                    Ok((path, _)) => acknowledged.push((path, written)),
                    Err(_) => ends = true,
                }
            }
            // It may end between two writes, where it prepares for the next: a call then waits for
            // a server.
            () = dead(pid) => ends = true,
        }
    }
    assert!(ends && acknowledged.len() > 10, "{} writes", acknowledged.len());
    let ended = block_in_place(|| until(END_MAX, || (!is_alive(pid)).then_some(())));
    let said = servers.output(0).unwrap();
    assert!(ended.is_some(), "it goes on: {said}");
    // Threads that find out at the same time may log behind it.
    let why = said.lines().find(|line| line.starts_with("zoolet: ")).unwrap_or_default();
    assert!(why.starts_with("zoolet: the server has failed: the disk is full: cannot "), "{said}");
    assert!(!said.contains("panicked"), "{said}");
    drop(client);

    fs::remove_file(&taken).unwrap();
    block_in_place(|| servers.restart(0)).unwrap();
    let client = connect(&connect_string).await.unwrap();
    for (path, written) in &acknowledged {
        let (found, _) = client.get(path).await.unwrap();
        assert!(found.as_ref() == written.as_slice(), "{path} is not what was written");
    }
    let (children, _) = client.children("/").await.unwrap();
    let fills = children.iter().filter(|name| name.starts_with("fill-")).count();
    assert!(fills <= acknowledged.len() + 1, "{fills}: only one was in doubt");
    client.create("/more", b"", CreateMode::Persistent).await.unwrap();
    client.close().await.unwrap();
}

async fn dead(pid: u32) {
    while is_alive(pid) {
        sleep(Duration::from_millis(50)).await;
    }
}
