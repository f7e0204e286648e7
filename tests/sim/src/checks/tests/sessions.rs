//! Sessions: P10.

use zoolet_jute::{Reply, Request};

use super::{Client, Options, Story, TIMEOUT_MS, accepted, get_data, refused};
use crate::checks::all;
use crate::history::What;

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
    let error = Options { clock_error_permille: 200, ..Options::default() };
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
