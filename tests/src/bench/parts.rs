//! The parts of a run, each of which can be left out.

use std::time::Duration;

use super::error::BenchError;
use super::options::Options;
use super::progress::Recorder;
use super::{
    build, busy, clients, connections, disk, failover, hand_over, locks, million, rounds, up,
    znodes,
};
use crate::tools::announce;

/// A part that `CASES` names.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub(super) name: &'static str,
    /// Whether it is measured when `CASES` is not given.
    is_default: bool,
    /// Whether a part of it needs the load generator.
    pub(super) needs_generator: bool,
    expected: fn(&Options) -> Duration,
    measure: fn(&Options, &mut Recorder) -> Result<(), BenchError>,
}

impl PartialEq for Part {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Part {}

const fn part(
    name: &'static str,
    expected: fn(&Options) -> Duration,
    measure: fn(&Options, &mut Recorder) -> Result<(), BenchError>,
) -> Part {
    Part { name, is_default: true, needs_generator: false, expected, measure }
}

/// In the order in which they are measured.
const PARTS: [Part; 10] = [
    part("disk", disk::expected, disk::measure),
    part("locks", locks::expected, locks::measure),
    part("hand-over", hand_over::expected, hand_over::measure),
    Part { needs_generator: true, ..part("million", million::expected, million::measure) },
    part("clients", clients::expected, clients::measure),
    part("connections", connections::expected, connections::measure),
    part("up", up::expected, up::measure),
    Part { is_default: false, ..part("busy", busy::expected, busy::measure) },
    Part { is_default: false, ..part("build", build::expected, build::measure) },
    Part { is_default: false, ..part("znodes", znodes::expected, znodes::measure) },
];

/// Returns the parts that are measured unless others are asked for.
pub(super) fn default() -> Vec<Part> {
    PARTS.into_iter().filter(|part| part.is_default).collect()
}

/// Parses a list of names, separated by commas; `none` is the empty list, and `all` has those that
/// are not measured by default, too.
pub(super) fn parse(names: &str) -> Result<Vec<Part>, String> {
    match names {
        "none" => return Ok(Vec::new()),
        "all" => return Ok(PARTS.to_vec()),
        _ => {}
    }
    let find = |name: &str| {
        let found = PARTS.into_iter().find(|part| part.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
            format!("unknown case `{name}`; known are none, all, {}", known.join(", "))
        })
    };
    let wanted = names.split(',').map(str::trim).map(find).collect::<Result<Vec<_>, _>>()?;
    // In the order of the list above, each once.
    Ok(PARTS.into_iter().filter(|part| wanted.contains(part)).collect())
}

/// Returns what everything is expected to take that the options ask for.
pub(super) fn expected(options: &Options) -> Duration {
    let cases: Duration = options.cases.iter().map(|part| (part.expected)(options)).sum();
    rounds::expected(options) + failover::expected(options) + cases
}

/// Measures everything that the options ask for. A part that fails leaves no measurements, and the
/// others are measured all the same; returns why it has failed.
pub(super) fn measure(options: &Options, recorder: &mut Recorder) -> Vec<BenchError> {
    let mut parts = Vec::new();
    if !options.loads.is_empty() {
        parts.push(part("loads", rounds::expected, rounds::measure));
    }
    if options.failovers > 0 {
        parts.push(part("failovers", failover::expected, failover::measure));
    }
    parts.extend(options.cases.iter().copied());
    let mut failed = Vec::new();
    for part in parts {
        let before = recorder.count();
        if let Err(error) = (part.measure)(options, recorder) {
            announce(&format!("bench: {} is left out: {error}", part.name));
            recorder.forget_after(before);
            failed.push(BenchError::Part { part: part.name, source: Box::new(error) });
        }
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_by_its_name() {
        let names = |text| parse(text).unwrap().iter().map(|part| part.name).collect::<Vec<_>>();
        assert_eq!(names("up, locks"), ["locks", "up"]);
        assert_eq!(names("none"), Vec::<&str>::new());
        assert_eq!(names("all").len(), PARTS.len());
        assert!(default().iter().all(|part| part.name != "znodes"));
    }

    #[test]
    fn an_unknown_part_is_refused_with_the_names_of_the_others() {
        let error = parse("locks,leases").unwrap_err();
        assert!(error.contains("unknown case `leases`") && error.contains("hand-over"), "{error}");
    }
}
