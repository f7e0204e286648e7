//! Being the leader, as work that is done while one is.

use std::future::Future;
use std::time::Duration;

use crate::{Client, Error};

use super::guard::{LockGuard, Loss};
use super::leader_latch::{Participant, Suspension, participants};
use super::mutex::Mutex;
use super::name::Sequence;
use super::options::LockOptions;
use super::session;

/// How a term of leadership ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Term<T> {
    /// The work came to its end, with this result.
    Done(T),
    /// The leadership was lost or may have been; the work was dropped where it stood.
    Lost(Loss),
    /// The connection was lost; the work was dropped where it stood.
    Suspended,
}

/// Runs work while it leads, beside Curator's `LeaderSelector` on the same path, which is a
/// [`Mutex`] at heart. The work is dropped when the leadership is lost.
///
/// ```
/// # zoolet_doctest::with_client(async |client| {
/// use zoolet_client::recipes::{LeaderSelector, Term};
///
/// let selector = LeaderSelector::with_id(&client, "/scheduler", "server-1");
/// let term = selector.lead(async |guard| guard.token()).await?;
/// assert!(matches!(term, Term::Done(_)), "the work came to its end");
/// # Ok(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct LeaderSelector {
    client: Client,
    path: String,
    mutex: Mutex,
    suspension: Suspension,
}

impl LeaderSelector {
    /// A contender at this path that calls itself by its address, as Curator's does.
    pub fn new(client: &Client, path: &str) -> Self {
        Self::with_options(client, path, LockOptions::new())
    }

    /// A contender that calls itself so.
    pub fn with_id(client: &Client, path: &str, id: &str) -> Self {
        Self::with_options(client, path, LockOptions::new().data(id))
    }

    fn with_options(client: &Client, path: &str, options: LockOptions) -> Self {
        Self {
            client: client.clone(),
            path: path.to_owned(),
            mutex: Mutex::with_options(client, path, options),
            suspension: Suspension::default(),
        }
    }

    /// What a lost connection means.
    pub fn suspension(mut self, suspension: Suspension) -> Self {
        self.suspension = suspension;
        self
    }

    /// Waits until it leads, runs the work, and gives the leadership up. The work gets a guard of
    /// the leadership, for its token and for guarded writes. Who drops the future drops the work
    /// and the leadership.
    pub async fn lead<T, F>(&self, work: impl FnOnce(LockGuard) -> F) -> Result<Term<T>, Error>
    where
        F: Future<Output = T>,
    {
        let guard = self.mutex.acquire().await?;
        self.serve_term(guard, work).await
    }

    /// The same; it waits for the leadership for so long at most, and leads as long as the work
    /// takes. `None` when it did not come to lead: then the work has not begun.
    pub async fn lead_timeout<T, F>(
        &self,
        limit: Duration,
        work: impl FnOnce(LockGuard) -> F,
    ) -> Result<Option<Term<T>>, Error>
    where
        F: Future<Output = T>,
    {
        match self.mutex.acquire_timeout(limit).await? {
            Some(guard) => self.serve_term(guard, work).await.map(Some),
            None => Ok(None),
        }
    }

    /// The same if no other client leads or waits to; `None` otherwise, which costs a read
    /// and no write.
    pub async fn try_lead<T, F>(
        &self,
        work: impl FnOnce(LockGuard) -> F,
    ) -> Result<Option<Term<T>>, Error>
    where
        F: Future<Output = T>,
    {
        match self.mutex.try_acquire().await? {
            Some(guard) => self.serve_term(guard, work).await.map(Some),
            None => Ok(None),
        }
    }

    /// The same if this session leads already, under a client that had it before; `None` otherwise.
    /// See [`Mutex::adopt`].
    pub async fn adopt<T, F>(
        &self,
        work: impl FnOnce(LockGuard) -> F,
    ) -> Result<Option<Term<T>>, Error>
    where
        F: Future<Output = T>,
    {
        match self.mutex.adopt().await? {
            Some(guard) => self.serve_term(guard, work).await.map(Some),
            None => Ok(None),
        }
    }

    async fn serve_term<T, F>(
        &self,
        guard: LockGuard,
        work: impl FnOnce(LockGuard) -> F,
    ) -> Result<Term<T>, Error>
    where
        F: Future<Output = T>,
    {
        let work = work(guard.reenter());
        // Who is cut off learns so at once: the guard is dropped, which releases it as soon as a
        // server can be reached.
        let result = tokio::select! {
            biased;
            result = work => result,
            loss = guard.lost() => return Ok(Term::Lost(loss)),
            () = session::suspended(&self.client),
                if self.suspension == Suspension::StepDown => return Ok(Term::Suspended),
        };
        match guard.release().await {
            // A session that has ended has given the leadership up.
            Err(error) if !error.ends_session() => Err(error),
            _ => Ok(Term::Done(result)),
        }
    }

    /// Leads again and again; ends with the error that ends the session.
    pub async fn lead_until_error<T, F>(&self, mut work: impl FnMut(LockGuard) -> F) -> Error
    where
        F: Future<Output = T>,
    {
        loop {
            if let Err(error) = self.lead(&mut work).await {
                return error;
            }
        }
    }

    /// All who contend, the leader first.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        participants(&self.client, &self.path, Sequence::of_mutex).await
    }

    /// The leader, if there is one.
    pub async fn leader(&self) -> Result<Option<Participant>, Error> {
        Ok(self.participants().await?.into_iter().next())
    }
}
