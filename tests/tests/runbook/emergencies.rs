//! "A majority is lost", "A disk is lost".

use zoolet_client::{CreateMode, Version};
use zoolet_tests::wait::{self, until_so};

use crate::support::{Ensemble, PATIENCE, badly, tree, well};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_majority_is_recovered_from_the_server_that_is_left() {
    let mut ensemble = Ensemble::started();
    let client = ensemble.superuser(1).await;
    for at in 0..20 {
        client.create(&format!("/kept-{at}"), b"x", CreateMode::Persistent).await.unwrap();
    }
    let before = tree(&client).await;
    let words = ["recover", "--force-new-ensemble"];
    badly(&ensemble.zoolet(&words, 1), "in use by another server");
    badly(&ensemble.zoolet(&["recover"], 1), "--force-new-ensemble");
    let _ = client.detach().await;
    ensemble.kill(2);
    ensemble.kill(3);
    let is_shown = || {
        let status = ensemble.zooletctl(&[1, 2, 3], &["status"]);
        let shown = String::from_utf8_lossy(&status.stdout);
        let is_lost = shown.contains("1 of 3 servers reachable; 2 are needed");
        (is_lost && status.status.code() == Some(2)).then_some(())
    };
    assert!(wait::until(PATIENCE, is_shown).is_some(), "{}", ensemble.output(1));
    // It counts as ready for `syncLimit` after it has lost its leader.
    let is_unready = || (ensemble.ask(1, "/ready").0 == 503).then_some(());
    assert!(wait::until(PATIENCE, is_unready).is_some(), "{}", ensemble.output(1));
    assert_eq!(ensemble.ask(1, "/health").0, 200);
    assert!(ensemble.metric(1, "zoolet_raft_last_log_index") > 20);
    ensemble.kill(1);
    let said = well(&ensemble.zoolet(&words, 1));
    assert!(said.contains("server 1 is an ensemble of its own now"), "{said}");
    let note = said.lines().find_map(|line| line.trim().strip_prefix("note")).unwrap().trim();
    assert!(std::fs::read_to_string(note).unwrap().contains("old founding"));
    ensemble.start(1, &[]);
    ensemble.until_serving(&[1]);
    let client = ensemble.superuser(1).await;
    assert_eq!(tree(&client).await, before);
    client.set_data("/kept-0", b"new", Version::Any).await.unwrap();
    // One that comes back with its old data is refused, and changes nothing.
    ensemble.start(2, &[]);
    let is_refused = async || ensemble.output(2).contains("founding");
    assert!(until_so(PATIENCE, is_refused).await, "{}", ensemble.output(2));
    assert!(!ensemble.serves(2));
    client.set_data("/kept-1", b"new", Version::Any).await.unwrap();
    ensemble.kill(2);
    for id in [2, 3] {
        ensemble.empty(id);
        ensemble.start(id, &["--join"]);
    }
    ensemble.until_serving(&[2, 3]);
    // All have votes: the one with the data is not needed any more.
    let voters = async || {
        let (config, _) = client.config().await.unwrap();
        String::from_utf8_lossy(&config).matches(":participant").count() == 3
    };
    assert!(until_so(PATIENCE, voters).await);
    ensemble.kill(1);
    let client = ensemble.superuser(3).await;
    client.set_data("/kept-2", b"new", Version::Any).await.unwrap();
    assert_eq!(client.get("/kept-0").await.unwrap().0.as_ref(), b"new");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_disk_is_replaced_by_an_empty_one() {
    let mut ensemble = Ensemble::started();
    let client = ensemble.superuser(1).await;
    client.create("/kept", b"x", CreateMode::Persistent).await.unwrap();
    ensemble.kill(3);
    ensemble.empty(3);
    ensemble.start(3, &["--join"]);
    ensemble.until_serving(&[3]);
    well(&ensemble.zooletctl(&[1, 2, 3], &["status"]));
    let other = ensemble.superuser(3).await;
    assert_eq!(tree(&other).await, tree(&client).await);
}

/// A survivor that had missed the last election led in the same term as the lost servers: 30 zxids
/// were used for two different creates, and fencing tokens repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_zxid_of_the_lost_servers_is_used_again() {
    let mut ensemble = Ensemble::started();
    let leader = ensemble.leader();
    let others: Vec<usize> = (1..=3).filter(|id| *id != leader).collect();
    let (survivor, other) = (others[0], others[1]);
    ensemble.kill(survivor);
    // The two that are left elect a leader without it.
    ensemble.kill(leader);
    ensemble.start(leader, &[]);
    ensemble.until_serving(&[leader, other]);
    let client = ensemble.superuser(other).await;
    let mut lost = zoolet_client::jute::Zxid(0);
    for number in 0..30 {
        let path = format!("/lost-{number}");
        let (_, stat) = client.create(&path, b"x", CreateMode::Persistent).await.unwrap();
        lost = lost.max(stat.czxid);
    }
    let _ = client.detach().await;
    ensemble.kill(leader);
    ensemble.kill(other);

    let words = ["recover", "--force-new-ensemble"];
    badly(&ensemble.zoolet(&[&words[..], &["--epoch", "0"]].concat(), survivor), "is not above");
    let said = well(&ensemble.zoolet(&words, survivor));
    assert!(said.contains("zxids begin above     epoch"), "{said}");
    let mut last = lost;
    // Each start is a new ensemble, and none repeats a zxid of another.
    for options in [&[] as &[&str], &["--force-new-ensemble"], &["--force-new-ensemble"]] {
        ensemble.start(survivor, options);
        ensemble.until_serving(&[survivor]);
        let client = ensemble.superuser(survivor).await;
        let path = format!("/new-{}", last.epoch());
        let (_, stat) = client.create(&path, b"x", CreateMode::Persistent).await.unwrap();
        assert!(stat.czxid.epoch() > last.epoch(), "{:?} {last:?}", stat.czxid);
        last = stat.czxid;
        let _ = client.detach().await;
        ensemble.kill(survivor);
    }
}
