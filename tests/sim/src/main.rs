//! `zoolet-sim`: one run of the simulator, or many. `make sim` calls it.

use std::env;
use std::io::{self, Write};
use std::panic;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Parser;
use tikv_jemallocator::Jemalloc;
use zoolet_sim::faults::Kind;
use zoolet_sim::load::Role;
use zoolet_sim::report::Report;
use zoolet_sim::run::{self, Options};
use zoolet_sim::swarm::{Child, Night, limit_processor_time, minimize, night};
use zoolet_sim::{checks, situations, trace};

/// As in the program of the server: a run takes a twentieth less processor time than with the C library's.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// The variable from which the process takes its chance.
const SEED: &str = "ZOOLET_SIM_SEED";

/// Whole ensembles of zoolet on simulated network, disks, clocks and chance.
#[derive(Debug, Parser)]
#[command(version)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
struct Arguments {
    /// The seed of one run
    #[arg(long)]
    seed: Option<u64>,
    /// Prints what happens in the run
    #[arg(long)]
    trace: bool,
    /// Drops faults and clients of the run while it still breaks the same promise
    #[arg(long)]
    minimize: bool,
    /// Prints the run's report as a line of JSON
    #[arg(long, hide = true)]
    report: bool,
    /// How many servers there are, instead of a drawn number
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=7))]
    servers: Option<u8>,
    /// How many clients there are, instead of a drawn number
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=100))]
    clients: Option<u8>,
    /// What the clients do in turn, instead of drawn work, such as `mutex,curator`
    #[arg(long, value_delimiter = ',', value_parser = Role::named)]
    roles: Option<Vec<Role>>,
    /// For how many simulated seconds there are faults
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=3600))]
    secs: Option<u64>,
    /// Kinds of faults instead of drawn ones, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = Kind::named)]
    kinds: Option<Vec<Kind>>,
    /// Faults of the plan that are left out, by their numbers
    #[arg(long, value_delimiter = ',')]
    without: Vec<usize>,
    /// Clients that do nothing, by their numbers
    #[arg(long, value_delimiter = ',')]
    idle: Vec<u8>,
    /// When all faults are ended, in simulated milliseconds
    #[arg(long)]
    heal_at_ms: Option<u64>,
    /// Runs seeds for this number of seconds, instead of one
    #[arg(long, conflicts_with = "seed")]
    night: Option<u64>,
    /// At most this number of seeds
    #[arg(long, requires = "night")]
    seeds: Option<u64>,
    /// The first seed of them, instead of any number
    #[arg(long)]
    from: Option<u64>,
    /// How many of them run side by side, instead of one for each core
    #[arg(long)]
    jobs: Option<usize>,
    /// How many of them are run twice, to compare the traces
    #[arg(long, default_value_t = 4)]
    twice: u64,
    /// A file to which a line about them is added
    #[arg(long)]
    ledger: Option<PathBuf>,
    /// The commit that the line names
    #[arg(long, default_value = "unknown")]
    commit: String,
    /// Ends at the first seed with a violation whose line has this text, such as "P4"
    #[arg(long, requires = "night")]
    stop_at: Option<String>,
    /// A situation that did not come up is a failure
    #[arg(long)]
    all_situations: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match (arguments.seed, arguments.night) {
        (Some(seed), _) if arguments.minimize => minimized(&arguments, seed),
        (Some(seed), _) => one(&arguments, seed),
        (None, Some(secs)) => many(&arguments, Duration::from_secs(secs)),
        (None, None) => {
            complain("say which: --seed=N for one run, or --night=SECONDS for many");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

impl Arguments {
    fn options(&self, seed: u64) -> Options {
        Options {
            seed,
            servers: self.servers,
            clients: self.clients,
            roles: self.roles.clone(),
            secs: self.secs,
            kinds: self.kinds.clone(),
            without: self.without.clone(),
            idle: self.idle.clone(),
            heal_at_ms: self.heal_at_ms,
        }
    }
}

/// One run; in a process whose chance is that of the seed.
fn one(arguments: &Arguments, seed: u64) -> io::Result<bool> {
    if env::var(SEED).ok() != Some(seed.to_string()) {
        let status = Command::new(env::current_exe()?)
            .args(env::args_os().skip(1))
            .env(SEED, seed.to_string())
            .status()?;
        return Ok(status.success());
    }
    if arguments.report {
        limit_processor_time()?;
    }
    trace::show(arguments.trace);
    // The trace takes what servers and clients log.
    let _ = tracing::subscriber::set_global_default(trace::Logs);
    let shown = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        trace::panicked(info);
        shown(info);
    }));
    let options = arguments.options(seed);
    let outcome = run::run(&options);
    let checked = checks::all(&outcome.history, &run::check_options(&options));
    let met = situations::met(&outcome, &checked.counts);
    let report = Report::of(seed, &outcome, &checked, met);
    if arguments.report {
        say(&serde_json::to_string(&report)?);
    } else {
        print(&report);
    }
    Ok(report.violations.is_empty())
}

fn print(report: &Report) {
    let Report { seed, servers, clients, simulated_ms, cpu_ms, .. } = report;
    let rate = simulated_ms / (*cpu_ms).max(1);
    say(&format!(
        "seed {seed}: {servers} servers, {clients} clients, {} simulated seconds in {cpu_ms} ms of \
         processor time ({rate} times life)",
        simulated_ms / 1000
    ));
    say(&format!("faults: {:?}", report.faults));
    say(&format!("checked: {:?}", report.checked));
    say(&format!("situations: {}", report.situations.join("; ")));
    say(&format!("trace: {}", report.trace));
    for violation in &report.violations {
        say(&format!("BROKEN {violation}"));
    }
    if report.violations.is_empty() {
        say("no promise was broken");
    } else {
        say(&format!("repeat it step by step: make sim SEED={seed} TRACE=1"));
        say(&format!("make it smaller: make sim SEED={seed} MINIMIZE=1"));
    }
}

fn minimized(arguments: &Arguments, seed: u64) -> io::Result<bool> {
    let options = arguments.options(seed);
    let run = &mut |options: &Options| Ok(Child { options: options.clone() }.run()?.promises());
    match minimize(&options, &run::size(&options), run, &mut |text| say(&text))? {
        None => {
            say("no promise was broken");
            Ok(true)
        }
        Some(options) => {
            let command = zoolet_sim::swarm::arguments(&options).join(" ");
            say(&format!("repeat it: make sim ARGS='{command}' TRACE=1"));
            Ok(false)
        }
    }
}

fn many(arguments: &Arguments, time: Duration) -> io::Result<bool> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let from = arguments.from.unwrap_or_else(|| fastrand::u64(..1 << 48));
    let plan = Night {
        from,
        time,
        seeds_max: arguments.seeds.unwrap_or(u64::MAX),
        jobs: arguments.jobs.unwrap_or(cores),
        twice: arguments.twice,
        options: arguments.options(0),
        ledger: arguments.ledger.clone(),
        commit: arguments.commit.clone(),
        all_situations: arguments.all_situations,
        stop_at: arguments.stop_at.clone(),
    };
    night(&plan, &|text| say(&text))
}

fn say(text: &str) {
    // A reader that has seen enough has gone.
    let _ = writeln!(io::stdout(), "{text}");
}

fn complain(text: &str) {
    // Without a reader there is no one to complain to.
    let _ = writeln!(io::stderr(), "zoolet-sim: {text}");
}
