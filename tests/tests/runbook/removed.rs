//! "A server was removed": it has no clients and no vote, and is taken back without its old data.

use std::time::Duration;

use zoolet_client::{Client, ClientOptions, CreateMode, Version};
use zoolet_tests::wait::until_so;
use zoolet_tests::{four_letter, wait};

use crate::support::{Ensemble, PATIENCE, badly_with, tree, well};

/// A server that has lost its majority stops serving after 5 ticks, here of 500 ms each.
const TABLES: &str = "[ensemble]\nreconfig_enabled = true\ntick_time_ms = 500\n\
    [session]\ntimeout_ms_max = 60000\n";

impl Ensemble {
    /// A client of all servers that is connected to this one.
    async fn client_at(&self, id: usize) -> Client {
        // Where a client begins is a matter of chance.
        for seed in 0..100 {
            let options = ClientOptions::new().seed(seed).session_timeout(Duration::from_mins(1));
            let client = options.connect(&self.connect_string(&[1, 2, 3])).await.unwrap();
            if self.has_session(id, &client) {
                return client;
            }
            client.close().await.unwrap();
        }
        panic!("no client begins at server {id}")
    }

    fn has_session(&self, id: usize, client: &Client) -> bool {
        let shown = four_letter::ask(self.client(id), "cons").unwrap_or_default();
        shown.contains(&format!("sid={},", client.session().id))
    }

    fn until_not_serving(&self, id: usize) {
        let ends = wait::until(PATIENCE, || (!self.serves(id)).then_some(()));
        assert!(ends.is_some(), "server {id} serves: {}", self.output(id));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_removed_server_has_no_clients_and_no_vote_and_is_taken_back() {
    let mut ensemble = Ensemble::with(TABLES);
    ensemble.start_all();
    let client = ensemble.client_at(3).await;
    client.create("/held", b"", CreateMode::Ephemeral).await.unwrap();
    let session = client.session().id;

    let before = well(&ensemble.zooletctl(&[1, 2], &["config"]));
    let line = before.lines().find(|line| line.starts_with("server.3=")).unwrap().trim();
    let now = well(&ensemble.zooletctl(&[1, 2], &["reconfig", "-remove", "3"]));
    assert!(!now.contains("server.3=") && now.matches(":participant").count() == 2, "{now}");

    // It says so, and its clients go on elsewhere.
    ensemble.until_logged(3, "this server was removed from the ensemble");
    ensemble.until_not_serving(3);
    client.create("/elsewhere", b"", CreateMode::Persistent).await.unwrap();
    assert_eq!(client.session().id, session);
    assert!(client.exists("/held").await.unwrap().is_some());
    let shown = badly_with(&ensemble.zooletctl(&[1, 2, 3], &["status"]), 1);
    assert!(shown.contains("2 of 3 servers serve"), "{shown}");
    let (ready, why) = ensemble.ask(3, "/ready");
    assert_eq!(ready, 503, "{why}");
    assert_eq!(ensemble.ask(3, "/health").0, 200);

    assert!(why.contains("no leader with a majority is known"), "{why}");

    // It has no vote: one of the two others alone has no majority.
    ensemble.stop(2);
    ensemble.until_not_serving(1);
    ensemble.start(2, &[]);
    ensemble.until_serving(&[1, 2]);

    ensemble.stop(3);
    ensemble.empty(3);
    ensemble.start(3, &["--join"]);
    ensemble.until_logged(3, "this directory is not part of the ensemble");
    assert!(!ensemble.serves(3));
    let now = well(&ensemble.zooletctl(&[1, 2], &["reconfig", "-add", line]));
    assert!(now.contains(line), "{line}: {now}");
    ensemble.until_serving(&[3]);
    well(&ensemble.zooletctl(&[1, 2, 3], &["status"]));
    assert!(well(&ensemble.zooletctl(&[1, 2], &["config"])).contains(line));
    let other = ensemble.superuser(3).await;
    assert_eq!(tree(&other).await, tree(&client).await);
    assert!(other.exists("/elsewhere").await.unwrap().is_some());

    // Its vote counts again: it is one of the two that go on.
    ensemble.kill(2);
    let write = async || other.set_data("/elsewhere", b"new", Version::Any).await.is_ok();
    assert!(until_so(PATIENCE, write).await, "{}", ensemble.output(3));
    assert_eq!(client.session().id, session);
    assert!(client.exists("/held").await.unwrap().is_some());
}
