//! The client's recipes, on three servers of zoolet and of Apache ZooKeeper: contention, lost
//! replies at every call, cancellation at every await, holders whose session ends.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints which scene it was"
)]

mod barriers;
mod contended;
mod counter;
mod dropped;
mod harness;
mod leaders;
mod multi_lock;
mod mutex;
mod others;
mod queues;
mod read_write_lock;
mod semaphores;
mod session_ends;
mod simple_lock;
mod watches;

use zoolet_tests::builder::ServersBuilder;
use zoolet_tests::scenes::{self, Scene};
use zoolet_tests::servers::Servers;
use zoolet_tests::{suites, tools};

/// The parent of the scenes' znodes.
const ROOT: &str = "/recipes";

/// How often the servers look for containers that are not used: often, so that some go between the
/// look at a parent and the create below it.
const REAPER: (&str, &str) = ("znode.container.checkIntervalMs", "500");

/// Runs a suite on three servers of zoolet.
fn on_zoolet(suite: impl AsyncFnOnce(Scene)) {
    run(Servers::zoolet().property(REAPER.0, REAPER.1), suite);
}

/// Runs a suite on three servers of Apache ZooKeeper, in the tier `apache`.
fn on_apache(name: &str, suite: impl AsyncFnOnce(Scene)) {
    if tools::is_due_on_apache(name, &[]).unwrap() {
        let (key, value) = REAPER;
        run(Servers::apache().jvm_option(&format!("-D{key}={value}")), suite);
    }
}

fn run(servers: ServersBuilder, suite: impl AsyncFnOnce(Scene)) {
    scenes::run(servers.servers(3), ROOT, suite).unwrap();
}

suites! {
    mutexes_on_zoolet / mutexes_on_apache:
        mutex::contenders_hold_it_one_at_a_time,
        mutex::the_znodes_are_curator_s,
        mutex::a_release_wakes_the_next_in_line,
        mutex::a_try_does_not_wait,
        mutex::a_timeout_leaves_the_queue,
        mutex::a_guard_is_entered_again,
        mutex::a_session_that_ends_ends_the_wait,
        mutex::a_lost_lock_writes_nothing,
        mutex::a_dead_session_s_znode_is_not_taken_for_one_s_own,
        mutex::a_holder_is_asked_for_its_lock,
        mutex::a_bilingual_lock_waits_in_both_queues,
        mutex::a_lock_at_the_root_of_a_chroot_that_is_missing_is_an_error,
        mutex::a_dead_holder_s_lock_goes_on,
        mutex::a_resumed_session_adopts_its_lock,
        mutex::a_holder_who_is_cut_off_knows_before_the_next_one_holds;

    lost_replies_of_mutexes_on_zoolet / lost_replies_of_mutexes_on_apache:
        mutex::a_cancelled_acquire_leaves_nothing_behind,
        mutex::a_lost_reply_does_no_harm,
        mutex::a_cancelled_acquire_whose_reply_is_lost_leaves_nothing_behind;

    read_write_locks_on_zoolet / read_write_locks_on_apache:
        read_write_lock::readers_share_and_writers_do_not,
        read_write_lock::a_reader_waits_for_the_writer_in_front_of_it,
        read_write_lock::a_writer_goes_on_as_a_reader,
        read_write_lock::a_cancelled_wait_leaves_nothing_behind,
        read_write_lock::a_lost_reply_does_no_harm,
        read_write_lock::a_dead_writer_s_lock_goes_on;

    other_locks_on_zoolet / other_locks_on_apache:
        semaphores::a_semaphore_has_its_permits_and_no_more,
        semaphores::a_semaphore_s_znodes_are_curator_s,
        semaphores::a_shared_count_changes_the_permits,
        semaphores::a_semaphore_mutex_has_one_holder,
        semaphores::a_cancelled_permit_leaves_nothing_behind,
        semaphores::a_permit_survives_lost_replies,
        semaphores::a_try_outlasts_its_own_reconnects,
        semaphores::a_dead_holder_s_permit_is_free,
        multi_lock::a_multi_lock_holds_all_or_none,
        multi_lock::a_cancelled_multi_lock_leaves_nothing_behind,
        multi_lock::several_locks_guard_one_write_and_go_in_reverse,
        simple_lock::a_simple_lock_is_one_znode,
        simple_lock::a_simple_lock_survives_cancels_and_lost_replies,
        simple_lock::a_simple_lock_released_again_spares_the_next_holder,
        simple_lock::a_cancelled_release_of_a_simple_lock_spares_the_next_holder,
        simple_lock::a_simple_lock_that_another_has_is_lost,
        mutex::a_lock_without_read_permission_is_watched,
        dropped::a_cancelled_release_leaves_nothing_behind,
        semaphores::many_permits_are_taken_by_one_at_a_time,
        semaphores::many_permits_survive_cancels_and_lost_replies,
        semaphores::a_try_does_not_wait_for_a_paused_holder;

    counters_on_zoolet / counters_on_apache:
        counter::many_add_to_one_number,
        counter::a_lost_reply_is_not_counted_twice,
        counter::a_set_whose_reply_is_lost_undoes_nothing,
        counter::a_shared_count_is_watched_and_set,
        counter::a_cancelled_write_happens_once_or_not_at_all;

    leaders_on_zoolet / leaders_on_apache:
        leaders::one_latch_leads_and_the_next_one_follows,
        leaders::a_latch_whose_session_ends_leads_no_more,
        leaders::a_latch_steps_down_when_it_is_cut_off,
        leaders::latches_survive_lost_replies,
        leaders::selectors_take_turns,
        leaders::a_selector_drops_the_work_of_a_lost_term,
        leaders::a_latch_that_is_closed_early_leaves_nothing_behind,
        leaders::leadership_is_tried_and_waited_for_in_time;

    barriers_and_queues_on_zoolet / barriers_and_queues_on_apache:
        barriers::a_barrier_holds_all_up,
        barriers::members_enter_and_leave_together,
        barriers::barriers_survive_cancels_and_lost_replies,
        queues::an_item_is_taken_once_and_in_order,
        barriers::a_barrier_that_is_set_again_stays,
        barriers::a_double_barrier_is_used_again,
        barriers::a_client_that_saw_all_the_others_has_entered,
        barriers::a_member_leaves_in_time_or_alone,
        barriers::barriers_are_tried,
        barriers::a_try_whose_partner_leaves_leaves_too,
        barriers::more_members_come_together_than_fit_into_a_request,
        queues::a_take_that_is_cancelled_loses_no_item,
        queues::an_empty_queue_is_not_reaped,
        queues::takes_that_are_given_up_pile_nothing_up,
        queues::znodes_that_are_not_items_are_passed_over;

    caches_and_groups_on_zoolet / caches_and_groups_on_apache:
        others::a_cache_follows_the_tree,
        others::a_cache_survives_lost_replies,
        others::a_cache_leaves_out_what_it_may_not_read,
        others::a_persistent_node_comes_back,
        others::a_persistent_node_survives_lost_replies,
        others::persistent_nodes_of_one_name_do_not_fight,
        others::members_know_each_other;

    contended_locks_on_zoolet / contended_locks_on_apache:
        contended::a_read_write_lock_that_is_waited_for_survives_lost_replies,
        contended::a_multi_lock_that_is_waited_for_survives_lost_replies,
        contended::a_simple_lock_that_is_waited_for_survives_lost_replies,
        contended::a_cancelled_wait_for_a_multi_lock_leaves_nothing_behind,
        contended::a_cancelled_wait_for_a_simple_lock_leaves_nothing_behind,
        contended::a_wait_that_is_dropped_over_its_grant_leaves_nothing_behind;

    dropped_recipes_on_zoolet / dropped_recipes_on_apache:
        dropped::a_cancelled_put_has_put_once_or_not_at_all,
        dropped::a_put_that_is_dropped_over_a_loss_has_put_once_or_not_at_all,
        dropped::a_cache_that_is_dropped_early_leaves_nothing_behind,
        dropped::a_persistent_node_that_is_dropped_early_leaves_nothing_behind,
        dropped::a_member_that_is_dropped_early_leaves_nothing_behind,
        dropped::a_latch_that_is_dropped_early_leaves_nothing_behind;

    sessions_and_watches_on_zoolet / sessions_and_watches_on_apache:
        session_ends::every_wait_ends_with_its_session,
        watches::a_release_wakes_one_waiter,
        watches::a_dropped_wait_leaves_no_watch,
        watches::a_watcher_that_is_dropped_does_not_take_another_s_watch_away;
}
