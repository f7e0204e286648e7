//! The replica: the whole service as a pure state machine.
//!
//! No clock, task, socket, disk, random number or hash order is here. Time comes in with each
//! input, chance in the commands. What it wants done comes out as [`Output`]s, in order.

mod command;
mod input;
pub mod state;

pub use command::{Batch, BatchHead, Command, Op, Origin, Policy, ServerId};
pub use input::{BadRequest, ConnectionId, Input, Output, Role};
