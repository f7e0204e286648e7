//! The figures of `docs/performance.md`: zoolet beside Apache `ZooKeeper` under the same load, in
//! one run, so that the machine is the same for both. `make bench ZKLOAD=path/to/zkload`.
//!
//! Both are up at a time and take their turns, and of each figure the median over the rounds
//! counts, so that what else the machine does for a second falls on neither alone.

#![allow(clippy::print_stdout, reason = "the table is the result")]

use std::error::Error;
use std::process::Command;

use zoolet_tests::servers::Servers;

const OPS: [&str; 4] = ["get", "set", "mix:70", "lock"];
const ROUNDS: usize = 3;
const WARM_UP_SECONDS: &str = "1.5";
const SECONDS: &str = "3";

/// The size to which both preallocate a log file, in KiB: their default.
const LOG_FILE_KIB: &str = "65536";

/// What the load generator says of one run, and what it cost the servers.
#[derive(Debug, Default)]
struct Figures {
    ops_s: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_us_per_op: f64,
    rss_mb: f64,
    errors: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let zkload = std::env::var("ZKLOAD").map_err(|_| "ZKLOAD names no load generator")?;
    println!("| servers | load | server | ops/s | p50 µs | p99 µs | CPU µs/op | RSS MB | errors |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for servers in [1, 3] {
        for op in OPS {
            let apache = Servers::apache()
                .servers(servers)
                .property("preAllocSize", LOG_FILE_KIB)
                // The harness starts them in a hurry, with the first compiler only.
                .jvm_option("-XX:TieredStopAtLevel=4")
                .start()?;
            let zoolet = Servers::zoolet()
                .servers(servers)
                .property("preAllocSize", LOG_FILE_KIB)
                .start()?;
            let (mut theirs, mut ours) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                theirs.push(run(&zkload, op, &apache, servers)?);
                ours.push(run(&zkload, op, &zoolet, servers)?);
            }
            let (theirs, ours) = (median(&theirs), median(&ours));
            row(servers, op, "Apache", &theirs);
            row(servers, op, "zoolet", &ours);
            println!(
                "| {servers} | {op} | **ratio** | {:.1}× | {:.2} | {:.2} | {:.2} | {:.2} | |",
                ours.ops_s / theirs.ops_s,
                ours.p50_us / theirs.p50_us,
                ours.p99_us / theirs.p99_us,
                ours.cpu_us_per_op / theirs.cpu_us_per_op,
                ours.rss_mb / theirs.rss_mb,
            );
        }
    }
    Ok(())
}

/// The median of each figure; of the errors the sum.
fn median(rounds: &[Figures]) -> Figures {
    let of = |figure: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    Figures {
        ops_s: of(|figures| figures.ops_s),
        p50_us: of(|figures| figures.p50_us),
        p99_us: of(|figures| figures.p99_us),
        cpu_us_per_op: of(|figures| figures.cpu_us_per_op),
        rss_mb: of(|figures| figures.rss_mb),
        errors: rounds.iter().map(|figures| figures.errors).sum(),
    }
}

fn row(servers: usize, op: &str, name: &str, figures: &Figures) {
    let Figures { ops_s, p50_us, p99_us, cpu_us_per_op, rss_mb, errors } = figures;
    println!(
        "| {servers} | {op} | {name} | {ops_s:.0} | {p50_us:.0} | {p99_us:.0} | \
         {cpu_us_per_op:.1} | {rss_mb:.0} | {errors:.0} |"
    );
}

fn run(zkload: &str, op: &str, servers: &Servers, count: usize) -> Result<Figures, Box<dyn Error>> {
    let pids: Vec<String> =
        (0..count).filter_map(|index| servers.pid(index)).map(|pid| pid.to_string()).collect();
    let output = Command::new(zkload)
        .arg(servers.connect_string())
        .args(["--op", op, "--conns", "16", "--depth", "8", "--size", "100"])
        .args(["--warm", WARM_UP_SECONDS, "--secs", SECONDS, "--pids", &pids.join(",")])
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let line = String::from_utf8(output.stdout)?;
    let value = |key: &str| {
        let field = line.split_whitespace().find_map(|field| field.strip_prefix(key));
        field.and_then(|value| value.strip_prefix('=')).and_then(|value| value.parse().ok())
    };
    let figures = (|| {
        Some(Figures {
            ops_s: value("ops_s")?,
            p50_us: value("p50_us")?,
            p99_us: value("p99_us")?,
            cpu_us_per_op: value("server_cpu_us_per_op")?,
            rss_mb: value("server_rss_mb")?,
            errors: value("errs")?,
        })
    })();
    figures.ok_or_else(|| format!("the load generator said {line:?}").into())
}
