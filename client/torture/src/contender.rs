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
use zoolet_client::ClientOptions;

use crate::context::{ContenderControl, Phase, RunContext, Session, block_thread, lock};
use crate::plan::HolderFault;
use crate::random::Random;
use crate::recipe::Recipe;
use crate::worker::Worker;

/// How long the last words of a session may take.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// Starts a contender. The thread ends with the run.
pub(crate) fn start(
    context: Arc<RunContext>,
    control: Arc<ContenderControl>,
) -> io::Result<JoinHandle<()>> {
    let name = format!("contender-{}", control.number);
    thread::Builder::new().name(name).spawn(move || {
        let mut life = 0;
        loop {
            let runtime = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return context.recorder.error(format!("no runtime: {error}")),
            };
            let died = runtime.block_on(live(&context, &control, life));
            // What a guard leaves to the background when it is dropped does not happen any more.
            runtime.shutdown_background();
            if !died || *context.phase.borrow() == Phase::Over {
                return;
            }
            life += 1;
        }
    })
}

/// Lives until the run is over or it is to die; returns whether it died.
async fn live(context: &Arc<RunContext>, control: &Arc<ContenderControl>, life: u64) -> bool {
    let number = u64::try_from(control.number).unwrap_or(0);
    let options = ClientOptions::new()
        .session_timeout(context.session_timeout)
        .connect_timeout(context.session_timeout)
        .seed(context.seed ^ (number + 1));
    let session = Arc::new(Session::new(control.proxy.connect_string(), options));
    let mut workers = JoinSet::new();
    for (index, lock) in (1..).zip(&context.locks) {
        let random = Random::fork(context.seed, (number + 1) << 32 | life << 16 | index);
        let worker = Worker::new(context, control, &session, lock.clone(), random);
        if lock.recipe.is_kept() {
            workers.spawn(worker.keep());
        } else if lock.recipe == Recipe::DoubleBarrier {
            workers.spawn(worker.pass_barriers());
        } else {
            workers.spawn(worker.take_turns());
        }
    }
    let all_done = async {
        while let Some(ended) = workers.join_next().await {
            if let Err(error) = ended {
                context.recorder.error(format!("contender {number}: a task ended: {error}"));
            }
        }
        let mut phase = context.phase.clone();
        let _ = phase.wait_for(|phase| *phase == Phase::Over).await;
        let _ = timeout(CLOSE_MAX, session.close()).await;
    };
    tokio::select! {
        () = control.death.notified() => true,
        () = suffer(context, control) => true,
        () = all_done => false,
    }
}

/// Takes what strikes wherever it stands. Ends with its death.
async fn suffer(context: &RunContext, control: &ContenderControl) {
    loop {
        control.struck_anywhere.notified().await;
        loop {
            let next = lock(&control.anywhere).pop_front();
            let Some((fault, kind)) = next else { break };
            if let Some(kind) = kind {
                context.recorder.struck(kind);
            }
            context.recorder.disturbed(Some(control.number), fault.long());
            match fault {
                HolderFault::Pause(long) => block_thread(long),
                HolderFault::Cut(long) => control.cut(long).await,
                HolderFault::Silence(long) => control.silence(long).await,
                HolderFault::Die => return,
                // There is nothing of its own to delete.
                HolderFault::Delete => {}
            }
        }
    }
}
