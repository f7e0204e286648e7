//! Where the names of the servers lead on this machine. What counts is the address, not the name: on
//! Debian a machine's own name is 127.0.1.1, where no other machine reaches it.

use std::net::IpAddr;

use zoolet_server::embed::config::{HostPort, ServerId};

use super::finding::{Findings, Level};

/// The name of the check.
pub(super) const SERVERS: &str = "servers";

/// A server of the list, with the addresses of its name.
#[derive(Clone, Debug)]
pub(super) struct Located {
    pub(super) id: ServerId,
    pub(super) peer: HostPort,
    /// In the order in which they are tried; an error if the name is unknown.
    pub(super) addresses: Result<Vec<IpAddr>, String>,
}

impl Located {
    /// Whether no other machine reaches it. A name that is unknown here may be known elsewhere.
    fn is_loopback(&self) -> bool {
        let addresses = self.addresses.as_deref().unwrap_or_default();
        !addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback)
    }

    /// Its name, with the addresses that it does not show.
    fn shown(&self) -> String {
        let addresses = self.addresses.as_deref().unwrap_or_default();
        let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        match texts.as_slice() {
            [] => self.peer.to_string(),
            [one] if *one == self.peer.host => self.peer.to_string(),
            all => format!("{} ({})", self.peer, all.join(", ")),
        }
    }
}

/// How this server listens for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listens {
    /// On every address of the machine.
    Everywhere,
    /// On this one.
    On(IpAddr),
    /// It is not known: the name is unknown.
    Unknown,
}

/// Judges whether the servers can reach each other at these addresses.
pub(super) fn check(
    own: &Located,
    listens: Listens,
    others: &[Located],
    is_own: impl Fn(IpAddr) -> bool,
    findings: &mut Findings,
) {
    let remote = others.iter().find(|other| !other.is_loopback());
    check_own(own, listens, remote, is_own, findings);
    if let Some(remote) = remote {
        for local in others.iter().filter(|other| other.is_loopback()) {
            let text = format!(
                "server {} at {} means another machine on each machine: server {} at {} does not find \
                 it there",
                local.id,
                local.shown(),
                remote.id,
                remote.shown()
            );
            findings.error(SERVERS, text);
        }
    } else if !own.peer.is_wildcard() && own.addresses.is_ok() && !own.is_loopback() {
        for local in others {
            let text = format!(
                "server {} at {} means another machine on each machine, and this server is at {}: it \
                 finds itself there",
                local.id,
                local.shown(),
                own.shown()
            );
            findings.error(SERVERS, text);
        }
    }
    check_families(own, listens, others, findings);
    check_shared(own, others, findings);
}

/// Judges where this server listens, and where the others look for it.
fn check_own(
    own: &Located,
    listens: Listens,
    remote: Option<&Located>,
    is_own: impl Fn(IpAddr) -> bool,
    findings: &mut Findings,
) {
    let shown = format!("this server at {}", own.shown());
    if own.peer.is_wildcard() {
        let text = format!(
            "{shown}: listens on every address; the files of the other servers must name one of this \
             machine"
        );
        return findings.ok(SERVERS, text);
    }
    let addresses = match (&own.addresses, listens) {
        (Ok(addresses), _) => addresses,
        (Err(why), Listens::Everywhere) => {
            return findings.warn(SERVERS, format!("{shown}: {why}"));
        }
        (Err(why), _) => return findings.error(SERVERS, format!("{shown}: {why}")),
    };
    let (level, text) = match (listens, remote) {
        (Listens::On(ip), Some(remote)) if ip.is_loopback() => (
            Level::Error,
            format!(
                "listens on {ip}, where only this machine reaches it, and server {} is at {}: {}",
                remote.id,
                remote.shown(),
                remedy(&own.peer.host, addresses.contains(&ip))
            ),
        ),
        (Listens::On(ip), _) if !addresses.contains(&ip) => {
            let (level, what) = if is_own(ip) { (Level::Ok, "an") } else { (Level::Warning, "no") };
            (level, format!("listens on {ip} (peer_bind), {what} address of this machine"))
        }
        (Listens::On(ip), _) if addresses.len() > 1 && is_own(ip) => {
            (Level::Ok, format!("an address of this machine; listens on the first alone, {ip}"))
        }
        (Listens::On(ip), _) if addresses.len() > 1 => (
            Level::Warning,
            format!("listens on the first address alone, {ip}, and it is none of this machine"),
        ),
        (Listens::Everywhere, Some(_)) if own.is_loopback() => (
            Level::Ok,
            "listens on every address; on the other machines the name must have another address"
                .to_owned(),
        ),
        _ if addresses.iter().any(|ip| is_own(*ip)) => {
            (Level::Ok, "an address of this machine".to_owned())
        }
        _ => (
            Level::Warning,
            "no address of this machine; right behind a translation of addresses alone".to_owned(),
        ),
    };
    findings.add(level, SERVERS, format!("{shown}: {text}"));
}

/// Returns what to do about a host that leads to the loopback, or about a `peer_bind` that does.
fn remedy(host: &str, is_by_name: bool) -> String {
    if !is_by_name {
        return "set peer_bind to an address of this machine that the others reach".to_owned();
    }
    let address = "name in the list an address of this machine that the others reach";
    if host.parse::<IpAddr>().is_ok() {
        return address.to_owned();
    }
    format!("give {host} an address of this machine in /etc/hosts, or {address}")
}

/// A server that listens on IPv6 alone is not reached by machines with IPv4 alone, and the reverse.
fn check_families(own: &Located, listens: Listens, others: &[Located], findings: &mut Findings) {
    let Listens::On(ip) = listens else { return };
    let known = || others.iter().filter_map(|other| other.addresses.as_ref().ok()).flatten();
    if known().next().is_none() || known().any(|other| other.is_ipv4() == ip.is_ipv4()) {
        return;
    }
    let (mine, theirs) = if ip.is_ipv4() { ("IPv4", "IPv6") } else { ("IPv6", "IPv4") };
    let text = format!(
        "this server at {}: listens on {mine} alone, {ip}, and the other servers have {theirs} \
         addresses alone",
        own.shown()
    );
    findings.warn(SERVERS, text);
}

/// Several servers on one machine are lost together.
fn check_shared(own: &Located, others: &[Located], findings: &mut Findings) {
    let addresses = |server: &Located| server.addresses.clone().unwrap_or_default();
    let all: Vec<&Located> = others.iter().chain([own]).collect();
    let is_shared = all.iter().enumerate().any(|(at, server)| {
        let later = all.iter().skip(at + 1);
        later.flat_map(|other| addresses(other)).any(|ip| addresses(server).contains(&ip))
    });
    let is_local = others.iter().all(Located::is_loopback);
    if is_shared || is_local {
        let text = "several servers are on one machine: its loss is the loss of all of them";
        findings.warn(SERVERS, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(id: u8, host: &str, addresses: &[&str]) -> Located {
        let addresses: Vec<IpAddr> = addresses.iter().map(|ip| ip.parse().unwrap()).collect();
        let unknown = || Err("unknown host".to_owned());
        let addresses = if addresses.is_empty() { unknown() } else { Ok(addresses) };
        Located { id: ServerId(id), peer: HostPort::new(host, 2888), addresses }
    }

    /// Returns the findings, each with its level, of server 1 with servers 2 and 3.
    fn judged(own: &Located, listens: Listens, others: [&[&str]; 2]) -> Vec<String> {
        let others = [located(2, "b", others[0]), located(3, "c", others[1])];
        let mut findings = Findings::default();
        let is_own = |ip: IpAddr| ip.is_loopback() || ip.to_string().ends_with('1');
        check(own, listens, &others, is_own, &mut findings);
        let shown = findings.to_string();
        let lines = shown.lines().take_while(|line| !line.is_empty());
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    fn on(ip: &str) -> Listens {
        Listens::On(ip.parse().unwrap())
    }

    const REMOTE: [&[&str]; 2] = [&["10.0.0.2"], &["10.0.0.3"]];
    const LOCAL: [&[&str]; 2] = [&["127.0.0.1"], &["127.0.0.1"]];

    /// The name of a Debian machine leads to 127.0.1.1 on it: that passed as an address of the machine.
    #[test]
    fn a_name_that_leads_to_the_loopback_is_judged_by_its_address() {
        let own = located(1, "debian", &["127.0.1.1"]);
        let found = judged(&own, on("127.0.1.1"), REMOTE);
        let expected = "error servers this server at debian:2888 (127.0.1.1): listens on 127.0.1.1, \
                        where only this machine reaches it, and server 2 is at b:2888 (10.0.0.2): ";
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
        // A server with several addresses listens on the first.
        let several = located(1, "debian", &["127.0.1.1", "10.0.0.1"]);
        assert!(judged(&several, on("127.0.1.1"), REMOTE)[0].starts_with("error "));
        let several = located(1, "debian", &["10.0.0.1", "fd00::1"]);
        assert!(judged(&several, on("10.0.0.1"), REMOTE)[0].ends_with("the first alone, 10.0.0.1"));
        // Two addresses of another machine passed.
        let several = located(1, "debian", &["10.0.0.9", "10.0.0.1"]);
        let found = judged(&several, on("10.0.0.9"), REMOTE);
        assert!(found[0].starts_with("warning ") && found[0].contains("10.0.0.9, and it is none"));
        // With peer_bind the name does not count.
        let named = located(1, "debian", &["10.0.0.9"]);
        for (bind, level) in
            [("10.0.1.1", "ok "), ("10.0.1.9", "warning "), ("127.0.0.1", "error ")]
        {
            let found = judged(&named, on(bind), REMOTE);
            assert!(found[0].starts_with(level) && found[0].contains("peer_bind"), "{found:?}");
        }
        // With quorumListenOnAllIPs the others may know the name by another address.
        assert!(judged(&own, Listens::Everywhere, REMOTE)[0].starts_with("ok "));
        // All on one machine is well, but for the machine.
        let found = judged(&own, on("127.0.1.1"), LOCAL);
        assert!(found[0].starts_with("ok ") && found[1].starts_with("warning "), "{found:?}");
    }

    /// `server.1=0.0.0.0:2888:3888` on server 1 works, and was an error if the other servers were on the loopback.
    #[test]
    fn every_address_for_itself_is_well() {
        let own = located(1, "0.0.0.0", &["0.0.0.0"]);
        for others in [REMOTE, LOCAL] {
            let found = judged(&own, Listens::Everywhere, others);
            assert!(found[0].starts_with("ok servers this server at 0.0.0.0:2888: "), "{found:?}");
            assert!(!found.iter().any(|line| line.starts_with("error")), "{found:?}");
        }
    }

    #[test]
    fn another_server_on_the_loopback_is_not_found_by_the_rest() {
        let own = located(1, "a", &["10.0.0.1"]);
        let found = judged(&own, on("10.0.0.1"), [&["127.0.1.1"], &["10.0.0.3"]]);
        assert!(found[1].starts_with("error servers server 2 at b:2888 (127.0.1.1) "), "{found:?}");
        let found = judged(&own, on("10.0.0.1"), LOCAL);
        let errors = found.iter().filter(|line| line.starts_with("error")).count();
        assert_eq!(errors, 2, "{found:?}");
        let loopback = located(1, "127.0.0.1", &["127.0.0.1"]);
        // A name that is unknown here is another machine's.
        let found = judged(&loopback, on("127.0.0.1"), [&[], &["127.0.0.1"]]);
        assert_eq!(found.iter().filter(|line| line.starts_with("error")).count(), 2, "{found:?}");
    }

    #[test]
    fn families_and_machines_are_compared() {
        let own = located(1, "a", &["fd00::1"]);
        let found = judged(&own, on("fd00::1"), REMOTE);
        assert!(found[1].contains("listens on IPv6 alone"), "{found:?}");
        let found = judged(&own, on("fd00::1"), [&["10.0.0.2", "fd00::2"], &["10.0.0.3"]]);
        assert_eq!(found.len(), 1, "{found:?}");
        let own = located(1, "a", &["10.0.0.2"]);
        let found = judged(&own, on("10.0.0.2"), REMOTE);
        assert!(found[1].contains("several servers are on one machine"), "{found:?}");
    }
}
