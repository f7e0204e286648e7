//! Tasks of a server that panic, where a panic unwinds.

use std::sync::Arc;
use std::thread;

use tokio::time::{sleep, timeout};
use zoolet_jute::{ReconfigRequest, SessionId};

use super::ensemble::{Ensemble, PATIENCE};
use crate::host::Proposals;

/// Makes the machine of a server panic in its next call of this name.
fn arm(ensemble: &mut Ensemble, at: usize, call: &'static str) {
    *ensemble.server(at).machine.panics_in.lock().unwrap() = Some(call);
}

async fn failure(ensemble: &mut Ensemble, at: usize) -> String {
    let mut fatal = ensemble.server(at).fatal.watch();
    let why = timeout(PATIENCE, fatal.wait_for(Option::is_some)).await.expect("it is not reported");
    why.unwrap().clone().unwrap()
}

/// The rest of the server went on without the task: it proposed nothing any more, or followed no
/// leader, and reported health.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_a_task_of_the_server_is_fatal_and_names_the_task() {
    for (call, task) in [
        ("wall_ms", "proposals"),
        ("levels", "feature levels"),
        ("synced", "syncs"),
        ("touched", "touched sessions"),
        ("role", "supervisor"),
        ("zxid", "supervisor"),
    ] {
        let mut ensemble = Ensemble::started(3, 0).await;
        let leader = ensemble.ready().await;
        arm(&mut ensemble, leader, call);
        let server = ensemble.server(leader);
        match call {
            "wall_ms" => server.propose(1),
            "synced" => server.proposer.sync(1),
            "touched" => server.proposer.touch(1, vec![SessionId(1)]),
            "role" => ensemble.cut.isolate(leader, 3).await,
            _ => {}
        }
        let why = failure(&mut ensemble, leader).await;
        let expected = format!("the task \"{task}\" has panicked: the test's panic; ");
        assert!(why.starts_with(&expected), "{call}: {why}");
        ensemble.kill(leader).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_the_machine_is_fatal() {
    let mut ensemble = Ensemble::started(1, 0).await;
    arm(&mut ensemble, 0, "commit_many");
    ensemble.server(0).propose(1);
    let why = failure(&mut ensemble, 0).await;
    assert!(
        why.starts_with("the task \"state machine\" has panicked: the test's panic; "),
        "{why}"
    );
}

/// What was to be written was never acknowledged, nor refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_the_log_writer_is_fatal() {
    let mut ensemble = Ensemble::started(1, 0).await;
    ensemble.disk(0).observe(|_| {
        assert_ne!(thread::current().name(), Some("wal-writer"), "the test's panic");
    });
    ensemble.server(0).propose(1);
    let why = failure(&mut ensemble, 0).await;
    assert!(why.starts_with("the task \"log writer\" has panicked: "), "{why}");
    timeout(PATIENCE, ensemble.kill(0)).await.expect("it does not end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_in_one_peers_connection_ends_that_connection_alone() {
    let mut ensemble = Ensemble::started(3, 0).await;
    let leader = ensemble.ready().await;
    let follower = (leader + 1) % 3;
    arm(&mut ensemble, leader, "touched");
    let machine = ensemble.server(leader).machine.clone();
    let is_touched = async {
        while machine.received().touched.is_empty() {
            ensemble.server(follower).proposer.touch(1, vec![SessionId(1)]);
            sleep(ensemble.timing.heartbeat).await;
        }
    };
    timeout(PATIENCE, is_touched).await.expect("the connection is not opened again");
    assert_eq!(*machine.panics_in.lock().unwrap(), None);
    assert_eq!(*ensemble.server(leader).fatal.watch().borrow(), None);
}

/// Its client waited for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reconfiguration_that_panics_is_lost_and_the_next_one_is_served() {
    let mut ensemble = Ensemble::started(1, 0).await;
    arm(&mut ensemble, 0, "config_view");
    let machine = ensemble.server(0).machine.clone();
    for number in [1, 2] {
        let request = ReconfigRequest {
            joining_servers: None,
            leaving_servers: None,
            new_members: None,
            config_id: -1,
        };
        ensemble.server(0).proposer.reconfig(number, request, Arc::from([]));
        let is_answered = machine.until(|_, received| {
            received.reconfig_lost.contains(&number)
                || received.reconfigured.iter().any(|(answered, _)| *answered == number)
        });
        timeout(PATIENCE, is_answered).await.expect("it is not answered");
    }
    assert_eq!(machine.received().reconfig_lost, [1]);
    assert_eq!(*ensemble.server(0).fatal.watch().borrow(), None);
}
