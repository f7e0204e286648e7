//! "A backup" and "Restore it": everything is there, and what a stranger gets is nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zoolet_client::jute::{Acl, Id, perms};
use zoolet_client::{Client, CreateMode, Quota, Version};
use zoolet_tests::wait::until_so;
use zoolet_tests::{http, zooletctl};

use crate::support::{Ensemble, PATIENCE, SUPER, badly, save, tree, well};

async fn fill(client: &Client) {
    let persistent = CreateMode::Persistent;
    client.create("/app", b"data", persistent).await.unwrap();
    client.set_data("/app", b"newer data", Version::Any).await.unwrap();
    client.create("/large", &vec![7; 700_000], persistent).await.unwrap();
    let acl = vec![Acl { perms: perms::READ, id: Id::new("digest", "bob:x") }];
    client.create_with_acl("/secret", b"s", acl, persistent).await.unwrap();
    client.create("/seq", b"", persistent).await.unwrap();
    for _ in 0..3 {
        client.create("/seq/n-", b"", CreateMode::PersistentSequential).await.unwrap();
    }
    let quota = Quota { count: Some(9), bytes_hard: Some(1 << 20), ..Quota::default() };
    client.set_quota("/app", &quota).await.unwrap();
    client.create("/held", b"", CreateMode::Ephemeral).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_backup_is_saved_and_restored_with_all_that_clients_see() {
    let mut ensemble = Ensemble::started();
    let client = ensemble.superuser(1).await;
    fill(&client).await;
    let before = tree(&client).await;
    let (_, last) = client.get("/seq").await.unwrap();
    // The state of any server will do; this one may lag behind by what is on its way.
    client.sync("/").await.unwrap();
    let file = ensemble.path("backup.snap");
    // The first address is a server that does not run.
    let from = format!("127.0.0.1:1,http://{}/commands", ensemble.http(1));
    let said = well(&save(&from, &file, Some(SUPER), &[]));
    assert!(said.starts_with("saved "), "{said}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let again = save(&from, &file, Some(SUPER), &[]);
    badly(&again, "it exists already");
    let mut status = zooletctl::command().unwrap();
    let status = well(&status.args(["snapshot", "status"]).arg(&file).output().unwrap());
    assert!(status.contains("checksum      ok") && status.contains("ephemerals    1"), "{status}");
    client.create("/later", b"", CreateMode::Persistent).await.unwrap();
    let _ = client.detach().await;

    let words = ["restore", "--from", file.to_str().unwrap()];
    for id in 1..=3 {
        ensemble.kill(id);
    }
    badly(&ensemble.zoolet(&words, 1), "holds files already");
    for id in 1..=3 {
        ensemble.empty(id);
    }
    let said = well(&ensemble.zoolet(&words, 1));
    assert!(said.contains("ephemeral znodes      1"), "{said}");
    ensemble.start(1, &[]);
    ensemble.until_serving(&[1]);
    let client = ensemble.superuser(1).await;
    assert_eq!(tree(&client).await, before);
    ensemble.start(2, &["--join"]);
    ensemble.start(3, &["--join"]);
    ensemble.until_serving(&[2, 3]);
    let other = ensemble.superuser(3).await;
    let (path, stat) =
        other.create("/seq/n-", b"", CreateMode::PersistentSequential).await.unwrap();
    assert_eq!(path, "/seq/n-0000000003", "the counter goes on");
    assert!(stat.czxid.epoch() > last.pzxid.epoch(), "{stat:?}");
    let config = || async {
        let (config, _) = client.config().await.unwrap();
        String::from_utf8_lossy(&config).into_owned()
    };
    let is_listed = until_so(PATIENCE, async || config().await.contains("server.3=")).await;
    assert!(is_listed, "{}", config().await);
    // Its session was not resumed.
    let is_gone = async || client.exists("/held").await.unwrap().is_none();
    assert!(until_so(PATIENCE, is_gone).await, "the session of the backup does not expire");
}

/// Everyone has every permission on the root of a new ensemble.
#[test]
fn a_stranger_gets_no_backup() {
    let mut ensemble = Ensemble::new();
    for id in 1..=3 {
        ensemble.start(id, &[]);
    }
    ensemble.until_serving(&[1]);
    let ask = |line: &str| http::get_with(ensemble.http(1), "/commands/snapshot", line).unwrap();
    for (line, status, why) in [
        ("", 401, "Auth info is missing"),
        ("Authorization: ip\r\n", 403, "Not authorized"),
        ("Authorization: digest super:wrong\r\n", 403, "Not authorized"),
        ("Authorization: world anyone\r\n", 401, "Not authenticated"),
    ] {
        let answer = ask(line);
        assert_eq!(answer.status, status, "{line}: {answer:?}");
        assert!(answer.body.contains(why), "{line}: {answer:?}");
    }
    let file = ensemble.path("x");
    let from = ensemble.http(1).to_string();
    badly(&save(&from, &file, None, &[]), "--auth");
    badly(&save(&from, &file, Some("digest:a:b"), &[]), "Not authorized");
    assert!(!file.exists());
    assert_eq!(ask("Authorization: digest super:test\r\n").status, 200);
}

/// A second restore of the same backup led to the same zxids and fencing tokens again.
#[test]
#[allow(clippy::disallowed_methods, reason = "the epoch rises with the true time")]
fn a_backup_that_is_restored_again_is_in_later_epochs() {
    let ensemble = Ensemble::started();
    let file = ensemble.path("same.snap");
    well(&save(&ensemble.http(2).to_string(), &file, Some(SUPER), &[]));
    let restore = |name: &str| {
        let config = zoolet_server::embed::config::load(&ensemble.config(1), Some(1)).unwrap().0;
        let mut config = config;
        config.data_dir = ensemble.path(name);
        config.data_log_dir = ensemble.path(name);
        zoolet_server::embed::restore(&config, &file, None).unwrap().epoch
    };
    let first = restore("first");
    let second = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let restored_in = second();
    while second() == restored_in {
        thread::sleep(Duration::from_millis(10));
    }
    assert!(restore("second") > first);
}

/// Every byte that is flipped, and every length, is found.
#[test]
fn a_damaged_backup_is_never_restored() {
    let ensemble = Ensemble::started();
    let file = ensemble.path("whole.snap");
    well(&save(&ensemble.http(2).to_string(), &file, Some(SUPER), &[]));
    let whole = fs::read(&file).unwrap();
    let broken = ensemble.path("broken.snap");
    let refused = |bytes: &[u8], at: usize| {
        fs::write(&broken, bytes).unwrap();
        let config = zoolet_server::embed::config::load(&ensemble.config(1), Some(1)).unwrap().0;
        let mut config = config;
        config.data_dir = ensemble.path("scratch");
        config.data_log_dir = ensemble.path("scratch");
        let restored = zoolet_server::embed::restore(&config, &broken, None);
        let error = restored.expect_err(&format!("byte {at}")).to_string();
        assert!(error.contains("broken.snap"), "{error}");
        assert!(!config.data_dir.exists(), "{error}");
    };
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        refused(&bytes, at);
        refused(&whole[..at], at);
    }
}
