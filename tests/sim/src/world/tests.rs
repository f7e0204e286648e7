//! Whole ensembles in the simulated world.

use std::collections::BTreeMap;
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

/// Stops and continues servers again and again until 26 s, all together or each at different times. The
/// leader is not continued after `frozen_from`. Returns the epochs of a client's writes, with the times
/// of the last ones: servers that run together may elect none before 26 s, and the client takes its time.
fn epochs_while_starved(seed: u64, together: bool, frozen_from: SimTime) -> BTreeMap<u64, SimTime> {
    let mut world = ensemble(seed, 3);
    let epochs: Arc<Mutex<BTreeMap<u64, SimTime>>> = Arc::default();
    let (seen, servers, now) = (Arc::clone(&epochs), world.addresses(), Arc::default());
    let clock: Arc<Mutex<SimTime>> = Arc::clone(&now);
    world.start_client(0, move |net| async move {
        let connect: Vec<String> = servers.into_iter().map(|(_, address)| address).collect();
        let options = ClientOptions::new().connector(net).seed(seed);
        loop {
            // Its session may end while the servers are starved.
            let Ok(client) = options.clone().connect(&connect.join(",")).await else { continue };
            // It exists in the second session.
            let _ = client.create("/a", b"", CreateMode::Persistent).await;
            loop {
                match client.set_data("/a", b"", Version::Any).await {
                    Ok(stat) => {
                        let epoch = stat.mzxid.0.cast_unsigned() >> 32;
                        seen.lock().unwrap().insert(epoch, *clock.lock().unwrap());
                    }
                    Err(error) if error.ends_session() => break,
                    Err(_) => {}
                }
                sleep(Duration::from_millis(100)).await;
            }
        }
    });
    world.run_until(SimTime::from_ms(4000));
    let (mut chance, leader) = (Chance::of(seed, "starved"), world.leader().expect("one leads"));
    let mut ends: BTreeMap<ServerId, (bool, u64)> =
        world.servers.keys().map(|id| (*id, (false, 4000))).collect();
    for now_ms in 4000..45_000 {
        for (id, (is_stopped, end_ms)) in &mut ends {
            let is_frozen = *id == leader && *is_stopped && world.now >= frozen_from;
            if *end_ms > now_ms || is_frozen {
                continue;
            }
            *is_stopped = !*is_stopped && now_ms < 26_000;
            let range = if *is_stopped { (300, 900) } else { (20, 80) };
            let whole = if *is_stopped { 1500 } else { 150 };
            *end_ms += if together { whole } else { chance.between(range.0, range.1) };
            let machine = &mut world.servers.get_mut(id).unwrap().machine;
            if *is_stopped { machine.stop() } else { machine.go_on() }
        }
        world.run_until(SimTime::from_ms(now_ms + 1));
        *now.lock().unwrap() = world.now;
    }
    epochs.lock().unwrap().clone()
}

/// Each late message ended in an election.
#[test]
fn starved_servers_keep_their_leader() {
    for seed in 1..=2 {
        for together in [true, false] {
            let epochs = epochs_while_starved(seed, together, SimTime::from_ms(60_000));
            let last = epochs.values().max().copied().unwrap_or_default();
            assert!(last > SimTime::from_ms(27_000), "seed {seed}, together: {together}");
            assert_eq!(epochs.len(), 1, "seed {seed}, together: {together}: {epochs:?}");
        }
    }
}

/// They waited for half a minute, because they run for a tenth of the time.
#[test]
fn starved_servers_replace_a_leader_that_is_frozen() {
    for together in [true, false] {
        let epochs = epochs_while_starved(3, together, SimTime::from_ms(8000));
        let (first, last) = (epochs.first_key_value(), epochs.last_key_value());
        let is_replaced = first.map(|known| known.0) < last.map(|known| known.0);
        let written_at = last.map(|known| *known.1).unwrap_or_default();
        assert!(is_replaced && written_at > SimTime::from_ms(20_000), "{together}: {epochs:?}");
    }
}

/// The length of the timeouts in the test below.
const SESSION_TIMEOUT_MS: u64 = 10_000;

/// Starts a client of one server, which creates an ephemeral znode below `/clients` and lives on.
fn start_holder(world: &mut World, client: u8, server: ServerId) {
    let address = world.addresses().into_iter().find(|(id, _)| *id == server).unwrap().1;
    world.start_client(client, move |net| async move {
        let timeout = Duration::from_millis(SESSION_TIMEOUT_MS);
        let options = ClientOptions::new().connector(net).seed(u64::from(client) + 1);
        let holder = options.session_timeout(timeout).connect(&address).await.unwrap();
        holder.create(&format!("/clients/{client}"), b"", CreateMode::Ephemeral).await.unwrap();
        std::future::pending::<()>().await;
    });
}

/// Every new leader gave the sessions of dead clients their timeouts again: 20,000 of 40 s lived for
/// 77 s.
#[test]
fn sessions_of_dead_clients_end_in_time_although_their_leader_dies() {
    let mut world = ensemble(5, 3);
    world.run_until(SimTime::from_ms(3000));
    let leader = world.leader().expect("one leads");
    let [follower, other] = [1, 2].map(|next| ServerId((leader.0 + next - 1) % 3 + 1));
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (listed, servers) = (Arc::clone(&seen), world.addresses());
    world.start_client(9, move |net| async move {
        let connect: Vec<String> = servers.into_iter().map(|(_, address)| address).collect();
        let options = ClientOptions::new().connector(net).seed(77);
        let client = options.connect(&connect.join(",")).await.unwrap();
        client.create("/clients", b"", CreateMode::Persistent).await.unwrap();
        loop {
            sleep(Duration::from_millis(50)).await;
            if let Ok((children, _)) = client.children("/clients").await {
                *listed.lock().unwrap() = children;
            }
        }
    });
    world.run_until(SimTime::from_ms(4000));
    // Ended at the leader and at a follower, frozen at a follower, and alive at both followers.
    let at = [leader, follower, other, follower, other];
    for (client, server) in (0..).zip(at) {
        start_holder(&mut world, client, server);
    }
    let listed = |seen: &Mutex<Vec<String>>| {
        let mut names = seen.lock().unwrap().clone();
        names.sort();
        names
    };
    world.run_until(SimTime::from_ms(8000));
    assert_eq!(listed(&seen), ["0", "1", "2", "3", "4"]);
    for client in [0, 1] {
        world.end_client(client);
    }
    world.client(2).expect("it runs").stop();
    world.run_until(SimTime::from_ms(15_000));
    world.servers.get_mut(&leader).expect("it leads").kill();
    // Their last signs of life came before 8 s. The next leader gives a grace, and sessions end on ticks.
    world.run_until(SimTime::from_ms(8000 + SESSION_TIMEOUT_MS + 2500));
    assert_eq!(listed(&seen), ["3", "4"]);
    world.run_until(SimTime::from_ms(40_000));
    assert_eq!(listed(&seen), ["3", "4"], "sessions of clients that are alive");
}
