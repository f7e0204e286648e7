//! Cycles of acquire and release on one lock by several clients: Curator's recipes and this
//! repository's, each on both systems in turns.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;
use zoolet_client::recipes::{
    Lockable, MultiLock, Mutex, ReadLock, ReadWriteLock, Semaphore, SemaphoreMutex, WriteLock,
};
use zoolet_client::{Client, Error};

use super::error::BenchError;
use super::link;
use super::options::Options;
use super::progress::Recorder;
use super::results::{Figure, Figures, SYSTEMS};
use super::rounds;
use super::rows::{CURATOR, Case, OWN_LOCKS, RECIPES, Row};
use crate::apache;
use crate::servers::Servers;
use crate::tools::{self, ToolError};

const SERVERS: usize = 3;
const CLIENTS: usize = 8;
const ROUNDS: usize = 2;
const WARM_UP: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(2);
const PERMITS: usize = 2;

pub(super) fn expected(_: &Options) -> Duration {
    step() * u32::try_from(ROUNDS * SYSTEMS.len() * 2).unwrap_or(u32::MAX)
}

/// All recipes of one client, with the start of its sessions.
fn step() -> Duration {
    (WARM_UP + WINDOW) * u32::try_from(RECIPES.len()).unwrap_or(u32::MAX) + Duration::from_secs(2)
}

pub(super) fn measure(_: &Options, recorder: &mut Recorder) -> Result<(), BenchError> {
    let mut systems = Vec::new();
    for system in SYSTEMS {
        systems.push(rounds::start(system, SERVERS)?);
    }
    let curator = curator()?;
    for round in 1..=ROUNDS {
        for servers in &systems {
            record(
                recorder,
                &CURATOR,
                servers,
                round,
                run_curator(tools::copy(&curator), servers)?,
            );
        }
        for servers in &systems {
            let failed = |error| BenchError::of(servers.kind(), error);
            let runtime = link::runtime().map_err(|error| failed(error.to_string()))?;
            let measured = runtime.block_on(run_own(&servers.connect_string(), round));
            record(
                recorder,
                &OWN_LOCKS,
                servers,
                round,
                measured.map_err(|it| failed(it.to_string()))?,
            );
        }
        systems.reverse();
    }
    Ok(())
}

fn record(
    recorder: &mut Recorder,
    cases: &[Case; 5],
    servers: &Servers,
    round: usize,
    cycles: Vec<f64>,
) {
    for (case, cycles) in cases.iter().zip(cycles) {
        let figures = Figures::from([(Figure::CyclesPerSecond, cycles)]);
        recorder.add(Row::Case(*case), servers.kind(), round, figures);
    }
    recorder.finish(step());
}

/// Compiles the program over Curator once.
fn curator() -> Result<Command, ToolError> {
    let source = tools::interop_dir("bench");
    let inputs: [PathBuf; 2] = ["pom.xml", "Cycles.java"].map(|file| source.join(file));
    let directory = tools::prepare_once("bench", &inputs, |directory| {
        tools::run(Command::new("mvn").args(["-q", "-B", "compile"]).current_dir(directory))
    })?;
    let mut classpath = directory.join("classes").into_os_string();
    classpath.push(":");
    classpath.push(directory.join("jars").join("*"));
    let mut command = apache::java(&classpath);
    command.args(["-XX:TieredStopAtLevel=4", "bench.Cycles"]);
    command.args([CLIENTS.to_string(), WARM_UP.as_millis().to_string()]);
    command.arg(WINDOW.as_millis().to_string());
    command.args(RECIPES);
    Ok(command)
}

fn run_curator(mut command: Command, servers: &Servers) -> Result<Vec<f64>, BenchError> {
    let failed = |what: String| BenchError::of(servers.kind(), format!("Curator: {what}"));
    command.env("ZK_CONNECT", servers.connect_string()).stdin(Stdio::null());
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let cycles = parse(&printed).filter(|_| output.status.success());
    cycles.ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        failed(format!("{}: {printed}{errors}", output.status))
    })
}

/// Parses the lines `RECIPE CYCLES_PER_SECOND`, one for each recipe in its order.
fn parse(printed: &str) -> Option<Vec<f64>> {
    let mut lines = printed.lines();
    let cycles: Option<Vec<f64>> = RECIPES
        .into_iter()
        .map(|recipe| lines.next()?.strip_prefix(recipe)?.trim().parse().ok())
        .collect();
    cycles.filter(|_| lines.next().is_none())
}

/// Measures the recipes of `zoolet-client`, all clients on this thread.
async fn run_own(servers: &str, round: usize) -> Result<Vec<f64>, Error> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Client::connect(servers).await?);
    }
    let mut measured = Vec::new();
    for recipe in RECIPES {
        let path = format!("/bench-client/{recipe}-{round}");
        measured.push(cycles(&clients, recipe, &path).await?);
    }
    for client in clients {
        client.close().await?;
    }
    Ok(measured)
}

#[allow(clippy::disallowed_methods, reason = "the bench measures real time")]
async fn cycles(clients: &[Client], recipe: &str, path: &str) -> Result<f64, Error> {
    let (count, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut contenders = JoinSet::new();
    for (number, client) in clients.iter().enumerate() {
        let (count, stop) = (Arc::clone(&count), Arc::clone(&stop));
        let contender = Contender::new(client, recipe, path, number);
        contenders.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                contender.cycle().await?;
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<(), Error>(())
        });
    }
    sleep(WARM_UP).await;
    let (began, before) = (Instant::now(), count.load(Ordering::Relaxed));
    sleep(WINDOW).await;
    let (seconds, after) = (began.elapsed().as_secs_f64(), count.load(Ordering::Relaxed));
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = contenders.join_next().await {
        // A contender that panics has printed why.
        ended.unwrap_or(Ok(()))?;
    }
    let cycles = u32::try_from(after - before).unwrap_or(u32::MAX);
    Ok(f64::from(cycles) / seconds)
}

/// The lock of one client.
enum Contender {
    One(Box<dyn Lockable>),
    Several(MultiLock),
}

impl Contender {
    fn new(client: &Client, recipe: &str, path: &str, number: usize) -> Self {
        let read_write = || ReadWriteLock::new(client, path);
        match recipe {
            "semaphore-mutex" => Self::One(Box::new(SemaphoreMutex::new(client, path))),
            // Every second client writes.
            "read-write" if number.is_multiple_of(2) => {
                Self::One(Box::new(WriteLock(read_write())))
            }
            "read-write" => Self::One(Box::new(ReadLock(read_write()))),
            "semaphore" => Self::One(Box::new(Semaphore::new(client, path, PERMITS))),
            "multi" => {
                let paths = ["a", "b"].map(|name| format!("{path}-{name}"));
                Self::Several(MultiLock::mutexes(client, paths.iter().map(String::as_str)))
            }
            _ => Self::One(Box::new(Mutex::new(client, path))),
        }
    }

    async fn cycle(&self) -> Result<(), Error> {
        match self {
            Self::One(lock) => {
                if let Some(guard) = lock.acquire_boxed().await? {
                    guard.release().await?;
                }
            }
            Self::Several(lock) => drop(lock.acquire().await?.release().await?),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_program_are_those_of_the_recipes_in_their_order() {
        let printed =
            "mutex 222.5\nsemaphore-mutex 138\nread-write 324\nsemaphore 195\nmulti 134\n";
        assert_eq!(parse(printed), Some(vec![222.5, 138.0, 324.0, 195.0, 134.0]));
        assert_eq!(parse(&printed.replace("multi 134\n", "")), None);
        assert_eq!(parse(&printed.replace("195", "many")), None);
        assert_eq!(parse(&format!("{printed}more\n")), None);
    }
}
