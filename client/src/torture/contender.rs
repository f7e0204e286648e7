//! A contender: a thread with a runtime of its own, one session, and a task for each lock.
//!
//! All of it stops when the thread does, and dies when the runtime is dropped: the system closes
//! the sockets, and no session is closed.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::hand::Hand;
use super::plan::HolderFault;
use super::random::Random;
use super::recipe::Recipe;
use super::scene::{Body, Phase, Scene, Session, lock, stand_still};
use crate::ClientOptions;

/// How long the last words of a session may take.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// Starts a contender. The thread ends with the run.
pub(crate) fn start(scene: Arc<Scene>, body: Arc<Body>) -> io::Result<JoinHandle<()>> {
    let name = format!("contender-{}", body.number);
    thread::Builder::new().name(name).spawn(move || {
        let mut life = 0;
        loop {
            let runtime = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return scene.recorder.error(format!("no runtime: {error}")),
            };
            let died = runtime.block_on(live(&scene, &body, life));
            // What a guard leaves to the background when it is dropped does not happen any more.
            runtime.shutdown_background();
            if !died || *scene.phase.borrow() == Phase::Over {
                return;
            }
            life += 1;
        }
    })
}

/// Lives until the run is over or death comes; answers whether it died.
async fn live(scene: &Arc<Scene>, body: &Arc<Body>, life: u64) -> bool {
    let number = u64::try_from(body.number).unwrap_or(0);
    let options = ClientOptions::new()
        .session_timeout(scene.session_timeout)
        .connect_timeout(scene.session_timeout)
        .seed(scene.seed ^ (number + 1));
    let session = Arc::new(Session::new(body.proxy.connect_string(), options));
    let mut hands = JoinSet::new();
    for (index, lock) in (1..).zip(&scene.locks) {
        let random = Random::fork(scene.seed, (number + 1) << 32 | life << 16 | index);
        let hand = Hand::new(scene, body, &session, lock.clone(), random);
        if lock.recipe.is_kept() {
            hands.spawn(hand.keep());
        } else if lock.recipe == Recipe::DoubleBarrier {
            hands.spawn(hand.pass_barriers());
        } else {
            hands.spawn(hand.take_turns());
        }
    }
    let all_done = async {
        while let Some(ended) = hands.join_next().await {
            if let Err(error) = ended {
                scene.recorder.error(format!("contender {number}: a task ended: {error}"));
            }
        }
        let mut phase = scene.phase.clone();
        let _ = phase.wait_for(|phase| *phase == Phase::Over).await;
        let _ = timeout(CLOSE_MAX, session.close()).await;
    };
    tokio::select! {
        () = body.death.notified() => true,
        () = suffer(scene, body) => true,
        () = all_done => false,
    }
}

/// Takes what strikes wherever it stands. Ends with its death.
async fn suffer(scene: &Scene, body: &Body) {
    loop {
        body.struck_anywhere.notified().await;
        loop {
            let next = lock(&body.anywhere).pop_front();
            let Some((fault, kind)) = next else { break };
            if let Some(kind) = kind {
                scene.recorder.struck(kind);
            }
            scene.recorder.disturbed(Some(body.number), fault.long());
            match fault {
                HolderFault::Pause(long) => stand_still(long),
                HolderFault::Cut(long) => body.cut(long).await,
                HolderFault::Silence(long) => body.silence(long).await,
                HolderFault::Die => return,
                // There is nothing of its own to delete.
                HolderFault::Delete => {}
            }
        }
    }
}
