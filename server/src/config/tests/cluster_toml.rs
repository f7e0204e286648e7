//! `cluster.toml`, and the one at the root of the repository.

use std::path::Path;

use super::super::settings::{SECTIONS, all, each_changed};
use super::super::toml_file::read_all;
use super::super::{HostPort, LoopbackPorts, MemberRole, ServerConfig, to_cluster_toml};
use super::{assert_says, only_warning, sid, silent, source, toml};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cluster.toml");
const ONE: &str = "[[server]]\nid = 1\nclient = \"127.0.0.1:2181\"\ndata_dir = \"d\"\n";
const THREE: &str = r#"
[[server]]
id = 1
peer = "a:2888"
client = "a:2181"
data_dir = "/d"
[[server]]
id = 2
peer = "b:2888"
client = "b:2181"
data_dir = "/d"
[[server]]
id = 3
peer = "[::1]:2888"
client = "[::1]:2181"
data_dir = "/d"
data_log_dir = "/log"
role = "observer"
election_port = 77
[[server]]
id = 4
peer = "d:65000"
client = "0.0.0.0:2181"
data_dir = "/d"
"#;

fn root_ensemble() -> Vec<ServerConfig> {
    let ports: Vec<LoopbackPorts> =
        (0..3).map(|i| LoopbackPorts { client: 2181 + i, peer: 2888 + i }).collect();
    let mut configs = ServerConfig::loopback_ensemble(&ports, "data".as_ref()).unwrap();
    for config in &mut configs {
        // An ensemble on the loopback is known by its directory; the file leaves the number out.
        config.ensemble.cluster_id = None;
    }
    configs
}

/// The file is what the writer writes. To bring it up to date:
/// `WRITE_CLUSTER_TOML=1 cargo test -p zoolet-server cluster_toml`.
#[test]
fn the_committed_file_shows_every_setting_at_its_default() {
    let expected = to_cluster_toml(&root_ensemble());
    if std::env::var_os("WRITE_CLUSTER_TOML").is_some() {
        std::fs::write(ROOT, &expected).unwrap();
    }
    let committed = std::fs::read_to_string(ROOT).unwrap();
    assert!(committed == expected, "cluster.toml is not up to date: see the test's comment");
}

#[test]
fn the_defaults_in_the_committed_file_are_those_of_the_code() {
    let committed = std::fs::read_to_string(ROOT).unwrap();
    for (section, _) in SECTIONS {
        assert!(committed.contains(&format!("\n[{section}]\n")), "{section}");
    }
    for setting in all() {
        // A blank after the mark: there is no default.
        let has_default = setting.to_toml(&ServerConfig::default()).is_some();
        let commented = format!("\n#{}{} = ", if has_default { "" } else { " " }, setting.key);
        let (_, behind) = committed.split_once(&format!("\n[{}]\n", setting.section)).unwrap();
        let section = behind.split("\n[").next().unwrap();
        assert_eq!(section.matches(&commented).count(), 1, "{}", setting.name());
    }
    let open: Vec<&str> = committed
        .lines()
        .map(|line| if line.starts_with("# ") { "" } else { line.trim_start_matches('#') })
        .collect();
    let (read, warnings) = read_all(&source("cluster.toml", &open.join("\n"))).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(read, root_ensemble());
}

/// A configuration is shown over HTTP.
#[test]
fn secrets_can_be_left_out() {
    let plain = ServerConfig::default();
    for (name, changed) in each_changed(&plain) {
        let is_secret = name.ends_with("_password") || name == "auth.super_digest";
        let expected = if is_secret { &plain } else { &changed };
        assert_eq!(changed.without_secrets(), *expected, "{name}");
    }
}

#[test]
fn the_committed_file_can_be_loaded_as_it_is() {
    let mut expected = root_ensemble();
    for config in &mut expected {
        for files in [&mut config.data_dir, &mut config.data_log_dir] {
            *files = Path::new(ROOT).parent().unwrap().join(&files);
        }
    }
    let (config, warnings) = super::super::load(ROOT.as_ref(), Some(2)).unwrap();
    assert_eq!(warnings, []);
    assert_eq!(config, expected[1]);
    assert_eq!(super::super::load_ensemble(ROOT.as_ref()).unwrap().0, expected);
}

#[test]
fn every_setting_has_a_section_a_meaning_and_a_default_in_range() {
    for setting in all() {
        assert!(SECTIONS.iter().any(|(section, _)| *section == setting.section));
        assert!(setting.about.ends_with('.'), "{}", setting.name());
        assert!(!setting.expected().is_empty());
        let same = all().filter(|other| other.name() == setting.name());
        assert_eq!(same.count(), 1, "{}", setting.name());
    }
    assert!(all().is_sorted_by_key(|setting| {
        SECTIONS.iter().position(|(section, _)| *section == setting.section)
    }));
}

#[test]
fn an_ensemble_of_several_hosts_is_read() {
    let loaded = toml(THREE, Some(3)).unwrap();
    let (config, warnings) = &loaded;
    assert_eq!(warnings, &[]);
    assert_eq!((config.server_id, config.role()), (sid(3), MemberRole::Observer));
    assert_eq!(config.peer_bind, Some(HostPort::new("::1", 2888)));
    assert_eq!(config.data_log_dir.to_str(), Some("/log"));
    assert_eq!(
        config.members_text(),
        "server.1=a:2888:3888:participant;a:2181\n\
         server.2=b:2888:3888:participant;b:2181\n\
         server.3=[::1]:2888:77:observer;[::1]:2181\n\
         server.4=d:65000:64000:participant;0.0.0.0:2181\n"
    );
    let even = THREE.replace("role = \"observer\"\n", "");
    let loaded = toml(&even, Some(1)).unwrap();
    let warning = only_warning(&loaded).to_string();
    assert_says(&warning, "cluster.toml:2 4 voters survive 1 loss, as 3 would");
}

#[test]
fn a_server_alone_needs_neither_peer_nor_id() {
    let config = silent(toml(ONE, None));
    assert!(config.standalone);
    assert_eq!(config.peer_bind, None);
    let error = toml(ONE, Some(2)).unwrap_err();
    assert_says(&error.to_string(), "cluster.toml id is 2, and the file lists only server 1");
    let error = toml(THREE, None).unwrap_err();
    assert_says(&error.to_string(), "cluster.toml servers 1, 2, 3, 4: --id must say which");
}

#[test]
fn what_is_wrong_is_said_with_its_line_and_what_is_expected() {
    let table = [
        ("[sesion]\n", "cluster.toml:5 unknown key `sesion`; did you mean `session`?"),
        ("[session]\ntimeout_min = 5\n", "cluster.toml:6 unknown key `timeout_min` in [session]"),
        ("[session]\ntimeout_ms_mn = 5\n", "cluster.toml:6 did you mean `timeout_ms_min`?"),
        ("[session]\n\ntimeout_ms_min = 0\n", "cluster.toml:7 expected 1 to 2147483647 ms"),
        ("[session]\ntimeout_ms_min = \"1\"\n", "cluster.toml:6 \"1\": expected 1 to 2147483647"),
        ("[session]\ntimeout_ms_min = 1.5\n", "cluster.toml:6 expected 1 to 2147483647 ms"),
        ("[session]\ntimeout_ms_min = [1]\n", "cluster.toml:6 expected 1 to 2147483647 ms"),
        ("[session]\ntimeout_ms_min = 1\ntimeout_ms_min = 2\n", "cluster.toml:7 duplicate key"),
        ("[session]\ntimeout_ms_min = \n", "cluster.toml:6 "),
        ("[session]\ntimeout_ms_max = 5\n", "cluster.toml:6 is longer than the longest, 5 ms"),
        ("[session.x]\n", "cluster.toml:5 unknown key `x` in [session]"),
        ("[ensemble]\nheartbeat_ms = 500\n", "cluster.toml:6 expected more than heartbeat_ms"),
        ("[ensemble]\nelection_timeout_ms_max = 200\n", "cluster.toml:6 expected more than"),
        ("[limits]\npeer_frame_bytes_max = 1048576\n", "cluster.toml:6 longest log entry fits"),
        (
            "[limits]\nframe_bytes_max = 5000000\npeer_frame_bytes_max = 15000000\n",
            "cluster.toml:7 at least 15069632, so that the longest log entry fits, with frame_bytes_max",
        ),
        ("[limits]\nframe_bytes_max = 268435457\n", "cluster.toml:6 1024 to 268435456 bytes"),
        (
            "[limits]\nframe_bytes_max = 9000000\nrequest_bytes_max = 1048576\n",
            "cluster.toml:7 expected at least frame_bytes_max = 9000000",
        ),
        (
            "[auth]\ndigest_algorithm = \"MD5\"\n",
            "cluster.toml:6 SHA1, SHA-256, SHA-512 or SHA3-224 to SHA3-512",
        ),
        ("[auth]\nacl_skipped = 1\n", "cluster.toml:6 1: expected true or false"),
        ("[four_letter]\nwords = [\"nope\"]\n", "cluster.toml:6 list of four-letter words"),
        ("[four_letter]\nwords = [1]\n", "cluster.toml:6 list of four-letter words"),
        ("[[server]]\n", "cluster.toml:5 [[server]] without id"),
        ("[[server]]\nid = 256\n", "cluster.toml:6 id: expected a server id, 0 to 255"),
        ("[[server]]\nid = 2\n", "cluster.toml:5 without client"),
        ("[[server]]\nid = 2\nport = 3\n", "cluster.toml:7 unknown key `port` in [[server]]"),
        ("[[server]]\nid = 2\nclient = \"a\"\n", "cluster.toml:7 client: expected \"host:port\""),
        ("[[server]]\nid = 2\nclient = \"a:1\"\ndata_dir = \"e\"\n", "cluster.toml:1 has no peer"),
        (
            "[[server]]\nid = 1\nclient = \"a:1\"\ndata_dir = \"e\"\n",
            "cluster.toml:5 server 1 is already in line 1",
        ),
    ];
    for (text, expected) in table {
        let error = toml(&format!("{ONE}{text}"), Some(1)).unwrap_err();
        assert_says(&error.to_string(), expected);
    }
    assert_says(&toml("", None).unwrap_err().to_string(), "cluster.toml at least one [[server]]");
    assert_says(&toml("session = 5", None).unwrap_err().to_string(), "cluster.toml:1 [session]");
    assert_says(&toml("server = 1", None).unwrap_err().to_string(), "cluster.toml:1 [[server]]");
}

#[test]
fn servers_of_one_host_share_neither_directory_nor_address() {
    let same = THREE.replace("\"b:", "\"a:").replace(
        "peer = \"a:2888\"\nclient = \"a:2181\"\ndata_dir = \"/d\"\n[[server]]\nid = 3",
        "peer = \"a:2889\"\nclient = \"a:2182\"\ndata_dir = \"/d\"\n[[server]]\nid = 3",
    );
    let error = toml(&same, Some(1)).unwrap_err();
    assert_says(&error.to_string(), "cluster.toml:7 the same host and data_dir /d");
    let same =
        same.replacen("data_dir = \"/d\"", "data_dir = \"/e\"", 1).replace("a:2182", "a:2181");
    let error = toml(&same, Some(1)).unwrap_err();
    assert_says(&error.to_string(), "cluster.toml:7 the same host and client address a:2181");
    let same = THREE.replace("peer = \"b:2888\"", "peer = \"a:2888\"");
    let same = same.replacen("\"/d\"", "\"/e\"", 1);
    let error = toml(&same, Some(1)).unwrap_err();
    assert_says(&error.to_string(), "cluster.toml:7 servers 1 and 2 have the same address a:2888");
}

#[test]
fn only_a_cluster_toml_describes_several_servers() {
    let error = super::super::load_ensemble("zoo.cfg".as_ref()).unwrap_err();
    assert_says(&error.to_string(), "zoo.cfg a zoo.cfg describes one server");
    let error = super::super::load("/nonexistent/zoo.cfg".as_ref(), None).unwrap_err();
    assert_says(&error.to_string(), "/nonexistent/zoo.cfg the file cannot be read");
    let error = super::super::load("/nonexistent/zoo.cfg".as_ref(), Some(255)).unwrap_err();
    assert!(error.why.contains("cannot be read"));
}

#[test]
fn directories_are_relative_to_the_file() {
    let text = ONE.replace("\"d\"", "\"d\"\ndata_log_dir = \"/log\"");
    for (file, expected) in [("cluster.toml", "d"), ("/etc/zoolet/cluster.toml", "/etc/zoolet/d")] {
        let source = source(file, &text);
        let (config, _) = super::super::toml_file::read_one(&source, None).unwrap();
        assert_eq!(config.data_dir.to_str(), Some(expected));
        assert_eq!(config.data_log_dir.to_str(), Some("/log"));
    }
}
