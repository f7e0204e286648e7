//! Torture for the lock recipes of `zoolet_client`: contenders under faults, a guarded resource
//! outside of the ensemble, and checks that ask neither the recipes nor the servers whether they did
//! well.
//!
//! [`run()`] has contenders compete for locks of every recipe on running servers while a seed decides
//! what goes wrong: holders that stand still for longer than their session, are cut off or killed;
//! replies and requests that are lost; all sessions at once; directories that are reaped; and, by
//! a [`Servers`], what happens to the servers. A contender is a thread with a runtime and a session
//! of its own behind a lossy [`proxy`]. Each grant's holder writes to the [`RunRecorder`] with its
//! token, again after each fault that has hit it, without looking whether it still holds the lock.
//!
//! The [`check()`] holds the record against the committed log, which observers at each server have
//! written down: see [`Promise`]. Of contenders in other languages it judges what they
//! [report](reported). A seed gives the same plan each time; how threads and servers
//! interleave is beyond it.

#![warn(missing_docs)]

mod check;
mod contender;
mod context;
mod fixture;
mod log;
mod log_observer;
mod nemesis;
mod observed_traffic;
mod ops_lasting;
mod ops_locks;
mod ops_values;
mod plan;
mod pool;
pub mod proxy;
mod random;
mod recipe;
mod report;
mod run;
mod run_history;
mod run_recorder;
mod sequence_offset;
mod servers;
mod settings;
mod stall_monitor;
mod svg;
mod tie;
mod tree;
mod worker;

pub use check::reported;
pub use check::{Judged, Promise, Verdict, Violation, check};
pub use log::{Happened, Log};
pub use plan::{Fault, Frame, HolderFault, Plan};
pub use random::Random;
pub use recipe::{Blocks, Lock, Recipe, UnknownRecipe};
pub use report::{Report, Times};
pub use run::{run, run_until};
pub use run_history::{
    Arrival, Claim, CountSet, Disturbance, Guarded, Mode, Opening, Passage, RunHistory, Tally,
    Write,
};
pub use run_recorder::{ClaimId, Kept, RunRecorder};
pub use sequence_offset::SequenceOffset;
pub use servers::{ServerFault, Servers};
pub use settings::{PlantedBug, Settings, TortureError};
pub use svg::draw;
