//! Panics of threads and tasks as errors: a log that goes on without one of its threads would
//! acknowledge what it does not write.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Says that a task or thread has panicked, and what to do.
pub fn panicked(task: &str, panic: &str) -> String {
    format!(
        "the task \"{task}\" has panicked: {panic}; this is a bug of zoolet: restart the server, \
         and report it"
    )
}

/// Carries out `work` in this thread. An error is the message of its panic.
pub fn caught_now<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| message_of(&*panic))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&'static str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no message".to_owned())
}
