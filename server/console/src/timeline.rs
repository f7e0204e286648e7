//! Who had which role when, and the elections in between, as seen from here.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

/// The most stretches of a server, and the most elections, that are kept.
const STRETCHES_MAX: usize = 200;
const ELECTIONS_MAX: usize = 200;

/// A pause between two looks that is longer leaves a gap.
const GAP_MS: i64 = 10_000;

/// A time in which a server had one role.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stretch {
    role: String,
    from_ms: i64,
    to_ms: i64,
}

/// A change of the leader, or of its term.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Election {
    at_ms: i64,
    leader: String,
    term: i64,
    /// How long no leader was seen before; `None` if servers were not looked at then.
    without_leader_ms: Option<i64>,
}

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    servers: BTreeMap<String, VecDeque<Stretch>>,
    elections: VecDeque<Election>,
    leader: Option<(String, i64)>,
    /// Whether the leader may have begun a term in which it has not written yet: the term that servers
    /// show is that of their last write.
    is_term_old: bool,
    /// When a leader was last seen.
    led_ms: Option<i64>,
    looked_ms: Option<i64>,
}

impl Timeline {
    /// Notes a look at all servers: the role of each, and the leader with its term.
    pub(crate) fn note(
        &mut self,
        now_ms: i64,
        roles: impl Iterator<Item = (String, String)>,
        leader: Option<(String, i64)>,
    ) {
        for (server, role) in roles {
            let stretches = self.servers.entry(server).or_default();
            match stretches.back_mut() {
                Some(last) if last.role == role && now_ms - last.to_ms <= GAP_MS => {
                    last.to_ms = now_ms;
                }
                last => {
                    // The one before has lasted until it was seen to be over.
                    if let Some(last) = last.filter(|last| now_ms - last.to_ms <= GAP_MS) {
                        last.to_ms = now_ms;
                    }
                    stretches.push_back(Stretch { role, from_ms: now_ms, to_ms: now_ms });
                }
            }
            if stretches.len() > STRETCHES_MAX {
                stretches.pop_front();
            }
        }
        if let Some(leader) = leader {
            self.note_leader(now_ms, leader);
        }
        self.looked_ms = Some(now_ms);
    }

    fn note_leader(&mut self, now_ms: i64, (leader, term): (String, i64)) {
        match &self.leader {
            Some((before, of)) if *before == leader && term <= *of => {}
            Some((before, _))
                if *before == leader && self.is_term_old && self.led_ms == self.looked_ms =>
            {
                // The first write of a term that has begun before.
                if let Some(last) = self.elections.back_mut().filter(|last| last.leader == leader) {
                    last.term = term;
                }
                self.is_term_old = false;
            }
            Some((_, of)) => {
                self.is_term_old = term <= *of;
                self.note_election(now_ms, &leader, term);
            }
            None => self.is_term_old = true,
        }
        self.leader = Some((leader, term));
        self.led_ms = Some(now_ms);
    }

    fn note_election(&mut self, now_ms: i64, leader: &str, term: i64) {
        let was_looked_at = self.looked_ms.is_some_and(|looked| now_ms - looked <= GAP_MS);
        let without_leader_ms = self.led_ms.map(|led| now_ms - led).filter(|_| was_looked_at);
        let leader = leader.to_owned();
        self.elections.push_back(Election { at_ms: now_ms, leader, term, without_leader_ms });
        if self.elections.len() > ELECTIONS_MAX {
            self.elections.pop_front();
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let stretch =
            |it: &Stretch| json!({"role": it.role, "fromMs": it.from_ms, "toMs": it.to_ms});
        let server = |(address, stretches): (&String, &VecDeque<Stretch>)| json!({"address": address, "stretches": stretches.iter().map(stretch).collect::<Value>()});
        let election = |it: &Election| {
            json!({
                "atMs": it.at_ms,
                "leader": it.leader,
                "term": it.term,
                "withoutLeaderMs": it.without_leader_ms,
            })
        };
        json!({
            "servers": self.servers.iter().map(server).collect::<Value>(),
            "elections": self.elections.iter().map(election).collect::<Value>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(timeline: &mut Timeline, now_ms: i64, roles: [&str; 2], leader: Option<(&str, i64)>) {
        let roles = ["a:1", "b:1"].into_iter().zip(roles);
        let roles = roles.map(|(server, role)| (server.to_owned(), role.to_owned()));
        timeline.note(now_ms, roles, leader.map(|(server, term)| (server.to_owned(), term)));
    }

    #[test]
    fn a_change_of_the_leader_is_an_election_and_a_pause_is_a_gap() {
        let mut timeline = Timeline::default();
        note(&mut timeline, 1000, ["leader", "follower"], Some(("a:1", 1)));
        note(&mut timeline, 3000, ["leader", "follower"], Some(("a:1", 1)));
        note(&mut timeline, 5000, ["unreachable", "looking"], None);
        note(&mut timeline, 7000, ["unreachable", "leader"], Some(("b:1", 2)));
        note(&mut timeline, 90_000, ["follower", "leader"], Some(("b:1", 3)));
        let shown = timeline.to_json();
        let a: Vec<_> = timeline.servers["a:1"]
            .iter()
            .map(|it| (it.role.as_str(), it.from_ms, it.to_ms))
            .collect();
        let expected =
            [("leader", 1000, 5000), ("unreachable", 5000, 7000), ("follower", 90_000, 90_000)];
        assert_eq!(a, expected);
        let elections = shown["elections"].as_array().unwrap();
        assert_eq!(elections.len(), 2, "the first leader was there before");
        assert_eq!(
            (&elections[0]["leader"], &elections[0]["withoutLeaderMs"]),
            (&json!("b:1"), &json!(4000))
        );
        assert_eq!(
            (&elections[1]["term"], &elections[1]["withoutLeaderMs"]),
            (&json!(3), &json!(null))
        );
    }

    /// The console showed one failover as two elections.
    #[test]
    fn the_first_write_of_a_term_does_not_count_as_an_election() {
        let mut timeline = Timeline::default();
        note(&mut timeline, 1000, ["leader", "follower"], Some(("a:1", 1)));
        note(&mut timeline, 3000, ["leader", "follower"], Some(("a:1", 2)));
        assert_eq!(timeline.to_json()["elections"], json!([]), "it has led before this look");
        note(&mut timeline, 5000, ["unreachable", "leader"], Some(("b:1", 2)));
        note(&mut timeline, 7000, ["follower", "leader"], Some(("b:1", 3)));
        let once = json!([{ "atMs": 5000, "leader": "b:1", "term": 3, "withoutLeaderMs": 2000 }]);
        assert_eq!(timeline.to_json()["elections"], once);
        note(&mut timeline, 9000, ["follower", "leader"], Some(("b:1", 4)));
        assert_eq!(timeline.elections.len(), 2, "it was elected again between two looks");
    }

    #[test]
    fn a_leader_that_was_away_is_elected_again() {
        let mut timeline = Timeline::default();
        note(&mut timeline, 1000, ["leader", "follower"], Some(("a:1", 1)));
        note(&mut timeline, 3000, ["looking", "looking"], None);
        note(&mut timeline, 5000, ["leader", "follower"], Some(("a:1", 2)));
        let again = json!([{ "atMs": 5000, "leader": "a:1", "term": 2, "withoutLeaderMs": 4000 }]);
        assert_eq!(timeline.to_json()["elections"], again);
    }
}
