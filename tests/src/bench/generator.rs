//! Runs of the load generator `zkload`, and what it prints.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::error::BenchError;
use super::loads::{Load, Place};
use super::peer_bytes;
use super::results::{Figure, Figures};
use super::threads::{self, Rates, Sample};
use crate::servers::{LEADER_MAX, Servers};

pub(super) const WARM_UP: Duration = Duration::from_millis(1_500);
/// What it may take to prepare its znodes, and to end.
const PREPARE_MAX: Duration = Duration::from_mins(2);
/// The bytes of data of each znode.
const DATA_BYTES: &str = "100";
/// The counts of switches are read at each of these parts of the window.
const SAMPLES_PER_WINDOW: u32 = 10;

/// Puts a load on the servers and measures for `window`.
pub(super) fn run(
    program: &Path,
    load: &Load,
    servers: &Servers,
    window: Duration,
) -> Result<Figures, BenchError> {
    let hosts = hosts(load, servers)?;
    let watched = Watched::of(load, servers)?;
    let listed: Vec<String> = watched.pids.iter().map(u32::to_string).collect();
    let child = Command::new(program)
        .args([&hosts, "--op", load.operation, "--size", DATA_BYTES])
        .args(["--conns", &load.connections.to_string(), "--depth", &load.depth.to_string()])
        .args(["--warm", &WARM_UP.as_secs_f64().to_string()])
        .args(["--secs", &window.as_secs_f64().to_string(), "--pids", &listed.join(",")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(BenchError::file(program))?;
    let (seen, line) = watch(child, &watched, window)?;
    let printed = || BenchError::Generator(format!("cannot read its line {line:?}"));
    let mut figures = parse(&line).ok_or_else(printed)?;
    let ops_s = figures.get(Figure::OperationsPerSecond).ok_or_else(printed)?.max(1.0);
    let rates = threads::per_second(&seen.samples, window, period(window)).unwrap_or_default();
    figures.0.extend(watched.figures(&rates, ops_s));
    if let Some(bytes_s) = seen.peer_bytes_per_second() {
        let followers = u32::try_from(watched.followers().count()).unwrap_or(u32::MAX);
        figures.0.insert(Figure::PeerBytes, bytes_s / ops_s / f64::from(followers.max(1)));
    }
    Ok(figures)
}

fn period(window: Duration) -> Duration {
    window / SAMPLES_PER_WINDOW
}

/// The processes that a load is put on.
struct Watched {
    pids: Vec<u32>,
    /// Of several servers.
    leader: Option<u32>,
    client_ports: Vec<u16>,
}

impl Watched {
    fn of(load: &Load, servers: &Servers) -> Result<Self, BenchError> {
        let pids: Vec<u32> = (0..load.servers).filter_map(|index| servers.pid(index)).collect();
        let leader =
            if load.servers > 1 { servers.pid(servers.wait_for_leader(LEADER_MAX)?) } else { None };
        Ok(Self { pids, leader, client_ports: servers.client_ports() })
    }

    fn followers(&self) -> impl Iterator<Item = u32> {
        self.pids.iter().copied().filter(|pid| self.leader.is_some_and(|leader| leader != *pid))
    }

    fn peer_bytes(&self) -> Option<u64> {
        peer_bytes::sent(self.leader?, &self.client_ports)
    }

    /// Returns what one operation takes.
    fn figures(&self, rates: &Rates, ops_s: f64) -> Vec<(Figure, f64)> {
        let mut figures = vec![(Figure::SwitchesPerOperation, rates.switches / ops_s)];
        // A single server has the leader's part.
        let leads = self.leader.or_else(|| self.pids.first().copied());
        if let Some(leader) = leads {
            figures.push((Figure::LeaderCpu, rates.process_cpu_us(leader) / ops_s));
            figures.push((Figure::LeaderThread, rates.busiest_thread_us(leader) / ops_s));
        }
        let followers: Vec<f64> =
            self.followers().map(|pid| rates.process_cpu_us(pid) / ops_s).collect();
        if let Ok(count) = u32::try_from(followers.len())
            && count > 0
        {
            let mean = followers.iter().sum::<f64>() / f64::from(count);
            figures.push((Figure::FollowerCpu, mean));
        }
        figures
    }
}

/// What was seen of the servers while the load generator ran.
#[derive(Debug, Default)]
struct Seen {
    samples: Vec<Sample>,
    /// What the leader has sent to its peers by two moments of the window, at most.
    peer_bytes: Vec<(Duration, u64)>,
}

impl Seen {
    #[allow(clippy::cast_precision_loss, reason = "the bytes of seconds are far below 2^52")]
    fn peer_bytes_per_second(&self) -> Option<f64> {
        let [(began, before), (ended, after)] = self.peer_bytes.as_slice() else { return None };
        Some(after.saturating_sub(*before) as f64 / ended.saturating_sub(*began).as_secs_f64())
    }
}

/// Returns the addresses for the load generator, separated by commas.
fn hosts(load: &Load, servers: &Servers) -> Result<String, BenchError> {
    if load.place == Place::Spread {
        return Ok(servers.connect_string());
    }
    let leader = servers.wait_for_leader(LEADER_MAX)?;
    let index = match load.place {
        Place::Follower => (leader + 1) % load.servers,
        Place::Leader | Place::Spread => leader,
    };
    Ok(servers.client_address(index)?.to_string())
}

/// Watches the servers until the load generator has ended; returns what it printed, too.
#[allow(clippy::disallowed_methods, reason = "the bench measures real time")]
fn watch(
    mut child: Child,
    watched: &Watched,
    window: Duration,
) -> Result<(Seen, String), BenchError> {
    let failed = |error: std::io::Error| BenchError::Generator(error.to_string());
    let period = period(window);
    // Of the window, which begins when the znodes are prepared: at an unknown time.
    let looks = [WARM_UP + window / 3, (WARM_UP + window).saturating_sub(period)];
    let began = Instant::now();
    let mut seen = Seen::default();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if began.elapsed() > WARM_UP + window + PREPARE_MAX {
            child.kill().map_err(failed)?;
            child.wait().map_err(failed)?;
            return Err(BenchError::Generator(format!("no end after {:?}", began.elapsed())));
        }
        seen.samples.push(Sample { at: began.elapsed(), threads: threads::read(&watched.pids) });
        let is_due = looks.get(seen.peer_bytes.len()).is_some_and(|look| began.elapsed() >= *look);
        if is_due && let Some(bytes) = watched.peer_bytes() {
            seen.peer_bytes.push((began.elapsed(), bytes));
        }
        thread::sleep(period);
    };
    let mut line = String::new();
    let mut errors = String::new();
    if let (Some(mut stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) {
        stdout.read_to_string(&mut line).map_err(failed)?;
        stderr.read_to_string(&mut errors).map_err(failed)?;
    }
    if status.success() {
        return Ok((seen, line));
    }
    Err(BenchError::Generator(format!("{status}: {}", errors.trim())))
}

/// The figures of a line of the load generator, by their names in it.
const PRINTED: [(&str, Figure); 6] = [
    ("ops_s", Figure::OperationsPerSecond),
    ("p50_us", Figure::P50),
    ("p99_us", Figure::P99),
    ("server_cpu_us_per_op", Figure::CpuPerOperation),
    ("server_rss_mb", Figure::Rss),
    ("errs", Figure::Errors),
];

/// Parses the line of `key=value` pairs.
fn parse(line: &str) -> Option<Figures> {
    let value = |key: &str| -> Option<f64> {
        let mut pairs = line.split_whitespace().filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == key)?.1.parse().ok()
    };
    let figures = PRINTED.into_iter().map(|(key, figure)| Some((figure, value(key)?)));
    Some(Figures(figures.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "op=set conns=1 depth=1 size=100 ops_s=812 p50_us=1190 p99_us=2399 \
                        p999_us=3001 max_us=3100 errs=2 server_cpu_us_per_op=410.25 \
                        server_rss_mb=480\n";

    #[test]
    fn the_line_of_the_load_generator_is_parsed() {
        let expected = Figures::from([
            (Figure::OperationsPerSecond, 812.0),
            (Figure::P50, 1_190.0),
            (Figure::P99, 2_399.0),
            (Figure::CpuPerOperation, 410.25),
            (Figure::Rss, 480.0),
            (Figure::Errors, 2.0),
        ]);
        assert_eq!(parse(LINE), Some(expected));
    }

    #[test]
    fn a_line_without_one_of_the_figures_is_refused() {
        assert_eq!(parse(&LINE.replace("p99_us=2399", "")), None);
        assert_eq!(parse(&LINE.replace("ops_s=812", "ops_s=many")), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_load_generator_that_fails_is_an_error_with_its_words() {
        let child = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let window = Duration::from_millis(100);
        let watched = Watched { pids: Vec::new(), leader: None, client_ports: Vec::new() };
        let run = |script| watch(child(script), &watched, window);
        let error = run("echo refused >&2; exit 3").unwrap_err();
        assert!(error.to_string().contains("refused"), "{error}");
        let (_, line) = run("echo done").unwrap();
        assert_eq!(line, "done\n");
    }

    #[test]
    fn the_bytes_to_the_peers_are_those_between_two_looks() {
        let at = Duration::from_secs;
        let mut seen = Seen { samples: Vec::new(), peer_bytes: vec![(at(1), 5_000)] };
        assert_eq!(seen.peer_bytes_per_second(), None);
        seen.peer_bytes.push((at(3), 9_000));
        assert_eq!(seen.peer_bytes_per_second(), Some(2_000.0));
    }
}
