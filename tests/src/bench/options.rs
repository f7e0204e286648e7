//! What the command's variables ask for.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use super::error::BenchError;
use super::loads::{self, LOADS, Load};
use super::parts::{self, Part};

const ROUNDS: usize = 3;
const SECONDS: u32 = 3;
const SECONDS_MAX: u32 = 3_600;
const FAILOVERS: usize = 8;
/// Turns of a load, and runs of a fault, at most.
const TIMES_MAX: usize = 1_000;

/// What to measure, how often, and where to write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The load generator's binary; `None` when nothing needs it.
    pub generator: Option<PathBuf>,
    pub loads: Vec<Load>,
    pub rounds: usize,
    /// Of one measurement, without its warm-up.
    pub seconds: u32,
    /// The runs of each fault.
    pub failovers: usize,
    /// What else is measured.
    pub cases: Vec<Part>,
    /// The directory of `performance.md`.
    pub out: PathBuf,
}

impl Options {
    /// Reads the variables of the environment.
    pub fn from_environment() -> Result<Self, BenchError> {
        Self::parse(|name| std::env::var(name).ok())
    }

    /// Parses the variables, each of which may be missing or empty.
    fn parse(variable: impl Fn(&str) -> Option<String>) -> Result<Self, BenchError> {
        let given = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
        let loads = match given("LOADS") {
            Some(names) => loads::parse(&names)
                .map_err(|why| BenchError::Option(format!("LOADS={names}: {why}")))?,
            None => LOADS.to_vec(),
        };
        let failovers = number(given("FAILOVERS"), "FAILOVERS", FAILOVERS, &(0..=TIMES_MAX))?;
        let cases = match given("CASES") {
            Some(names) => parts::parse(&names)
                .map_err(|why| BenchError::Option(format!("CASES={names}: {why}")))?,
            None => parts::default(),
        };
        if loads.is_empty() && failovers == 0 && cases.is_empty() {
            let why = "LOADS=none, FAILOVERS=0 and CASES=none: nothing is left to measure";
            return Err(BenchError::Option(why.to_owned()));
        }
        let needs_generator = !loads.is_empty() || cases.iter().any(|part| part.needs_generator);
        let generator = if needs_generator { Some(generator(given("ZKLOAD"))?) } else { None };
        Ok(Self {
            generator,
            loads,
            rounds: number(given("ROUNDS"), "ROUNDS", ROUNDS, &(1..=TIMES_MAX))?,
            seconds: number(given("SECS"), "SECS", SECONDS, &(1..=SECONDS_MAX))?,
            failovers,
            cases,
            out: given("OUT").map_or_else(docs, PathBuf::from),
        })
    }

    /// Returns the time of one measurement, without its warm-up.
    pub(super) fn window(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }
}

/// The repository's own documents.
fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn generator(path: Option<String>) -> Result<PathBuf, BenchError> {
    let path = path.map(PathBuf::from).ok_or_else(|| {
        let why =
            "ZKLOAD is not set: make bench ZKLOAD=path/to/zkload, the load generator's binary";
        BenchError::Option(why.to_owned())
    })?;
    if path.is_file() {
        return Ok(path);
    }
    Err(BenchError::Option(format!("ZKLOAD={}: the file does not exist", path.display())))
}

fn number<T: FromStr + PartialOrd + Display>(
    text: Option<String>,
    name: &str,
    default: T,
    range: &RangeInclusive<T>,
) -> Result<T, BenchError> {
    let Some(text) = text else { return Ok(default) };
    let parsed = text.trim().parse().ok().filter(|number| range.contains(number));
    parsed.ok_or_else(|| {
        let (min, max) = (range.start(), range.end());
        BenchError::Option(format!("{name}={text}: expected {min} to {max}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any file.
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");

    fn parse(variables: &[(&str, &str)]) -> Result<Options, String> {
        let find = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Options::parse(find).map_err(|error| error.to_string())
    }

    #[test]
    fn only_the_load_generator_has_to_be_named() {
        let options = parse(&[("ZKLOAD", FILE), ("ROUNDS", "")]).unwrap();
        assert_eq!((options.rounds, options.seconds, options.failovers), (3, 3, 8));
        assert_eq!(options.loads, LOADS);
        assert!(options.out.join("performance.md").is_file());
    }

    #[test]
    fn each_variable_is_taken() {
        let variables = [
            ("ZKLOAD", FILE),
            ("LOADS", "1:set:1x1"),
            ("ROUNDS", "5"),
            ("SECS", "7"),
            ("FAILOVERS", "0"),
            ("CASES", "up"),
            ("OUT", "elsewhere"),
        ];
        let options = parse(&variables).unwrap();
        assert_eq!((options.rounds, options.seconds, options.failovers), (5, 7, 0));
        assert_eq!((options.loads.len(), options.cases.len()), (1, 1));
        assert_eq!(options.out, Path::new("elsewhere"));
    }

    #[test]
    fn what_needs_no_load_generator_is_measured_without_one() {
        let options = parse(&[("LOADS", "none"), ("CASES", "locks,up")]).unwrap();
        assert_eq!((options.generator, options.loads.len()), (None, 0));
        let error = parse(&[("LOADS", "none"), ("CASES", "million")]).unwrap_err();
        assert!(error.contains("ZKLOAD is not set"), "{error}");
    }

    #[test]
    fn a_wrong_value_is_refused_by_its_name() {
        let refused: [(&[(&str, &str)], &str); 8] = [
            (&[], "ZKLOAD is not set"),
            (&[("ZKLOAD", "/does/not/exist")], "ZKLOAD=/does/not/exist: the file does not exist"),
            (&[("ZKLOAD", FILE), ("ROUNDS", "0")], "ROUNDS=0: expected 1 to 1000"),
            (&[("ZKLOAD", FILE), ("SECS", "x")], "SECS=x: expected 1 to 3600"),
            (&[("ZKLOAD", FILE), ("FAILOVERS", "-1")], "FAILOVERS=-1: expected 0 to 1000"),
            (&[("ZKLOAD", FILE), ("LOADS", "2:set:1x1")], "unknown load `2:set:1x1`"),
            (&[("ZKLOAD", FILE), ("CASES", "lock")], "unknown case `lock`"),
            (
                &[("LOADS", "none"), ("FAILOVERS", "0"), ("CASES", "none")],
                "nothing is left to measure",
            ),
        ];
        for (variables, expected) in refused {
            let error = parse(variables).unwrap_err();
            assert!(error.contains(expected), "{variables:?}: {error}");
        }
    }
}
