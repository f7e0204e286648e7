//! What all servers say about themselves, as one picture.

use std::collections::BTreeMap;

use futures_util::future::{OptionFuture, join, join_all};
use serde_json::{Map, Value, json};
use zoolet_survey::ensemble::{self, Serving, Split};
use zoolet_survey::members::{Identity, Unknown};
use zoolet_survey::srvr::{ReachedLimit, Served};

use crate::ask::{self, Silence};
use crate::options::{HttpEnd, SharedConnector};

/// Figures of the page, and the names of `mntr` and of the command `monitor` that they come from:
/// those of either, without `zk_`.
const FIGURES: [(&str, &[&str]); 12] = [
    ("latencyMaxMs", &["max_latency"]),
    ("fsyncCount", &["cnt_fsynctime", "fsynctime_count"]),
    ("fsyncSumMs", &["sum_fsynctime", "fsynctime_sum"]),
    ("electionCount", &["cnt_election_time", "looking_count"]),
    ("electionAvgMs", &["avg_election_time"]),
    ("watches", &["watch_count"]),
    ("ephemerals", &["ephemerals_count"]),
    ("dataBytes", &["approximate_data_size"]),
    ("sessions", &["global_sessions"]),
    ("openFiles", &["open_file_descriptor_count"]),
    ("uptimeMs", &["uptime"]),
    ("pendingSyncs", &["pending_syncs"]),
];

/// A server that is looked at.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) client: String,
    pub(crate) http: Option<HttpEnd>,
}

/// What was found at an address.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) address: String,
    pub(crate) found: Result<Served, Silence>,
    pub(crate) figures: Map<String, Value>,
}

impl Look {
    /// Returns the role as the timeline shows it.
    pub(crate) fn role(&self) -> String {
        match &self.found {
            Ok(served) => served.mode.clone(),
            Err(Silence::NotServing) => "looking".to_owned(),
            Err(Silence::Forbidden) => "unknown".to_owned(),
            Err(_) => "unreachable".to_owned(),
        }
    }

    /// Whether the server takes writes.
    pub(crate) fn is_serving(&self) -> bool {
        self.serving().is_some()
    }

    fn serving(&self) -> Option<&Served> {
        self.found.as_ref().ok().filter(|served| served.takes_writes())
    }
}

/// Looks at all of these servers at once.
pub(crate) async fn look_at(addresses: &[Address], connector: &SharedConnector) -> Vec<Look> {
    join_all(addresses.iter().map(|address| look(address, connector))).await
}

async fn look(address: &Address, connector: &SharedConnector) -> Look {
    let http =
        OptionFuture::from(address.http.as_ref().map(|at| ask::command(at, "monitor", None)));
    let srvr = ask::word(connector, &address.client, "srvr");
    let (answer, monitor) = join(srvr, http).await;
    let found = answer.and_then(|answer| {
        let why = || "not a ZooKeeper port".to_owned();
        Served::parse(&answer).ok_or_else(|| Silence::Refused { status: 0, why: why() })
    });
    let figures = match monitor {
        Some(Ok(Value::Object(monitor))) => monitor,
        _ if found.is_ok() => {
            let mntr = ask::word(connector, &address.client, "mntr").await;
            mntr.map(|answer| of_mntr(&answer)).unwrap_or_default()
        }
        _ => Map::new(),
    };
    Look { address: address.client.clone(), found, figures: chosen(&figures) }
}

/// Reads the lines `zk_NAME\tVALUE`.
fn of_mntr(answer: &str) -> Map<String, Value> {
    let pair = |line: &str| {
        let (name, value) = line.strip_prefix("zk_")?.split_once('\t')?;
        let value = value.trim().parse::<f64>().ok()?;
        Some((name.to_owned(), Value::from(value)))
    };
    answer.lines().filter_map(pair).collect()
}

fn chosen(figures: &Map<String, Value>) -> Map<String, Value> {
    let find = |names: &[&str]| names.iter().find_map(|name| figures.get(*name)).cloned();
    let all = FIGURES.iter().filter_map(|(name, from)| Some(((*name).to_owned(), find(from)?)));
    all.collect()
}

/// Returns the leader, if there is only one.
pub(crate) fn leader(looks: &[Look]) -> Option<(&str, &Served)> {
    let serving = looks.iter().filter_map(|look| Some((look.address.as_str(), look.serving()?)));
    ensemble::leader(serving.map(|it| (it, it.1.is_leader())))
}

/// Returns the evidence in the configurations of servers that they are not one ensemble.
pub(crate) async fn splits(looks: &[Look], identities: &BTreeMap<String, Identity>) -> Vec<Split> {
    let serving: Vec<_> = serving(looks)
        .map(|server| Serving { identity: identities.get(server.address), ..server })
        .collect();
    ensemble::splits_by_configuration(&serving).await
}

fn serving(looks: &[Look]) -> impl Iterator<Item = Serving<'_>> {
    looks.iter().filter_map(|look| {
        Some(Serving { address: &look.address, served: look.serving()?, identity: None })
    })
}

/// What looks alone do not show.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unasked<'a> {
    /// The servers of the configuration that cannot be asked.
    pub(crate) unknown: &'a [Unknown],
    /// Why the configuration was not read.
    pub(crate) unread: Option<&'a str>,
    /// Evidence in the configurations that the servers are not one ensemble.
    pub(crate) splits: &'a [Split],
}

impl Unasked<'_> {
    /// Returns all evidence that the servers are not one ensemble.
    fn splits(&self, looks: &[Look]) -> Vec<Split> {
        let serving: Vec<_> = serving(looks).collect();
        let mut splits = ensemble::splits_by_role(&serving, looks.len() + self.unknown.len());
        splits.extend(self.splits.iter().cloned());
        splits
    }
}

/// Returns the servers and the state of the whole. `before` is the look before this one.
pub(crate) fn to_json(looks: &[Look], before: &[Look], unasked: Unasked<'_>) -> Value {
    let leader = leader(looks);
    let server = |look: &Look| {
        let before = before.iter().find(|it| it.address == look.address);
        let mut object = look.figures.clone();
        object.insert("fsyncMs".to_owned(), fsync(&look.figures, before.map(|it| &it.figures)));
        object.insert("address".to_owned(), Value::from(look.address.as_str()));
        object.insert("role".to_owned(), Value::from(look.role()));
        match &look.found {
            Ok(served) => object.extend(of_served(served, leader.map(|(_, leader)| leader))),
            Err(why) => drop(object.insert("problem".to_owned(), Value::from(why.to_string()))),
        }
        Value::Object(object)
    };
    let unknown = |unknown: &Unknown| {
        json!({
            "address": unknown.to_string(),
            "role": "unknown",
            "problem": unknown.problem(),
        })
    };
    let is_complete =
        unasked.unknown.is_empty() && unasked.unread.is_none() && unasked.splits(looks).is_empty();
    json!({
        "servers": looks.iter().map(server).chain(unasked.unknown.iter().map(unknown)).collect::<Value>(),
        "leader": leader.map(|(address, _)| address),
        "serving": looks.iter().filter(|look| look.serving().is_some()).count(),
        "isComplete": is_complete,
        "summary": summary(looks, unasked),
    })
}

fn of_served(served: &Served, leader: Option<&Served>) -> Map<String, Value> {
    let all = [
        ("serving", Value::from(served.takes_writes())),
        ("readOnly", Value::from(served.is_read_only())),
        ("version", Value::from(served.version.as_str())),
        ("term", Value::from(served.term())),
        ("zxid", Value::from(format!("{:#x}", served.zxid))),
        ("behind", Value::from(leader.and_then(|leader| served.behind(leader)))),
        ("connections", Value::from(served.connections)),
        ("outstanding", Value::from(served.outstanding)),
        ("latencyMs", Value::from(served.latency_ms)),
        ("znodes", Value::from(served.znodes)),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the milliseconds of a sync of a file: on average since the look before, or else since the
/// start; null if the server does not say.
fn fsync(now: &Map<String, Value>, before: Option<&Map<String, Value>>) -> Value {
    let figures = |of: &Map<String, Value>| {
        Some((of.get("fsyncCount")?.as_f64()?, of.get("fsyncSumMs")?.as_f64()?))
    };
    let Some((count, sum)) = figures(now) else { return Value::Null };
    let (count_before, sum_before) = before.and_then(figures).unwrap_or_default();
    let (syncs, ms) = (count - count_before, sum - sum_before);
    if syncs >= 1.0 && ms >= 0.0 {
        return Value::from(ms / syncs);
    }
    if count >= 1.0 { Value::from(sum / count) } else { Value::Null }
}

/// Returns the state of the whole in one line.
fn summary(looks: &[Look], unasked: Unasked<'_>) -> String {
    let mut summary = summary_of(looks, unasked.unknown.len());
    let splits = unasked.splits(looks);
    if !splits.is_empty() {
        summary.push_str("; not one ensemble: ");
        summary += &splits.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    }
    match unasked.unknown.len() {
        0 => {}
        1 => summary.push_str("; 1 is unknown"),
        unknown => summary.extend(["; ", &unknown.to_string(), " are unknown"]),
    }
    if let Some(why) = unasked.unread {
        let not_read = "; other servers are unknown: the ensemble's configuration was not read: ";
        summary.extend([not_read, why]);
    }
    summary
}

fn summary_of(looks: &[Look], unknown: usize) -> String {
    let (all, serving) =
        (looks.len() + unknown, looks.iter().filter(|look| look.serving().is_some()).count());
    let serve = if all == 1 { "server serves" } else { "servers serve" };
    match leader(looks) {
        Some((leader, _)) => format!("{serving} of {all} {serve}; {leader} leads{}", limits(looks)),
        None if self::serving(looks).any(|server| server.served.is_leader()) => {
            format!("{serving} of {all} {serve}")
        }
        None if serving > 0 => format!("{serving} of {all} {serve}; no leader was seen"),
        None if looks.iter().any(|look| look.found.is_ok()) => {
            format!("none of {all} servers takes writes")
        }
        None => format!("none of {all} servers serves"),
    }
}

/// Returns the limits that servers have reached, to follow the summary.
fn limits(looks: &[Look]) -> String {
    let of_server = |look: &Look| {
        let line = |limit: &ReachedLimit| format!("; {} has reached {}", look.address, limit.text);
        let reached = look.serving().map(|served| served.limits_reached.iter().map(line));
        reached.into_iter().flatten().collect::<String>()
    };
    looks.iter().map(of_server).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(address: &str, mode: &str, zxid: u64) -> Look {
        let answer = format!(
            "Zookeeper version: 3.9.5, built\nLatency min/avg/max: 0/0.5/7\nConnections: 1\n\
             Outstanding: 0\nZxid: {zxid:#x}\nMode: {mode}\nNode count: 5\n"
        );
        let figures = of_mntr("zk_cnt_fsynctime\t4\nzk_sum_fsynctime\t10\nzk_version\tx\n");
        let found = Ok(Served::parse(&answer).unwrap());
        Look { address: address.to_owned(), found, figures: chosen(&figures) }
    }

    #[test]
    fn servers_are_compared_with_their_leader() {
        let silent =
            Look { address: "c:1".to_owned(), found: Err(Silence::Late), figures: Map::new() };
        let looks =
            [look("a:1", "leader", 0x1_0000_0007), look("b:1", "follower", 0x1_0000_0004), silent];
        let shown = to_json(&looks, &[], Unasked::default());
        assert_eq!(shown["summary"], "2 of 3 servers serve; a:1 leads");
        let servers = shown["servers"].as_array().unwrap();
        assert_eq!((&servers[1]["behind"], &servers[1]["term"]), (&json!(3), &json!(1)));
        assert_eq!(servers[0]["fsyncMs"], json!(2.5));
        assert_eq!(servers[2]["problem"], "takes connections, and does not answer");
        assert_eq!(summary(&looks[2..], Unasked::default()), "none of 1 servers serves");
        assert_eq!(shown["isComplete"], true);
    }

    #[test]
    fn a_server_that_cannot_be_asked_is_unknown() {
        let config = "server.1=a:1:2;2181\nserver.2=b:2888:3888:participant\n";
        let member = zoolet_survey::members::members(config).remove(1);
        let unknown = [Unknown { member, taken: None }];
        let unasked = Unasked { unknown: &unknown, unread: Some("no answer"), splits: &[] };
        let shown = to_json(&[look("a:2181", "leader", 1)], &[], unasked);
        assert_eq!(shown["servers"][1]["address"], "server 2 (b:2888)");
        assert_eq!((&shown["serving"], &shown["isComplete"]), (&json!(1), &json!(false)));
        let expected = "1 of 2 servers serve; a:2181 leads; 1 is unknown; other servers are unknown: \
                        the ensemble's configuration was not read: no answer";
        assert_eq!(shown["summary"], expected);
    }

    /// The first of several leaders was shown as that of all.
    #[test]
    fn servers_of_several_ensembles_are_not_one() {
        let looks = [look("a:1", "leader", 1), look("b:1", "standalone", 2)];
        let shown = to_json(&looks, &[], Unasked::default());
        let expected = "2 of 2 servers serve; not one ensemble: 2 servers lead: a:1, b:1";
        assert_eq!((&shown["summary"], &shown["leader"]), (&json!(expected), &Value::Null));
        assert_eq!((&shown["isComplete"], &shown["serving"]), (&json!(false), &json!(2)));
        let looks = [look("a:1", "leader", 1), look("b:1", "follower", 1)];
        let split = Split::Stranger { server: "b:1".to_owned(), of: "a:1".to_owned() };
        let shown = to_json(&looks, &[], Unasked { splits: &[split], ..Unasked::default() });
        let expected = "2 of 2 servers serve; a:1 leads; not one ensemble: b:1 is not in the \
                        configuration of a:1";
        assert_eq!((&shown["summary"], &shown["isComplete"]), (&json!(expected), &json!(false)));
    }

    #[test]
    fn syncs_are_averaged_since_the_look_before() {
        let of = |count: f64, sum: f64| {
            Map::from_iter([
                ("fsyncCount".to_owned(), Value::from(count)),
                ("fsyncSumMs".to_owned(), Value::from(sum)),
            ])
        };
        assert_eq!(fsync(&of(6.0, 30.0), Some(&of(4.0, 10.0))), json!(10.0));
        assert_eq!(fsync(&of(4.0, 10.0), Some(&of(4.0, 10.0))), json!(2.5), "none since");
        assert_eq!(fsync(&Map::new(), None), Value::Null);
    }
}
