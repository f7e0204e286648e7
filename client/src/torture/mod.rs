//! Torture for the lock recipes: contenders under faults, a guarded resource outside of the
//! ensemble, and checks that ask neither the recipes nor the servers whether they did well.
//!
//! [`run()`] lets contenders fight for locks of every recipe on running servers while a seed decides
//! what goes wrong: holders that stand still for longer than their session, are cut off or killed;
//! replies and requests that are lost; all sessions at once; directories that are reaped; and, by
//! a [`Servers`], what happens to the servers. A contender is a thread with a runtime and a session
//! of its own behind a lossy [`proxy`]. Each grant's holder writes to the [`Recorder`] with its
//! token, again after whatever has struck it, without looking whether it still holds the lock.
//!
//! The [`check()`] holds the record against the committed log, which witnesses at each server have
//! written down: see [`Promise`]. A seed gives the same plan each time; how threads and servers
//! interleave is not in its hands.

mod check;
mod contender;
mod hand;
mod history;
mod kept;
mod log;
mod metronome;
mod plan;
pub mod proxy;
mod random;
mod recipe;
mod recorder;
mod report;
mod run;
mod scene;
mod servers;
mod shift;
mod stage;
mod svg;
mod tie;
mod told;
mod tree;
mod troupe;
mod turn;
mod upset;
mod values;
mod witness;

pub use check::{Judged, Promise, Verdict, Violation, check};
pub use history::{
    Arrival, Claim, CountSet, Disturbance, Guarded, History, Mode, Opening, Passage, Tally, Write,
};
pub use log::{Happened, Log};
pub use plan::{Fault, Frame, HolderFault, Plan};
pub use random::Random;
pub use recipe::{Blocks, Lock, Recipe, UnknownRecipe};
pub use recorder::{ClaimId, Kept, Recorder};
pub use report::{Report, Times};
pub use run::{Settings, TortureError, run, run_until};
pub use scene::Sabotage;
pub use servers::{ServerFault, Servers};
pub use shift::Shift;
pub use svg::draw;
