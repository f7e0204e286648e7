//! The harness around Apache ZooKeeper: it starts, loses a server, gets it back.

use std::process::Command;

use zoolet_server::embed::config::{self, Words};
use zoolet_tests::servers::{LEADER_MAX, Servers};
use zoolet_tests::{foreign, four_letter, tools};

#[test]
fn a_standalone_apache_serves_and_takes_properties() {
    if !tools::require_foreign("apache_harness", &["java", "mvn"]).unwrap() {
        return;
    }
    let apache = Servers::apache().property("maxSessionTimeout", "7654").start().unwrap();
    let server = apache.client_address(0).unwrap();
    assert_eq!(four_letter::mode(server).as_deref(), Some("standalone"));
    let conf = four_letter::ask(server, "conf").unwrap();
    assert!(conf.contains("maxSessionTimeout=7654\n"), "{conf}");
    assert!(four_letter::ask(server, "srvr").unwrap().contains("version: 3.9."));
}

#[test]
fn an_ensemble_of_apache_loses_its_leader_and_gets_it_back() {
    if !tools::require_foreign("apache_harness", &["java", "mvn"]).unwrap() {
        return;
    }
    let mut apache = Servers::apache().servers(3).start().unwrap();
    zoolet_reads_the_same_configuration(&apache);
    let leader = apache.wait_for_leader(LEADER_MAX).unwrap();
    let pid = apache.pid(leader).unwrap();
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "echo 'LOSE SERVER'; read -r lost; echo 'BRING BACK'; read -r back; echo 'OK 1 checks'",
    ]);
    let report = foreign::run_program(&mut command, &mut apache).unwrap();
    assert_eq!(report.losses, 1);
    assert_ne!(apache.pid(leader).unwrap(), pid, "the leader was started again");
    for index in 0..3 {
        // One that notices the election that the return has caused closes connections until it
        // is over.
        apache.wait_until_serving(index).unwrap();
    }
}

/// The suites start zoolet from the very file that Apache ZooKeeper serves.
fn zoolet_reads_the_same_configuration(apache: &Servers) {
    for (index, port) in apache.client_ports().into_iter().enumerate() {
        let file = apache.server_dir(index).join("zoo.cfg");
        let (config, warnings) = config::load(&file, None).unwrap();
        assert_eq!((usize::from(config.server_id.0), config.members.len()), (index + 1, 3));
        assert_eq!((config.client_bind.port, config.ensemble.tick_time_ms), (port, 500));
        assert!(config.znodes.ttl_enabled && config.four_letter.words == Words::All);
        let shown: Vec<String> = warnings.iter().map(ToString::to_string).collect();
        assert!(shown.is_empty(), "nothing of it is left out: {shown:?}");
    }
}
