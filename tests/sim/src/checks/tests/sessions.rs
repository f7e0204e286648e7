//! Sessions: P10.

use zoolet_jute::{ErrorCode, Reply, Request, SessionId, Zxid};
use zoolet_replica::Op;

use super::{Client, Options, Story, TIMEOUT_MS, accepted, get_data, refused};
use crate::checks::all;
use crate::history::{Connection, What};

fn story() -> (Story, Client) {
    let mut story = Story::new();
    let client = story.connect(0, 1);
    story.create(client, "/a", 1);
    (story, client)
}

#[test]
fn a_session_that_expires_before_its_timeout_is_found() {
    let (mut story, client) = story();
    story.ping(client);
    story.wait(u64::from(TIMEOUT_MS) + 500);
    story.expire(client.session);
    let counts = accepted(&story.end());
    assert_eq!(counts.session_ends, 1);
    let (mut story, client) = self::story();
    story.wait(3000);
    story.ping(client);
    story.wait(u64::from(TIMEOUT_MS) - 500);
    story.expire(client.session);
    let early = story.end();
    refused(&early, "P10 sessions");
    // With such a wrong clock the server may have measured it, and an operator may do it.
    let error = Options { clock_fast_permille: 200, ..Options::default() };
    assert!(all(&early, &error).violations.is_empty());
    let by_hand = Options { ended_by_hand: [client.session].into(), ..Options::default() };
    assert!(all(&early, &by_hand).violations.is_empty());
}

#[test]
fn a_ping_that_was_not_answered_promises_nothing() {
    let (mut story, client) = story();
    story.wait(3000);
    story.call(client, Request::Ping);
    story.wait(1500);
    story.expire(client.session);
    story.note(What::Disconnected { connection: client.connection });
    accepted(&story.end());
}

#[test]
fn a_new_session_has_its_whole_timeout() {
    let (mut story, client) = story();
    story.wait(1000);
    story.expire(client.session);
    refused(&story.end(), "P10 sessions");
}

#[test]
fn a_session_that_is_silent_for_long_is_over() {
    let (mut story, client) = story();
    story.note(What::ClientDied { client: client.number });
    story.note(What::Disconnected { connection: client.connection });
    refused(&story.end_late(), "P10 sessions");
    let (mut story, client) = self::story();
    story.note(What::Disconnected { connection: client.connection });
    story.wait(u64::from(TIMEOUT_MS) + 2000);
    story.expire(client.session);
    assert_eq!(accepted(&story.end_late()).expiries_due, 1);
}

#[test]
fn a_session_that_is_over_is_not_served() {
    let (mut story, client) = story();
    let (_, outcome) = story.write(client, Request::CloseSession);
    assert!(outcome.result.is_ok());
    story.read(client, get_data("/"));
    refused(&story.end(), "P10 sessions");
    let (mut story, client) = self::story();
    story.wait(u64::from(TIMEOUT_MS) + 500);
    story.expire(client.session);
    story.answered(client, Request::Ping, Reply::Empty);
    refused(&story.end(), "P10 sessions");
}

#[test]
fn ephemeral_znodes_go_with_their_session() {
    let (mut story, client) = story();
    let other = story.connect(1, 2);
    let stale = story.state.tree.get("/a").unwrap().stat();
    story.wait(u64::from(TIMEOUT_MS) + 500);
    story.ping(other);
    story.expire(client.session);
    let (call, _) = story.call(other, Request::Exists(super::look("/a", false)));
    let zxid = story.state.last_zxid;
    story.returned(call, zxid, Ok(Reply::Stat(stale)));
    refused(&story.end(), "reads");
}

#[test]
fn a_session_that_expires_late_is_found() {
    let late = |wait_ms: u64| {
        let (mut story, client) = story();
        story.note(What::Disconnected { connection: client.connection });
        story.wait(wait_ms);
        story.expire(client.session);
        let mut history = story.end_late();
        history.healed_at = crate::SimTime::from_ms(1);
        history
    };
    accepted(&late(u64::from(TIMEOUT_MS) + 2500));
    refused(&late(u64::from(TIMEOUT_MS) + 3500), "P10 sessions");
    // A leader that was elected meanwhile has given it its whole timeout again.
    let (mut story, client) = story();
    story.note(What::Disconnected { connection: client.connection });
    story.wait(2000);
    story.term = 2;
    let other = story.connect(1, 2);
    story.note(What::Disconnected { connection: other.connection });
    story.wait(u64::from(TIMEOUT_MS) + 2000);
    story.expire(client.session);
    story.expire(other.session);
    let mut history = story.end_late();
    history.healed_at = crate::SimTime::from_ms(1);
    accepted(&history);
}

fn expired_answer(story: &mut Story, client: Client) {
    story.note(What::Connected {
        client: client.number,
        connection: Connection(77),
        server: client.server,
        asked: client.session,
        session: SessionId::NONE,
        timeout_ms: 0,
        last_seen: Zxid(0),
    });
}

#[test]
fn an_answer_that_a_living_session_has_expired_is_found() {
    let (mut story, client) = story();
    story.note(What::Disconnected { connection: client.connection });
    story.wait(u64::from(TIMEOUT_MS) + 500);
    story.expire(client.session);
    expired_answer(&mut story, client);
    assert_eq!(accepted(&story.end()).expired_answers, 1);
    let (mut story, client) = self::story();
    story.note(What::Disconnected { connection: client.connection });
    story.wait(u64::from(TIMEOUT_MS) + 500);
    expired_answer(&mut story, client);
    story.expire(client.session);
    refused(&story.end(), "P10 sessions");
    let (mut story, client) = self::story();
    let (call, _) = story.call(client, get_data("/a"));
    let zxid = story.state.last_zxid;
    story.returned(call, zxid, Err(ErrorCode::SessionExpired));
    refused(&story.end(), "P10 sessions");
}

#[test]
fn a_close_whose_session_goes_on_is_found() {
    let (mut story, client) = story();
    let (call, _) = story.write(client, Request::CloseSession);
    let good = story.end();
    assert_eq!(accepted(&good).closes, 1);
    // As if it had been answered before it was in the log.
    let early = super::lie(&good, call, |zxid, _| *zxid = Zxid(zxid.0 - 1));
    refused(&early, "P10 sessions");
}

/// The server has taken a session over for both connections when the answer of the first one arrives.
#[test]
fn a_resume_that_came_twice_is_that_of_what_its_connection_shows() {
    let (mut story, client) = story();
    let again = story.resume(client, 1, story.state.last_zxid);
    let shown = story.state.last_zxid;
    let timeout_ms = i32::try_from(TIMEOUT_MS).unwrap();
    let command = story.command(again.server, again.session, Op::ResumeSession { timeout_ms });
    story.apply(again.server, command);
    let now = story.now;
    story.history.records.last_mut().unwrap().at = now;
    let (call, _) = story.call(again, Request::Ping);
    story.returned(call, shown, Ok(Reply::Empty));
    let history = story.end();
    let may = Options { connects_twice: true, ..Options::default() };
    assert!(all(&history, &may).violations.is_empty());
    refused(&history, "P11 no way back");
}
