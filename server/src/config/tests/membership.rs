//! The grammar of `server.N=` lines and what is made of them.

use super::super::member::{Member, derive_cluster_id, members_text};
use super::super::{HostPort, MemberRole};
use super::{assert_says, only_warning, sid, silent, zoo, zoo_with};

fn parse(text: &str) -> Result<Member, String> {
    Member::parse(text, false).map(|(member, _)| member)
}

#[test]
fn a_server_line_is_rendered_with_its_role_and_without_what_it_did_not_have() {
    let table = [
        ("a:2888:3888", "a:2888:3888:participant"),
        ("a:2888:3888;2181", "a:2888:3888:participant;0.0.0.0:2181"),
        ("a:2888:3888:participant;b:2181", "a:2888:3888:participant;b:2181"),
        ("a:2888:3888:OBSERVER;2181", "a:2888:3888:observer;0.0.0.0:2181"),
        ("[::1]:2888:3888;[::]:2181", "[::1]:2888:3888:participant;[::]:2181"),
        ("[fe80::1%eth0]:1:2;[::1%lo]:3", "[fe80::1%eth0]:1:2:participant;[::1%lo]:3"),
        ("[2001:db8::1]:2888:3888:observer", "[2001:db8::1]:2888:3888:observer"),
        (" 10.0.0.1:1:2 ; 3 ", "10.0.0.1:1:2:participant;0.0.0.0:3"),
        ("a:1:2;", "a:1:2:participant"),
        ("a:1:2;;", "a:1:2:participant"),
        ("a:1:2;3;", "a:1:2:participant;0.0.0.0:3"),
    ];
    for (text, rendered) in table {
        assert_eq!(parse(text).unwrap().to_string(), rendered, "{text}");
    }
}

#[test]
fn a_wrong_server_line_says_what_is_wrong() {
    let table = [
        ("", "the host is empty"),
        ("a", "expected host:quorumPort:electionPort"),
        ("a:2888", "expected host:quorumPort:electionPort"),
        ("a:2888:2888", "both 2888"),
        ("a:0:3888", "invalid port `0`"),
        ("a:2888:65536", "invalid port `65536`"),
        ("a:2888:3888:voter", "invalid role `voter`"),
        ("a:2888:3888:observer:x", "expected host:quorumPort:electionPort"),
        ("a:2888:3888;x", "invalid port `x`"),
        ("a:2888:3888;2181;2281", "it is set by secureClientPort"),
        ("a:2888:3888;;2281", "it is set by secureClientPort"),
        ("a:2888:3888;2181;;1", "expected host:port:port"),
        ("::1:2888:3888", "the host is empty"),
        ("[::1:2888:3888", "does not close"),
        ("[fe80::1%]:2888:3888", "invalid IPv6 address"),
        ("[::1]2888:3888", "expected `:`"),
        ("[a]:2888:3888", "invalid IPv6 address"),
        ("a b:2888:3888", "invalid host name"),
        ("a:2888:3888|b:2888:3888", "multiAddress.enabled"),
    ];
    for (text, part) in table {
        let why = parse(text).unwrap_err();
        assert!(why.contains(part), "{text}: {why}");
    }
}

const THREE: &str = "dataDir=/d\nclientPort=2181\ninitLimit=10\nsyncLimit=5\n\
    server.3=c:2888:3888\nserver.1=a:2888:3888;2181\nserver.2=b:2888:3888:observer\n\
    server.10=d:2888:3888\n";

/// Apache ZooKeeper accepts a line that was copied.
#[test]
fn the_client_address_of_another_server_is_warned_of() {
    let lines = |third: &str| {
        let text = "dataDir=/d\nclientPort=2181\ninitLimit=10\nsyncLimit=5\n";
        let members = format!("server.1=a:1:2;2181\nserver.2=b:1:2;2181\nserver.3={third}\n");
        zoo_with(&(text.to_owned() + &members), Some(1), &[])
    };
    for line in ["a:3:4;2181", "b:3:4;2181"] {
        let loaded = lines(line).unwrap();
        let expected = "zoo.cfg:7 server.3: server";
        assert_says(&only_warning(&loaded).to_string(), expected);
        assert!(only_warning(&loaded).why.contains("client address 0.0.0.0:2181"), "{loaded:?}");
    }
    for line in ["c:1:2;2181", "a:3:4;2182", "a:3:4"] {
        assert!(lines(line).unwrap().1.is_empty(), "{line}");
    }
}

#[test]
fn an_ensemble_is_read_in_the_order_of_its_ids() {
    let mut loaded = zoo_with(&format!("{THREE}server.4=e:2888:3888\n"), Some(1), &[]).unwrap();
    assert_says(&only_warning(&loaded).to_string(), "zoo.cfg:6 server: 4 voters survive 1 loss");
    loaded.1.clear();
    let config = silent(Ok(loaded));
    assert_eq!(
        config.members_text(),
        "server.1=a:2888:3888:participant;0.0.0.0:2181\n\
         server.2=b:2888:3888:observer\n\
         server.3=c:2888:3888:participant\n\
         server.4=e:2888:3888:participant\n\
         server.10=d:2888:3888:participant\n"
    );
    assert!(!config.standalone);
    assert_eq!(config.server_id, sid(1));
    assert_eq!(config.peer_bind, Some(HostPort::new("a", 2888)));
    assert_eq!(config.client_bind, HostPort::new("0.0.0.0", 2181));
    assert_eq!(config.role(), MemberRole::Participant);
}

#[test]
fn the_dynamic_file_gives_the_members() {
    let text = "dataDir=/d\ninitLimit=1\nsyncLimit=1\ndynamicConfigFile=/c/zoo.cfg.dynamic.10a\n";
    let lines = "server.1=a:1:2;3\nserver.2=b:1:2;3\nserver.3=c:1:2;3\n";
    let versioned = format!("{lines}version=2b\n");
    let read = |dynamic: &str| {
        let files = [("/c/zoo.cfg.dynamic.10a", dynamic), ("/d/myid", " 2 \n")];
        zoo_with(text, None, &files)
    };
    let loaded = read(&versioned).unwrap();
    let warning = only_warning(&loaded).to_string();
    assert_says(&warning, "/c/zoo.cfg.dynamic.10a:4 version: not applicable");
    let config = loaded.0;
    assert_eq!(config.server_id, sid(2));
    assert_eq!(config.client_bind, HostPort::new("0.0.0.0", 3));
    assert_eq!(silent(read(lines)), config);

    let errors = [
        ("server.1=a:1:2;3\ntickTime=2", "/c/zoo.cfg.dynamic.10a:2 only the member list"),
        ("version=x", "/c/zoo.cfg.dynamic.10a:1 expected a hexadecimal"),
        ("version=1", "/c/zoo.cfg.dynamic.10a no server line"),
        ("server.1=a:1:2\n\nserver.1=b:1:2", "/c/zoo.cfg.dynamic.10a:3 already in line 1"),
    ];
    for (dynamic, expected) in errors {
        assert_says(&read(dynamic).unwrap_err().to_string(), expected);
    }
    let missing = zoo(text).unwrap_err();
    assert_says(&missing.to_string(), "zoo.cfg:4 /c/zoo.cfg.dynamic.10a cannot be read");
    let both = zoo(&format!("{text}server.1=a:1:2;3\n")).unwrap_err();
    assert_says(&both.to_string(), "zoo.cfg:5 must be in that file");
}

#[test]
fn conflicts_in_the_member_list_are_errors_at_their_line() {
    let table = [
        ("server.1=x:1:2\n", "zoo.cfg:9 already in line 6"),
        ("server.256=x:1:2\n", "zoo.cfg:9 invalid server id `256`"),
        ("server.255=x:1:2\nextendedTypesEnabled=true\n", "zoo.cfg:9 server 255 and times to live"),
        ("server.x=x:1:2\n", "zoo.cfg:9 invalid server id `x`"),
        ("server.5=a:2888:3889\n", "zoo.cfg:9 servers 1 and 5 have the same address a:2888"),
        ("server.5=0.0.0.0:2888:3889\n", "zoo.cfg:9 server 1 cannot reach it"),
        ("group.1=1:2\n", "zoo.cfg:9 majority of groups is not supported"),
        ("group.1=1:2:3:10\ngroup.2=1\n", "zoo.cfg:10 majority of groups is not supported"),
        ("group.1=a\n", "zoo.cfg:9 invalid server id `a`"),
        ("weight.1=2\n", "zoo.cfg:9 weights that differ"),
        ("weight.1=0\nweight.2=0\nweight.3=0\nweight.10=0\n", "zoo.cfg:9 weights that differ"),
        ("weight.1=x\n", "zoo.cfg:9 expected a whole number"),
        ("server.5=e:2888:3888|f:2888:3888\n", "zoo.cfg:9 multiAddress.enabled"),
    ];
    for (line, expected) in table {
        let error = zoo_with(&format!("{THREE}{line}"), Some(1), &[]).unwrap_err();
        assert_says(&error.to_string(), expected);
    }
    let observers = "dataDir=/d\nclientPort=1\nserver.1=a:1:2:observer\nserver.2=b:1:2:observer\n";
    let error = zoo_with(observers, Some(1), &[]).unwrap_err();
    assert_says(&error.to_string(), "zoo.cfg:3 every server is an observer");
}

#[test]
fn what_changes_no_majority_is_warned_of() {
    let table = [
        ("group.1=1:2:3:10\n", "zoo.cfg:9 group.1: not applicable"),
        ("weight.1=1\n", "zoo.cfg:9 weight.1: not applicable"),
        ("multiAddress.enabled=true\nserver.2=b:5:6:observer|c:5:6\n", "zoo.cfg:10 only the first"),
    ];
    for (line, expected) in table {
        let base = THREE.replace("server.2=b:2888:3888:observer\n", "\n");
        let base = if line.contains("server.2") { base } else { THREE.to_owned() };
        let loaded = zoo_with(&format!("{base}{line}"), Some(1), &[]).unwrap();
        assert_says(&only_warning(&loaded).to_string(), expected);
    }
}

#[test]
fn every_server_derives_the_same_cluster_id() {
    let of = |text: &str, id| {
        let (config, _) = zoo_with(text, Some(id), &[]).unwrap();
        assert_eq!(config.cluster_id(), derive_cluster_id(&config.members));
        config.cluster_id()
    };
    let own_name = THREE.replace("server.1=a", "server.1=0.0.0.0");
    let grown = format!("{THREE}server.5=e:2888:3888\n");
    let other = THREE.replace("server.1=a:2888", "server.1=a:2889");
    assert_eq!(of(THREE, 3), of(&own_name, 1));
    assert_eq!(of(THREE, 3), of(&grown, 5));
    assert_ne!(of(THREE, 3), of(&other, 3));
}

#[test]
fn the_rendering_of_members_has_no_version_line() {
    let (config, _) = zoo_with(THREE, Some(1), &[]).unwrap();
    assert_eq!(members_text(&config.members), config.members_text());
    assert!(!config.members_text().contains("version"));
}
