//! The log: P1, P5, P6, P7, P8.

use zoolet_jute::{ErrorCode, Reply, SessionId, Stat, Xid, Zxid};
use zoolet_replica::{Command, FeatureLevel, Op, ProposalNumber, ServerId, Term};

use super::{Client, Story, accepted, checked, create, get_data, refused, set_data};
use crate::SimTime;
use crate::history::{Applied, CallNumber, Connection, Gauge, History, ServerLog, What};

fn story() -> (Story, Client) {
    let mut story = Story::new();
    let client = story.connect(0, 1);
    story.create(client, "/a", 0);
    story.write(client, set_data("/a", "b"));
    story.read(client, get_data("/a"));
    (story, client)
}

fn log_of(history: &mut History, server: u8) -> &mut ServerLog {
    history.servers.get_mut(&ServerId(server)).unwrap()
}

#[test]
fn a_good_history_is_accepted_and_counted() {
    let (mut story, client) = story();
    story.write(client, create("/b/missing", 0));
    story.term = 2;
    story.create(client, "/b", 0);
    let counts = accepted(&story.end());
    assert_eq!((counts.entries, counts.transactions, counts.writes, counts.reads), (5, 5, 4, 1));
    assert_eq!((counts.digests, counts.digests_alone), (15, 0));
}

#[test]
fn servers_that_apply_different_entries_are_found() {
    let (story, _) = story();
    let good = story.end();
    let mut bad = good.clone();
    let other = log_of(&mut bad, 2).applied[0].batch.clone();
    log_of(&mut bad, 2).applied[1].batch = other;
    refused(&bad, "P1 same log");
    let mut bad = good.clone();
    log_of(&mut bad, 3).applied[2].term = 9;
    refused(&bad, "P1 same log");
    let mut bad = good;
    for server in 1..=3 {
        log_of(&mut bad, server).applied[0].term = 2;
    }
    refused(&bad, "P1 same log");
}

#[test]
fn states_that_differ_at_one_place_are_found() {
    let (story, _) = story();
    let good = story.end();
    let mut bad = good.clone();
    log_of(&mut bad, 2).digests[1].digest += 1;
    refused(&bad, "P1 same log");
    let mut bad = good;
    for server in 1..=3 {
        log_of(&mut bad, server).digests[2].zxid = Zxid::new(1, 77);
    }
    refused(&bad, "P5 zxids");
}

#[test]
fn a_server_may_begin_again_behind_its_snapshot() {
    let (story, _) = story();
    let mut history = story.end();
    let log = log_of(&mut history, 2);
    let again: Vec<_> = log.applied[1..].to_vec();
    for mut applied in again {
        applied.at = applied.at + std::time::Duration::from_secs(1);
        log.applied.push(applied);
    }
    accepted(&history);
}

#[test]
fn an_entry_that_cannot_be_read_is_found() {
    let (story, _) = story();
    let mut history = story.end();
    for log in history.servers.values_mut() {
        log.applied[2].batch = bytes::Bytes::from_static(b"nonsense");
    }
    refused(&history, "P1 same log");
}

#[test]
fn a_command_above_the_agreed_level_is_found() {
    let (mut story, client) = story();
    let agree = |story: &mut Story, level, term| {
        let op = Op::SetLevel { level: FeatureLevel(level), term: Term(term) };
        let command = story.command(client.server, SessionId::NONE, op);
        story.apply(client.server, command);
    };
    let write = |story: &mut Story| {
        let (call, xid) = story.call(client, set_data("/a", "c"));
        let command =
            story.command(client.server, client.session, Op::WriteX509(set_data("/a", "c")));
        let attachment = client.attachment;
        let outcome = story.apply(client.server, Command { attachment, cxid: xid, ..command });
        story.returned(call, outcome.zxid, outcome.result);
    };
    let promise = "levels";
    let mut never = story.clone();
    write(&mut never);
    refused(&never.end(), promise);
    agree(&mut story, 2, 1);
    write(&mut story);
    // By a leader that was replaced.
    agree(&mut story, 1, 9);
    write(&mut story);
    agree(&mut story, 1, 1);
    let good = story.clone().end();
    accepted(&good);
    write(&mut story);
    refused(&story.end(), promise);
    // What has no effect has to be read as well.
    let mut bad = good;
    for log in bad.servers.values_mut() {
        let [.., high, last] = log.applied.as_slice() else { continue };
        let again = Applied { index: last.index + 1, at: last.at, ..high.clone() };
        log.applied.push(again);
    }
    refused(&bad, promise);
}

#[test]
fn an_acknowledged_write_that_is_not_in_the_log_is_found() {
    let (mut story, client) = story();
    let (call, _) = story.call(client, create("/lost", 0));
    let zxid = Zxid(story.state.last_zxid.0 + 1);
    story.returned(call, zxid, Ok(Reply::PathStat("/lost".into(), Stat::default())));
    refused(&story.end(), "P6 durability");
    // Or another command is there.
    let (mut story, client) = self::story();
    let (call, _) = story.call(client, create("/lost", 0));
    let zxid = story.state.last_zxid;
    story.returned(call, zxid, Ok(Reply::PathStat("/lost".into(), Stat::default())));
    refused(&story.end(), "P6 durability");
}

#[test]
fn an_acknowledged_write_that_a_power_cut_takes_away_is_found() {
    let (mut story, client) = story();
    let before = story.index;
    story.create(client, "/lost", 0);
    let mut history = story.end();
    // Other servers go on without it, in a later term.
    for (server, log) in &mut history.servers {
        let mut other = log.applied[0].clone();
        (other.index, other.term) = (before + 1, 2);
        other.at = log.applied.last().unwrap().at + std::time::Duration::from_secs(1);
        if *server != ServerId(1) {
            log.applied.pop();
        }
        log.digests.pop();
        log.applied.push(other);
    }
    refused(&history, "P6 durability");
}

#[test]
fn a_command_that_no_client_has_asked_for_is_found() {
    let (mut story, client) = story();
    let unknown = Client { attachment: ProposalNumber(99), ..client };
    story.commit(unknown, Xid(7), create("/of-no-one", 0));
    refused(&story.end(), "P7 once");
    // A client may not learn that its session was begun, and has asked on that connection.
    let (mut story, client) = self::story();
    let request = create("/asked-for", 0);
    let (call, connection, xid) = (CallNumber(99), Connection(99), Xid(7));
    story.note(What::Called { call, connection, xid, request: request.clone() });
    let unknown = Client { attachment: ProposalNumber(99), ..client };
    story.commit(unknown, xid, request);
    let (violations, counts) = checked(&story.end());
    assert_eq!(counts.commands_unattributed, 1, "{violations:?}");
    let found = violations.iter().find(|violation| violation.promise == "P7 once");
    assert_eq!(found, None);
}

#[test]
fn a_batch_that_comes_twice_takes_effect_once() {
    let (story, _) = story();
    let mut history = story.end();
    for log in history.servers.values_mut() {
        let mut again = log.applied.last().unwrap().clone();
        again.index += 1;
        log.applied.push(again);
    }
    let counts = accepted(&history);
    assert_eq!(counts.dropped, 1);
}

#[test]
fn a_call_that_is_in_the_log_twice_is_found() {
    let (mut story, client) = story();
    let (_, xid) = story.call(client, create("/twice", 0));
    story.commit(client, xid, create("/twice", 0));
    let one = story.end();
    accepted(&one);
    let (mut story, client) = self::story();
    let (_, xid) = story.call(client, create("/twice", 0));
    story.commit(client, xid, create("/twice", 0));
    story.commit(client, xid, create("/twice", 0));
    refused(&story.end(), "P7 once");
}

#[test]
fn a_command_that_was_not_asked_for_is_found() {
    let (mut story, client) = story();
    story.commit(client, Xid(77), create("/made-up", 0));
    refused(&story.end(), "P7 once");
    let (mut story, client) = self::story();
    let (_, xid) = story.call(client, create("/one", 0));
    story.commit(client, xid, create("/other", 0));
    refused(&story.end(), "P7 once");
}

#[test]
fn a_write_that_overtakes_a_lost_one_is_found() {
    let (mut story, client) = story();
    story.call(client, create("/first", 0));
    let (_, xid) = story.call(client, create("/second", 0));
    accepted(&story_without_commit());
    story.commit(client, xid, create("/second", 0));
    refused(&story.end(), "P8 no overtaking");
    let (mut story, client) = self::story();
    let (_, first) = story.call(client, create("/first", 0));
    let (_, second) = story.call(client, create("/second", 0));
    story.commit(client, second, create("/second", 0));
    story.commit(client, first, create("/first", 0));
    refused(&story.end(), "P8 no overtaking");
}

fn story_without_commit() -> History {
    let (mut story, client) = story();
    story.call(client, create("/first", 0));
    story.call(client, create("/second", 0));
    story.end()
}

#[test]
fn xids_that_begin_anew_with_a_connection_are_kept_apart_by_their_attachments() {
    let (mut story, client) = story();
    let (_, xid) = story.call(client, create("/x", 0));
    let seen = story.state.last_zxid;
    let again = story.resume(client, 2, seen);
    // The write of the old connection comes behind the resume: it is refused as moved.
    let outcome = story.commit(client, xid, create("/x", 0));
    assert_eq!(outcome.result, Err(ErrorCode::SessionMoved));
    story.create(again, "/x", 0);
    story.create(again, "/y", 0);
    story.create(again, "/z", 0);
    let counts = accepted(&story.end());
    assert_eq!(counts.lost, (1, 0));
}

#[test]
fn what_is_over_its_limit_is_found() {
    let (story, _) = story();
    let mut history = story.end();
    let fine = gauge(history.ended_at, 10);
    history.gauges.push(fine);
    assert_eq!(accepted(&history).gauges, 1);
    history.gauges.push(Gauge { value: 11, ..fine });
    refused(&history, "bounded");
    history.gauges.pop();
    history.gauges.push(Gauge { value: 11, limit: None, ..fine });
    accepted(&history);
}

#[test]
fn what_is_left_of_clients_that_have_ended_is_found() {
    let (story, _) = story();
    let mut history = story.end();
    let (from, to) = (history.healed_at, history.ended_at);
    let fine = gauge(from, 3);
    history.gauges.push(fine);
    assert_eq!(accepted(&history).gauges_at_rest, 0);
    history.quiet = Some((from, to));
    refused(&history, "bounded");
    history.gauges = vec![Gauge { is_of_clients: false, ..fine }, Gauge { value: 0, ..fine }];
    assert_eq!(accepted(&history).gauges_at_rest, 1);
    // Not before, and not behind it: other clients have begun then.
    history.gauges.push(gauge(to, 3));
    accepted(&history);
}

fn gauge(at: SimTime, value: u64) -> Gauge {
    let (server, limit) = (ServerId(1), Some(10));
    Gauge { at, server, name: "requests", value, limit, is_of_clients: true }
}
