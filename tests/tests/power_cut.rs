//! A power cut of all servers at once: their directories lie on one file system in an image; the
//! image is copied while they write, and what was acknowledged before the copy began must be found by
//! servers that start from the copy.
//!
//! Needs root and loop devices, so it is a tier of its own: `make power_cut`, which CI calls as well.
//! `ZOOLET_POWER_CUT_POINTS` makes the run longer, `ZOOLET_FAULTS_SEED` repeats one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "it is a test")]

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use zoolet_client::{Client, ClientOptions, CreateMode};
use zoolet_tests::faults::Seed;
use zoolet_tests::mount::Mount;
use zoolet_tests::ports::PortLease;
use zoolet_tests::process::signal;
use zoolet_tests::tools::{self, announce, run};
use zoolet_tests::up::{self, Up};
use zoolet_tests::wait::until_so;

const POINTS: usize = 12;
/// The longest pause between two cuts, and the largest znode.
const PAUSE_MAX_MS: u64 = 700;
const DATA_MAX_BYTES: usize = 1500;
/// The least writes that are acknowledged between two cuts: no cut finds an idle log.
const GROWTH_MIN: usize = 20;
/// How long they may take, with the servers that come back from a stop.
const GROWTH_MAX: Duration = Duration::from_mins(1);
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(20);
const SERVERS: u16 = 3;
const IMAGE_BYTES: &str = "1500M";

/// Starts the servers of a directory.
fn start(directory: &Path, first_port: u16) -> Up {
    let log = directory.with_extension("log");
    let mut command = up::on_ports(SERVERS, first_port).unwrap();
    // The copy of a directory is started on other ports than the original.
    command
        .arg("--change")
        .arg("--data-dir")
        .arg(directory)
        .stderr(std::fs::File::create(&log).unwrap());
    let up = Up::spawn(&mut command, SERVERS).unwrap();
    let said = std::fs::read_to_string(log).unwrap();
    assert_eq!(up.announced.len(), 1 + usize::from(SERVERS), "it does not start: {said}");
    up
}

/// Sends a signal to every server of an ensemble.
fn signal_all(directory: &Path, name: &str) {
    for member in up::members(directory).unwrap() {
        signal(member.pid, name).unwrap();
    }
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
    if !tools::is_tier("power_cut") {
        announce("NOT RUN: power cuts are run by `make power_cut`, as root");
        return;
    }
    let points = tools::number("ZOOLET_POWER_CUT_POINTS", POINTS).unwrap();
    let seed = Seed::of("power_cut", "");
    let mut rng = seed.generator(0);
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("image");
    run(Command::new("truncate").args(["-s", IMAGE_BYTES]).arg(&image)).unwrap();
    run(Command::new("mkfs.ext4").arg("-q").arg(&image)).unwrap();
    let mount = Mount::image(&image, &directory.path().join("live")).unwrap();
    let (_live_lease, live_port) = PortLease::take_in_a_row(SERVERS).unwrap();
    let live = start(&mount.directory.join("data"), live_port);

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
        assert!(until_so(GROWTH_MAX, grows).await, "no write succeeds any more at point {point}");
        tokio::time::sleep(Duration::from_millis(rng.u64(..PAUSE_MAX_MS))).await;
        let before = acknowledged.lock().unwrap().clone();
        known = before.len();
        let copy = directory.path().join("copy");
        // A copy takes a while; no server writes during it, so that it is of one moment.
        signal_all(&mount.directory.join("data"), "STOP");
        run(Command::new("cp").arg("--sparse=always").arg(&image).arg(&copy)).unwrap();
        signal_all(&mount.directory.join("data"), "CONT");
        let cut = Mount::image(&copy, &directory.path().join(format!("cut-{point}"))).unwrap();
        let (_lease, port) = PortLease::take_in_a_row(SERVERS).unwrap();
        let revived = start(&cut.directory.join("data"), port);
        let reader = connect(port).await;
        reader.sync("/").await.unwrap();
        let (children, _) = reader.children("/").await.unwrap();
        let found: std::collections::BTreeSet<String> =
            children.into_iter().map(|name| format!("/{name}")).collect();
        let gone: Vec<&String> = before.iter().filter(|path| !found.contains(*path)).collect();
        assert!(gone.is_empty(), "point {point}: acknowledged and gone: {gone:?}");
        checked += before.len();
        reader.close().await.unwrap();
        assert!(revived.stop().unwrap().success());
        drop(cut);
        std::fs::remove_file(&copy).unwrap();
    }
    drop(writers);
    assert!(live.stop().unwrap().success());
    announce(&format!(
        "power cut: seed {}, {points} points, {checked} acknowledged writes looked for, all there",
        seed.number,
    ));
    assert!(checked > points * 100, "only {checked}");
}
