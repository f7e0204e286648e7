//! Changes of the ensemble while its leaders die: whatever moment the leader is killed at, the
//! ensemble goes on as the old one or as the new one, and nothing acknowledged is lost. And servers
//! that move to other ports.
//!
//! `ZOOLET_RECONFIG_ROUNDS` makes the run longer, `ZOOLET_FAULTS_SEED` repeats one.

use std::collections::BTreeMap;
use std::iter;
use std::time::Duration;

use tokio::task::block_in_place;
use tokio::time::{Instant, sleep, timeout};
use zoolet_client::{Client, ClientOptions, ConfigChange, Error, ErrorCode, Version};
use zoolet_tests::faults::{Load, Seed, convergence};
use zoolet_tests::four_letter;
use zoolet_tests::ports::PortLease;
use zoolet_tests::servers::{LEADER_MAX, SUPER_DIGEST, Servers};
use zoolet_tests::tools::{self, announce};
use zoolet_tests::wait::until_so;

const SERVERS: usize = 5;
const ROUNDS: usize = 10;
/// The mean pause between two writes of a session.
const PAUSE: Duration = Duration::from_millis(20);
/// A change takes about as long; the leader dies before it is over, mostly.
const KILL_WITHIN_MS: u64 = 250;
/// How long an ensemble may take to get over a change, on a busy machine.
const SETTLED_MAX: Duration = Duration::from_mins(2);
/// The rounds after which the leader dies right after the answer, however slow the machine is.
const ROUNDS_PER_ANSWER: usize = 4;
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The lines of a configuration by server, without its version.
type Members = BTreeMap<usize, String>;

fn parse(text: &str) -> Members {
    let lines = text.lines().filter_map(|line| {
        let (id, _) = line.strip_prefix("server.")?.split_once('=')?;
        Some((id.parse().unwrap(), line.to_owned()))
    });
    lines.collect()
}

fn with_role(line: &str, role: &str) -> String {
    line.replace(":observer;", &format!(":{role};")).replace(":participant;", &format!(":{role};"))
}

fn render(members: &Members) -> String {
    members.values().cloned().collect::<Vec<_>>().join(",")
}

fn start(voters: usize) -> Servers {
    Servers::zoolet()
        .servers(voters)
        .observers(SERVERS - voters)
        .property("reconfigEnabled", "true")
        // A removed server closes its clients' connections after this many ticks. It must be before the sessions that it no
        // longer keeps alive expire.
        .property("syncLimit", "4")
        .super_digest(SUPER_DIGEST)
        .start()
        .unwrap()
}

/// A client that may do everything.
async fn superuser(servers: &str) -> Result<Client, Error> {
    let options = ClientOptions::new().connect_timeout(Duration::from_secs(10));
    let client = options.connect(servers).await?;
    client.add_auth("digest", b"super:test").await?;
    Ok(client)
}

async fn ask(servers: String, members: String) -> Result<Members, Error> {
    let client = superuser(&servers).await?;
    let (text, _) = client.reconfig(ConfigChange::All(&members), Version::Any).await?;
    Ok(parse(std::str::from_utf8(&text).unwrap()))
}

/// The members once no change is under way: the ensemble is asked to become what it is, which it
/// does only when a change that lost its leader is finished.
async fn settled(servers: &str) -> Members {
    let began = Instant::now();
    loop {
        let attempt = async {
            let client = superuser(servers).await?;
            client.sync("/zookeeper/config").await?;
            let (text, _) = client.config().await?;
            let text = String::from_utf8(text.to_vec()).unwrap();
            let version = text.trim().rsplit_once("version=").unwrap().1;
            let version = Version::Exactly(i64::from_str_radix(version, 16).unwrap());
            client.reconfig(ConfigChange::All(&render(&parse(&text))), version).await
        };
        let outcome = timeout(SETTLED_MAX, attempt).await.unwrap();
        match outcome {
            Ok((text, _)) => return parse(std::str::from_utf8(&text).unwrap()),
            Err(error) => {
                assert!(began.elapsed() < SETTLED_MAX, "a change does not end: {error}");
                sleep(LOOK_AGAIN).await;
            }
        }
    }
}

/// Waits until the members are what their lines say.
async fn wait_until_members_serve(servers: &Servers, members: &Members) {
    let began = Instant::now();
    for (id, line) in members {
        let expected: &[&str] =
            if line.contains(":observer;") { &["observer"] } else { &["leader", "follower"] };
        let address = line.rsplit_once(';').unwrap().1.parse().unwrap();
        loop {
            let mode = block_in_place(|| four_letter::mode(address));
            if mode.as_deref().is_some_and(|mode| expected.contains(&mode)) {
                break;
            }
            let output =
                |server| format!("server {}:\n{}", server + 1, servers.output(server).unwrap());
            let outputs = || (0..SERVERS).map(output).collect::<String>();
            let has_time = began.elapsed() < SETTLED_MAX;
            assert!(has_time, "server {id}, {line}, is {mode:?}:\n{}", outputs());
            sleep(LOOK_AGAIN).await;
        }
    }
}

/// Three to five voters, at most one server absent, the others observers.
fn any_members(all: &Members, rng: &mut fastrand::Rng) -> Members {
    let mut ids: Vec<usize> = all.keys().copied().collect();
    rng.shuffle(&mut ids);
    ids.truncate(rng.usize(SERVERS - 1..=SERVERS));
    let voters = rng.usize(3..=ids.len());
    let role = |place: usize| if place < voters { "participant" } else { "observer" };
    let line = |(place, id): (usize, &usize)| (*id, with_role(all.get(id).unwrap(), role(place)));
    ids.iter().enumerate().map(line).collect()
}

/// What became of the changes.
#[derive(Debug, Default)]
struct Changes {
    acknowledged: usize,
    refused: usize,
    /// Changes whose answer was lost, and which were finished or undone.
    finished: usize,
    undone: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_dies_within_a_change_leaves_the_old_or_the_new_ensemble() {
    if !crate::is_due("reconfig_faults") {
        return;
    }
    let rounds = tools::number("ZOOLET_RECONFIG_ROUNDS", ROUNDS).unwrap();
    let seed = Seed::of("faults", "reconfig_faults::");
    let mut rng = seed.generator(0);
    let mut servers = block_in_place(|| start(3));
    let all_servers = servers.connect_string();
    let mut load = Load::start(&all_servers, &seed, PAUSE).await.unwrap();
    let all = settled(&all_servers).await;
    let (mut now, mut changes, mut known) = (all.clone(), Changes::default(), 0);
    for round in 0..rounds {
        let mut draws = iter::repeat_with(|| any_members(&all, &mut rng));
        let wanted = draws.find(|members| *members != now).unwrap();
        let victim = block_in_place(|| servers.wait_for_leader(LEADER_MAX)).unwrap();
        let asked = servers.client_address(now.keys().next().unwrap() - 1).unwrap();
        let asking = tokio::spawn(ask(asked.to_string(), render(&wanted)));
        let within = Duration::from_millis(rng.u64(..KILL_WITHIN_MS));
        if round % ROUNDS_PER_ANSWER == 0 {
            until_so(SETTLED_MAX, async || asking.is_finished()).await;
        } else {
            sleep(within).await;
        }
        servers.kill(victim).unwrap();
        servers.spawn(victim).unwrap();
        let answer = timeout(SETTLED_MAX, asking).await.unwrap().unwrap();
        let then = settled(&all_servers).await;
        assert!(then == now || then == wanted, "{now:?} was to be {wanted:?} and is {then:?}");
        match answer.map_err(|error| error.code()) {
            Ok(applied) => {
                assert_eq!((&applied, &then), (&wanted, &wanted));
                changes.acknowledged += 1;
            }
            Err(Some(ErrorCode::NewConfigNoQuorum | ErrorCode::ReconfigInProgress)) => {
                assert_eq!(then, now);
                changes.refused += 1;
            }
            Err(_) if then == wanted => changes.finished += 1,
            Err(_) => changes.undone += 1,
        }
        now = then;
        wait_until_members_serve(&servers, &now).await;
        known = load.check_while_running().await.unwrap().max(known);
        load.until_acknowledged(known + 20).await.unwrap();
    }
    ask_until_done(&all_servers, &all).await;
    wait_until_members_serve(&servers, &all).await;
    let total = load.finish().await.unwrap();
    let addresses: Vec<_> = (0..SERVERS).map(|i| servers.client_address(i).unwrap()).collect();
    let agreement = convergence::all(&addresses).await.unwrap();
    announce(&format!(
        "reconfig: seed {}, {rounds} leaders died in changes: {changes:?}; {} acknowledged writes \
         all there, {} in doubt at most once; servers agree on {} znodes",
        seed.number, total.acknowledged, total.in_doubt, agreement.znodes,
    ));
    assert!(total.acknowledged > rounds * 20, "{total:?}");
    assert!(changes.acknowledged + changes.finished > 0, "no change came about: {changes:?}");
}

async fn ask_until_done(servers: &str, members: &Members) {
    let began = Instant::now();
    while let Err(error) = ask(servers.to_owned(), render(members)).await {
        assert!(began.elapsed() < SETTLED_MAX, "{error}");
        sleep(LOOK_AGAIN).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_and_leaders_move_to_other_ports() {
    let seed = Seed::of("faults", "reconfig_faults::");
    let mut servers = block_in_place(|| start(SERVERS));
    let all_servers = servers.connect_string();
    let mut load = Load::start(&all_servers, &seed, PAUSE).await.unwrap();
    let mut members = settled(&all_servers).await;
    let leader = block_in_place(|| servers.wait_for_leader(LEADER_MAX)).unwrap();
    let leases = [PortLease::take(3).unwrap(), PortLease::take(3).unwrap()];
    for (mover, lease) in [(leader + 1) % SERVERS, leader].into_iter().zip(&leases) {
        let id = mover + 1;
        let &[client, quorum, election] = lease.ports() else { panic!("three ports") };
        let line =
            format!("server.{id}=127.0.0.1:{quorum}:{election}:participant;127.0.0.1:{client}");
        let file = servers.server_dir(mover).join("zoo.cfg");
        let text = std::fs::read_to_string(&file).unwrap();
        let before = text.lines().find(|line| line.starts_with(&format!("server.{id}="))).unwrap();
        std::fs::write(&file, text.replace(before, &line)).unwrap();
        members.insert(id, line);
        ask_until_done(&all_servers, &members).await;
        servers.kill(mover).unwrap();
        servers.spawn(mover).unwrap();
        wait_until_members_serve(&servers, &members).await;
        load.check_while_running().await.unwrap();
    }
    // Three of five are left, both movers among them: they count.
    for gone in [(leader + 2) % SERVERS, (leader + 3) % SERVERS] {
        servers.kill(gone).unwrap();
    }
    let known = load.acknowledged();
    load.until_acknowledged(known + 50).await.unwrap();
    for gone in [(leader + 2) % SERVERS, (leader + 3) % SERVERS] {
        servers.spawn(gone).unwrap();
    }
    wait_until_members_serve(&servers, &members).await;
    load.finish().await.unwrap();
    let addresses = members.values().map(|line| line.rsplit_once(';').unwrap().1.parse().unwrap());
    convergence::all(&addresses.collect::<Vec<_>>()).await.unwrap();
}
