//! The silences of sessions, carried over to a new leader.

use zoolet_jute::{ConnectRequest, NullablePathRequest, Request, SessionId, Xid};
use zoolet_replica::{ConnectionId, Input, Output, Role, Silence};

use crate::world::{TICK_MS, World, handshake};

const TIMEOUT_MS: u64 = 8000;

/// A client, and how it resumes its session.
struct Client {
    connection: ConnectionId,
    resume: ConnectRequest,
}

impl Client {
    fn session(&self) -> SessionId {
        self.resume.session_id
    }
}

impl World {
    fn open(&mut self, server: usize, request: ConnectRequest) -> Client {
        let connection = self.connect(server, request);
        self.commit();
        let accepted = self.out.iter().rev().find_map(|output| match output {
            Output::Accept { response, .. } => Some(response.clone()),
            _ => None,
        });
        let accepted = accepted.expect("the handshake is answered");
        let mut resume = handshake(accepted.timeout_ms);
        (resume.session_id, resume.password) = (accepted.session_id, accepted.password);
        Client { connection, resume }
    }

    fn client(&mut self, server: usize) -> Client {
        self.open(server, handshake(8000))
    }

    fn ping(&mut self, client: &Client) {
        self.request(client.connection, Xid::PING, Ok(Request::Ping));
        (0..self.servers.len()).for_each(|server| self.deliver_touches(server));
    }

    /// One server reports to another one connections that have ended, and of clients that are silent.
    fn report(&mut self, from: usize, to: usize, all: bool) -> Vec<Silence> {
        let replica = &self.servers[from].replica;
        let mut silences = replica.ended_connections(0, all).silences;
        silences.extend(replica.silent_connections(ConnectionId(0)).silences);
        self.step(to, Input::Silences { silences: silences.clone() });
        silences
    }

    /// The leader is gone, and another server leads.
    fn elect(&mut self, leader: usize) {
        self.term += 1;
        for server in 0..self.servers.len() {
            if self.servers[server].replica.role() == Role::Leader {
                self.take_role(server, Role::Looking);
            }
        }
        self.take_role(leader, Role::Leader);
    }

    /// When a session expires, by the clock of the leader.
    fn due_ms(&self, leader: usize, client: &Client) -> u64 {
        let sessions =
            (0..).map_while(|part| self.servers[leader].replica.sessions(part)).flatten();
        let known = sessions.into_iter().find(|known| known.session == client.session());
        known.and_then(|known| known.expires_ms).expect("it has a deadline")
    }
}

/// The first tick after a session's timeout.
fn due_after(active_ms: u64) -> u64 {
    (active_ms + TIMEOUT_MS) / TICK_MS * TICK_MS + TICK_MS
}

/// Twenty thousand sessions of dead clients lived for 77 s with timeouts of 40 s: the leader was
/// replaced, and its successor gave all of them their timeouts again.
#[test]
fn sessions_whose_connections_ended_end_one_timeout_after_their_last_signs_of_life() {
    let mut world = World::new(3, |_| {});
    let [at_leader, at_follower] = [0, 2].map(|server| world.client(server));
    let connected = world.client(0);
    world.pass(1000);
    world.ping(&at_leader);
    world.ping(&at_follower);
    for gone in [&at_leader, &at_follower] {
        world.disconnect(gone.connection);
    }
    for (from, to) in [(0, 1), (0, 2), (2, 0), (2, 1)] {
        assert_eq!(world.report(from, to, false).len(), 1);
    }
    world.pass(4000);
    world.elect(1);
    assert_eq!(world.due_ms(1, &at_leader), due_after(1000));
    assert_eq!(world.due_ms(1, &at_follower), due_after(1000));
    assert_eq!(world.due_ms(1, &connected), due_after(5000), "it may have pinged the old leader");
    world.pass(4500);
    world.commit();
    let sessions: Vec<_> = world.servers[2].replica.state().sessions().collect();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
}

/// The old leader may still count signs of life, and resumes may have waited for the election.
#[test]
fn the_grace_of_a_new_leader_is_added_to_what_is_left_of_a_timeout() {
    let mut world = World::new(2, |options| options.takeover_grace_ms = 2 * TICK_MS);
    let [client, late] = [0, 0].map(|server| world.client(server));
    world.disconnect(late.connection);
    world.pass(3000);
    world.ping(&client);
    world.disconnect(client.connection);
    world.report(0, 1, false);
    world.pass(4500);
    world.elect(1);
    assert_eq!(world.due_ms(1, &client), due_after(3000 + 2 * TICK_MS));
    let grace_ends_ms = 7500 + 2 * TICK_MS;
    assert_eq!(world.due_ms(1, &late), due_after(2 * TICK_MS).max(grace_ends_ms + TICK_MS));
}

#[test]
fn a_silent_client_is_known_to_its_server_until_it_is_active_again() {
    let mut world = World::new(3, |_| {});
    let [silent, active, asking] = [2, 2, 2].map(|server| world.client(server));
    world.pass(3000);
    world.ping(&active);
    assert_eq!(world.report(2, 0, false), [], "less than half of a timeout");
    world.pass(3000);
    let sync = Request::Sync(NullablePathRequest { path: Some("/".to_owned()) });
    world.request(asking.connection, Xid(7), Ok(sync));
    world.elect(1);
    assert_eq!(world.due_ms(1, &silent), due_after(6000), "before any report");
    let reports = world.report(2, 1, true);
    let is_reported =
        |client: &Client| reports.iter().any(|report| report.session == client.session());
    assert!(is_reported(&silent) && !is_reported(&active) && !is_reported(&asking), "{reports:?}");
    assert_eq!(world.due_ms(1, &silent), due_after(0));
    world.ping(&silent);
    assert_eq!(world.due_ms(1, &silent), due_after(6000));
    // A report that was delayed has no effect.
    world.step(1, Input::Silences { silences: reports });
    assert_eq!(world.due_ms(1, &silent), due_after(6000));
    // Another election: the silence counts from the last ping.
    world.pass(4500);
    world.elect(0);
    assert_eq!(world.due_ms(0, &silent), due_after(10_500));
    assert_eq!(world.report(2, 0, true).len(), 2, "the one that asked waits for its sync");
    assert_eq!(world.due_ms(0, &silent), due_after(6000));
    assert_eq!(world.due_ms(0, &active), due_after(3000));
}

/// A leader knows its own clients.
#[test]
fn a_new_leader_carries_over_the_silences_of_its_own_clients() {
    let mut world = World::new(2, |_| {});
    let [silent, active] = [1, 1].map(|server| world.client(server));
    world.pass(5000);
    world.ping(&active);
    world.elect(1);
    assert_eq!(world.due_ms(1, &silent), due_after(0));
    assert_eq!(world.due_ms(1, &active), due_after(5000));
    world.ping(&silent);
    assert_eq!(world.due_ms(1, &silent), due_after(5000));
}

#[test]
fn a_client_that_has_moved_is_not_judged_by_its_old_server() {
    let mut world = World::new(3, |_| {});
    let client = world.client(0);
    world.disconnect(client.connection);
    world.pass(2000);
    let reports = world.report(0, 1, false);
    world.pass(1000);
    let moved = world.open(2, client.resume.clone());
    world.elect(1);
    assert_eq!(world.due_ms(1, &moved), due_after(3000));
    world.step(1, Input::Silences { silences: reports.clone() });
    assert_eq!(world.due_ms(1, &moved), due_after(3000));
    // Also if it is back where it was.
    world.disconnect(moved.connection);
    let back = world.open(2, client.resume.clone());
    world.pass(3000);
    world.elect(0);
    world.step(0, Input::Silences { silences: reports });
    assert_eq!(world.due_ms(0, &back), due_after(6000));
    assert_eq!(world.servers[2].replica.ended_connections(0, true).silences, []);
}

/// Pings of its clients wait in its sockets.
#[test]
fn time_in_which_a_server_was_stopped_is_not_silence() {
    let mut world = World::new(2, |_| {});
    let client = world.client(1);
    world.pass(2000);
    world.now_ms += 5000;
    world.tick();
    world.elect(1);
    assert_eq!(world.due_ms(1, &client), due_after(5000));
}

/// Clients cannot resume their sessions in it.
#[test]
fn time_without_a_leader_is_not_silence() {
    let mut world = World::new(2, |_| {});
    let client = world.client(1);
    world.disconnect(client.connection);
    world.pass(2000);
    for server in [0, 1] {
        world.take_role(server, Role::Looking);
    }
    world.pass(2500);
    world.elect(1);
    assert_eq!(world.due_ms(1, &client), due_after(2500));
}

/// A new leader that was started a moment ago learns from the others what its predecessor has reported.
#[test]
fn a_server_passes_on_what_another_one_has_reported() {
    let mut world = World::new(3, |_| {});
    let client = world.client(0);
    world.disconnect(client.connection);
    world.report(0, 2, false);
    world.pass(4000);
    world.elect(1);
    assert_eq!(world.due_ms(1, &client), due_after(4000));
    assert_eq!(world.report(2, 1, false), []);
    world.report(2, 1, true);
    assert_eq!(world.due_ms(1, &client), due_after(0));
}

#[test]
fn a_client_that_hangs_up_before_its_session_begins_is_silent_from_its_beginning() {
    let mut world = World::new(2, |_| {});
    let connection = world.connect(1, handshake(8000));
    world.disconnect(connection);
    world.commit();
    world.pass(2000);
    let ended = world.servers[1].replica.ended_connections(0, false).silences;
    assert!(matches!(ended[..], [Silence { silence_ms: 2000, has_ended: true, .. }]), "{ended:?}");
}

#[test]
fn ended_connections_are_reported_in_parts_and_forgotten_with_their_sessions() {
    let mut world = World::new(2, |_| {});
    let clients: Vec<_> = (0..1200).map(|_| world.connect(1, handshake(8000))).collect();
    world.commit();
    for client in clients {
        world.disconnect(client);
    }
    let (mut after, mut lengths) = (0, Vec::new());
    loop {
        let some = world.servers[1].replica.ended_connections(after, false);
        lengths.push(some.silences.len());
        after = some.after;
        if !some.has_more {
            break;
        }
    }
    assert_eq!(lengths, [1000, 200]);
    assert_eq!(world.servers[1].replica.ended_connections(after, true).silences, []);
    for _ in 0..3 {
        world.pass(TIMEOUT_MS);
        world.commit();
    }
    assert_eq!(world.servers[1].replica.state().session_count(), 0);
    assert_eq!(world.servers[1].replica.ended_connections(0, true).silences, []);
}

/// A resume that had waited for a stalled disk counted as silence from the arrival of its handshake.
#[test]
fn a_session_is_silent_from_its_beginning_and_not_from_its_handshake() {
    let mut world = World::new(2, |_| {});
    let connection = world.connect(1, handshake(8000));
    world.pass(3000);
    world.commit();
    world.disconnect(connection);
    let silences = world.report(1, 0, true);
    assert!(silences.iter().all(|silence| silence.silence_ms == 0), "{silences:?}");
    assert_eq!(silences.len(), 1);
}
