//! `zoo.cfg` as a whole: which server it is, where it listens, what contradicts itself.

use std::path::PathBuf;

use super::super::model::Words;
use super::super::{HostPort, MemberRole, ServerConfig};
use super::{assert_says, only_warning, sid, silent, zoo, zoo_with};

const ONE: &str = "dataDir=/d\nclientPort=2181\n";
const TWO: &str = "dataDir=/d\nclientPort=2181\ninitLimit=5\nsyncLimit=2\n\
    server.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n";

#[test]
fn the_usual_sample_is_a_standalone_server() {
    let text = "# The number of milliseconds of each tick\ntickTime=2000\ninitLimit=10\n\
        syncLimit=5\ndataDir=/var/lib/zookeeper\nclientPort=2181\n#maxClientCnxns=60\n";
    let config = silent(zoo(text));
    let data_dir = PathBuf::from("/var/lib/zookeeper");
    let data_log_dir = data_dir.clone();
    let mut expected = ServerConfig { data_dir, data_log_dir, ..ServerConfig::default() };
    expected.ensemble.tick_time_ms = 2000;
    expected.session.timeout_ms_min = 4000;
    expected.session.timeout_ms_max = 40_000;
    assert_eq!(config, expected);
    assert_eq!(config.members_text(), "");
    assert_eq!((config.init_limit_ms(), config.sync_limit_ms()), (20_000, 10_000));
}

#[test]
fn the_id_comes_from_the_option_or_from_myid() {
    type Row<'a> = (Option<u8>, &'a [(&'a str, &'a str)], &'a str);
    let config = silent(zoo_with(TWO, None, &[("/d/myid", "2\n")]));
    assert_eq!(config.server_id, sid(2));
    assert_eq!(silent(zoo_with(TWO, Some(3), &[])).server_id, sid(3));
    assert_eq!(silent(zoo_with(TWO, Some(3), &[("/d/myid", "3")])).server_id, sid(3));
    let loaded = zoo_with(TWO, Some(3), &[("/d/myid", "2")]).unwrap();
    assert_eq!(loaded.0.server_id, sid(3));
    assert_says(&only_warning(&loaded).to_string(), "/d/myid:1 it says 2; --id 3 counts");

    let errors: &[Row<'_>] = &[
        (None, &[], "/d/myid one of 1, 2, 3 (or give --id)"),
        (None, &[("/d/myid", "")], "/d/myid:1 invalid server id ``"),
        (None, &[("/d/myid", "two")], "/d/myid:1 invalid server id `two`"),
        (None, &[("/d/myid", "256")], "/d/myid:1 invalid server id `256`"),
        (None, &[("/d/myid", "0")], "zoo.cfg id is 0, and the file lists only server 1, 2, 3"),
        (None, &[("/d/myid", "7")], "zoo.cfg id is 7, and the file lists only server 1, 2, 3"),
        (Some(7), &[], "zoo.cfg id is 7"),
    ];
    for (id, files, expected) in errors {
        assert_says(&zoo_with(TWO, *id, files).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_server_alone_needs_no_myid() {
    let text = format!("{ONE}server.7=a:2888:3888\n");
    let config = silent(zoo(&text));
    assert_eq!((config.server_id, config.standalone), (sid(7), true));
    assert_eq!((config.peer_bind, config.members.len()), (None, 1));

    let config = silent(zoo_with(ONE, None, &[("/d/myid", "5")]));
    assert_eq!((config.server_id, config.standalone), (sid(5), true));

    let quorum = format!("{text}standaloneEnabled=false\n");
    let config = silent(zoo_with(&quorum, None, &[("/d/myid", "7")]));
    assert!(!config.standalone);
    assert_eq!(config.peer_bind, Some(HostPort::new("a", 2888)));
    assert_eq!(config.members_text(), "server.7=a:2888:3888:participant\n");
    assert_says(&zoo(&quorum).unwrap_err().to_string(), "/d/myid the file is missing");

    let none = format!("{ONE}standaloneEnabled=false\n");
    assert_says(&zoo(&none).unwrap_err().to_string(), "zoo.cfg:3 needs at least one server line");
}

#[test]
fn the_client_address_has_one_meaning() {
    let read = |line: &str, rest: &str| {
        let text = format!("dataDir=/d\n{rest}\nserver.1={line}\nserver.2=b:1:2\nserver.3=c:1:2\n");
        zoo_with(&text, Some(1), &[])
    };
    let address = |line: &str, rest: &str| silent(read(line, rest)).client_bind.to_string();
    assert_eq!(address("a:1:2;2181", ""), "0.0.0.0:2181");
    assert_eq!(address("a:1:2;a:2181", ""), "a:2181");
    assert_eq!(address("a:1:2;a:2181", "clientPort=2181"), "a:2181");
    assert_eq!(address("a:1:2", "clientPort=2181"), "0.0.0.0:2181");
    assert_eq!(address("a:1:2", "clientPort=2181\nclientPortAddress=::1"), "[::1]:2181");
    let scoped = "clientPort=2181\nclientPortAddress=fe80::1%eth0";
    assert_eq!(address("a:1:2", scoped), "[fe80::1%eth0]:2181");
    assert_eq!(address("a:1:2;b:5", "clientPort=5\nclientPortAddress=b"), "b:5");
    let errors = [
        ("a:1:2;2182", "clientPort=2181", "zoo.cfg:2 0.0.0.0:2181 here, 0.0.0.0:2182 in"),
        ("a:1:2;5", "clientPort=5\nclientPortAddress=b", "zoo.cfg:2 b:5 here, 0.0.0.0:5 in"),
        ("a:1:2", "", "zoo.cfg clientPort is not set"),
        ("a:1:2", "clientPortAddress=a", "zoo.cfg:2 clientPort is not"),
        ("a:1:2", "clientPort=5\nclientPortAddress=a:5", "zoo.cfg:3 invalid host name"),
        ("a:1:2", "clientPort=x", "zoo.cfg:2 invalid port `x`"),
        ("a:1:2", "clientPort=1", "zoo.cfg:3 cannot both use port 1"),
    ];
    for (line, rest, expected) in errors {
        assert_says(&read(line, rest).unwrap_err().to_string(), expected);
    }
}

/// `clientPort is not set`, said a server without server lines, whose file had a port for TLS.
#[test]
fn a_server_with_a_port_for_tls_alone_serves_there() {
    let base = "dataDir=/d\nssl.keyStore.location=/k.pem\nssl.trustStore.location=/t.pem\n\
        secureClientPort=2281\nsecureClientPortAddress=127.0.0.1\n";
    let three = "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n";
    for lines in ["", "server.1=a:1:2\n", three] {
        let config = silent(zoo_with(&format!("{base}{lines}"), Some(1), &[]));
        assert_eq!(config.client_bind, HostPort::new("127.0.0.1", 2281), "{lines}");
        assert!(config.client_is_secure && config.secure_client_bind.is_none(), "{lines}");
        let config = silent(zoo_with(&format!("{base}{lines}clientPort=2181\n"), Some(1), &[]));
        assert_eq!(config.client_bind, HostPort::new("0.0.0.0", 2181), "{lines}");
        assert_eq!(config.secure_client_bind, Some(HostPort::new("127.0.0.1", 2281)), "{lines}");
        assert!(!config.client_is_secure, "{lines}");
    }
}

#[test]
fn the_quorum_port_listens_on_the_server_s_own_host_or_on_all() {
    let text = format!("{TWO}quorumListenOnAllIPs=true\n");
    let config = silent(zoo_with(&text, Some(2), &[]));
    assert_eq!(config.peer_bind, Some(HostPort::new("0.0.0.0", 2888)));
    let config = silent(zoo_with(TWO, Some(2), &[]));
    assert_eq!(config.peer_bind, Some(HostPort::new("b", 2888)));
}

#[test]
fn the_server_list_has_the_last_word_on_the_role() {
    let text = format!("{TWO}server.4=d:1:2:observer\npeerType=");
    let agrees = silent(zoo_with(&format!("{text}Observer"), Some(4), &[]));
    assert_eq!(agrees.role(), MemberRole::Observer);
    let loaded = zoo_with(&format!("{text}observer"), Some(1), &[]).unwrap();
    assert_says(&only_warning(&loaded).to_string(), "zoo.cfg:9 the server list says participant");
    let error = zoo(&format!("{ONE}peerType=observer")).unwrap_err();
    assert_says(&error.to_string(), "zoo.cfg:3 cannot be an observer");
    let error = zoo(&format!("{ONE}peerType=x")).unwrap_err();
    assert_says(&error.to_string(), "zoo.cfg:3 invalid role `x`");
}

#[test]
fn contradictions_and_slips_are_errors_at_their_line() {
    let table = [
        ("minSessionTimeout=100\nmaxSessionTimeout=50", "zoo.cfg:3 100 ms, is longer than the"),
        ("maxSessionTimeout=50", "zoo.cfg:3 6000 ms, is longer than the"),
        ("tickTime=0", "zoo.cfg:3 tickTime = 0: expected 1 to 600000"),
        ("tickTime=two", "zoo.cfg:3 tickTime = two: expected a whole number"),
        ("ticktime=2000", "zoo.cfg:3 unknown key `ticktime`; did you mean `tickTime`?"),
        ("zookeeper.snapCont=5", "zoo.cfg:3 unknown key `zookeeper.snapCont`; did you mean"),
        ("fourLetters=all", "zoo.cfg:3 unknown key `fourLetters`"),
        ("ssl.keyStore.lcation=x", "zoo.cfg:3 unknown key"),
        ("version=5", "zoo.cfg:3 unknown key `version`"),
        ("4lw.commands.whitelist=ruok, nope", "zoo.cfg:3 expected a list of four-letter words"),
        ("skipACL=true", "zoo.cfg:3 skipACL = true: expected yes or no"),
        ("electionAlg=0", "zoo.cfg:3 expected 3"),
        ("reconfigEnabled=yes", "zoo.cfg:3 expected true or false"),
        ("syncEnabled=maybe", "zoo.cfg:3 expected true or false"),
        ("DigestAuthenticationProvider.digestAlg=MD5", "zoo.cfg:3 expected SHA1, SHA-256,"),
        ("DigestAuthenticationProvider.superDigest=super", "zoo.cfg:3 expected \"user:hash\""),
        ("snapSizeLimitInKb=99999999999999999999", "zoo.cfg:3 expected 0 to"),
        ("secureClientPort=2281", "zoo.cfg:3 secureClientPort: needs ssl.keyStore.location"),
        ("dataDir=", "zoo.cfg:3 expected a directory"),
    ];
    for (line, expected) in table {
        let error = zoo(&format!("{ONE}{line}\n")).unwrap_err();
        assert_says(&error.to_string(), expected);
    }
    assert_says(&zoo("clientPort=1").unwrap_err().to_string(), "zoo.cfg dataDir is not set");
    assert_says(&zoo("dataDir=/d").unwrap_err().to_string(), "zoo.cfg clientPort is not set");
}

#[test]
fn the_last_of_two_lines_counts_and_the_first_is_named() {
    let loaded = zoo(&format!("{ONE}tickTime=1000\ntickTime=500\n")).unwrap();
    assert_eq!(loaded.0.ensemble.tick_time_ms, 500);
    let warning = only_warning(&loaded);
    assert_says(&warning.to_string(), "zoo.cfg:4 tickTime: it is also in line 3; this one counts");
}

#[test]
fn low_numbers_mean_what_they_mean_in_zookeeper() {
    let read = |line: &str| zoo(&format!("{ONE}{line}\n")).unwrap();
    assert_eq!(read("maxClientCnxns=-1").0.limits.connections_per_address_max, 0);
    assert_eq!(read("clientPortListenBacklog=-1").0.limits.listen_backlog, 1024);
    assert_eq!(read("minSessionTimeout=-1").0.session.timeout_ms_min, 6000);
    assert_eq!(read("snapSizeLimitInKb=-1").0.snapshot.log_bytes, 0);
    let loaded = read("autopurge.snapRetainCount=1");
    assert_eq!(loaded.0.snapshot.retain, 3);
    assert_says(&only_warning(&loaded).to_string(), "zoo.cfg:3 1 is too low: 3 is used");
}

#[test]
fn a_large_frame_makes_room_for_itself() {
    let config = silent(zoo(&format!("{ONE}jute.maxbuffer=0x10000000\n")));
    assert_eq!(config.limits.frame_bytes_max, 256 << 20);
    // Three times as much, where no byte of a path is UTF-8, and the identities.
    assert!(config.limits.peer_frame_bytes_max >= (768 << 20) + (64 << 10));
    assert_eq!(config.limits.request_bytes_max, 256 << 20);
    assert!(config.limits.outbox_bytes_max > 256 << 20);
}

/// Apache `ZooKeeper` starts with them, so a server that takes its file over must do so, too.
#[test]
fn sizes_beyond_what_is_possible_here_are_brought_into_range_with_a_warning() {
    let check = |line: &str, warning: &str| {
        let loaded = zoo(&format!("{ONE}{line}\n")).unwrap();
        assert_says(&only_warning(&loaded).to_string(), &format!("zoo.cfg:3 {warning}"));
        loaded.0
    };
    let config =
        check("jute.maxbuffer=0x10000001", "268435457 is too high here: 268435456 is used");
    assert_eq!(config.limits.frame_bytes_max, 256 << 20);
    let config = check("jute.maxbuffer=1", "1 is too low here: 1024 is used");
    assert_eq!(config.limits.frame_bytes_max, 1024);
    let config = check("preAllocSize=0", "0 is too low here: 64 is used");
    assert_eq!(config.log.segment_bytes, 64 << 10);
    let config = check("clientPortListenBacklog=70000", "70000 is too high here: 65535 is used");
    assert_eq!(config.limits.listen_backlog, 65_535);
    let config = check("zookeeper.maxBatchSize=2000000", "is too high here: 1000000 is used");
    assert_eq!(config.log.entry_commands_max, 1_000_000);
}

#[test]
fn srvr_is_always_answered_and_isro_with_a_read_only_mode() {
    let words = |line: &str| zoo(&format!("{ONE}{line}\n")).unwrap().0.four_letter.words;
    assert!(words("").allow("srvr") && !words("").allow("ruok"));
    let some = words("4lw.commands.whitelist=ruok, mntr");
    assert!(some.allow("ruok") && some.allow("srvr") && !some.allow("stat"));
    assert_eq!(words("4lw.commands.whitelist=ruok, *"), Words::All);
    assert!(words("readonlymode.enabled=true").allow("isro"));
    assert!(!words("readonlymode.enabled=false").allow("isro"));
}

#[test]
fn a_container_image_s_file_without_client_port_is_read() {
    let text = "dataDir=/data\ndataLogDir=/datalog\ntickTime=2000\ninitLimit=5\nsyncLimit=2\n\
        autopurge.snapRetainCount=3\nautopurge.purgeInterval=0\nmaxClientCnxns=60\n\
        standaloneEnabled=true\nadmin.enableServer=true\nserver.1=localhost:2888:3888;2181\n";
    let (config, warnings) = zoo(text).unwrap();
    let expected = [
        "zoo.cfg:7 autopurge.purgeInterval: not applicable",
        "zoo.cfg:10 admin.enableServer: without admin.serverAddress, HTTP is served on 127.0.0.1:8080",
    ];
    assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
    for (warning, expected) in warnings.iter().zip(expected) {
        assert_says(&warning.to_string(), expected);
    }
    assert!(config.standalone);
    assert_eq!(config.client_bind, HostPort::new("0.0.0.0", 2181));
    assert_eq!(config.data_log_dir, PathBuf::from("/datalog"));
}

/// Apache opens port 8080 on all addresses if nothing is said.
#[test]
fn http_is_served_only_where_the_file_says_so() {
    let base = "dataDir=/d\nclientPort=2181\n";
    let prometheus = "metricsProvider.className=\
        org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider\n";
    let read = |lines: &str| {
        let (config, warnings) = zoo(&format!("{base}{lines}")).unwrap();
        let shown = |bind: Option<HostPort>| bind.map(|bind| bind.to_string()).unwrap_or_default();
        (shown(config.http_bind), shown(config.metrics_bind), warnings.len())
    };
    let expect = |http: &str, metrics: &str, warnings| (http.into(), metrics.into(), warnings);
    assert_eq!(read(""), expect("", "", 0));
    assert_eq!(read("admin.enableServer=false\nadmin.serverPort=1\n"), expect("", "", 0));
    assert_eq!(read("admin.serverPort=81\n"), expect("127.0.0.1:81", "", 1));
    assert_eq!(read(prometheus), expect("", "127.0.0.1:7000", 1));
    let both = "admin.serverAddress=::\nadmin.serverPort=7000\nmetricsProvider.httpHost=::\n";
    // The warning names what the file has.
    let loaded = zoo(&format!("{base}admin.serverPort=81\n")).unwrap();
    assert_says(&only_warning(&loaded).to_string(), "zoo.cfg:3 admin.serverPort: without admin.");
    // One port is enough for both.
    assert_eq!(read(&format!("{both}{prometheus}")), expect("[::]:7000", "", 0));
    for (line, part) in [
        ("admin.serverPort=2181", "clients and HTTP cannot both use port 2181"),
        (
            "secureClientPort=81\nadmin.serverPort=81\nssl.keyStore.location=/k.pem\n\
             ssl.trustStore.location=/t.pem",
            "clients with TLS and HTTP cannot both use port 81",
        ),
        ("admin.serverPort=x", "zoo.cfg:3: admin.serverPort"),
        ("admin.commandURL=/metrics", "zoo.cfg:3: admin.commandURL"),
        ("admin.commandURL=/a/../b", "zoo.cfg:3: admin.commandURL"),
        ("admin.idleTimeout=x", "zoo.cfg:3: admin.idleTimeout"),
    ] {
        let error = zoo(&format!("{base}{line}\n")).unwrap_err().to_string();
        assert!(error.contains(part), "{line}: {error}");
    }
}
