//! The load of a run: programs on client machines that do what programs do, and note all of it.
//!
//! Everything is drawn from seeds, and time is tokio's: on simulated machines a seed gives the same
//! requests each time. What is not here: faults of the network and of servers, which the world makes,
//! and what must hold, which the checks read in the history.

mod chance;
mod contender;
mod curator;
mod data;
mod driver;
mod exchange;
mod gate;
mod group;
mod guarded;
pub mod locks;
mod more_locks;
mod multi_lock;
mod names;
pub mod operations;
mod operator;
mod plan;
mod reconfig;
mod recorded;
mod resource;
mod selector;
pub mod session;
mod stop;
mod storm;
pub mod structures;
#[cfg(test)]
mod tests;
mod walk;
mod watches;
mod wire;
mod worker;
pub mod workloads;

use std::sync::Arc;

use tokio::sync::watch;
use zoolet_client::Connector;
use zoolet_replica::ServerId;

pub use self::chance::Chance;
pub(crate) use self::guarded::GUARDED;
pub use self::plan::{Load, Role};
pub use self::reconfig::{ReconfigPlan, SUPER_CREDENTIALS, SUPER_DIGEST};
pub use self::recorded::Recorded;
pub use self::resource::GuardedResources;
pub use self::walk::walk;

use self::session::{Restore, SessionOptions};
use self::worker::{Pace, Worker};
use crate::history::{ClientNumber, Recorder};

/// A machine on which a client runs.
#[derive(Clone, Debug)]
pub struct ClientMachine {
    /// The client; it keeps its number when it is started anew.
    pub client: ClientNumber,
    /// How it reaches servers.
    pub connector: Arc<dyn Connector>,
    /// The servers and their addresses.
    pub servers: Vec<(ServerId, String)>,
    /// Where it notes what it does and sees.
    pub recorder: Recorder,
    /// Its chance; another one for each time that it is started.
    pub seed: u64,
}

impl Load {
    /// Runs the program of one client until it is to stop, and ends it within a few session timeouts:
    /// half of the sessions are closed, the others left to their timeouts. To drop the future is a
    /// crash.
    pub async fn run(self, machine: ClientMachine, stop: watch::Receiver<bool>) {
        let mut chance = Chance::new(machine.seed, u64::from(machine.client.0));
        let role = self.role(machine.client);
        if let Role::Recipe(recipe) = role {
            let contending = locks::contend(&machine, recipe, &self.locks, &stop, &mut chance);
            return Box::pin(contending).await;
        }
        if let Role::Structure(structure) = role {
            let using = structures::run(&machine, structure, &self, &stop, &mut chance);
            return Box::pin(using).await;
        }
        let options = self.session_options(&machine, &mut chance);
        let pace = Pace { think: self.think, disturb_one_in: self.disturb_one_in };
        let mut worker = Worker::start(options.clone(), pace, chance, stop.clone());
        match role {
            Role::Random => workloads::random(&mut worker, &self.paths, &self.mix).await,
            Role::Register => workloads::register(&mut worker).await,
            Role::Bank => workloads::bank(&mut worker).await,
            Role::Sequence => workloads::sequence(&mut worker).await,
            Role::Queue => workloads::queue(&mut worker).await,
            Role::Mirror => workloads::mirror(&mut worker).await,
            Role::Curator => {
                curator::contend_raw(&machine, &mut worker, &self.locks, &stop).await;
            }
            Role::Operator => operator::delete_places(&mut worker).await,
            Role::Storm => storm::come_and_go(&mut worker, &options).await,
            Role::Reconfig => {
                if let Some(plan) = &self.reconfig {
                    reconfig::reconfigure(&mut worker, plan).await;
                }
            }
            // They have clients of their own, above.
            Role::Recipe(_) | Role::Structure(_) => {}
        }
        worker.end().await;
    }

    fn session_options(&self, machine: &ClientMachine, chance: &mut Chance) -> SessionOptions {
        let timeout = self.draw_timeout(chance);
        SessionOptions {
            client: machine.client,
            connector: Arc::clone(&machine.connector),
            servers: machine.servers.clone(),
            recorder: machine.recorder.clone(),
            timeout,
            in_flight_max: usize::try_from(chance.between(1..=40)).unwrap_or(1),
            restore: if chance.one_in(2) { Restore::Together } else { Restore::Apart },
            eager_one_in: chance.between(0..=4),
            has_read_only: !chance.one_in(4),
        }
    }
}
