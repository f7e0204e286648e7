//! One run in a process of its own.

use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use crate::report::Report;
use crate::run::Options;

/// How much of a processor's time a run may take, however much else the machine does.
const PROCESSOR_MAX: Duration = Duration::from_mins(10);
/// How long it may take on the machine's clock, roughly. One that stands still takes no processor's time.
const RUN_MAX: Duration = Duration::from_mins(30);
/// The pause between two looks at whether it has ended.
const LOOK: Duration = Duration::from_millis(5);

/// A run.
#[derive(Clone, Debug)]
pub struct Child {
    /// What it is made of.
    pub options: Options,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub enum Ended {
    /// With a report.
    Reported(Box<Report>),
    /// Without one: it died, or was ended because it took too long. What it wrote last.
    Died(String),
}

impl Ended {
    /// The promises that were broken; that a run ends is one of them.
    pub fn violations(&self) -> Vec<String> {
        match self {
            Self::Reported(report) => report.violations.clone(),
            Self::Died(why) => vec![format!("the run has died: {why}")],
        }
    }

    /// The names of the promises that were broken, in the order in which they were.
    pub fn promises(&self) -> Vec<String> {
        match self {
            Self::Reported(report) => report.promises.clone(),
            Self::Died(_) => vec!["a run ends with a report".to_owned()],
        }
    }
}

/// The arguments of the program that make a run of these options.
pub fn arguments(options: &Options) -> Vec<String> {
    let mut arguments = vec![format!("--seed={}", options.seed)];
    arguments.extend(options.servers.map(|servers| format!("--servers={servers}")));
    arguments.extend(options.clients.map(|clients| format!("--clients={clients}")));
    if let Some(roles) = &options.roles {
        let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
        arguments.push(format!("--roles={}", names.join(",")));
    }
    arguments.extend(options.secs.map(|secs| format!("--secs={secs}")));
    if let Some(kinds) = &options.kinds {
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        arguments.push(format!("--kinds={}", names.join(",")));
    }
    if !options.without.is_empty() {
        let numbers: Vec<String> = options.without.iter().map(ToString::to_string).collect();
        arguments.push(format!("--without={}", numbers.join(",")));
    }
    if !options.idle.is_empty() {
        let numbers: Vec<String> = options.idle.iter().map(ToString::to_string).collect();
        arguments.push(format!("--idle={}", numbers.join(",")));
    }
    arguments.extend(options.heal_at_ms.map(|ms| format!("--heal-at-ms={ms}")));
    arguments
}

impl Child {
    /// Carries it out.
    pub fn run(&self) -> io::Result<Ended> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments(&self.options))
            .arg("--report")
            .env("ZOOLET_SIM_SEED", self.options.seed.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let reading = thread::spawn(move || read(stdout));
        let complaining = thread::spawn(move || read(stderr));
        let mut waited = Duration::ZERO;
        let mut ended = child.try_wait()?;
        while ended.is_none() && waited < RUN_MAX {
            pause();
            waited += LOOK;
            ended = child.try_wait()?;
        }
        if ended.is_none() {
            child.kill()?;
            child.wait()?;
        }
        let text = reading.join().unwrap_or_default();
        let complaint = complaining.join().unwrap_or_default();
        let line = text.lines().last().unwrap_or_default();
        if let Ok(report) = serde_json::from_str(line) {
            return Ok(Ended::Reported(Box::new(report)));
        }
        Ok(Ended::Died(format!("{}: {}", why(ended), tail(&complaint))))
    }
}

/// Why a run has no report; `None` as status: it was ended.
fn why(status: Option<ExitStatus>) -> String {
    match status {
        None => format!("it was ended after {} s", RUN_MAX.as_secs()),
        Some(status) if status.signal() == Some(Signal::XCPU.as_raw()) => {
            format!("it was ended after {} s of a processor's time", PROCESSOR_MAX.as_secs())
        }
        Some(status) => status.to_string(),
    }
}

/// Ends this process once it has taken too much of a processor's time, without a dump of its memory.
pub fn limit_processor_time() -> io::Result<()> {
    for (resource, limit) in [(Resource::Cpu, PROCESSOR_MAX.as_secs()), (Resource::Core, 0)] {
        let maximum = getrlimit(resource).maximum;
        let current = Some(maximum.map_or(limit, |maximum| maximum.min(limit)));
        setrlimit(resource, Rlimit { current, maximum })?;
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a thread of its own waits for a process")]
fn pause() {
    thread::sleep(LOOK);
}

fn read(from: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        // What was read before an error is shown all the same.
        let _ = from.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The last lines of what a run wrote to its standard error.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(12);
    lines.get(from..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_took_too_much_of_a_processor_says_so() {
        let limited = ["-c", "ulimit -c 0; ulimit -S -t 1; while :; do :; done"];
        let status = Command::new("sh").args(limited).status().unwrap();
        assert_eq!(why(Some(status)), "it was ended after 600 s of a processor's time");
        let failed = Command::new("false").status().unwrap();
        assert_eq!(why(Some(failed)), "exit status: 1");
    }

    #[test]
    fn a_process_limits_itself() {
        limit_processor_time().unwrap();
        assert_eq!(getrlimit(Resource::Cpu).current, Some(600));
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
    }
}
