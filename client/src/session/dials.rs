//! Connections to the addresses of one server, several of them being made at a time: one that is
//! dead does not keep the others waiting (as in RFC 8305).

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::route::Failures;
use crate::{Connector, Transport};

/// How an attempt to connect to an address ended.
pub(crate) struct Dialed {
    pub(crate) address: String,
    pub(crate) took: Duration,
    pub(crate) connected: io::Result<Box<dyn Transport>>,
}

/// The attempts to connect to the addresses of a server. Dropping it gives them up.
pub(crate) struct Dials {
    connector: Arc<dyn Connector>,
    failures: Failures,
    /// How long one may take.
    limit: Duration,
    /// How long the last one may take before the next one is begun.
    stagger: Duration,
    waiting: std::vec::IntoIter<String>,
    under_way: Vec<Pin<Box<dyn Future<Output = Dialed> + Send>>>,
}

impl fmt::Debug for Dials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Dials");
        f.field("waiting", &self.waiting).field("under_way", &self.under_way.len());
        f.finish_non_exhaustive()
    }
}

impl Dials {
    pub(crate) fn new(
        connector: &Arc<dyn Connector>,
        failures: &Failures,
        addresses: Vec<String>,
        (limit, stagger): (Duration, Duration),
    ) -> Self {
        Self {
            connector: Arc::clone(connector),
            failures: failures.clone(),
            limit,
            stagger,
            waiting: addresses.into_iter(),
            under_way: Vec::new(),
        }
    }

    /// Waits for the end of an attempt; `None` when all have ended. The next address is tried when
    /// the one before it has failed, or is slow.
    pub(crate) async fn next(&mut self) -> Option<Dialed> {
        loop {
            if self.under_way.is_empty() && !self.begin() {
                return None;
            }
            let is_waiting = !self.waiting.as_slice().is_empty();
            tokio::select! {
                dialed = poll_fn(|context| poll_any(&mut self.under_way, context)) => {
                    if dialed.connected.is_err() {
                        self.begin();
                    }
                    return Some(dialed);
                }
                () = sleep(self.stagger), if is_waiting => {
                    self.begin();
                }
            }
        }
    }

    /// Begins to connect to the next address; false if there is none.
    fn begin(&mut self) -> bool {
        let Some(address) = self.waiting.next() else { return false };
        self.failures.note(&address, "no answer yet");
        let (connector, limit, began_at) =
            (Arc::clone(&self.connector), self.limit, Instant::now());
        self.under_way.push(Box::pin(async move {
            let connected = timeout(limit, connector.connect(&address)).await;
            let connected = connected.unwrap_or_else(|_| {
                let why = format!("no connection within {} ms", limit.as_millis());
                Err(io::Error::new(io::ErrorKind::TimedOut, why))
            });
            Dialed { address, took: began_at.elapsed(), connected }
        }));
        true
    }
}

/// Returns what the first attempt comes to that has ended, and removes it.
fn poll_any(
    under_way: &mut Vec<Pin<Box<dyn Future<Output = Dialed> + Send>>>,
    context: &mut Context<'_>,
) -> Poll<Dialed> {
    for place in 0..under_way.len() {
        if let Some(attempt) = under_way.get_mut(place)
            && let Poll::Ready(dialed) = attempt.as_mut().poll(context)
        {
            drop(under_way.remove(place));
            return Poll::Ready(dialed);
        }
    }
    Poll::Pending
}
