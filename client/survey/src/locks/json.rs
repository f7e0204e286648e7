//! The JSON form of locks, of who waits for whom, and of deadlocks: `zooletctl` and the web console have
//! this one.
//!
//! Names are in `snake_case`. Session ids and tokens are text: they do not fit the numbers of every JSON
//! reader. Times are milliseconds since 1970.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use zoolet_client::SessionId;

use super::deadlock::{Deadlock, Spot, Turn};
use super::queue::{Lock, Member};
use super::wait_graph::{Edges, WaitGraph};
use crate::data;

/// What the form has beside the locks.
#[derive(Clone, Copy, Debug)]
pub struct Form<'a> {
    /// Where sessions connect from, as far as it is known.
    pub addresses: &'a BTreeMap<SessionId, String>,
    /// The time of the look.
    pub now_ms: i64,
}

impl Form<'_> {
    /// Returns an object for each lock: its holders, and its queue in order.
    pub fn locks(&self, locks: &[Lock]) -> Value {
        locks.iter().map(|lock| self.lock(lock)).collect()
    }

    /// Returns the waits, the deadlocks, which are those of the graph, and the sessions that wait for
    /// themselves.
    pub fn graph(&self, graph: &WaitGraph, deadlocks: &[Deadlock<'_>]) -> Map<String, Value> {
        let cycle =
            |it: &Deadlock<'_>| it.turns.iter().map(|turn| self.turn(turn)).collect::<Value>();
        let own = graph
            .waits_for_itself()
            .into_iter()
            .map(|own| self.with_session(own.member.session(), [("lock", json!(own.lock.path))]));
        let parts = [
            ("waits", graph.edges().map(|edges| self.wait(&edges)).collect::<Value>()),
            ("deadlocks", deadlocks.iter().map(cycle).collect()),
            ("wait_for_themselves", own.collect()),
        ];
        parts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    fn lock(&self, lock: &Lock) -> Value {
        let of = |holds: bool| {
            let members = lock.members.iter().filter(|member| member.holds == holds);
            members.map(|member| self.member(member)).collect::<Value>()
        };
        json!({
            "path": lock.path,
            "kind": lock.kind.word(),
            "permits": lock.permits,
            "holders": of(true),
            "queue": of(false),
            "warnings": lock.warnings,
        })
    }

    fn member(&self, member: &Member) -> Value {
        let more = [
            ("path", json!(member.path)),
            ("role", json!(member.place.role.word())),
            ("family", json!(member.place.family.word())),
            ("number", json!(member.place.number)),
            ("since_ms", json!(member.stat.ctime)),
            ("for_ms", json!(self.now_ms.saturating_sub(member.stat.ctime).max(0))),
            ("token", json!(member.stat.czxid.0.to_string())),
            data::json(&member.data),
        ];
        self.with_session(member.session(), more)
    }

    fn wait(&self, edges: &Edges<'_>) -> Value {
        let before = edges.before.iter().map(|member| {
            let more = [("path", json!(member.path)), ("holds", json!(member.holds))];
            self.with_session(member.session(), more)
        });
        let Spot { lock, member } = edges.waiter;
        let more = [
            ("lock", json!(lock.path)),
            ("path", json!(member.path)),
            ("since_ms", json!(member.stat.ctime)),
            ("any", json!(edges.any)),
            ("for", before.collect()),
        ];
        self.with_session(member.session(), more)
    }

    fn turn(&self, turn: &Turn<'_>) -> Value {
        let more = [("holds", turn.held.map(spot).into()), ("waits_for", spot(turn.awaited))];
        self.with_session(turn.session(), more)
    }

    fn with_session<const KEYS: usize>(
        &self,
        session: SessionId,
        more: [(&'static str, Value); KEYS],
    ) -> Value {
        let id = (session != SessionId::NONE).then(|| session.to_string());
        let who = [("session", json!(id)), ("address", json!(self.addresses.get(&session)))];
        who.into_iter().chain(more).map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

fn spot(spot: Spot<'_>) -> Value {
    json!({ "lock": spot.lock.path, "path": spot.member.path })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use zoolet_client::{Stat, Zxid};

    use super::*;
    use crate::locks::{Kind, parse};

    fn member(name: &str, session: i64, data: &'static [u8]) -> Member {
        Member {
            path: format!("/a/{name}"),
            place: parse(name).unwrap(),
            data: Bytes::from_static(data),
            stat: Stat {
                ephemeral_owner: SessionId(session),
                czxid: Zxid(1 << 32),
                ctime: 400,
                ..Stat::default()
            },
            twin: None,
            holds: false,
        }
    }

    #[test]
    fn a_lock_has_its_holder_and_its_queue() {
        let first = "1b9d6bcdbbfd4b2d9b5dab8dfbbd4bed__lock__0000000001";
        let second = "2b9d6bcdbbfd4b2d9b5dab8dfbbd4bed__lock__0000000002";
        let members = vec![member(second, 0, b"\xff"), member(first, 1, b"x")];
        let lock = Lock::of_queue("/a".to_owned(), Kind::Mutex, members);
        let addresses = BTreeMap::from([(SessionId(1), "h:1".to_owned())]);
        let form = Form { addresses: &addresses, now_ms: 1000 };
        let expected = json!([{
            "path": "/a", "kind": "mutex", "permits": null,
            "warnings": ["a znode is not ephemeral: it stays when its owner dies"],
            "holders": [{
                "path": format!("/a/{first}"), "role": "mutex", "family": "kazoo",
                "number": 1, "session": "0x1", "address": "h:1", "since_ms": 400, "for_ms": 600,
                "token": "4294967296", "data": "x",
            }],
            "queue": [{
                "path": format!("/a/{second}"), "role": "mutex", "family": "kazoo",
                "number": 2, "session": null, "address": null, "since_ms": 400, "for_ms": 600,
                "token": "4294967296", "base64": "/w==",
            }],
        }]);
        assert_eq!(form.locks(&[lock]), expected);
    }
}
