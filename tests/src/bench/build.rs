//! The time that a release build of the program takes from nothing, with its crates downloaded.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::error::BenchError;
use super::options::Options;
use super::progress::Recorder;
use super::results::{Figure, Figures};
use super::rows::{BUILD, Row};
use crate::builder::Kind;

const STEP: Duration = Duration::from_mins(3);

pub(super) fn expected(_: &Options) -> Duration {
    STEP
}

#[allow(clippy::disallowed_methods, reason = "the bench measures real time")]
pub(super) fn measure(_: &Options, recorder: &mut Recorder) -> Result<(), BenchError> {
    let failed = |what: String| BenchError::of(Kind::Zoolet, format!("build: {what}"));
    let target = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--offline", "--package", "zoolet", "--target-dir"]);
    build.arg(target.path()).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    build.env_remove("RUSTC_WORKSPACE_WRAPPER");
    build.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    let status = build.status().map_err(|error| failed(error.to_string()))?;
    let took = began.elapsed();
    if !status.success() {
        return Err(failed(status.to_string()));
    }
    let figures = Figures::from([(Figure::Seconds, took.as_secs_f64())]);
    recorder.add(Row::Case(BUILD), Kind::Zoolet, 1, figures);
    recorder.finish(STEP);
    Ok(())
}
