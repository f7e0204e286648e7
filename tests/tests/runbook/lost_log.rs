//! "A server has lost its log", "The end of a log is lost".

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use zoolet_client::{Client, CreateMode};

use crate::support::{Ensemble, badly, tree, well};

/// Below all epochs after a recovery since February 2026; see `replication/epoch.rs`.
const EPOCH_MIN: u32 = 1 << 22;

fn segments(ensemble: &Ensemble, id: usize) -> Vec<PathBuf> {
    let files = fs::read_dir(ensemble.data(id).join("wal")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let mut segments: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "wal")).collect();
    segments.sort();
    segments
}

/// Starts a server that ends by itself with code 1, and has logged these words.
fn refused(ensemble: &mut Ensemble, id: usize, words: &[&str]) {
    ensemble.start(id, &[]);
    let ended = ensemble.until_ended(id);
    let said = ensemble.output(id);
    assert_eq!(ended.code(), Some(1), "{said}");
    for word in words {
        assert!(said.contains(word), "no {word:?} in {said}");
    }
}

async fn write(client: &Client, name: &str) -> u32 {
    let (_, stat) = client.create(name, b"x", CreateMode::Persistent).await.unwrap();
    stat.czxid.epoch()
}

/// A directory whose log had vanished founded a new, empty ensemble at level INFO.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_without_its_log_founds_nothing() {
    let mut ensemble = Ensemble::started();
    let client = ensemble.superuser(1).await;
    write(&client, "/kept").await;
    // One of three: the others serve on, and take it in when its directory is empty.
    ensemble.stop(3);
    for segment in segments(&ensemble, 3) {
        fs::remove_file(segment).unwrap();
    }
    let missing = ["its log is not in ", "docs/runbook.md"];
    refused(&mut ensemble, 3, &missing);
    let findings = ensemble.zoolet(&["doctor"], 3);
    let findings = String::from_utf8_lossy(&findings.stdout).into_owned();
    assert!(findings.contains("its log is not in"), "{findings}");
    badly(&ensemble.zoolet(&["recover", "--force-new-ensemble"], 3), "its log is not in ");
    ensemble.empty(3);
    ensemble.start(3, &["--join"]);
    ensemble.until_serving(&[3]);
    let other = ensemble.superuser(3).await;
    assert_eq!(tree(&other).await, tree(&client).await);
    drop((client.detach().await, other.detach().await));

    // All three, and their snapshots too.
    for id in 1..=3 {
        ensemble.stop(id);
        // The record of the end of the first one's log is still there.
        let emptied: &[&str] = if id == 1 { &["snapshots"] } else { &["wal", "snapshots"] };
        for segment in segments(&ensemble, id) {
            fs::remove_file(segment).unwrap();
        }
        for part in emptied {
            let directory = ensemble.data(id).join(part);
            fs::remove_dir_all(&directory).unwrap();
            fs::create_dir(&directory).unwrap();
        }
        assert_eq!(ensemble.data(id).join("wal/end").exists(), id == 1);
    }
    for id in 1..=3 {
        refused(&mut ensemble, id, &missing);
    }
    // Nor does it pass for a new disk without the identity.
    let identity = ensemble.data(2).join("identity");
    fs::rename(&identity, ensemble.path("identity")).unwrap();
    refused(&mut ensemble, 2, &["identity is damaged", "a server has run here"]);

    ensemble.start(1, &["--force-new-ensemble"]);
    ensemble.until_serving(&[1]);
    let client = ensemble.superuser(1).await;
    assert!(client.exists("/kept").await.unwrap().is_none());
    assert!(write(&client, "/new").await > EPOCH_MIN);
    for id in [2, 3] {
        ensemble.empty(id);
        ensemble.start(id, &["--join"]);
    }
    ensemble.until_serving(&[2, 3]);
    let _ = client.detach().await;
    // Once is enough, also if the server is killed: it reported a damaged log.
    ensemble.kill(1);
    ensemble.start(1, &[]);
    ensemble.until_serving(&[1]);
    assert!(ensemble.superuser(1).await.exists("/new").await.unwrap().is_some());
}

/// Zeroes the page with the end of a cleanly closed log.
fn lose_last_page(ensemble: &Ensemble, id: usize) {
    let path = segments(ensemble, id).pop().unwrap();
    let bytes = fs::read(&path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let mut page = (used - 1) / 4096 * 4096;
    if used - page < 1500 {
        page -= 4096;
    }
    assert!(page >= 4096, "the log is too short");
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&vec![0; used - page], page as u64).unwrap();
}

/// After a clean stop and one lost page, a server served 33 of 40 acknowledged creates.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_log_that_lost_its_last_page_after_a_clean_stop_is_refused() {
    let mut ensemble = Ensemble::started();
    let client = ensemble.superuser(1).await;
    for number in 0..40 {
        write(&client, &format!("/kept-{number:02}")).await;
    }
    let before = tree(&client).await;
    let _ = client.detach().await;
    for id in [3, 2, 1] {
        ensemble.stop(id);
    }
    lose_last_page(&ensemble, 1);
    let lost = ["is damaged at byte", "acknowledged writes are lost"];
    refused(&mut ensemble, 1, &lost);
    // The others have all writes.
    ensemble.start(2, &[]);
    ensemble.start(3, &[]);
    ensemble.until_serving(&[2, 3]);
    let client = ensemble.superuser(2).await;
    assert_eq!(tree(&client).await, before);
    let _ = client.detach().await;
    ensemble.kill(2);
    ensemble.kill(3);

    // Without the others, it becomes a new ensemble with the rest of its log.
    badly(&ensemble.zoolet(&["recover", "--force-new-ensemble", "--epoch", "0"], 1), "not above");
    refused(&mut ensemble, 1, &lost);
    let recovered = ensemble.zoolet(&["recover", "--force-new-ensemble"], 1);
    let said = String::from_utf8_lossy(&recovered.stderr).into_owned();
    assert!(said.contains("the end of the log is lost"), "{said}");
    well(&recovered);
    ensemble.start(1, &[]);
    ensemble.until_serving(&[1]);
    let client = ensemble.superuser(1).await;
    assert!(client.exists("/kept-00").await.unwrap().is_some());
    assert!(write(&client, "/new").await > EPOCH_MIN);
}
