//! What a load consists of.

use std::fmt;
use std::str::FromStr;

/// A mix of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    /// Reads of data.
    Get,
    /// Writes of data.
    Set,
    /// Reads, this many of a hundred, and writes.
    Mixed(u8),
    /// Creates and deletes in turn.
    Create,
    /// Acquiring and releasing a lock without contention.
    Lock,
    /// One lock that all sessions want: how long it takes from a release to the next holder.
    Handoff,
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Get => f.write_str("get"),
            Self::Set => f.write_str("set"),
            Self::Mixed(reads) => write!(f, "mix:{reads}"),
            Self::Create => f.write_str("create"),
            Self::Lock => f.write_str("lock"),
            Self::Handoff => f.write_str("handoff"),
        }
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "get" => Ok(Self::Get),
            "set" => Ok(Self::Set),
            "create" => Ok(Self::Create),
            "lock" => Ok(Self::Lock),
            "handoff" => Ok(Self::Handoff),
            _ => match text.strip_prefix("mix:").map(str::parse) {
                Some(Ok(reads @ 0..=100)) => Ok(Self::Mixed(reads)),
                _ => Err("a mix is get, set, mix:READS (0 to 100), create, lock or handoff".into()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_read_as_they_are_printed() {
        for text in ["get", "set", "mix:0", "mix:70", "create", "lock", "handoff"] {
            assert_eq!(text.parse::<Mix>().unwrap().to_string(), text);
        }
        for bad in ["", "mix", "mix:", "mix:101", "mix:-1", "read"] {
            assert!(bad.parse::<Mix>().is_err(), "{bad}");
        }
    }
}
