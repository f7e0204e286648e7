//! The same seeded operations on Apache `ZooKeeper` and on zoolet (issue 2, §7.1).
//!
//! `ZOOLET_ORACLE_SEED` and `ZOOLET_ORACLE_OPERATIONS` replay a run or make it longer; `make oracle`
//! runs a million.

#![allow(clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use std::net::SocketAddr;

use zoolet_tests::apache::{Apache, ApacheError};
use zoolet_tests::oracle;
use zoolet_tests::tools::{announce, require_foreign};
use zoolet_tests::zoolet::Zoolet;

/// The operations of a run in CI.
const OPERATIONS: u64 = 20_000;

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

/// A reference on which nothing happens by itself.
fn reference() -> Result<Apache, ApacheError> {
    Apache::builder()
        .servers(1)
        .property("extendedTypesEnabled", "true")
        .property("enforceQuota", "true")
        .property("znode.container.checkIntervalMs", "100000000")
        .property("tickTime", "2000")
        .start()
}

fn compare(left: SocketAddr, right: SocketAddr, operations: u64) {
    let seed = setting("ZOOLET_ORACLE_SEED", 1);
    match oracle::run(left, right, seed, operations) {
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
    let (left, right) = (reference().expect("Apache starts"), reference().expect("Apache starts"));
    let address = |server: &Apache| server.client_address(0).expect("it has a client port");
    compare(address(&left), address(&right), setting("ZOOLET_ORACLE_OPERATIONS", OPERATIONS / 10));
}

#[test]
fn zoolet_agrees_with_apache() {
    if !require_foreign("oracle", &["java", "mvn"]).expect("the tools can be looked for") {
        return;
    }
    let left = reference().expect("Apache starts");
    let right = Zoolet::builder()
        .servers(1)
        .property("extendedTypesEnabled", "true")
        .property("enforceQuota", "true")
        .property("znode.container.checkIntervalMs", "100000000")
        .property("tickTime", "2000")
        .start()
        .expect("zoolet starts");
    let left = left.client_address(0).expect("it has a client port");
    let right = right.client_address(0).expect("it has a client port");
    compare(left, right, setting("ZOOLET_ORACLE_OPERATIONS", OPERATIONS));
}
