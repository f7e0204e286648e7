//! The servers in the text of `/zookeeper/config`.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::timeout;
use zoolet_client::{Client, ClientOptions, Connector, SessionId};

/// How long the session may take by which a server is identified, and its timeout.
const IDENTIFY_TIME: Duration = Duration::from_secs(3);
const IDENTIFY_SESSION: Duration = Duration::from_secs(10);

/// How long a server may take to apply the latest change of its configuration.
const SYNC_TIME: Duration = Duration::from_secs(1);

/// A server of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its number. Apache `ZooKeeper` takes numbers above 255.
    pub id: u64,
    /// Its host, as the other servers reach it.
    pub host: String,
    /// Where the other servers reach it, `host:port`.
    pub peer: String,
    /// Where clients reach it, if the configuration has it: it may be in the file of the server alone.
    pub client: Option<String>,
}

/// The servers of a configuration that are not named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Others {
    /// The servers that can be asked.
    pub found: Vec<Reachable>,
    /// The servers that cannot be asked.
    pub unknown: Vec<Unknown>,
}

impl Others {
    /// Returns the servers that cannot be asked, once all that can be are among the named ones: the
    /// others' addresses have led to different servers.
    pub fn into_unknown(self) -> Vec<Unknown> {
        let Self { found, mut unknown } = self;
        let taken = |Reachable { member, address }| Unknown { member, taken: Some(address) };
        unknown.extend(found.into_iter().map(taken));
        unknown
    }
}

/// A server of a configuration that can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reachable {
    /// The server.
    pub member: Member,
    /// Its client address, as other machines reach it.
    pub address: String,
}

/// A server of a configuration that cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The server.
    pub member: Member,
    /// The client address at which another server is known, if the configuration has one.
    pub taken: Option<String>,
}

impl Unknown {
    /// Returns the reason why the server cannot be asked.
    pub fn problem(&self) -> String {
        match &self.taken {
            Some(address) => {
                format!("unknown: another server of the ensemble has its client address {address}")
            }
            None => "unknown: its client address is not in the ensemble's configuration".to_owned(),
        }
    }
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {} ({})", self.member.id, self.member.peer)
    }
}

/// A server whose address is known.
#[derive(Clone, Debug, Default)]
pub struct Named {
    /// The name.
    pub address: String,
    /// Where it is.
    pub at: Vec<SocketAddr>,
    /// The identity that a session has shown.
    pub identity: Option<Identity>,
}

/// The identity of a server, from a session with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The last byte of its number. Servers 1 and 257 have the same.
    pub byte: u8,
    /// The ensemble's configuration as this server has it, or the reason why it was not read.
    pub config: Result<String, String>,
}

impl Identity {
    /// Returns the members of the server's configuration.
    pub(crate) fn members(&self) -> Vec<Member> {
        self.config.as_deref().map(members).unwrap_or_default()
    }

    /// Returns whether both identities are those of one server: the same number, which only one
    /// member has, in the same configuration. Standalone servers have no configuration and all the
    /// same number.
    fn is_same(&self, other: &Self) -> bool {
        let members = self.members();
        let sharing = members.iter().filter(|member| member.session_byte() == self.byte).count();
        self.byte == other.byte && sharing == 1 && members == other.members()
    }
}

impl Named {
    /// Returns whether its number, if it is known, is that of a member.
    fn may_be(&self, member: &Member) -> bool {
        self.byte().is_none_or(|byte| byte == member.session_byte())
    }

    fn byte(&self) -> Option<u8> {
        self.identity.as_ref().map(|identity| identity.byte)
    }

    /// Returns whether both names are of one server: they lead to one address, or one identity.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.identity, &other.identity) {
            (Some(identity), Some(of_other)) if identity.is_same(of_other) => true,
            // A balancer leads to several.
            (Some(identity), Some(of_other)) if identity.byte != of_other.byte => false,
            _ => !self.at.is_empty() && self.at == other.at,
        }
    }
}

impl Member {
    /// Returns the top byte of the ids of the sessions that it opens.
    pub(crate) fn session_byte(&self) -> u8 {
        let [.., last] = self.id.to_be_bytes();
        last
    }

    /// Returns whether clients reach it at all addresses of its machine.
    fn listens_everywhere(&self) -> bool {
        let client = self.client.as_deref().and_then(|client| client.parse::<SocketAddr>().ok());
        client.is_some_and(|address| address.ip().is_unspecified())
    }

    /// Returns the address at which clients reach it: that of its machine if it listens on all
    /// addresses.
    fn reachable(&self) -> Option<String> {
        let client = self.client.as_deref()?;
        match client.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_unspecified() => {
                Some(format!("{}:{}", self.host, address.port()))
            }
            Ok(_) | Err(_) => Some(client.to_owned()),
        }
    }
}

/// Returns the number of the server that has opened a session: the top byte of its id.
pub fn opener_of(session: SessionId) -> u8 {
    let [opener, ..] = session.0.to_be_bytes();
    opener
}

/// Returns the servers of a configuration.
pub fn members(config: &str) -> Vec<Member> {
    config.lines().filter_map(member).collect()
}

/// Reads a line `server.N=host:port:port:role;host:port`. The part after the semicolon and
/// the host in it are optional.
fn member(line: &str) -> Option<Member> {
    let (id, server) = line.strip_prefix("server.")?.split_once('=')?;
    let (hosts, client) = match server.split_once(';') {
        Some((hosts, client)) => (hosts, Some(client.trim()).filter(|client| !client.is_empty())),
        None => (server, None),
    };
    let host_end = match hosts.find(']') {
        Some(bracket) => bracket + 1,
        None => hosts.find(':')?,
    };
    let (host, rest) = (hosts.get(..host_end)?, hosts.get(host_end..)?);
    let port = rest.strip_prefix(':')?.split(':').next()?;
    let client = client.map(|client| {
        if client.contains(':') { client.to_owned() } else { format!("{host}:{client}") }
    });
    let peer = format!("{host}:{port}");
    Some(Member { id: id.trim().parse().ok()?, host: host.to_owned(), peer, client })
}

/// Returns the identity of a server, from a session with it, or the reason why it grants none.
pub async fn identify(
    address: &str,
    connector: impl Connector + 'static,
) -> Result<Identity, String> {
    let late = |_| format!("no answer within {} ms", IDENTIFY_TIME.as_millis());
    let options = ClientOptions::new()
        .session_timeout(IDENTIFY_SESSION)
        .connect_timeout(IDENTIFY_TIME)
        .connector(connector);
    let client = timeout(IDENTIFY_TIME, options.connect(address)).await.map_err(late)?;
    let client = client.map_err(|error| error.to_string())?;
    let byte = opener_of(client.session().id);
    let config = timeout(IDENTIFY_TIME, config(&client)).await;
    let config = config.map_err(late).flatten();
    // An unused session goes by itself.
    let _ = timeout(IDENTIFY_TIME, client.close()).await;
    Ok(Identity { byte, config })
}

/// Reads the configuration from a server that has applied the latest changes of it.
async fn config(client: &Client) -> Result<String, String> {
    // A server that cannot ask its leader still has a configuration.
    let _ = timeout(SYNC_TIME, client.sync("/")).await;
    let (data, _) = client.config().await.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&data).into_owned())
}

/// Returns the servers of a configuration that are not among the named ones. A configuration has no
/// ports that speak TLS alone: with `is_tls`, it has the ports of clients only if it has a named one.
pub async fn others(config: &str, named: &[Named], is_tls: bool) -> Others {
    let has_client_ports = !is_tls || has_named(config, named).await;
    let members = members(config);
    let sharing = |byte| members.iter().filter(|member| member.session_byte() == byte).count();
    let is_identified = |member: &&Member| {
        let byte = member.session_byte();
        sharing(byte) == 1 && named.iter().any(|it| it.byte() == Some(byte))
    };
    // A named server whose byte several have is known by its address, as one without a byte is.
    let by_address = |it: &&Named| it.byte().is_none_or(|byte| sharing(byte) != 1);
    let mut unidentified: Vec<&Named> = named.iter().filter(by_address).collect();
    let left = members.iter().filter(|member| !is_identified(member));
    let mut known: BTreeSet<SocketAddr> =
        named.iter().flat_map(|it| it.at.iter().copied()).collect();
    let (mut others, mut without) = (Others::default(), Vec::new());
    for member in left.cloned() {
        let Some(address) = member.reachable().filter(|_| has_client_ports) else {
            without.push(member);
            continue;
        };
        let resolved = resolved(&address).await;
        let is_it = |it: &&Named| {
            let is_there = it.address == address
                || it.at.iter().any(|at| resolved.contains(at))
                || (member.listens_everywhere() && it.at.iter().any(|at| is_alias(at, &resolved)));
            is_there && it.may_be(&member)
        };
        if let Some(at) = unidentified.iter().position(is_it) {
            unidentified.remove(at);
        } else if resolved.iter().any(|address| known.contains(address)) {
            others.unknown.push(Unknown { member, taken: Some(address) });
        } else {
            known.extend(resolved);
            others.found.push(Reachable { member, address });
        }
    }
    let without = without_named(without, &unidentified).await;
    others.unknown.extend(without.into_iter().map(|member| Unknown { member, taken: None }));
    others
}

/// Returns whether an address leads to a server that listens on all addresses of its machine and is
/// known by these: all loopback addresses are of this machine.
fn is_alias(at: &SocketAddr, known: &[SocketAddr]) -> bool {
    let is_loopback = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
    is_loopback(at) && known.iter().any(|it| it.port() == at.port() && is_loopback(it))
}

/// Whether a configuration has one of the named addresses.
async fn has_named(config: &str, named: &[Named]) -> bool {
    for address in members(config).iter().filter_map(Member::reachable) {
        let resolved = resolved(&address).await;
        let is_it =
            |it: &Named| it.address == address || it.at.iter().any(|at| resolved.contains(at));
        if named.iter().any(is_it) {
            return true;
        }
    }
    false
}

/// Leaves out a server on the machine of a named one, if it is the only one there that it can be.
async fn without_named(mut unknown: Vec<Member>, named: &[&Named]) -> Vec<Member> {
    for it in named {
        let mut there = Vec::new();
        for member in &unknown {
            let hosts = resolved(&member.peer).await;
            let is_there = hosts.iter().any(|host| it.at.iter().any(|at| at.ip() == host.ip()));
            if is_there && it.may_be(member) {
                there.push(member.id);
            }
        }
        if let [only] = *there {
            unknown.retain(|member| member.id != only);
        }
    }
    unknown
}

/// Returns where an address is; nothing if its host is unknown.
pub async fn resolved(address: &str) -> Vec<SocketAddr> {
    lookup_host(address).await.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn named(address: &str, id: Option<u8>) -> Named {
        let identity = |byte| Identity { byte, config: Err(String::new()) };
        Named {
            address: address.to_owned(),
            at: resolved(address).await,
            identity: id.map(identity),
        }
    }

    fn addresses(others: Others) -> Vec<String> {
        others.found.into_iter().map(|found| found.address).collect()
    }

    fn ids(others: Others) -> Vec<u64> {
        others.unknown.into_iter().map(|unknown| unknown.member.id).collect()
    }

    #[tokio::test]
    async fn only_servers_that_are_not_named_are_added() {
        let config = "server.1=127.0.0.1:1:2:participant;0.0.0.0:2181\n\
                      server.2=127.0.0.1:1:2:participant;127.0.0.1:2182\n\
                      server.3=[::1]:1:2:observer;2183\nversion=1";
        let first = [named("127.0.0.1:2181", None).await];
        let found = others(config, &first, false).await;
        assert_eq!(addresses(found), ["127.0.0.1:2182", "[::1]:2183"]);
        let third = [named("[::1]:2183", None).await];
        let found = others(config, &third, false).await;
        assert_eq!(addresses(found), ["127.0.0.1:2181", "127.0.0.1:2182"]);
        // An address that is not in the list, of a server that was identified.
        let alias = [named("10.0.0.1:2181", Some(2)).await];
        let found = others(config, &alias, false).await;
        assert!(found.unknown.is_empty());
        assert_eq!(addresses(found), ["127.0.0.1:2181", "[::1]:2183"]);
        let by_tls = others(config, &alias, true).await;
        assert_eq!((by_tls.found.len(), by_tls.unknown.len()), (0, 2));
    }

    /// Servers whose client port is in their own files alone were left out, as if they did not exist.
    #[tokio::test]
    async fn a_server_without_a_client_address_is_unknown() {
        let config = "server.1=127.0.0.1:1:2:participant\nserver.2=127.0.0.1:3:4\n\
                      server.3=127.0.0.2:5:6:observer\nversion=1";
        let identified = [named("localhost:2181", Some(2)).await];
        assert_eq!(ids(others(config, &identified, false).await), [1, 3]);
        // One that does not serve is known by its machine, if no other server is there.
        let all = [
            named("127.0.0.1:2181", Some(1)).await,
            named("127.0.0.1:2182", None).await,
            named("127.0.0.2:2183", None).await,
        ];
        assert!(ids(others(config, &all, false).await).is_empty());
        assert_eq!(ids(others(config, &all[1..], false).await), [1, 2]);
    }

    /// With server 1 named, server 257 was left out: the ids of their sessions begin alike.
    #[tokio::test]
    async fn servers_that_share_a_byte_are_two() {
        let config = "server.1=127.0.0.1:1:2:participant;127.0.0.1:2181\n\
                      server.257=127.0.0.1:3:4:participant;127.0.0.1:2182\n\
                      server.2=127.0.0.1:5:6:participant;127.0.0.1:2183\nversion=1";
        let first = [named("127.0.0.1:2181", Some(1)).await];
        let found = others(config, &first, false).await;
        assert_eq!(addresses(found), ["127.0.0.1:2182", "127.0.0.1:2183"]);
        let both = [first[0].clone(), named("localhost:2182", Some(1)).await];
        assert_eq!(addresses(others(config, &both, false).await), ["127.0.0.1:2183"]);

        // Without client addresses their machines distinguish them.
        let config = "server.1=127.0.0.1:1:2\nserver.257=127.0.0.2:3:4\nserver.2=127.0.0.1:5:6";
        assert_eq!(ids(others(config, &first, false).await), [257, 2]);
        let second = [named("127.0.0.1:2182", Some(2)).await, first[0].clone()];
        assert_eq!(ids(others(config, &second, false).await), [257]);
        // On one machine each of them may be the named one: no server is left out.
        let config = "server.1=127.0.0.1:1:2\nserver.257=127.0.0.1:3:4";
        assert_eq!(ids(others(config, &first, false).await), [1, 257]);
    }

    /// With server 3's client address copied from server 2, server 3 was left out: "2 of 2 servers
    /// serve", and exit code 0.
    #[tokio::test]
    async fn a_server_with_the_address_of_another_is_unknown() {
        let config = "server.1=127.0.0.1:1:2:participant;127.0.0.1:2181\n\
                      server.2=127.0.0.1:3:4:participant;127.0.0.1:2182\n\
                      server.3=127.0.0.1:5:6:participant;127.0.0.1:2182\nversion=1";
        let first = [named("127.0.0.1:2181", Some(1)).await];
        let found = others(config, &first, false).await;
        let problem = found.unknown[0].problem();
        assert_eq!((found.found.len(), ids(found)), (1, vec![3]));
        let expected =
            "unknown: another server of the ensemble has its client address 127.0.0.1:2182";
        assert_eq!(problem, expected);
        // The session shows which of the two is there.
        let both = [first[0].clone(), named("127.0.0.1:2182", Some(3)).await];
        assert_eq!(ids(others(config, &both, false).await), [2]);
        let without_identity = [first[0].clone(), named("127.0.0.1:2182", None).await];
        assert_eq!(ids(others(config, &without_identity, false).await), [3]);
    }

    /// A server that listens on all addresses was listed twice if it was named by another address.
    #[tokio::test]
    async fn a_server_under_two_addresses_is_one() {
        let config = "server.1=127.0.0.1:1:2:participant;0.0.0.0:2181\n\
                      server.2=127.0.0.1:3:4:participant;0.0.0.0:2182\nversion=1";
        let alias = [named("127.0.1.1:2181", Some(1)).await, named("[::1]:2182", None).await];
        assert_eq!(others(config, &alias, false).await, Others::default());

        let identity = |byte, config: &str| Identity { byte, config: Ok(config.to_owned()) };
        let name = |port: u16, identity| Named {
            address: format!("a:{port}"),
            at: vec![SocketAddr::from(([127, 0, 0, 1], port))],
            identity: Some(identity),
        };
        let first = name(1, identity(1, config));
        assert!(first.is_same(&name(2, identity(1, config))));
        assert!(!first.is_same(&name(2, identity(2, config))));
        assert!(!first.is_same(&name(1, identity(2, config))), "a balancer");
        // All standalone servers have the same number.
        let alone = name(1, identity(1, "version=0"));
        assert!(!alone.is_same(&name(2, identity(1, "version=0"))));
        assert!(alone.is_same(&name(1, identity(1, "version=0"))));
    }

    #[test]
    fn a_server_that_listens_everywhere_is_reached_by_its_name() {
        let reachable = |line: &str| member(line).unwrap().reachable();
        for (line, address) in [
            ("server.1=a:1:2;0.0.0.0:2181", Some("a:2181")),
            ("server.1=[::1]:1:2;[::]:2181", Some("[::1]:2181")),
            ("server.1=a:1:2;b:2181", Some("b:2181")),
            ("server.1=a:1:2;10.0.0.1:2181", Some("10.0.0.1:2181")),
            ("server.1=a:1:2;", None),
            ("server.1=a:1:2:observer", None),
        ] {
            assert_eq!(reachable(line).as_deref(), address, "{line}");
        }
        let member_300 = member("server.300=[::1]:1:2").unwrap();
        assert_eq!((member_300.peer.as_str(), member_300.session_byte()), ("[::1]:1", 44));
        assert_eq!((member("server.2=a"), member("version=1")), (None, None));
    }

    #[test]
    fn a_session_has_its_opener_in_the_top_byte() {
        assert_eq!(opener_of(SessionId(0x0300_0000_0000_0001)), 3);
        assert_eq!(opener_of(SessionId(-1)), 255);
    }
}
