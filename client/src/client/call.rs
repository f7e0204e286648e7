//! A call that was made.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, ready};

use crate::Error;
use crate::error::Concerning;
use crate::session::calls::Asked;
use crate::session::pending::Answer;

/// What a call's answer is made of.
type Read<T> = Box<dyn FnOnce(Answer) -> Result<T, Error> + Send>;

/// A call that was made: a future of its answer.
///
/// Calls are carried out in the order in which they were made, whenever they are awaited. While no
/// server can be reached a call waits, until the session is known to have ended, while it may be
/// [lost](crate::SessionState::Lost) too; give it a `tokio::time::timeout` to wait less. Dropping a
/// call takes it back if it was not sent yet; what was sent is carried out.
#[must_use = "dropping a call takes it back if it was not sent yet, and loses its answer"]
pub struct Call<T> {
    /// Or why it could not be made.
    asked: Result<Asked, Option<Error>>,
    /// Taken at the end.
    read: Option<Read<T>>,
    /// What a failure names.
    concerning: Concerning,
}

impl<T> Call<T> {
    pub(crate) fn new(
        asked: Result<Asked, Error>,
        concerning: Concerning,
        read: impl FnOnce(Answer) -> Result<T, Error> + Send + 'static,
    ) -> Self {
        Self { asked: asked.map_err(Some), read: Some(Box::new(read)), concerning }
    }

    /// Sets a mark when the request is taken to be sent: until then it has no effect.
    pub(crate) fn marking(self, sent: &Arc<AtomicBool>) -> Self {
        if let Ok(asked) = &self.asked {
            asked.mark(sent);
        }
        self
    }
}

impl<T> Future for Call<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = match &mut self.asked {
            Ok(asked) => ready!(asked.poll_answer(context)),
            Err(error) => match error.take() {
                Some(error) => Err(error),
                None => return Poll::Pending,
            },
        };
        match self.read.take() {
            Some(read) => {
                let concerning = || std::mem::take(&mut self.concerning);
                Poll::Ready(read(answer).map_err(|error| error.concerning(concerning)))
            }
            // It has ended before.
            None => Poll::Pending,
        }
    }
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("asked", &self.asked).finish_non_exhaustive()
    }
}
