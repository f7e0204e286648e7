//! Whole ensembles in the simulated world.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::time::{Instant, sleep};
use zoolet_client::{ClientOptions, CreateMode, Version};

use super::*;

fn ensemble(seed: u64, servers: u8) -> World {
    let mut world =
        World::new(seed, configs(servers, |config| config.ensemble.tick_time_ms = 1000));
    for server in (1..=servers).map(ServerId) {
        world.start(server);
    }
    world
}

#[test]
fn three_servers_elect_a_leader_and_serve_a_client() {
    let mut world = ensemble(1, 3);
    world.run_until(SimTime::from_ms(3000));
    let leader = world.leader().expect("one leads");
    let done = Arc::new(Mutex::new(0));
    let (count, servers) = (Arc::clone(&done), world.addresses());
    world.start_client(0, move |net| async move {
        let connect: Vec<String> = servers.into_iter().map(|(_, address)| address).collect();
        let options = ClientOptions::new().connector(net).seed(7);
        let client = options.connect(&connect.join(",")).await.unwrap();
        client.create("/a", b"", CreateMode::Persistent).await.unwrap();
        for number in 0_u32..1000 {
            client.set_data("/a", &number.to_be_bytes(), Version::Any).await.unwrap();
            *count.lock().unwrap() += 1;
        }
    });
    world.run_until(SimTime::from_ms(15_000));
    assert_eq!(*done.lock().unwrap(), 1000);
    assert_eq!(world.leader(), Some(leader));
}

/// What a program has noted, each with its own time in milliseconds.
type Notes = Arc<Mutex<Vec<(&'static str, u128)>>>;

/// A machine whose program notes each message that it gets, and each of its timers, one in 7 ms.
fn noting_machine() -> (Machine, UnboundedSender<()>, Notes) {
    let (sender, mut messages) = mpsc::unbounded_channel();
    let (mut machine, notes) = (Machine::new(), Notes::default());
    let (of_messages, of_timers) = (Arc::clone(&notes), Arc::clone(&notes));
    machine.start(|_| async move {
        let begin = Instant::now();
        tokio::spawn(async move {
            loop {
                sleep(Duration::from_millis(7)).await;
                of_timers.lock().unwrap().push(("timer", begin.elapsed().as_millis()));
            }
        });
        while messages.recv().await.is_some() {
            of_messages.lock().unwrap().push(("message", begin.elapsed().as_millis()));
        }
    });
    (machine, sender, notes)
}

fn times(notes: &Notes, name: &str) -> Vec<u128> {
    notes.lock().unwrap().iter().filter(|(noted, _)| *noted == name).map(|(_, at)| *at).collect()
}

/// Also in those of a slow clock in which no millisecond passes.
#[test]
fn what_has_come_to_a_machine_is_done_in_its_next_step() {
    for rate in [500_000, 900_000, TRUE_RATE, 1_100_000, 1_500_000] {
        let (mut machine, sender, notes) = noting_machine();
        machine.set_rate(rate);
        for step in 1..=60 {
            sender.send(()).unwrap();
            machine.step(STEP);
            assert_eq!(times(&notes, "message").len(), step, "rate {rate}");
        }
    }
}

#[test]
fn timers_fire_at_their_time_of_a_clock_that_is_slow_or_fast_and_of_turns_that_are_rare() {
    for (rate, turn_every) in [(900_000, 1), (1_500_000, 1), (TRUE_RATE, 3), (1_100_000, 5)] {
        let (mut machine, _sender, notes) = noting_machine();
        machine.set_rate(rate);
        machine.set_turn_every(turn_every);
        (0..60).for_each(|_| machine.step(STEP));
        let expected: Vec<u128> = (1..=7).map(|number| number * 7).collect();
        assert_eq!(times(&notes, "timer")[..7], expected, "rate {rate}, turn {turn_every}");
    }
}

#[test]
fn a_stopped_machine_does_in_one_step_what_is_due_and_what_has_come() {
    let (mut machine, sender, notes) = noting_machine();
    machine.step(STEP);
    machine.stop();
    sender.send(()).unwrap();
    (0..20).for_each(|_| machine.step(STEP));
    assert_eq!(*notes.lock().unwrap(), []);
    machine.go_on();
    machine.step(STEP);
    assert_eq!((times(&notes, "message"), times(&notes, "timer")), (vec![22], vec![22]));
}

/// Stops and continues servers again and again, all together or each at different times.
/// Returns all leaders that were seen.
fn leaders_while_starved(seed: u64, together: bool) -> BTreeSet<ServerId> {
    let mut world = ensemble(seed, 3);
    world.run_until(SimTime::from_ms(4000));
    let mut chance = Chance::of(seed, "starved");
    let mut ends: BTreeMap<ServerId, (bool, u64)> =
        world.servers.keys().map(|id| (*id, (false, 4000))).collect();
    let mut leaders: BTreeSet<ServerId> = world.leader().into_iter().collect();
    assert_eq!(leaders.len(), 1);
    for now_ms in 4000..24_000 {
        for (id, (is_stopped, end_ms)) in &mut ends {
            if *end_ms > now_ms {
                continue;
            }
            *is_stopped = !*is_stopped;
            let range = if *is_stopped { (100, 400) } else { (20, 80) };
            let whole = if *is_stopped { 900 } else { 100 };
            *end_ms += if together { whole } else { chance.between(range.0, range.1) };
            let machine = &mut world.servers.get_mut(id).unwrap().machine;
            if *is_stopped { machine.stop() } else { machine.go_on() }
        }
        world.run_until(SimTime::from_ms(now_ms + 1));
        leaders.extend(world.leader());
    }
    leaders
}

/// Each late message ended in an election.
#[test]
fn starved_servers_keep_their_leader() {
    for seed in 1..=2 {
        for together in [true, false] {
            let leaders = leaders_while_starved(seed, together);
            assert_eq!(leaders.len(), 1, "seed {seed}, together: {together}");
        }
    }
}
