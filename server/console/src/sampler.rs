//! Looks at all servers again and again, as long as a page shows them.

use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::console::State;
use crate::ensemble::{self, Address, Look};
use crate::others;
use crate::shared_client::answer;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(2);

/// How long servers are looked at after the last page has asked.
const LOOKED_AT: Duration = Duration::from_secs(10);

/// How often the configuration is read for servers that are not named.
const OTHERS_PAUSE: Duration = Duration::from_mins(1);
const OTHERS_TIME: Duration = Duration::from_secs(3);

/// The last look, as JSON, and those who want the next.
#[derive(Debug)]
pub(crate) struct Shown {
    latest: watch::Sender<Bytes>,
    wanted: watch::Sender<Option<Instant>>,
    /// The servers of the last look, the named ones first.
    addresses: watch::Sender<Vec<Address>>,
}

impl Default for Shown {
    fn default() -> Self {
        let (latest, wanted) = (watch::Sender::new(Bytes::new()), watch::Sender::new(None));
        Self { latest, wanted, addresses: watch::Sender::new(Vec::new()) }
    }
}

impl Shown {
    /// Returns the looks from now on; the first one is empty until there was one.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Bytes> {
        self.want();
        self.latest.subscribe()
    }

    /// Notes that a page shows the servers.
    pub(crate) fn want(&self) {
        self.wanted.send_replace(Some(Instant::now()));
    }

    /// Returns the last look; waits for one if there is none that is new enough.
    pub(crate) async fn now(&self) -> Bytes {
        let is_wanted = self.is_wanted();
        let mut latest = self.subscribe();
        if is_wanted && !latest.borrow().is_empty() {
            return latest.borrow().clone();
        }
        // The sender lives as long as this.
        let _ = latest.changed().await;
        latest.borrow().clone()
    }

    /// Returns all servers of the ensemble, as far as they are known.
    pub(crate) async fn addresses(&self) -> Vec<Address> {
        if self.addresses.borrow().is_empty() || !self.is_wanted() {
            self.now().await;
        }
        self.want();
        self.addresses.borrow().clone()
    }

    fn is_wanted(&self) -> bool {
        self.wanted.borrow().is_some_and(|at| at.elapsed() < LOOKED_AT)
    }
}

/// Looks until the console is gone.
pub(crate) async fn run(state: Weak<State>) {
    let mut before: Vec<Look> = Vec::new();
    let mut others: (Option<Instant>, Vec<String>) = (None, Vec::new());
    let Some(mut wanted) = state.upgrade().map(|state| state.shown.wanted.subscribe()) else {
        return;
    };
    loop {
        let Some(now) = state.upgrade() else { return };
        if now.options.watches_always || now.shown.is_wanted() {
            let addresses = addresses(&now, &mut others).await;
            now.shown.addresses.send_replace(addresses.clone());
            let looks = ensemble::look_at(&addresses, &now.options.connector).await;
            publish(&now, &looks, &before);
            before = looks;
            drop(now);
            sleep(PAUSE).await;
        } else {
            drop(now);
            // An error means that the console is gone.
            if wanted.changed().await.is_err() {
                return;
            }
        }
    }
}

/// Returns the named servers, and the others that the ensemble's configuration names.
async fn addresses(state: &Arc<State>, others: &mut (Option<Instant>, Vec<String>)) -> Vec<Address> {
    let named = state.options.servers.addresses();
    // A session for this is made only for a page.
    if state.shown.is_wanted() && others.0.is_none_or(|at| at.elapsed() >= OTHERS_PAUSE) {
        let read = async {
            let client = state.shared.get().await.ok()?;
            let (config, _) = answer(client.config()).await.ok()?;
            Some(others::others(&String::from_utf8_lossy(&config), named).await)
        };
        if let Ok(Some(found)) = timeout(OTHERS_TIME, read).await {
            others.1 = found;
        }
        others.0 = Some(Instant::now());
    }
    let http = |index| state.options.http.of(index).map(str::to_owned);
    let named = named.iter().enumerate();
    let named = named.map(|(index, client)| Address { client: client.clone(), http: http(index) });
    let others = others.1.iter().map(|client| Address { client: client.clone(), http: None });
    named.chain(others).collect()
}

fn publish(state: &State, looks: &[Look], before: &[Look]) {
    let now_ms = now_ms();
    let leader = ensemble::leader(looks).map(|(address, served)| (address.to_owned(), served.term()));
    let roles = looks.iter().map(|look| (look.address.clone(), look.role()));
    let mut timeline = state.timeline();
    timeline.note(now_ms, roles, leader);
    let mut shown = ensemble::to_json(looks, before);
    if let Value::Object(object) = &mut shown {
        object.insert("atMs".to_owned(), json!(now_ms));
        object.insert("timeline".to_owned(), timeline.to_json());
    }
    drop(timeline);
    state.shown.latest.send_replace(Bytes::from(shown.to_string()));
}

/// Returns the time of the wall clock, in milliseconds since 1970.
#[allow(clippy::disallowed_methods, reason = "people compare it with their clocks")]
pub(crate) fn now_ms() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}
