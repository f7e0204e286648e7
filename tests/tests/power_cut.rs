//! A power cut of all servers at once: their directories lie on one file system in an image; the
//! image is copied while they write, and what was acknowledged before the copy began must be found by
//! servers that start from the copy.
//!
//! Needs root and loop devices, so it is a tier of its own: `make power_cut`, which CI calls as well.
//! `ZOOLET_POWER_CUT_POINTS` makes the run longer, `ZOOLET_FAULTS_SEED` repeats one.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "it is a test")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use zoolet_client::{Client, ClientOptions, CreateMode};
use zoolet_tests::faults::Seed;
use zoolet_tests::ports::PortLease;
use zoolet_tests::tools::{self, announce, run};
use zoolet_tests::wait::until_so;
use zoolet_tests::zoolet;

const POINTS: usize = 12;
/// The longest pause between two cuts, and the largest znode.
const PAUSE_MAX_MS: u64 = 700;
const DATA_MAX_BYTES: usize = 1500;
/// So many writes are acknowledged between two cuts at least: no cut finds an idle log.
const GROWTH_MIN: usize = 20;
/// How long they may take, with the servers that come back from a stop.
const GROWTH_MAX: Duration = Duration::from_mins(1);
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(20);
const SERVERS: u16 = 3;
const IMAGE_BYTES: &str = "1500M";

/// A mounted image; unmounted when it is dropped.
struct Mount {
    directory: PathBuf,
}

impl Mount {
    fn new(image: &Path, directory: &Path) -> Self {
        std::fs::create_dir_all(directory).unwrap();
        run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(directory)).unwrap();
        Self { directory: directory.to_owned() }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: a server that was just killed may still be letting go of its files.
        let _ = Command::new("umount").arg("-l").arg(&self.directory).status();
    }
}

/// A running `zoolet up`; stopped when it is dropped.
struct Up(Child);

impl Up {
    fn start(directory: &Path, first_port: u16) -> Self {
        let mut process = Command::new(zoolet::binary().unwrap())
            .args(["up", "--servers", &SERVERS.to_string()])
            .args(["--client-port", &first_port.to_string(), "--data-dir"])
            .arg(directory)
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(directory.with_extension("log")).unwrap())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let announced = lines.take(1 + usize::from(SERVERS)).flatten().count();
        let said = std::fs::read_to_string(directory.with_extension("log")).unwrap();
        assert_eq!(announced, 1 + usize::from(SERVERS), "it does not start: {said}");
        Self(process)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// Sends a signal to every server of an ensemble.
fn signal_all(directory: &Path, name: &str) {
    let state = std::fs::read_to_string(directory.join("up.json")).unwrap();
    for line in state.lines() {
        if let Some(pid) = line.trim().strip_prefix("\"pid\": ") {
            let pid = pid.trim_end_matches(',');
            run(Command::new("kill").args([&format!("-{name}"), pid])).unwrap();
        }
    }
}

fn ports_in_a_row() -> (PortLease, u16) {
    let mut unfit = Vec::new();
    for _ in 0..200 {
        let lease = PortLease::take(usize::from(SERVERS)).unwrap();
        let first = lease.ports()[0];
        if lease.ports().iter().copied().eq(first..first + SERVERS) {
            return (lease, first);
        }
        unfit.push(lease);
    }
    panic!("no free ports in a row");
}

fn connect_string(first: u16) -> String {
    let addresses: Vec<String> =
        (first..first + SERVERS).map(|port| format!("127.0.0.1:{port}")).collect();
    addresses.join(",")
}

async fn connect(first_port: u16) -> Client {
    let options = ClientOptions::new().connect_timeout(Duration::from_mins(1));
    options.connect(&connect_string(first_port)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_a_power_cut_of_all_servers() {
    if !std::env::var("ZOOLET_TIER").is_ok_and(|tiers| tiers.split(',').any(|t| t == "power_cut")) {
        announce("NOT RUN: power cuts are run by `make power_cut`, as root");
        return;
    }
    let points = tools::number("ZOOLET_POWER_CUT_POINTS", POINTS).unwrap();
    let seed = Seed::of("power_cut");
    let mut rng = seed.generator(0);
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    run(Command::new("truncate").args(["-s", IMAGE_BYTES]).arg(&image)).unwrap();
    run(Command::new("mkfs.ext4").arg("-q").arg(&image)).unwrap();
    let mount = Mount::new(&image, &directory.path().join("live"));
    let (_live_lease, live_port) = ports_in_a_row();
    let live = Up::start(&mount.directory.join("data"), live_port);

    let acknowledged = Arc::new(Mutex::new(Vec::<String>::new()));
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let (mut client, known) = (connect(live_port).await, Arc::clone(&acknowledged));
        let mut rng = seed.generator(writer + 1);
        writers.spawn(async move {
            let prefix = format!("/writer-{writer}-");
            loop {
                let data = vec![7; rng.usize(..DATA_MAX_BYTES)];
                match client.create(&prefix, &data, CreateMode::PersistentSequential).await {
                    Ok((path, _)) => known.lock().unwrap().push(path),
                    // The copy has taken longer than the session may be silent.
                    Err(error) if error.ends_session() => client = connect(live_port).await,
                    // In doubt: it may be found or not.
                    Err(_) => tokio::time::sleep(PAUSE_AFTER_ERROR).await,
                }
            }
        });
    }
    let (mut checked, mut known) = (0, 0);
    for point in 0..points {
        let grows = async || acknowledged.lock().unwrap().len() > known + GROWTH_MIN;
        assert!(until_so(GROWTH_MAX, grows).await, "nobody writes any more at point {point}");
        tokio::time::sleep(Duration::from_millis(rng.u64(..PAUSE_MAX_MS))).await;
        let before = acknowledged.lock().unwrap().clone();
        known = before.len();
        let copy = directory.path().join("copy");
        // A copy takes a while; nobody writes during it, so that it is of one moment.
        signal_all(&mount.directory.join("data"), "STOP");
        run(Command::new("cp").arg("--sparse=always").arg(&image).arg(&copy)).unwrap();
        signal_all(&mount.directory.join("data"), "CONT");
        let cut = Mount::new(&copy, &directory.path().join(format!("cut-{point}")));
        let (_lease, port) = ports_in_a_row();
        let revived = Up::start(&cut.directory.join("data"), port);
        let reader = connect(port).await;
        reader.sync("/").await.unwrap();
        let (children, _) = reader.children("/").await.unwrap();
        let found: std::collections::BTreeSet<String> =
            children.into_iter().map(|name| format!("/{name}")).collect();
        let gone: Vec<&String> = before.iter().filter(|path| !found.contains(*path)).collect();
        assert!(gone.is_empty(), "point {point}: acknowledged and gone: {gone:?}");
        checked += before.len();
        reader.close().await.unwrap();
        drop(revived);
        drop(cut);
        std::fs::remove_file(&copy).unwrap();
    }
    drop(writers);
    drop(live);
    announce(&format!(
        "power cut: seed {}, {points} points, {checked} acknowledged writes looked for, all there",
        seed.number,
    ));
    assert!(checked > points * 100, "only {checked}");
}
