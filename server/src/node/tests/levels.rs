//! Servers of different releases: one has a command that the other does not know.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zoolet_client::{Client, CreateMode, Error, ErrorCode};
use zoolet_replica::{FeatureLevel, Role};
use zoolet_storage::LogIndex;

use super::{Ensemble, PATIENCE, exists};

const OLD: FeatureLevel = FeatureLevel::FIRST;
/// The level of the made-up command.
const NEW: FeatureLevel = FeatureLevel(4);

/// What the old and the new command leave behind.
const OLD_DATA: &[u8] = b"plain";
const NEW_DATA: &[u8] = b"made up";

impl Ensemble {
    async fn old() -> Self {
        Self::start(3, 0, |config| config.ensemble.feature_level = OLD).await
    }

    /// Starts a server again as another release, or with another limit.
    async fn change(&mut self, at: usize, level: FeatureLevel, max: u32) {
        self.stop(at).await;
        let ensemble = &mut self.servers[at].config.ensemble;
        (ensemble.feature_level, ensemble.feature_level_max) = (level, max);
        self.launch(at).await;
        self.leader().await;
    }

    /// Writes through every server; all of them can read what comes of it.
    async fn create_everywhere(&self, round: &str) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for at in 0..3 {
            let path = format!("/made-up-{round}-{at}");
            self.create(at, &path).await;
            for reader in 0..3 {
                let reader = self.client(reader).await;
                assert!(exists(&reader, &path).await);
                all.push(reader.get(&path).await.unwrap().0.to_vec());
            }
        }
        all
    }

    /// Creates a znode through a server. A change of leaders on a busy machine can close connections.
    async fn create(&self, at: usize, path: &str) {
        let created = async {
            loop {
                let client = self.client(at).await;
                match client.create(path, OLD_DATA, CreateMode::Persistent).await {
                    Ok(_) => return,
                    Err(error) if error.code() == Some(ErrorCode::NodeExists) => return,
                    Err(error) => assert!(error.may_have_happened(), "{error}"),
                }
            }
        };
        timeout(PATIENCE, created).await.unwrap_or_else(|_| panic!("{path} is not created"));
    }

    /// Waits until what is written through every server looks like this.
    async fn everywhere(&self, wanted: &[u8], round: &str) {
        let reached = async {
            for look in 0.. {
                let all = self.create_everywhere(&format!("{round}-{look}")).await;
                if all.iter().all(|data| data == wanted) {
                    return;
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(PATIENCE, reached).await.unwrap_or_else(|_| panic!("{round}"));
    }

    /// The term in which a server leads, if it does.
    fn lead(&self, at: usize) -> Option<u64> {
        let status = self.servers[at].node.as_ref().unwrap().replication.status_source().status();
        (status.role == Role::Leader).then_some(status.term)
    }

    fn snapshots(&self) -> Vec<Option<LogIndex>> {
        self.servers
            .iter()
            .map(|server| {
                server.node.as_ref().unwrap().replication.status_source().status().snapshot
            })
            .collect()
    }
}

/// A server that met a command of a later release stopped, and again at each start: a rolling
/// upgrade was a matter of luck, and a downgrade was not possible.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_upgraded_and_downgraded_one_by_one_across_a_new_command() {
    let mut ensemble = Ensemble::old().await;
    for at in 0..3 {
        let all = ensemble.create_everywhere(&format!("before-{at}")).await;
        assert!(all.iter().all(|data| data == OLD_DATA), "used before all servers know it");
        ensemble.change(at, NEW, 0).await;
    }
    ensemble.everywhere(NEW_DATA, "upgraded").await;

    let before = ensemble.snapshots();
    ensemble.change(0, NEW, OLD.0).await;
    ensemble.everywhere(OLD_DATA, "lowered").await;
    let taken = async {
        while ensemble.snapshots().iter().zip(&before).any(|(now, before)| now <= before) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, taken).await.expect("no snapshot behind the new commands");
    for at in 0..3 {
        ensemble.change(at, OLD, 0).await;
        let all = ensemble.create_everywhere(&format!("downgraded-{at}")).await;
        assert!(all.iter().all(|data| data == OLD_DATA));
    }
    let client = ensemble.client(1).await;
    assert_eq!(client.get("/made-up-before-0-0").await.unwrap().0.as_ref(), OLD_DATA);
    for at in 0..3 {
        ensemble.change(at, NEW, 0).await;
    }
    ensemble.everywhere(NEW_DATA, "again").await;
}

/// The leader proposed the lower level behind commands of its own clients that it did not log any more
/// for the sake of it: all of them were lost again and again, for as long as clients sent new ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_loses_no_commands_of_its_clients_when_the_level_falls() {
    let mut ensemble = Ensemble::start(3, 0, |config| config.ensemble.feature_level = NEW).await;
    for round in 0..5 {
        ensemble.everywhere(NEW_DATA, &format!("new-{round}")).await;
        let leader = ensemble.leader().await;
        let (lead, changed) = (ensemble.lead(leader), (leader + 1) % 3);
        let mut writers = JoinSet::new();
        for writer in 0..8 {
            let client = ensemble.client(leader).await;
            writers.spawn(write_until_it_is_plain(client, format!("/made-up-{round}-{writer}")));
        }
        ensemble.change(changed, NEW, OLD.0).await;
        let written = timeout(PATIENCE, writers.join_all()).await.expect("the level does not fall");
        if lead.is_some() && ensemble.lead(leader) == lead {
            written.into_iter().collect::<Result<(), Error>>().unwrap();
            return;
        }
        // An election on a busy machine has closed the connections.
        ensemble.change(changed, NEW, 0).await;
    }
    panic!("in each of five rounds another server was elected");
}

/// Creates znodes until one is created by the old command.
async fn write_until_it_is_plain(client: Client, path: String) -> Result<(), Error> {
    for number in 0.. {
        let path = format!("{path}-{number}");
        client.create(&path, OLD_DATA, CreateMode::Persistent).await?;
        if client.get(&path).await?.0.as_ref() == OLD_DATA {
            break;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_downgraded_too_early_says_what_to_do() {
    let mut ensemble = Ensemble::old().await;
    for at in 0..3 {
        ensemble.change(at, NEW, 0).await;
    }
    ensemble.everywhere(NEW_DATA, "upgraded").await;
    let early = ensemble.leader().await;
    ensemble.stop(early).await;
    ensemble.servers[early].config.ensemble.feature_level = OLD;
    ensemble.launch(early).await;
    let fatal = ensemble.servers[early].node.as_ref().unwrap().fatal();
    let why = timeout(PATIENCE, fatal).await.expect("it goes on");
    let needs = format!("needs feature level {}, and this release has {}", NEW.0, OLD.0);
    assert!(why.contains(&needs), "{why}");
    assert!(why.contains("feature_level_max"), "{why}");
    let client = ensemble.client((early + 1) % 3).await;
    client.create("/served", b"", CreateMode::Persistent).await.unwrap();
    ensemble.change(early, NEW, 0).await;
    let client = ensemble.client(early).await;
    assert!(exists(&client, "/served").await);
}

/// A command that could not be read back from its bytes was logged, and ended every server at
/// every start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_cannot_be_read_back_closes_its_connection_and_nothing_else() {
    let ensemble = Ensemble::start(3, 0, |config| config.ensemble.feature_level = NEW).await;
    ensemble.everywhere(NEW_DATA, "new").await;
    for at in 0..3 {
        let client = ensemble.client(at).await;
        let path = "/made-up-0/unreadable";
        let created = timeout(PATIENCE, client.create(path, b"", CreateMode::Persistent)).await;
        let error = created.expect("the connection is not closed").unwrap_err();
        assert!(error.may_have_happened(), "{error}");
        let other: Client = ensemble.client(at).await;
        assert!(!exists(&other, path).await);
    }
    ensemble.everywhere(NEW_DATA, "still").await;
}
