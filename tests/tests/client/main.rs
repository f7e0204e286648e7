//! The Rust client, on three servers of zoolet and of Apache ZooKeeper: every operation, watches,
//! and what becomes of a session and its calls when connections break.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, and tells which scene it was"
)]

mod harness;
mod operations;

use zoolet_tests::apache::Apache;
use zoolet_tests::servers::Servers;
use zoolet_tests::tools;
use zoolet_tests::zoolet::Zoolet;

use harness::Scene;

/// `super:test`.
const SUPER_DIGEST: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

/// What the suites want of the servers, beside their defaults.
const PROPERTIES: [(&str, &str); 3] =
    [("extendedTypesEnabled", "true"), ("reconfigEnabled", "true"), ("enforceQuota", "true")];

/// Runs a suite on servers of zoolet.
fn on_zoolet(suite: impl AsyncFnOnce(Scene)) {
    let mut builder = Zoolet::builder().servers(3).super_digest(SUPER_DIGEST);
    for (key, value) in PROPERTIES {
        builder = builder.property(key, value);
    }
    run(&builder.start().unwrap(), suite);
}

/// Runs a suite on servers of Apache ZooKeeper, where there is a Java.
fn on_apache(name: &str, suite: impl AsyncFnOnce(Scene)) {
    if !tools::require_foreign(name, &["java", "mvn"]).unwrap() {
        return;
    }
    let mut builder = Apache::builder().servers(3).super_digest(SUPER_DIGEST);
    for (key, value) in PROPERTIES {
        builder = builder.property(key, value);
    }
    run(&builder.start().unwrap(), suite);
}

fn run(servers: &Servers, suite: impl AsyncFnOnce(Scene)) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(suite(Scene::new(servers.connect_string())));
}

/// Defines a suite of scenes: a test for each kind of servers.
macro_rules! suites {
    ($($suite:ident / $apache:ident: $($scene:path),+;)+) => {$(
        #[test]
        fn $suite() {
            on_zoolet(async |scene| {
                $(scene.play(stringify!($scene), $scene).await;)+
            });
        }

        #[test]
        fn $apache() {
            on_apache(stringify!($apache), async |scene| {
                $(scene.play(stringify!($scene), $scene).await;)+
            });
        }
    )+};
}

suites! {
    operations_on_zoolet / operations_on_apache:
        operations::znodes_are_created_read_written_and_deleted,
        operations::every_mode_of_create_makes_its_znode,
        operations::identities_and_acls,
        operations::reads_come_several_at_once,
        operations::a_transaction_happens_or_does_not,
        operations::a_session_lists_its_ephemerals_and_counts_descendants,
        operations::watches_are_checked_and_removed,
        operations::a_quota_is_set_used_and_taken_away,
        operations::the_ensemble_is_read_and_changed;
}
