//! Looks at all servers again and again, as long as a page shows them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Weak;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use zoolet_survey::clock::now_ms;
use zoolet_survey::ensemble::Split;
use zoolet_survey::members::{self, Identity, Named, Unknown, resolved};

use crate::ensemble::{self, Address, Look, Unasked};
use crate::shared_client::answer;
use crate::state::State;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_secs(2);

/// How often the configuration is read for servers that are not named.
const OTHERS_PAUSE: Duration = Duration::from_mins(1);
const OTHERS_TIME: Duration = Duration::from_secs(10);

/// How often it is read while servers are not one ensemble: a server may have joined meanwhile.
const SPLIT_PAUSE: Duration = Duration::from_secs(10);

/// The servers of the ensemble's configuration that are not named.
#[derive(Debug, Default)]
struct Unnamed {
    read_at: Option<Instant>,
    others: Others,
    /// Why the configuration was not read, so that they are not known.
    unread: Option<String>,
    /// The identities of the servers that have shown them, by their addresses.
    identities: BTreeMap<String, Identity>,
    /// Evidence in the configurations of the servers that they are not one ensemble.
    splits: Vec<Split>,
}

#[derive(Debug, Default)]
struct Others {
    /// The client addresses of those that can be asked.
    addresses: Vec<String>,
    unknown: Vec<Unknown>,
    /// The addresses of servers that have an earlier one.
    repeated: BTreeSet<String>,
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
            if now.shown.is_wanted() && unnamed.is_due() {
                unnamed.read(&now, &before).await;
            }
            let addresses = addresses(&now, &unnamed.others);
            now.shown.set_addresses(addresses.clone());
            let looks = ensemble::look_at(&addresses, &now.options.connector).await;
            unnamed.splits = ensemble::splits(&looks, &unnamed.identities).await;
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
    fn is_due(&self) -> bool {
        let pause = if self.splits.is_empty() { OTHERS_PAUSE } else { SPLIT_PAUSE };
        self.read_at.is_none_or(|at| at.elapsed() >= pause)
    }

    /// Reads the configuration. After a failure, the servers that were known stay so.
    async fn read(&mut self, state: &State, before: &[Look]) {
        let mut identities = BTreeMap::new();
        let read = async {
            let client = state.shared.get().await.map_err(|failure| failure.error)?;
            let config = answer(client.config()).await.map_err(|failure| failure.error)?;
            let config = String::from_utf8_lossy(&config.0).into_owned();
            Ok(others_of(&config, state, before, &mut identities).await)
        };
        let late = |_| Err(format!("no answer within {} s", OTHERS_TIME.as_secs()));
        match timeout(OTHERS_TIME, read).await.unwrap_or_else(late) {
            Ok(others) => (self.others, self.unread) = (others, None),
            Err(why) => self.unread = Some(why),
        }
        self.identities = identities;
        self.read_at = Some(Instant::now());
    }
}

/// Returns the servers of a configuration that are not named, and identifies all that can be asked.
async fn others_of(
    config: &str,
    state: &State,
    before: &[Look],
    identities: &mut BTreeMap<String, Identity>,
) -> Others {
    let (names, is_tls) = (state.options.servers.addresses(), state.options.is_tls);
    identify(names, state, before, identities).await;
    let found = members::others(config, &named(names, identities).await, is_tls).await.found;
    let addresses: Vec<String> = found.into_iter().map(|found| found.address).collect();
    identify(&addresses, state, before, identities).await;
    let all: Vec<String> = names.iter().chain(&addresses).cloned().collect();
    let all = named(&all, identities).await;
    let unknown = members::others(config, &all, is_tls).await.into_unknown();
    let is_repeated = |at: usize, it: &Named| {
        all.iter().take(at).any(|earlier| earlier.address != it.address && earlier.is_same(it))
    };
    let repeated = all.iter().enumerate().filter(|(at, it)| is_repeated(*at, it));
    let repeated = repeated.map(|(_, it)| it.address.clone()).collect();
    Others { addresses, unknown, repeated }
}

/// Identifies servers, but for those that did not serve at the look before: they grant no session.
async fn identify(
    addresses: &[String],
    state: &State,
    before: &[Look],
    identities: &mut BTreeMap<String, Identity>,
) {
    let may_serve = |address: &&String| {
        before.iter().all(|look| look.address != **address || look.is_serving())
    };
    let asked: Vec<&String> = addresses.iter().filter(may_serve).collect();
    let connector = || state.options.connector.clone();
    let found = join_all(asked.iter().map(|address| members::identify(address, connector()))).await;
    let found = asked.into_iter().cloned().zip(found);
    identities.extend(found.filter_map(|(address, identity)| Some((address, identity.ok()?))));
}

async fn named(addresses: &[String], identities: &BTreeMap<String, Identity>) -> Vec<Named> {
    let at = join_all(addresses.iter().map(|address| resolved(address))).await;
    let named = addresses.iter().zip(at).map(|(address, at)| {
        let identity = identities.get(address).cloned();
        Named { address: address.clone(), at, identity }
    });
    named.collect()
}

/// Returns the named servers and the others, each once.
fn addresses(state: &State, others: &Others) -> Vec<Address> {
    let http = |index| state.options.http_end(index);
    let named = state.options.servers.addresses().iter().enumerate();
    let named = named.map(|(index, client)| Address { client: client.clone(), http: http(index) });
    let found = others.addresses.iter();
    let found = found.map(|client| Address { client: client.clone(), http: None });
    let all = named.chain(found);
    all.filter(|address| !others.repeated.contains(&address.client)).collect()
}

fn publish(state: &State, looks: &[Look], before: &[Look], unnamed: &Unnamed) {
    let now_ms = now_ms();
    let leader =
        ensemble::leader(looks).map(|(address, served)| (address.to_owned(), served.term()));
    let roles = looks.iter().map(|look| (look.address.clone(), look.role()));
    let mut timeline = state.timeline();
    timeline.note(now_ms, roles, leader);
    let unasked = Unasked {
        unknown: &unnamed.others.unknown,
        unread: unnamed.unread.as_deref(),
        splits: &unnamed.splits,
    };
    let mut shown = ensemble::to_json(looks, before, unasked);
    if let Value::Object(object) = &mut shown {
        object.insert("atMs".to_owned(), json!(now_ms));
        object.insert("timeline".to_owned(), timeline.to_json());
    }
    drop(timeline);
    state.shown.publish(Bytes::from(shown.to_string()));
}
