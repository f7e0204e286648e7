//! Looks at all servers again and again, as long as a page shows them.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use zoolet_survey::clock::now_ms;
use zoolet_survey::members::{self, resolved};

use crate::ensemble::{self, Address, Look};
use crate::shared_client::answer;
use crate::state::State;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(2);

/// How often the configuration is read for servers that are not named.
const OTHERS_PAUSE: Duration = Duration::from_mins(1);
const OTHERS_TIME: Duration = Duration::from_secs(3);

/// Looks until the console is gone.
pub(crate) async fn run(state: Weak<State>) {
    let mut before: Vec<Look> = Vec::new();
    let mut others: (Option<Instant>, Vec<String>) = (None, Vec::new());
    let Some(mut wanted) = state.upgrade().map(|state| state.shown.wanted()) else {
        return;
    };
    loop {
        let Some(now) = state.upgrade() else { return };
        if now.options.watches_always || now.shown.is_wanted() {
            let addresses = addresses(&now, &mut others).await;
            now.shown.set_addresses(addresses.clone());
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
async fn addresses(
    state: &Arc<State>,
    others: &mut (Option<Instant>, Vec<String>),
) -> Vec<Address> {
    let named = state.options.servers.addresses();
    // A session for this is made only for a page.
    if state.shown.is_wanted() && others.0.is_none_or(|at| at.elapsed() >= OTHERS_PAUSE) {
        let read = async {
            let client = state.shared.get().await.ok()?;
            let (config, _) = answer(client.config()).await.ok()?;
            let known = join_all(named.iter().map(|address| resolved(address))).await.concat();
            let config = String::from_utf8_lossy(&config);
            let others = members::others(&config, named, known.into_iter().collect()).await;
            Some(others.addresses)
        };
        if let Ok(Some(found)) = timeout(OTHERS_TIME, read).await {
            others.1 = found;
        }
        others.0 = Some(Instant::now());
    }
    let http = |index| state.options.http_end(index);
    let named = named.iter().enumerate();
    let named = named.map(|(index, client)| Address { client: client.clone(), http: http(index) });
    let others = others.1.iter().map(|client| Address { client: client.clone(), http: None });
    named.chain(others).collect()
}

fn publish(state: &State, looks: &[Look], before: &[Look]) {
    let now_ms = now_ms();
    let leader =
        ensemble::leader(looks).map(|(address, served)| (address.to_owned(), served.term()));
    let roles = looks.iter().map(|look| (look.address.clone(), look.role()));
    let mut timeline = state.timeline();
    timeline.note(now_ms, roles, leader);
    let mut shown = ensemble::to_json(looks, before);
    if let Value::Object(object) = &mut shown {
        object.insert("atMs".to_owned(), json!(now_ms));
        object.insert("timeline".to_owned(), timeline.to_json());
    }
    drop(timeline);
    state.shown.publish(Bytes::from(shown.to_string()));
}
