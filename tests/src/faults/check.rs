//! Is everything there that was acknowledged, in order, once?

use std::collections::BTreeMap;

use zoolet_client::{Client, Stat, Zxid};

use super::session_history::{Event, Op, Outcome, SessionHistory};
use super::{Failure, promised, read};

/// What a history is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The session has stopped: the ensemble holds what the history tells and nothing else.
    Final,
    /// The session has gone on since: the ensemble holds at least what the history tells.
    Later,
}

/// A znode below `log`.
struct Entry {
    path: String,
    number: u64,
    stat: Stat,
}

/// Looks for every write of a history. The client is one that has never seen the history's zxids,
/// so that nothing but the sync brings it up to date.
pub async fn history(client: &Client, history: &SessionHistory, at: Moment) -> Result<(), Failure> {
    client.sync(&history.root).await?;
    let entries = entries(client, &history.root).await?;
    in_order_and_once(&entries)?;
    acknowledged_appends(history, &entries)?;
    if at == Moment::Final {
        nothing_else(history, &entries)?;
        flag(client, history).await?;
    }
    counter(client, history, at).await
}

/// The session has lived through everything: its ephemeral znode was never away.
pub async fn alive(client: &Client, history: &SessionHistory) -> Result<(), Failure> {
    client.sync(&history.root).await?;
    let stat = client.exists(&format!("{}/alive", history.root)).await?;
    let found = stat.map(|stat| (stat.ephemeral_owner, stat.czxid));
    promised(found == Some((history.session.id, history.alive_since)), || {
        format!(
            "{}/alive: expected owner {} since {}, found {found:?}",
            history.root, history.session.id, history.alive_since
        )
    })
}

/// In the order of the sequence numbers, which is the order in which they were created.
async fn entries(client: &Client, root: &str) -> Result<Vec<Entry>, Failure> {
    let (mut names, _) = client.children(&format!("{root}/log")).await?;
    names.sort_unstable();
    let paths: Vec<String> = names.iter().map(|name| format!("{root}/log/{name}")).collect();
    let found = read::data_of(client, &paths).await?;
    let entry = |(path, (data, stat)): (String, (bytes::Bytes, Stat))| {
        let number = std::str::from_utf8(&data).ok().and_then(|text| text.parse().ok());
        let number = number.ok_or_else(|| Failure::Broken(format!("{path} holds {data:?}")))?;
        Ok(Entry { path, number, stat })
    };
    paths.into_iter().zip(found).map(entry).collect()
}

fn in_order_and_once(entries: &[Entry]) -> Result<(), Failure> {
    for pair in entries.windows(2) {
        if let [one, next] = pair {
            let rising = one.number < next.number && one.stat.czxid < next.stat.czxid;
            promised(rising, || {
                format!(
                    "{} holds write {} of {}, and {} behind it write {} of {}",
                    one.path, one.number, one.stat.czxid, next.path, next.number, next.stat.czxid
                )
            })?;
        }
    }
    Ok(())
}

fn acknowledged_appends(history: &SessionHistory, entries: &[Entry]) -> Result<(), Failure> {
    let known: BTreeMap<&str, &Entry> =
        entries.iter().map(|entry| (entry.path.as_str(), entry)).collect();
    for event in &history.events {
        if let Outcome::Acknowledged { zxid, path: Some(path) } = &event.outcome {
            let found = known.get(path.as_str()).map(|entry| (entry.number, entry.stat.czxid));
            promised(found == Some((event.number, *zxid)), || {
                format!("{path} was acknowledged: {event:?}, and there is {found:?}")
            })?;
        }
    }
    Ok(())
}

/// Every entry is a write that was not found to have had no effect, and a transaction whose
/// counter was found is in the log as well.
fn nothing_else(history: &SessionHistory, entries: &[Entry]) -> Result<(), Failure> {
    let asked: BTreeMap<u64, &Event> =
        history.events.iter().map(|event| (event.number, event)).collect();
    for entry in entries {
        let event = asked.get(&entry.number);
        promised(event.is_some_and(|event| event.may_be_logged()), || {
            format!("{} holds write {}, which is {event:?}", entry.path, entry.number)
        })?;
    }
    let logged: BTreeMap<u64, &Entry> = entries.iter().map(|entry| (entry.number, entry)).collect();
    for event in history.events.iter().filter(|event| event.must_be_logged()) {
        promised(logged.contains_key(&event.number), || {
            format!("{}/log lacks {event:?}", history.root)
        })?;
    }
    Ok(())
}

async fn flag(client: &Client, history: &SessionHistory) -> Result<(), Failure> {
    let took_effect = |event: &&Event| {
        event.op == Op::Flip && (event.is_acknowledged() || event.outcome == Outcome::TookEffect)
    };
    let flips = history.events.iter().filter(took_effect).count();
    let is_there = client.exists(&format!("{}/flag", history.root)).await?.is_some();
    promised(is_there == (flips % 2 == 1), || {
        format!("{}/flag: there is {is_there} after {flips} flips", history.root)
    })
}

async fn counter(client: &Client, history: &SessionHistory, at: Moment) -> Result<(), Failure> {
    let (data, stat) = client.get(&format!("{}/counter", history.root)).await?;
    let counted = || history.events.iter().filter(|event| event.has_counted());
    let version = i32::try_from(counted().count()).unwrap_or(i32::MAX);
    let number = counted().next_back().map_or(0, |event| event.number);
    let is_kept = match at {
        Moment::Final => stat.version == version && data == number.to_string(),
        Moment::Later => {
            stat.version > version || (stat.version == version && data == number.to_string())
        }
    };
    promised(is_kept, || {
        format!(
            "{}/counter: {data:?} of version {}, {number} of version {version} was written last \
             ({at:?})",
            history.root, stat.version
        )
    })
}

/// The zxids of a session's acknowledgments rise, in the order in which it asked.
pub fn zxids_rise(history: &SessionHistory) -> Result<(), Failure> {
    let mut last = Zxid(0);
    for event in &history.events {
        if let Outcome::Acknowledged { zxid, .. } = event.outcome {
            promised(zxid > last, || format!("{}: {event:?} after {last}", history.root))?;
            last = zxid;
        }
    }
    Ok(())
}
