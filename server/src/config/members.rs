//! Lists of members as reconfigurations give them (protocol, section 15.4): the text of
//! `/zookeeper/config`, and what a request makes of it.

use std::collections::BTreeMap;

use super::address::HostPort;
use super::member::Member;

/// The members of an ensemble by their numbers. A request may name numbers that no server of
/// zoolet can have; the code that carries it out must look at them.
pub(crate) type MemberList = BTreeMap<u64, Member>;

/// Reads `server.N=` lines, separated by newlines or commas; a line with the version is left out.
/// The error says what is wrong with the list.
pub fn parse_members(text: &str) -> Result<MemberList, String> {
    let mut members = MemberList::new();
    for line in text.split(['\n', ',']).map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with("version=") {
            continue;
        }
        let (id, member) = parse_line(line)?;
        if members.insert(id, member).is_some() {
            return Err(format!("server {id} is listed twice"));
        }
    }
    Ok(members)
}

/// What becomes of a list when some servers leave and some join, in this order. Numbers of leaving
/// servers that are not there do not matter.
pub fn change_members(
    current: &MemberList,
    joining: Option<&str>,
    leaving: Option<&str>,
) -> Result<MemberList, String> {
    let words = |list: Option<&str>| -> Vec<String> {
        let words = list.unwrap_or_default().split(',').map(str::trim);
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let mut members = current.clone();
    for id in words(leaving) {
        let id: u64 = id.parse().map_err(|_| format!("invalid server id `{id}`"))?;
        members.remove(&id);
    }
    for spec in words(joining) {
        let (id, member) = parse_line(&spec)?;
        if member.client.is_none() {
            return Err(format!("server {id} has no client port"));
        }
        members.remove(&id);
        if let Some((other, _)) = members.iter().find(|(_, other)| share_an_address(other, &member))
        {
            return Err(format!("servers {id} and {other} have an address in common"));
        }
        members.insert(id, member);
    }
    Ok(members)
}

/// `server.N=…`.
fn parse_line(line: &str) -> Result<(u64, Member), String> {
    let (key, value) =
        line.split_once('=').ok_or_else(|| format!("invalid server line `{line}`"))?;
    let id = key.trim().strip_prefix("server.");
    let id = id.and_then(|id| id.parse().ok());
    let id = id.ok_or_else(|| format!("invalid key `{key}`: expected server.N"))?;
    let (member, _) = Member::parse(value.trim(), false)?;
    Ok((id, member))
}

/// Whether two servers want to listen on the same port of the same host. Loopback and wildcard
/// addresses say nothing about it, as in Apache ZooKeeper.
fn share_an_address(one: &Member, other: &Member) -> bool {
    let addresses = |member: &Member| {
        let election = HostPort::new(member.peer.host.clone(), member.election_port);
        let mut all = vec![member.peer.clone(), election];
        all.extend(member.client.clone());
        all.retain(|address| !address.is_wildcard() && !address.is_loopback());
        all
    };
    let others = addresses(other);
    addresses(one).iter().any(|address| others.contains(address))
}

#[cfg(test)]
mod tests {
    use super::super::member::MemberRole;
    use super::*;

    const THREE: &str = "server.1=a:2888:3888:participant;2181\n\
                         server.2=b:2888:3888:participant;2181\n\
                         server.3=c:2888:3888:observer\nversion=100000000";

    #[test]
    fn the_text_of_the_znode_is_read() {
        let members = parse_members(THREE).unwrap();
        assert_eq!(members.len(), 3);
        assert_eq!(members[&3].role, MemberRole::Observer);
        assert_eq!(members[&1].to_string(), "a:2888:3888:participant;0.0.0.0:2181");
        assert_eq!(parse_members(&THREE.replace('\n', ",")).unwrap(), members);
    }

    #[test]
    fn servers_leave_first_and_then_join_or_are_replaced() {
        let members = parse_members(THREE).unwrap();
        let joining = "server.2=d:2888:3888:observer;2182, server.4=b:2888:3888;2181";
        let changed = change_members(&members, Some(joining), Some("3, 77")).unwrap();
        assert_eq!(changed.keys().copied().collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(changed[&2].to_string(), "d:2888:3888:observer;0.0.0.0:2182");
        assert_eq!(changed[&4].role, MemberRole::Participant);
        assert_eq!(change_members(&members, None, Some("")).unwrap(), members);
    }

    #[test]
    fn what_is_malformed_or_doubled_is_refused() {
        let members = parse_members(THREE).unwrap();
        let refused = [
            "some thing",
            "server.4",
            "server.x=d:1:2;3",
            "server.4=d:1:2",
            "server.4=d:1:1;3",
            "server.4=d:1:2:king;3",
            "server.4=a:2888:2;3",
            "server.4=a:1:2888;3",
        ];
        for joining in refused {
            assert!(change_members(&members, Some(joining), None).is_err(), "{joining}");
        }
        assert!(change_members(&members, None, Some("one")).is_err());
        assert!(parse_members("server.1=a:1:2,server.1=b:1:2").is_err());
        assert!(parse_members("hello").is_err());
        // Only this machine can distinguish ports of its own addresses.
        let loopback = parse_members("server.1=127.0.0.1:1:2;3").unwrap();
        change_members(&loopback, Some("server.2=127.0.0.1:1:2;3"), None).unwrap();
    }
}
