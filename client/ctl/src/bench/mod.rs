//! `bench`: how fast an ensemble answers, and how it compares with another one.

mod cpu;
mod load;
mod mix;
mod report;

use std::time::Duration;

use tokio::time::sleep;

use crate::args::{Bench, Options};
use crate::connection::Connection;
use crate::error::CtlError;
use crate::output::Output;
use crate::progress::Progress;
use crate::signals::Signals;
use cpu::Cpu;
use load::{Load, Stage};
use report::Measured;

pub(crate) use mix::Mix;

/// The share of a run that is not measured, at its start.
const WARM_UP_PART: u32 = 5;

/// How often the progress is shown.
const REFRESH_EVERY: Duration = Duration::from_millis(200);

/// `bench [--mix …] [--against CONNECT]`.
pub(crate) async fn run(arguments: &Bench, options: &Options) -> Result<(), CtlError> {
    let output = Output { json: options.json };
    let mut signals = Signals::receive()?;
    let mut stages = Vec::new();
    let work = async {
        let servers = [Some(options.connect_string()), arguments.against.as_deref()];
        for servers in servers.into_iter().flatten() {
            stages.push(Stage::open(arguments, options, servers).await?);
        }
        for stage in &stages {
            stage.prepare(arguments).await?;
        }
        measure_all(arguments, &stages, output).await
    };
    let result = tokio::select! {
        result = work => result,
        signal = signals.end() => Err(CtlError::ended_by(signal)),
    };
    let mut cleaned = Ok(());
    for stage in stages {
        cleaned = cleaned.and(stage.close().await);
    }
    result.and(cleaned)
}

/// Every mix in turn, each on all ensembles before the next, so that what disturbs the machine
/// disturbs both alike.
async fn measure_all(arguments: &Bench, stages: &[Stage], output: Output) -> Result<(), CtlError> {
    if !output.json {
        report::headline(arguments, stages.iter().map(Stage::servers))?;
    }
    let mut results = Vec::new();
    for mix in &arguments.mix {
        let mut measured = Vec::new();
        for stage in stages {
            measured.push(measure(*mix, arguments, stage).await?);
        }
        if !output.json {
            report::lines(&measured)?;
        }
        results.push(measured);
    }
    output.result(String::new, || report::json(arguments, &results))
}

/// One mix on one ensemble.
async fn measure(mix: Mix, arguments: &Bench, stage: &Stage) -> Result<Measured, CtlError> {
    let warm_up = arguments.duration / WARM_UP_PART;
    let cpu = Cpu::of_servers(stage.servers());
    let load = Load::start(mix, arguments, stage)?;
    watch(&format!("{mix}, warming up"), &load, warm_up).await;
    load.begin();
    let before = cpu.used();
    watch(&mix.to_string(), &load, arguments.duration).await;
    let after = cpu.used();
    let (latencies, seconds) = load.end().await?;
    let used = before.zip(after).map(|(before, after)| after.saturating_sub(before));
    Ok(Measured {
        mix,
        servers: stage.servers().to_owned(),
        seconds,
        latencies: latencies.histogram,
        errors: latencies.errors,
        first_error: latencies.first_error,
        server_cores: used.map(|used| used.as_secs_f64() / seconds),
    })
}

/// Runs the load, and shows how many operations were done.
async fn watch(what: &str, load: &Load, duration: Duration) {
    let ticks = duration.as_millis().div_ceil(REFRESH_EVERY.as_millis());
    let progress = Progress::steps(what, usize::try_from(ticks).unwrap_or(usize::MAX));
    let mut left = duration;
    while !left.is_zero() && !load.is_over() {
        let step = left.min(REFRESH_EVERY);
        sleep(step).await;
        left -= step;
        progress.advance(1);
    }
}

/// Opens the sessions of a load.
async fn sessions(
    count: usize,
    options: &Options,
    servers: &str,
) -> Result<Vec<Connection>, CtlError> {
    let mut sessions = Vec::with_capacity(count);
    for _ in 0..count {
        sessions.push(Connection::open_to(options, servers).await?);
    }
    Ok(sessions)
}
