//! Whether servers are those of one ensemble.

use std::fmt;

use crate::members::{Identity, Member, resolved};
use crate::srvr::Served;

/// A server that serves.
#[derive(Clone, Copy, Debug)]
pub struct Serving<'a> {
    /// Its name.
    pub address: &'a str,
    /// Its answer to `srvr`.
    pub served: &'a Served,
    /// Its identity, if a session has shown it.
    pub identity: Option<&'a Identity>,
}

/// Evidence that servers are not one ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Split {
    /// More than one server leads.
    Leaders(Vec<String>),
    /// A standalone server is among others.
    Standalone(String),
    /// The configuration of a server lacks another one.
    Stranger {
        /// The server that is lacking.
        server: String,
        /// The server whose configuration lacks it.
        of: String,
    },
    /// Two servers have different addresses for a member of the same number.
    Addresses {
        /// The number of the member.
        id: u64,
        /// The servers, with the address that each has.
        servers: [(String, String); 2],
    },
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaders(leaders) => {
                write!(f, "{} servers lead: {}", leaders.len(), leaders.join(", "))
            }
            Self::Standalone(server) => write!(f, "{server} is a standalone server"),
            Self::Stranger { server, of } => {
                write!(f, "{server} is not in the configuration of {of}")
            }
            Self::Addresses { id, servers: [(first, at_first), (second, at_second)] } => write!(
                f,
                "server {id} is {at_first} in the configuration of {first} and {at_second} in that \
                 of {second}"
            ),
        }
    }
}

/// Returns the leader. Of several, none is the leader of all.
pub fn leader<T>(servers: impl Iterator<Item = (T, bool)>) -> Option<T> {
    let mut leaders = servers.filter_map(|(server, leads)| leads.then_some(server));
    let first = leaders.next()?;
    leaders.next().is_none().then_some(first)
}

/// Returns the evidence in the roles of servers. `all` is the number of servers, those that do not
/// serve among them.
pub fn splits_by_role(servers: &[Serving<'_>], all: usize) -> Vec<Split> {
    let leaders: Vec<_> = servers.iter().filter(|server| server.served.is_leader()).collect();
    match *leaders {
        [only] if only.served.is_standalone() && all > 1 => {
            vec![Split::Standalone(only.address.to_owned())]
        }
        [] | [_] => Vec::new(),
        _ => {
            vec![Split::Leaders(leaders.iter().map(|server| server.address.to_owned()).collect())]
        }
    }
}

/// Returns the evidence in the configurations of servers: each is compared with the first one.
pub async fn splits_by_configuration(servers: &[Serving<'_>]) -> Vec<Split> {
    let mut configured = servers.iter().filter_map(|server| {
        let members = server.identity?.members();
        (!members.is_empty()).then_some((server, members))
    });
    let Some((first, of_first)) = configured.next() else { return Vec::new() };
    let mut splits = Vec::new();
    for (server, members) in configured {
        let stranger = stranger((first, &of_first), (server, &members));
        let split = match stranger {
            Some(stranger) => Some(stranger),
            None if members == of_first => None,
            None => other_address((first, &of_first), (server, &members)).await,
        };
        splits.extend(split);
    }
    splits
}

/// A server with the members of its configuration.
type Configured<'a> = (&'a Serving<'a>, &'a [Member]);

/// Returns which of two servers the other one's configuration lacks. Observers need not be in it.
fn stranger(
    (first, of_first): Configured<'_>,
    (second, of_second): Configured<'_>,
) -> Option<Split> {
    let lacks = |members: &[Member], server: &Serving<'_>| {
        let byte = server.identity.map(|identity| identity.byte);
        !server.served.is_observer() && members.iter().all(|it| Some(it.session_byte()) != byte)
    };
    let stranger = |server: &Serving<'_>, of: &Serving<'_>| Split::Stranger {
        server: server.address.to_owned(),
        of: of.address.to_owned(),
    };
    if lacks(of_first, second) {
        return Some(stranger(second, first));
    }
    lacks(of_second, first).then(|| stranger(first, second))
}

/// Returns a member that has different addresses in the configurations of two servers.
async fn other_address(
    (first, of_first): Configured<'_>,
    (second, of_second): Configured<'_>,
) -> Option<Split> {
    for member in of_first {
        let Some(other) = of_second.iter().find(|other| other.id == member.id) else { continue };
        if other.peer != member.peer && lead_elsewhere(&member.peer, &other.peer).await {
            let at = |server: &Serving<'_>, member: &Member| {
                (server.address.to_owned(), member.peer.clone())
            };
            let servers = [at(first, member), at(second, other)];
            return Some(Split::Addresses { id: member.id, servers });
        }
    }
    None
}

/// Returns whether two addresses cannot be of one server. Names may be known to the servers alone,
/// and Apache `ZooKeeper` servers may have the address on which they listen in their own lines.
async fn lead_elsewhere(first: &str, second: &str) -> bool {
    let (first, second) = (resolved(first).await, resolved(second).await);
    let all = || first.iter().chain(&second);
    let is_special = all().any(|address| address.ip().is_unspecified());
    let loopbacks = all().filter(|address| address.ip().is_loopback()).count();
    let is_mixed = loopbacks != 0 && loopbacks != all().count();
    let is_known = !first.is_empty() && !second.is_empty();
    is_known && !is_special && !is_mixed && !first.iter().any(|address| second.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(mode: &str) -> Served {
        let answer = format!(
            "Zookeeper version: 3.9.5, built\nLatency min/avg/max: 0/0.0/0\nConnections: 1\n\
             Outstanding: 0\nZxid: 0x1\nMode: {mode}\nNode count: 5\n"
        );
        Served::parse(&answer).unwrap()
    }

    fn config(ports: &[(u64, u16)]) -> String {
        let line = |(id, port): &(u64, u16)| format!("server.{id}=127.0.0.1:{port}:1\n");
        ports.iter().map(line).collect::<Vec<_>>().concat()
    }

    /// Returns the texts of the evidence for servers with these roles, numbers and configurations.
    async fn texts(servers: &[(&str, u8, &str)]) -> Vec<String> {
        let known: Vec<_> = servers
            .iter()
            .enumerate()
            .map(|(at, (mode, byte, config))| {
                let identity = Identity { byte: *byte, config: Ok((*config).to_owned()) };
                (format!("a:{at}"), served(mode), identity)
            })
            .collect();
        let serving: Vec<_> = known
            .iter()
            .map(|(address, served, identity)| Serving {
                address,
                served,
                identity: Some(identity),
            })
            .collect();
        let mut splits = splits_by_role(&serving, serving.len());
        splits.extend(splits_by_configuration(&serving).await);
        splits.iter().map(ToString::to_string).collect()
    }

    /// "3 of 3 servers serve", and exit code 0, for three servers that do not know each other.
    #[tokio::test]
    async fn one_leader_is_needed() {
        let alone = ("standalone", 1, "version=0");
        assert_eq!(texts(&[alone, alone]).await, ["2 servers lead: a:0, a:1"]);
        assert!(texts(&[alone]).await.is_empty());
        let follower = ("follower", 2, "");
        assert_eq!(texts(&[follower, alone]).await, ["a:1 is a standalone server"]);
        let alone = served("standalone");
        let serving = Serving { address: "a:0", served: &alone, identity: None };
        assert_eq!(splits_by_role(&[serving], 2).len(), 1, "beside one that does not serve");

        let leader = |leads: &[bool]| leader(leads.iter().copied().enumerate());
        assert_eq!(leader(&[false, true]), Some(1));
        assert_eq!((leader(&[true, true]), leader(&[false])), (None, None));
    }

    #[tokio::test]
    async fn a_recovered_server_is_not_of_the_old_ensemble() {
        let (old, new) = (config(&[(1, 1), (2, 2), (3, 3)]), config(&[(3, 3)]));
        let split = [("follower", 1, &*old), ("leader", 2, &old), ("leader", 3, &new)];
        let expected = ["2 servers lead: a:1, a:2", "a:0 is not in the configuration of a:2"];
        assert_eq!(texts(&split).await, expected);
        let whole = [("follower", 1, &*old), ("leader", 2, &old), ("follower", 3, &old)];
        assert!(texts(&whole).await.is_empty());
        // An observer may be in its own configuration alone.
        let observed = config(&[(1, 1), (2, 2), (3, 3), (4, 4)]);
        assert!(texts(&[whole[1], ("observer", 4, &observed)]).await.is_empty());
        let expected = ["a:1 is not in the configuration of a:0"];
        assert_eq!(texts(&[whole[1], ("follower", 4, &observed)]).await, expected);
    }

    #[tokio::test]
    async fn members_of_one_number_at_two_addresses_are_two() {
        let (first, second) = (config(&[(1, 1), (2, 2), (3, 3)]), config(&[(1, 11), (2, 12)]));
        let expected = "server 1 is 127.0.0.1:1 in the configuration of a:0 and 127.0.0.1:11 in \
                        that of a:1";
        let servers = [("leader", 1, &*first), ("follower", 2, &second)];
        assert_eq!(texts(&servers).await, [expected]);
        // Each has its own line with the address on which it listens.
        for own in ["server.2=0.0.0.0:2:1\n", "server.2=no-such-host.invalid:2:1\n"] {
            let second = config(&[(1, 1)]) + own;
            let servers = [("leader", 1, &*first), ("follower", 2, &second)];
            assert!(texts(&servers).await.is_empty(), "{own}");
        }
    }
}
