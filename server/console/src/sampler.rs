//! Looks at all servers again and again, as long as a page shows them.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use zoolet_survey::clock::now_ms;
use zoolet_survey::members::{self, Named, Others, resolved};

use crate::ensemble::{self, Address, Look, Unasked};
use crate::shared_client::answer;
use crate::state::State;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(2);

/// How often the configuration is read for servers that are not named.
const OTHERS_PAUSE: Duration = Duration::from_mins(1);
const OTHERS_TIME: Duration = Duration::from_secs(8);

/// The servers of the ensemble's configuration that are not named.
#[derive(Debug, Default)]
struct Unnamed {
    read_at: Option<Instant>,
    others: Others,
    /// Why the configuration was not read, so that they are not known.
    unread: Option<String>,
    /// The numbers of named servers, by their addresses.
    ids: BTreeMap<String, u8>,
}

/// Looks until the console is gone.
pub(crate) async fn run(state: Weak<State>) {
    let mut before: Vec<Look> = Vec::new();
    let mut unnamed = Unnamed::default();
    let Some(mut wanted) = state.upgrade().map(|state| state.shown.wanted()) else {
        return;
    };
    loop {
        let Some(now) = state.upgrade() else { return };
        if now.options.watches_always || now.shown.is_wanted() {
            // A session for this is made only for a page.
            if now.shown.is_wanted()
                && unnamed.read_at.is_none_or(|at| at.elapsed() >= OTHERS_PAUSE)
            {
                unnamed.read(&now).await;
            }
            let addresses = addresses(&now, &unnamed.others.addresses);
            now.shown.set_addresses(addresses.clone());
            let looks = ensemble::look_at(&addresses, &now.options.connector).await;
            publish(&now, &looks, &before, &unnamed);
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

impl Unnamed {
    /// Reads the configuration. After a failure, the servers that were known stay so.
    async fn read(&mut self, state: &State) {
        let ids = &mut self.ids;
        let read = async {
            let client = state.shared.get().await.map_err(|failure| failure.error)?;
            let config = answer(client.config()).await.map_err(|failure| failure.error)?;
            Ok(others_of(&String::from_utf8_lossy(&config.0), state, ids).await)
        };
        let late = |_| Err(format!("no answer within {} s", OTHERS_TIME.as_secs()));
        match timeout(OTHERS_TIME, read).await.unwrap_or_else(late) {
            Ok(others) => (self.others, self.unread) = (others, None),
            Err(why) => self.unread = Some(why),
        }
        self.read_at = Some(Instant::now());
    }
}

/// Returns the servers of a configuration that are not named.
async fn others_of(config: &str, state: &State, ids: &mut BTreeMap<String, u8>) -> Others {
    let (names, is_tls) = (state.options.servers.addresses(), state.options.is_tls);
    if members::needs_identities(config, is_tls) {
        let new: Vec<&String> = names.iter().filter(|name| !ids.contains_key(*name)).collect();
        let connector = || state.options.connector.clone();
        let found = join_all(new.iter().map(|name| members::identify(name, connector()))).await;
        let found = new.into_iter().cloned().zip(found);
        ids.extend(found.filter_map(|(name, id)| Some((name, id?))));
    }
    let at = join_all(names.iter().map(|name| resolved(name))).await;
    let named = names.iter().zip(at).map(|(name, at)| {
        let id = ids.get(name).copied();
        Named { address: name.clone(), at, id }
    });
    members::others(config, &named.collect::<Vec<_>>(), is_tls).await
}

/// Returns the named servers, and others.
fn addresses(state: &State, others: &[String]) -> Vec<Address> {
    let http = |index| state.options.http_end(index);
    let named = state.options.servers.addresses().iter().enumerate();
    let named = named.map(|(index, client)| Address { client: client.clone(), http: http(index) });
    let others = others.iter().map(|client| Address { client: client.clone(), http: None });
    named.chain(others).collect()
}

fn publish(state: &State, looks: &[Look], before: &[Look], unnamed: &Unnamed) {
    let now_ms = now_ms();
    let leader =
        ensemble::leader(looks).map(|(address, served)| (address.to_owned(), served.term()));
    let roles = looks.iter().map(|look| (look.address.clone(), look.role()));
    let mut timeline = state.timeline();
    timeline.note(now_ms, roles, leader);
    let unasked = Unasked { unknown: &unnamed.others.unknown, unread: unnamed.unread.as_deref() };
    let mut shown = ensemble::to_json(looks, before, unasked);
    if let Value::Object(object) = &mut shown {
        object.insert("atMs".to_owned(), json!(now_ms));
        object.insert("timeline".to_owned(), timeline.to_json());
    }
    drop(timeline);
    state.shown.publish(Bytes::from(shown.to_string()));
}
