//! A long run: what the checks cost must not grow faster than the run.

use zoolet_jute::{EventType, Request};

use super::{Client, Story, accepted, create, delete, get_data, look, set_data};
use crate::history::LockStep;

/// Everyone reads with a watch, one writes, and all get their events; now and then one is handed a
/// lock, or comes back on another connection.
fn round(story: &mut Story, clients: &mut [Client], number: usize) {
    let count = clients.len();
    let writer = clients[number % count];
    let path = format!("/a/{}", number % 50);
    if story.state.tree.get(&path).is_none() {
        story.create(writer, &path, 0);
    }
    for client in clients.iter() {
        story.read(*client, Request::GetData(look(&path, true)));
    }
    let (call, xid) = story.call(writer, set_data(&path, "x"));
    let outcome = story.commit(writer, xid, set_data(&path, "x"));
    for client in clients.iter() {
        story.event(*client, outcome.zxid, EventType::NodeDataChanged, &path);
    }
    story.returned(call, outcome.zxid, outcome.result);
    if number.is_multiple_of(5) {
        hold(story, writer);
    }
    if number.is_multiple_of(7) {
        let seen = story.state.last_zxid;
        let place = (number / 7) % count;
        clients[place] = story.resume(clients[place], 2, seen);
    }
}

fn hold(story: &mut Story, client: Client) {
    let number = client.number.0;
    story.lock(number, "/lock", LockStep::Waits { mode: "mutex".to_owned() });
    let (_, outcome) = story.write(client, create("/lock/_c_-lock-", 3));
    let Ok(zoolet_jute::Reply::PathStat(znode, stat)) = outcome.result else { panic!() };
    let (token, session) = (stat.czxid.0, client.session);
    story.read(client, get_data("/lock"));
    story.lock(number, "/lock", LockStep::Granted { token, znode: znode.clone(), session });
    story.lock(number, "/lock", LockStep::Releases { token });
    story.write(client, delete(&znode));
    story.lock(number, "/lock", LockStep::Released { token });
}

#[test]
fn a_long_run_is_checked_as_a_short_one_is() {
    let rounds = 1000;
    let mut story = Story::new();
    let mut clients: Vec<Client> = (0..10).map(|number| story.connect(number, 1)).collect();
    story.create(clients[0], "/a", 0);
    story.create(clients[0], "/lock", 0);
    for number in 0..rounds {
        round(&mut story, &mut clients, number);
    }
    let counts = accepted(&story.end());
    let rounds = u64::try_from(rounds).unwrap();
    assert_eq!((counts.watches, counts.events), (10 * rounds, 10 * rounds));
    assert_eq!((counts.reads, counts.grants), (10 * rounds + rounds / 5, rounds / 5));
    assert_eq!(counts.watchers_given_up, 0);
}
