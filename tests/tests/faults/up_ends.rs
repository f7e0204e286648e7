//! `zoolet up` while its servers end and when it ends itself: Ctrl-C, the files and the log of a
//! trial, a leader that is asked to stop, servers that are killed under load.
//!
//! `ZOOLET_FAULTS_SEED` repeats a run.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};
use zoolet_client::{CreateMode, Version};
use zoolet_tests::faults::{Load, Seed, connect, convergence};
use zoolet_tests::four_letter;
use zoolet_tests::ports::PortLease;
use zoolet_tests::process::{is_alive, signal};
use zoolet_tests::tools::announce;
use zoolet_tests::up::{self, Member, Up};
use zoolet_tests::wait::{until, until_so};

const SERVERS: u16 = 3;
/// How long servers may take to come back, on a busy machine.
const BACK_MAX: Duration = Duration::from_mins(1);

/// Followers miss their leader no sooner than this; one that is notified does not wait for it.
const ELECTION_MIN: Duration = Duration::from_secs(12);

/// Kills of servers under load.
const KILLS: usize = 6;
/// The mean pause between two writes of a session.
const PAUSE: Duration = Duration::from_millis(10);

fn address(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// The directory below another one in which `zoolet up` runs.
fn home(directory: &Path) -> Option<PathBuf> {
    let mut entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.find(|path| path.join("up.json").exists())
}

fn leader(members: &[Member]) -> Option<usize> {
    members.iter().position(|member| {
        four_letter::mode(address(member.client_port)).as_deref() == Some("leader")
    })
}

/// Starts servers of a file with these settings, whose files and log are in a directory; answers
/// their first client port as well.
fn start(directory: &Path, settings: &str) -> (Up, PortLease, u16) {
    let (lease, port) = PortLease::take_in_a_row(2 * SERVERS).unwrap();
    let config = directory.join("cluster.toml");
    let mut text = settings.to_owned();
    for id in 1..=SERVERS {
        let (client, peer) = (port + id - 1, port + SERVERS + id - 1);
        let _ = writeln!(
            text,
            "[[server]]\nid = {id}\nclient = \"127.0.0.1:{client}\"\n\
             peer = \"127.0.0.1:{peer}\"\ndata_dir = \"{id}\""
        );
    }
    fs::write(&config, text).unwrap();
    let log = directory.join("log");
    let mut command = up::command().unwrap();
    command.args(["--log", "info", "--config"]).arg(&config).current_dir(directory);
    command.stderr(fs::File::create(&log).unwrap());
    let running = Up::spawn(&mut command, SERVERS).unwrap();
    let said = fs::read_to_string(&log).unwrap();
    assert_eq!(running.announced.len(), 1 + usize::from(SERVERS), "{said}");
    (running, lease, port)
}

#[test]
fn a_trial_is_ended_by_ctrl_c_and_leaves_nothing() {
    let (directory, log) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    let (_lease, port) = PortLease::take_in_a_row(SERVERS).unwrap();
    let mut command = up::on_ports(SERVERS, port).unwrap();
    command.env("TMPDIR", directory.path()).env("RUST_LOG", "zoolet_server=debug,zoolet=info");
    // A process group of its own, as a shell makes: Ctrl-C reaches the servers as well.
    command.process_group(0).stderr(log.reopen().unwrap());
    let running = Up::spawn(&mut command, SERVERS).unwrap();
    let home = home(directory.path()).unwrap();

    let members = up::members(&home).unwrap();
    let ports: Vec<u16> = members.iter().map(|member| member.client_port).collect();
    assert_eq!(ports, (port..port + SERVERS).collect::<Vec<_>>());
    for (member, announced) in members.iter().zip(&running.announced[1..]) {
        let part = format!("client port {}, pid {}", member.client_port, member.pid);
        assert!(announced.ends_with(&part), "{announced} is not {part}");
        for port in [member.client_port, member.peer_port.unwrap()] {
            TcpStream::connect(address(port)).unwrap();
        }
    }

    let group = format!("-{}", running.pid());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    assert!(running.wait().unwrap().success());
    assert!(members.iter().all(|member| !is_alive(member.pid)), "{members:?}");
    assert!(!home.exists(), "{} is left", home.display());

    // One log of all, at the level that was asked for.
    let said = fs::read_to_string(log.path()).unwrap();
    for server in 1..=SERVERS {
        let prefix = format!("{server} | ");
        let debug = said.lines().filter(|line| line.starts_with(&prefix) && line.contains("DEBUG"));
        assert!(debug.count() > 0, "server {server} tells no details: {said}");
    }
    let own = said.lines().find(|line| line.contains("stopping the ensemble")).unwrap();
    assert!(!own.contains(" | "), "the supervisor's own line: {own}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_asked_to_stop_hands_its_lead_over() {
    let directory = tempfile::tempdir().unwrap();
    let settings = format!(
        "[ensemble]\nelection_timeout_ms_min = {}\nelection_timeout_ms_max = {}\n",
        ELECTION_MIN.as_millis(),
        ELECTION_MIN.as_millis() + 2_000,
    );
    let (running, _lease, _) = start(directory.path(), &settings);
    let said = || fs::read_to_string(directory.path().join("log")).unwrap();

    let client = connect(running.announced[0].split_once(": ").unwrap().1).await.unwrap();
    client.create("/kept", b"", CreateMode::Persistent).await.unwrap();
    let members = up::members(directory.path()).unwrap();
    let old = block_in_place(|| until(BACK_MAX, || leader(&members))).unwrap();
    let asked_at = Instant::now();
    signal(members[old].pid, "TERM").unwrap();
    let new = block_in_place(|| {
        until(BACK_MAX, || leader(&members).filter(|_| !is_alive(members[old].pid)))
    });
    let took = asked_at.elapsed();
    assert!(new.is_some() && took < ELECTION_MIN / 2, "{new:?} after {took:?}: {}", said());
    let write = async || client.set_data("/kept", b"more", Version::Any).await.is_ok();
    assert!(until_so(BACK_MAX, write).await, "no write succeeds: {}", said());
    client.close().await.unwrap();
    assert!(running.stop().unwrap().success());
}

/// Servers that are killed under load come back by the supervisor alone.
#[tokio::test(flavor = "multi_thread")]
async fn killed_servers_come_back_under_load() {
    let seed = Seed::of("faults", "up_ends::");
    let mut rng = seed.generator(0);
    let directory = tempfile::tempdir().unwrap();
    let (running, _lease, port) = start(directory.path(), "[four_letter]\nwords = [\"*\"]\n");
    let servers = running.announced[0].split_once(": ").unwrap().1.to_owned();
    let mut load = Load::start(&servers, &seed, PAUSE).await.unwrap();
    let mut known = 0;
    for kill in 0..KILLS {
        load.until_acknowledged(known + 50).await.unwrap();
        sleep(Duration::from_millis(rng.u64(..500))).await;
        let before = up::members(directory.path()).unwrap();
        let any = rng.usize(..before.len());
        // A leader every other time.
        let victim = if kill % 2 == 0 { block_in_place(|| leader(&before)) } else { None };
        let victim = victim.unwrap_or(any);
        signal(before[victim].pid, "KILL").unwrap();
        let back =
            block_in_place(|| until(BACK_MAX, || serves_again(directory.path(), &before, victim)));
        assert!(back.is_some(), "{}", fs::read_to_string(directory.path().join("log")).unwrap());
        known = load.check_while_running().await.unwrap();
    }
    let total = load.finish().await.unwrap();
    let addresses: Vec<_> = (port..port + SERVERS).map(address).collect();
    let agreement = convergence::all(&addresses).await.unwrap();
    assert!(running.stop().unwrap().success());
    announce(&format!(
        "killed under up: seed {}, {KILLS} kills; {} acknowledged writes all there, {} in doubt at \
         most once; servers agree on {} znodes",
        seed.number, total.acknowledged, total.in_doubt, agreement.znodes,
    ));
    assert!(total.acknowledged > KILLS * 50, "{total:?}");
}

/// Something if the killed server has another process that serves.
fn serves_again(directory: &Path, before: &[Member], victim: usize) -> Option<()> {
    let now = up::members(directory).unwrap();
    let is_new = now[victim].pid != before[victim].pid;
    let serves = |member: &Member| four_letter::mode(address(member.client_port)).is_some();
    (is_new && now.iter().all(serves)).then_some(())
}
