//! Work that blocks, outside of the runtime's own threads.

use zoolet_storage::{StorageError, caught_now};

use crate::process;

/// Carries out `work`. Its panic is an error that names the task; the end of the runtime is one,
/// too.
pub(super) async fn blocking<T: Send + 'static>(
    task: &'static str,
    work: impl FnOnce() -> Result<T, StorageError> + Send + 'static,
) -> Result<T, StorageError> {
    let panicked = move |panic| Err(StorageError::Panicked { thread: task, panic });
    let done = process::blocking(move || caught_now(work).unwrap_or_else(panicked)).await;
    done.unwrap_or(Err(StorageError::Closed))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It was reported as "the log is closed".
    #[tokio::test]
    async fn a_panic_is_an_error_that_names_the_task() {
        let done = blocking("vote", || -> Result<(), _> { panic!("the test's panic") }).await;
        let error = done.unwrap_err().to_string();
        assert!(error.starts_with("the task \"vote\" has panicked: the test's panic"), "{error}");
    }
}
