//! What the command's variables ask for.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use super::error::CompareError;
use super::store::{SYSTEMS, System};
use crate::tools;

/// What to compare, how often, and where to write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// A few minutes, to see that everything works: its times are not for a page.
    pub is_short: bool,
    /// Rounds of each fault.
    pub faults: usize,
    /// Rounds of figures.
    pub rounds: usize,
    /// Of one figure.
    pub window: Duration,
    /// Groups whose behavior is watched side by side; most of that is waiting. Figures are measured
    /// one store at a time.
    pub lanes: usize,
    pub systems: Vec<System>,
    /// The directory of `lock-comparison.md`.
    pub out: PathBuf,
}

impl Options {
    /// Reads the variables of the environment.
    pub fn from_environment() -> Result<Self, CompareError> {
        Self::parse(|name| std::env::var(name).ok())
    }

    fn parse(variable: impl Fn(&str) -> Option<String>) -> Result<Self, CompareError> {
        let given = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
        let is_short = match given("SHORT").as_deref() {
            None | Some("0") => false,
            Some("1") => true,
            Some(other) => {
                return Err(CompareError::Option(format!("SHORT={other}: expected 0 or 1")));
            }
        };
        let of = |name, full, short, range: RangeInclusive<usize>| {
            number(given(name), name, if is_short { short } else { full }, &range)
        };
        let window_ms = of("WINDOW_MS", 3_000, 400, 100..=60_000)?;
        let out = match given("OUT") {
            Some(out) => PathBuf::from(out),
            None if is_short || given("SYSTEMS").is_some() => tools::target_dir().join("compare"),
            None => docs(),
        };
        let is_whole = !is_short && given("SYSTEMS").is_none();
        if !is_whole && is_docs(&out) {
            let what = format!("OUT={}: only a full run replaces the page", out.display());
            return Err(CompareError::Option(what));
        }
        Ok(Self {
            is_short,
            faults: of("FAULTS", 3, 1, 1..=100)?,
            rounds: of("ROUNDS", 3, 1, 0..=100)?,
            window: Duration::from_millis(u64::try_from(window_ms).unwrap_or(u64::MAX)),
            lanes: of("LANES", 2, 3, 1..=16)?,
            systems: systems(given("SYSTEMS"))?,
            out,
        })
    }

    pub(super) fn wants(&self, system: System) -> bool {
        self.systems.contains(&system)
    }
}

/// The directory of the page.
fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn is_docs(directory: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(directory).is_some() && real(directory) == real(&docs())
}

/// Parses a list of names, separated by commas.
fn systems(names: Option<String>) -> Result<Vec<System>, CompareError> {
    let Some(names) = names else { return Ok(SYSTEMS.to_vec()) };
    let find = |name: &str| {
        let name = name.trim();
        let found =
            SYSTEMS.into_iter().find(|system| format!("{system:?}").eq_ignore_ascii_case(name));
        found.ok_or_else(|| {
            let known = SYSTEMS.map(|system| format!("{system:?}").to_lowercase()).join(", ");
            CompareError::Option(format!("SYSTEMS={names}: unknown `{name}`; known are {known}"))
        })
    };
    names.split(',').map(find).collect()
}

fn number<T: FromStr + PartialOrd + Display>(
    text: Option<String>,
    name: &str,
    default: T,
    range: &RangeInclusive<T>,
) -> Result<T, CompareError> {
    let Some(text) = text else { return Ok(default) };
    let parsed = text.trim().parse().ok().filter(|number| range.contains(number));
    parsed.ok_or_else(|| {
        let (min, max) = (range.start(), range.end());
        CompareError::Option(format!("{name}={text}: expected {min} to {max}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(variables: &[(&str, &str)]) -> Result<Options, String> {
        let find = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Options::parse(find).map_err(|error| error.to_string())
    }

    #[test]
    fn a_short_form_does_less_and_leaves_the_documents() {
        let (full, short) = (parse(&[]).unwrap(), parse(&[("SHORT", "1")]).unwrap());
        assert!(short.window < full.window && short.rounds < full.rounds);
        assert!(full.out.ends_with("docs") && !short.out.ends_with("docs"));
        let some = parse(&[("SYSTEMS", "redis, etcd"), ("OUT", "x")]).unwrap();
        assert_eq!(some.systems, [System::Redis, System::Etcd]);
        assert_eq!(some.out, Path::new("x"));
        let some = parse(&[("SYSTEMS", "redis")]).unwrap();
        assert!(!some.out.ends_with("docs"), "a page of some stores is not the page");
    }

    #[test]
    fn a_wrong_value_is_refused_by_its_name() {
        for (name, value, expected) in [
            ("SHORT", "yes", "SHORT=yes: expected 0 or 1"),
            ("ROUNDS", "x", "ROUNDS=x: expected 0 to 100"),
            ("SYSTEMS", "oracle", "unknown `oracle`"),
            ("OUT", "../docs", "only a full run replaces the page"),
        ] {
            let short = ("SHORT", "1");
            let given =
                if name == "OUT" { vec![short, (name, value)] } else { vec![(name, value)] };
            let error = parse(&given).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
