//! `zooletctl` against real servers, of zoolet and of Apache ZooKeeper: its commands one by one and
//! in its shell, commands under locks, what it shows about locks, and its bench.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints which scene it was"
)]

mod action;
mod commands;
mod configuration;
mod deadlocks;
mod ensemble;
mod harness;
mod hold;
mod interrupts;
mod json;
mod locks;
mod loss;
mod programs;
mod refusals;
mod releases;
mod shell;
mod status;
mod subtree;
mod terminal;
mod torture;
mod watching;

use zoolet_tests::scenes::{self, Scene};
use zoolet_tests::servers::Servers;
use zoolet_tests::{suites, tools};

/// The parent of the scenes' znodes.
const ROOT: &str = "/ctl";

/// Runs a suite on a server of zoolet.
fn on_zoolet(suite: impl AsyncFnOnce(Scene)) {
    scenes::run(Servers::zoolet(), ROOT, suite).unwrap();
}

/// Runs a suite on a server of Apache ZooKeeper, in the tier `apache`.
fn on_apache(name: &str, suite: impl AsyncFnOnce(Scene)) {
    if tools::is_due_on_apache(name, &[]).unwrap() {
        scenes::run(Servers::apache(), ROOT, suite).unwrap();
    }
}

suites! {
    commands_are_carried_out / commands_are_carried_out_on_apache:
        commands::znodes_come_and_go,
        commands::versions_are_heeded,
        commands::the_flags_of_new_shells_and_the_forms_of_old_ones_are_understood,
        commands::every_kind_of_znode_is_created,
        commands::what_is_below_is_listed_and_deleted,
        commands::data_that_is_not_text_survives,
        commands::permissions_are_shown_set_and_needed,
        commands::quotas_are_set_listed_and_taken_away,
        commands::the_ensemble_is_asked,
        commands::a_watch_reports_the_next_change,
        commands::a_recursive_list_watches_what_it_lists,
        commands::failures_have_codes_and_say_what_is_wrong,
        commands::numbers_have_limits,
        commands::names_do_nothing_to_a_terminal,
        commands::a_reader_that_leaves_ends_it_quietly,
        shell::a_script_is_carried_out_line_by_line,
        shell::watches_fire_in_the_shell,
        shell::a_watch_is_forgotten_while_no_server_can_be_reached,
        shell::sessions_are_closed_and_opened,
        shell::bad_lines_do_not_stop_a_script,
        terminal::a_person_has_history_and_completion,
        terminal::the_prompt_follows_the_session,
        terminal::a_person_sees_what_takes_long;
    options_come_from_files_and_results_are_json / options_come_from_files_and_results_are_json_on_apache:
        configuration::ensembles_have_names_and_identities,
        configuration::passwords_are_kept_from_other_users,
        json::every_command_prints_the_same_kind_of_json,
        json::mistakes_are_json_with_the_code_of_the_manual;
    subtrees_are_found_copied_and_moved / subtrees_are_found_copied_and_moved_on_apache:
        subtree::znodes_are_found,
        subtree::subtrees_are_copied,
        subtree::large_subtrees_are_copied_and_moved,
        subtree::subtrees_are_moved,
        subtree::differences_are_shown,
        subtree::what_may_not_be_read_is_named,
        subtree::subtrees_of_two_ensembles_are_compared_and_copied,
        interrupts::an_interrupted_copy_counts_what_it_has_written,
        interrupts::an_interrupted_delete_counts_what_it_has_deleted,
        interrupts::an_interrupted_move_says_what_is_where,
        interrupts::an_interrupted_search_says_how_far_it_came,
        interrupts::a_command_with_a_stalled_reader_ends,
        interrupts::an_interrupted_script_ends_with_its_line,
        interrupts::a_write_that_is_not_answered_is_named;
    several_requests_are_one_command / several_requests_are_one_command_on_apache:
        action::a_transaction_happens_all_together_or_not_at_all,
        action::data_is_edited_and_no_text_is_lost,
        action::a_command_runs_at_each_change,
        action::changes_during_a_run_cause_one_more,
        action::a_holder_is_asked_to_release_its_lock;
    commands_run_under_locks / commands_run_under_locks_on_apache:
        hold::a_command_finds_its_token_and_passes_its_code,
        hold::a_lock_excludes_itself,
        hold::a_lock_waits_for_every_family,
        hold::every_family_finds_a_lock_in_front,
        hold::readers_share_and_a_writer_does_not,
        hold::as_many_as_there_are_permits,
        hold::holders_beside_each_other_get_no_token,
        hold::kinds_are_not_mixed,
        hold::kinds_that_start_together_do_not_both_hold,
        hold::signals_reach_the_command,
        hold::without_a_command_a_signal_ends_it,
        hold::the_next_one_is_elected,
        loss::a_stubborn_command_is_killed,
        locks::every_family_is_shown,
        locks::semaphores_are_shown,
        locks::families_that_do_not_see_each_other_are_reported,
        locks::a_bench_gives_figures_and_leaves_nothing,
        deadlocks::a_cycle_through_every_family_is_a_deadlock,
        deadlocks::recipes_that_wait_for_each_other_are_a_deadlock,
        deadlocks::who_waits_for_itself_is_named_and_names_are_escaped,
        releases::the_holder_loses_its_place_and_no_one_else,
        releases::one_of_several_places_is_named,
        releases::a_name_that_comes_again_is_refused,
        releases::a_command_ends_when_its_lock_is_released,
        releases::a_person_is_asked_and_a_later_holder_is_left_alone,
        watching::locks_are_shown_again_and_again,
        watching::a_person_watches_until_a_key_ends_it,
        torture::a_torture_reports_what_it_has_found,
        torture::an_interrupted_torture_leaves_nothing;
    commands_lose_their_locks / commands_lose_their_locks_on_apache:
        loss::a_try_ends_when_the_servers_vanish,
        loss::a_command_ends_with_its_lock,
        loss::a_command_ends_before_its_session_can,
        loss::a_stubborn_command_is_killed_by_the_end_of_the_lease,
        loss::a_command_on_a_terminal_ends_with_all_it_started,
        loss::a_command_that_was_stopped_goes_on_only_under_its_lock,
        loss::a_stopped_holder_gives_the_lock_back_when_asked_to_end,
        watching::a_lost_connection_is_shown_and_tried_again;
}
