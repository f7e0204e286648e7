//! Ensembles on one machine, and the text they are handed to their processes in.

use super::super::toml_file::read_all;
use super::super::{LoopbackPorts, MemberRole, ServerConfig, to_cluster_toml};
use super::{silent, source, toml};

fn ports(n: u16) -> Vec<LoopbackPorts> {
    (0..n).map(|i| LoopbackPorts { client: 2181 + i, peer: 2888 + i }).collect()
}

fn ensemble(n: u16) -> Vec<ServerConfig> {
    ServerConfig::loopback_ensemble(&ports(n), "/d".as_ref()).unwrap()
}

#[test]
fn an_ensemble_survives_the_way_through_its_file() {
    for n in [1, 3, 5] {
        let configs = ensemble(n);
        let text = to_cluster_toml(&configs);
        for config in &configs {
            assert_eq!(&silent(toml(&text, Some(config.server_id.0))), config);
        }
        assert_eq!(read_all(&source("cluster.toml", &text)).unwrap(), (configs, Vec::new()));
    }
}

#[test]
fn settings_survive_the_way_through_a_file() {
    let mut configs = ensemble(3);
    for config in &mut configs {
        config.data_log_dir = "/log \"quoted\" \\ \u{7f}ä\n".into();
        config.ensemble.cluster_id = Some(77);
        config.ensemble.tick_time_ms = 1500;
        config.limits.frame_bytes_max = 5000;
        config.auth.super_digest = Some("super:xQJmxLMiHGwaqBvst5y6rkB6HQs=".to_owned());
        config.four_letter.words = super::super::Words::All;
        let observer = config.members.values_mut().last().unwrap();
        observer.role = MemberRole::Observer;
        observer.election_port = 5;
    }
    let text = to_cluster_toml(&configs);
    // Two voters are left, which is worth a warning and nothing else.
    let (read, warnings) = read_all(&source("cluster.toml", &text)).unwrap();
    assert_eq!(read, configs);
    assert_eq!(warnings.len(), 1);
}

#[test]
fn members_know_each_other() {
    let configs = ensemble(3);
    let second = &configs[1];
    assert_eq!(second.server_id.0, 2);
    assert_eq!(second.data_dir.to_str(), Some("/d/2"));
    assert_eq!(
        second.peer_bind.as_ref().map(ToString::to_string).as_deref(),
        Some("127.0.0.1:2889")
    );
    assert_eq!(
        second.members_text(),
        "server.1=127.0.0.1:2888:3888:participant;127.0.0.1:2181\n\
         server.2=127.0.0.1:2889:3889:participant;127.0.0.1:2182\n\
         server.3=127.0.0.1:2890:3890:participant;127.0.0.1:2183\n"
    );
    assert!(ensemble(1)[0].standalone);
}

#[test]
fn impossible_ensembles_are_refused() {
    let why = |ports: &[LoopbackPorts]| {
        ServerConfig::loopback_ensemble(ports, "/d".as_ref()).unwrap_err().why
    };
    assert!(why(&[]).contains("at least one"));
    assert!(why(&ports(255)).contains("at most 254"));
    assert!(why(&[LoopbackPorts { client: 0, peer: 1 }]).contains("no port"));
    let twice = [LoopbackPorts { client: 1, peer: 2 }, LoopbackPorts { client: 2, peer: 3 }];
    assert!(why(&twice).contains("servers 1 and 2 both have port 2"));
}

#[test]
fn a_derived_timeout_is_written_out_once_the_tick_is_another() {
    // A minimum of 6000 ms is the default's value, but with another tick it is not the default.
    let mut config = ensemble(1).remove(0);
    config.ensemble.tick_time_ms = 1000;
    let text = to_cluster_toml(std::slice::from_ref(&config));
    assert_eq!(silent(toml(&text, None)), config);
}
