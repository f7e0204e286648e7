//! What is run, by the words of the command line.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use super::ledger::Ledger;
use super::{ChaosError, Kind};

/// For how long there are faults in a run, in seconds.
const FAULT_SECS: u64 = 20;

/// What a run is made of; the rest is drawn from the seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub seed: u64,
    /// How many servers, instead of a drawn number.
    pub servers: Option<u8>,
    /// For how long there are faults.
    pub faults: Duration,
    /// The kinds of faults, instead of drawn ones.
    pub kinds: Option<Vec<Kind>>,
    /// Whether the directory of a run is kept although no promise was broken.
    pub keeps: bool,
}

impl Options {
    /// The command that carries the same plan out.
    pub fn command(&self) -> String {
        // Writing into a text does not fail.
        let mut command = format!("make chaos SEED={}", self.seed);
        if let Some(servers) = self.servers {
            let _ = write!(command, " SERVERS={servers}");
        }
        if self.faults != Duration::from_secs(FAULT_SECS) {
            let _ = write!(command, " FAULT_SECS={}", self.faults.as_secs());
        }
        if let Some(kinds) = &self.kinds {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            let _ = write!(command, " KINDS={}", names.join(","));
        }
        command
    }
}

/// Seeds one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Night {
    /// For how long new runs begin; `None` for one run.
    pub time: Option<Duration>,
    /// The first seed, and what each run is made of.
    pub options: Options,
    /// Where a line about it goes.
    pub ledger: Option<Ledger>,
}

/// Reads `seed=7 secs=60 servers=3 fault-secs=20 kinds=kill,stop keep ledger=evidence/ledger.jsonl
/// commit=1a2b3c4d`; an empty value is none.
pub fn parse(words: impl Iterator<Item = String>) -> Result<Night, ChaosError> {
    let (mut seed, mut secs) = (None, None);
    let (mut ledger, mut commit) = (None, "unknown".to_owned());
    let faults = Duration::from_secs(FAULT_SECS);
    let mut options = Options { seed: 0, servers: None, faults, kinds: None, keeps: false };
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((&word, ""));
        match (name, value) {
            ("keep", _) => options.keeps = !matches!(value, "0"),
            (_, "") => {}
            ("seed", _) => seed = Some(number(name, value)?),
            ("secs", _) => secs = Some(Duration::from_secs(number(name, value)?)),
            ("servers", "3") => options.servers = Some(3),
            ("servers", "5") => options.servers = Some(5),
            ("servers", _) => {
                return Err(ChaosError::Arguments("servers: expected 3 or 5".to_owned()));
            }
            ("fault-secs", _) => options.faults = Duration::from_secs(number(name, value)?),
            ("kinds", _) => options.kinds = Some(kinds(value)?),
            ("ledger", _) => ledger = Some(PathBuf::from(value)),
            ("commit", _) => value.clone_into(&mut commit),
            _ => return Err(ChaosError::Arguments(format!("unknown option {word:?}"))),
        }
    }
    // A seed alone is one run.
    let time = if seed.is_some() { secs } else { secs.or(Some(Duration::from_mins(10))) };
    options.seed = seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    let ledger = ledger.map(|file| Ledger { file, commit });
    Ok(Night { time, options, ledger })
}

fn number(name: &str, value: &str) -> Result<u64, ChaosError> {
    value.parse().map_err(|_| ChaosError::Arguments(format!("invalid number {name}={value}")))
}

fn kinds(text: &str) -> Result<Vec<Kind>, ChaosError> {
    let kind =
        |name| Kind::named(name).map_err(|why| ChaosError::Arguments(format!("kinds: {why}")));
    text.split(',').map(kind).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Night, ChaosError> {
        parse(words.iter().map(|word| (*word).to_owned()))
    }

    #[test]
    fn a_seed_alone_is_one_run_and_its_command_gives_the_same_options() {
        let words = ["seed=7", "secs=", "servers=5", "fault-secs=3", "kinds=kill,stop"];
        let night = read(&words).unwrap();
        assert_eq!((night.time, night.options.seed), (None, 7));
        let command = night.options.command();
        assert_eq!(command, "make chaos SEED=7 SERVERS=5 FAULT_SECS=3 KINDS=kill,stop");
        let night = read(&["seed=7", "servers=", "fault-secs=", "kinds="]).unwrap();
        assert_eq!(night.options.command(), "make chaos SEED=7");
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for words in [["sed=7"], ["seed=x"], ["servers=4"], ["kinds=kil"]] {
            assert!(read(&words).is_err(), "{words:?}");
        }
        assert_eq!(read(&["secs=61"]).unwrap().time, Some(Duration::from_secs(61)));
        assert_eq!(read(&["commit=abc", "ledger="]).unwrap().ledger, None);
        let ledger = read(&["commit=abc", "ledger=a/b"]).unwrap().ledger.unwrap();
        assert_eq!(ledger, Ledger { file: "a/b".into(), commit: "abc".to_owned() });
    }
}
