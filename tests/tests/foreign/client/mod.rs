//! The Rust client, on three servers of zoolet and of Apache ZooKeeper: every operation, watches,
//! and what becomes of a session and its calls when connections break.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints which scene it was"
)]

mod calls;
mod harness;
mod links;
mod operations;
mod sessions;
mod watches;

use zoolet_tests::builder::ServersBuilder;
use zoolet_tests::scenes::{self, Scene};
use zoolet_tests::servers::{SUPER_DIGEST, Servers};
use zoolet_tests::{suites, tools};

/// The parent of the scenes' znodes.
const ROOT: &str = "/client";

/// What the suites want of the servers, beside their defaults.
const PROPERTIES: [(&str, &str); 4] = [
    ("extendedTypesEnabled", "true"),
    ("reconfigEnabled", "true"),
    ("enforceQuota", "true"),
    ("readonlymode.enabled", "true"),
];

/// Runs a suite on three servers of zoolet.
fn on_zoolet(suite: impl AsyncFnOnce(Scene)) {
    run(Servers::zoolet(), &[], suite);
}

/// Runs a suite on three servers of Apache ZooKeeper, in the tier `apache`.
fn on_apache(name: &str, suite: impl AsyncFnOnce(Scene)) {
    on_apache_with(name, &[], suite);
}

/// The same with more properties.
fn on_apache_with(name: &str, more: &[(&str, &str)], suite: impl AsyncFnOnce(Scene)) {
    if tools::is_due_on_apache(name, &[]).unwrap() {
        run(Servers::apache().jvm_option("-Dreadonlymode.enabled=true"), more, suite);
    }
}

fn run(mut servers: ServersBuilder, more: &[(&str, &str)], suite: impl AsyncFnOnce(Scene)) {
    for (key, value) in PROPERTIES.iter().chain(more) {
        servers = servers.property(key, value);
    }
    scenes::run(servers.servers(3).super_digest(SUPER_DIGEST), ROOT, suite).unwrap();
}

#[test]
fn read_only_mode_on_zoolet() {
    on_zoolet(async |scene| {
        scene.play("read-only", sessions::a_client_reads_without_the_ensemble).await;
    });
}

#[test]
fn read_only_mode_on_apache() {
    // It has sessions for its read-only mode only where it has local ones.
    let local = [("localSessionsEnabled", "true")];
    on_apache_with("read_only_mode_on_apache", &local, async |scene| {
        scene.play("read-only", sessions::a_client_reads_without_the_ensemble).await;
    });
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

    calls_and_watches_on_zoolet / calls_and_watches_on_apache:
        calls::calls_keep_their_order_over_handles,
        calls::a_lost_reply_and_a_lost_request_may_have_happened,
        calls::a_call_that_is_too_big_does_not_end_the_session,
        watches::every_kind_of_watch_reports_what_happened_meanwhile,
        watches::more_watches_than_fit_into_a_frame_outlive_a_connection,
        watches::a_dropped_watcher_is_removed_from_the_server,
        watches::a_chroot_is_the_whole_tree;

    sessions_on_zoolet / sessions_on_apache:
        sessions::a_session_outlives_its_connection,
        sessions::a_session_outlives_its_server,
        sessions::a_session_is_lost_before_the_servers_end_it,
        sessions::a_session_is_left_and_taken_up_again,
        sessions::the_last_handle_closes_the_session,
        links::bulk_replies_on_a_slow_link_keep_the_session,
        links::a_burst_of_writes_on_a_slow_uplink_keeps_the_session;
}
