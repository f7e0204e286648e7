//! The same seeded operations on Apache `ZooKeeper` and on zoolet.
//!
//! `ZOOLET_ORACLE_SEED` and `ZOOLET_ORACLE_OPERATIONS` replay a run or make it longer; `make oracle`
//! runs a million.

#![allow(clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;

use zoolet_tests::oracle::{self, Plan};
use zoolet_tests::servers::{Servers, ServersError};
use zoolet_tests::tools::{self, announce, require_foreign};

/// The operations of a run in CI.
const OPERATIONS: u64 = 20_000;

fn setting(name: &'static str, default: u64) -> u64 {
    tools::number(name, default).expect("a number")
}

/// A reference on which nothing happens by itself.
fn reference(enforce_quota: &str) -> Result<Servers, ServersError> {
    Servers::apache()
        .servers(1)
        .super_digest(oracle::SUPER_DIGEST)
        .property("extendedTypesEnabled", "true")
        .property("enforceQuota", enforce_quota)
        // Apache reads this one from the JVM only.
        .jvm_option("-Dznode.container.checkIntervalMs=100000000")
        .property("tickTime", "2000")
        .start()
}

fn compare(left: SocketAddr, right: SocketAddr, operations: u64, multis: bool) {
    let seed = setting("ZOOLET_ORACLE_SEED", 1);
    match oracle::run(left, right, Plan { seed, operations, multis }) {
        Ok(summary) => {
            announce(&format!(
                "oracle: seed {seed}, {} operations, {} refused, {} events, {} meant differences",
                summary.operations, summary.refused, summary.events, summary.differences
            ));
            assert!(summary.events > operations / 20, "too few events: {summary:?}");
            assert!(summary.refused < operations * 3 / 5, "too many refusals: {summary:?}");
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn apache_agrees_with_itself() {
    if !require_foreign("oracle", &["java", "mvn"]).expect("the tools can be looked for") {
        return;
    }
    let start = || reference("false").expect("Apache starts");
    let (left, right) = (start(), start());
    let address = |server: &Servers| server.client_address(0).expect("it has a client port");
    let operations = setting("ZOOLET_ORACLE_OPERATIONS", OPERATIONS / 10);
    compare(address(&left), address(&right), operations, true);
}

/// zoolet beside Apache.
fn compare_zoolet(enforce_quota: &str, operations: u64, multis: bool) {
    if !require_foreign("oracle", &["java", "mvn"]).expect("the tools can be looked for") {
        return;
    }
    let left = reference(enforce_quota).expect("Apache starts");
    let right = Servers::zoolet()
        .servers(1)
        .super_digest(oracle::SUPER_DIGEST)
        .property("extendedTypesEnabled", "true")
        .property("enforceQuota", enforce_quota)
        .property("znode.container.checkIntervalMs", "100000000")
        .property("tickTime", "2000")
        .start()
        .expect("zoolet starts");
    let left = left.client_address(0).expect("it has a client port");
    let right = right.client_address(0).expect("it has a client port");
    compare(left, right, operations, multis);
}

#[test]
fn zoolet_agrees_with_apache() {
    compare_zoolet("false", setting("ZOOLET_ORACLE_OPERATIONS", OPERATIONS), true);
}

#[test]
fn zoolet_enforces_hard_quotas_as_apache_does() {
    compare_zoolet("true", OPERATIONS / 4, false);
}
