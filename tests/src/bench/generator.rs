//! Runs of the load generator `zkload`, and what it prints.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::error::BenchError;
use super::loads::{Load, Place};
use super::results::Figures;
use super::switches::{self, Sample};
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
    let pids: Vec<u32> = (0..load.servers).filter_map(|index| servers.pid(index)).collect();
    let listed: Vec<String> = pids.iter().map(u32::to_string).collect();
    let child = Command::new(program)
        .args([&hosts, "--op", load.operation, "--size", DATA_BYTES])
        .args(["--conns", &load.connections.to_string(), "--depth", &load.depth.to_string()])
        .args(["--warm", &WARM_UP.as_secs_f64().to_string()])
        .args(["--secs", &window.as_secs_f64().to_string(), "--pids", &listed.join(",")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(BenchError::file(program))?;
    let period = window / SAMPLES_PER_WINDOW;
    let (samples, line) = watch(child, &pids, period, window)?;
    let switches_s = switches::per_second(&samples, window, period).unwrap_or_default();
    let printed = || BenchError::Generator(format!("cannot read its line {line:?}"));
    let mut figures = parse(&line).ok_or_else(printed)?;
    figures.switches_per_op = switches_s / figures.ops_s.max(1.0);
    Ok(figures)
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

/// Counts switches until the load generator has ended; returns the counts and what it printed.
#[allow(clippy::disallowed_methods, reason = "the bench measures real time")]
fn watch(
    mut child: Child,
    pids: &[u32],
    period: Duration,
    window: Duration,
) -> Result<(Vec<Sample>, String), BenchError> {
    let failed = |error: std::io::Error| BenchError::Generator(error.to_string());
    let began = Instant::now();
    let mut samples = Vec::new();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if began.elapsed() > WARM_UP + window + PREPARE_MAX {
            child.kill().map_err(failed)?;
            child.wait().map_err(failed)?;
            return Err(BenchError::Generator(format!("no end after {:?}", began.elapsed())));
        }
        samples.push(Sample { at: began.elapsed(), switches: switches::read(pids) });
        thread::sleep(period);
    };
    let mut line = String::new();
    let mut errors = String::new();
    if let (Some(mut stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) {
        stdout.read_to_string(&mut line).map_err(failed)?;
        stderr.read_to_string(&mut errors).map_err(failed)?;
    }
    if status.success() {
        return Ok((samples, line));
    }
    Err(BenchError::Generator(format!("{status}: {}", errors.trim())))
}

/// Parses the line of `key=value` pairs, which does not have the switches.
fn parse(line: &str) -> Option<Figures> {
    let value = |key: &str| -> Option<f64> {
        let mut pairs = line.split_whitespace().filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == key)?.1.parse().ok()
    };
    Some(Figures {
        ops_s: value("ops_s")?,
        p50_us: value("p50_us")?,
        p99_us: value("p99_us")?,
        cpu_us_per_op: value("server_cpu_us_per_op")?,
        switches_per_op: 0.0,
        rss_mb: value("server_rss_mb")?,
        errors: value("errs")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "op=set conns=1 depth=1 size=100 ops_s=812 p50_us=1190 p99_us=2399 \
                        p999_us=3001 max_us=3100 errs=2 server_cpu_us_per_op=410.25 \
                        server_rss_mb=480\n";

    #[test]
    fn the_line_of_the_load_generator_is_parsed() {
        let expected = Figures {
            ops_s: 812.0,
            p50_us: 1_190.0,
            p99_us: 2_399.0,
            cpu_us_per_op: 410.25,
            switches_per_op: 0.0,
            rss_mb: 480.0,
            errors: 2.0,
        };
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
        let period = Duration::from_millis(10);
        let error = watch(child("echo refused >&2; exit 3"), &[], period, period).unwrap_err();
        assert!(error.to_string().contains("refused"), "{error}");
        let (_, line) = watch(child("echo done"), &[], period, period).unwrap();
        assert_eq!(line, "done\n");
    }
}
