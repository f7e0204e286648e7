//! The commands for a znode and everything below it.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use glob::Pattern;
use zoolet_client::SessionId;

use super::values::duration;

#[derive(Debug, Args)]
pub(crate) struct Find {
    #[arg(default_value = "/")]
    pub(crate) path: String,
    /// The last name of the path fits: * is any text, ? a character, [a-z] one of these.
    #[arg(long, value_name = "GLOB")]
    pub(crate) name: Option<Pattern>,
    /// At least this far below PATH, which is 0 itself.
    #[arg(long, value_name = "LEVELS", default_value_t = 0)]
    pub(crate) min_depth: usize,
    /// At most this far below PATH.
    #[arg(long, value_name = "LEVELS")]
    pub(crate) max_depth: Option<usize>,
    /// It is ephemeral.
    #[arg(long)]
    pub(crate) ephemeral: bool,
    /// It is ephemeral, and of this session: 0x….
    #[arg(long, value_name = "SESSION", value_parser = session)]
    pub(crate) owner: Option<SessionId>,
    /// It has no children.
    #[arg(long)]
    pub(crate) leaf: bool,
    /// The length of its data in bytes: 10 exactly, +10k more, -1M less; twice for a range.
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true)]
    pub(crate) size: Vec<SizeBound>,
    /// Its data was written less than so long ago, by the clock of this machine.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) newer: Option<Duration>,
    /// Its data was written more than so long ago.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) older: Option<Duration>,
    /// Its data has this text in it.
    #[arg(long, value_name = "TEXT")]
    pub(crate) contains: Option<String>,
    /// Print the Stat too.
    #[arg(short)]
    pub(crate) stat: bool,
}

/// What the length of data has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SizeBound {
    Exactly(u64),
    More(u64),
    Less(u64),
}

impl SizeBound {
    pub(crate) fn holds(self, bytes: u64) -> bool {
        match self {
            Self::Exactly(bound) => bytes == bound,
            Self::More(bound) => bytes > bound,
            Self::Less(bound) => bytes < bound,
        }
    }
}

impl FromStr for SizeBound {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "a size is a number of bytes with k or M behind and + or - in front";
        let (bound, number): (fn(u64) -> Self, &str) = match text.split_at_checked(1) {
            Some(("+", rest)) => (Self::More, rest),
            Some(("-", rest)) => (Self::Less, rest),
            _ => (Self::Exactly, text),
        };
        let (digits, unit) = match number.strip_suffix('k') {
            Some(digits) => (digits, 1 << 10),
            None => number.strip_suffix('M').map_or((number, 1), |digits| (digits, 1 << 20)),
        };
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let bytes = digits.parse::<u64>().ok().filter(|_| is_number);
        bytes.and_then(|bytes| bytes.checked_mul(unit)).map(bound).ok_or(WRONG)
    }
}

/// A session as it is printed everywhere.
fn session(text: &str) -> Result<SessionId, &'static str> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let number = u64::from_str_radix(digits, 16);
    let number =
        number.map_err(|_| "a session is a hexadecimal number such as 0x100000000000000")?;
    Ok(SessionId(number.cast_signed()))
}

/// A path, of an ensemble of the configuration file if it has a name in front: `NAME:/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) ensemble: Option<String>,
    pub(crate) path: String,
}

impl From<&str> for Place {
    fn from(text: &str) -> Self {
        match text.split_once(":/") {
            Some((name, path)) if !name.is_empty() && !name.contains('/') => {
                Self { ensemble: Some(name.to_owned()), path: format!("/{path}") }
            }
            Some(_) | None => Self { ensemble: None, path: text.to_owned() },
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Cp {
    /// Everything below it too.
    #[arg(short)]
    pub(crate) recursive: bool,
    /// Give the copies the ACLs of the originals; without it they are open to all.
    #[arg(long)]
    pub(crate) acl: bool,
    /// Write over the data of znodes that exist already.
    #[arg(long)]
    pub(crate) force: bool,
    /// What to copy: a path, or `NAME:/path` of an ensemble in the configuration file.
    #[arg(value_name = "SRC")]
    pub(crate) source: Place,
    /// The path of the copy, also `NAME:/path`; with / at its end what it is to be a child of.
    #[arg(value_name = "DST")]
    pub(crate) target: Place,
}

#[derive(Debug, Args)]
pub(crate) struct Mv {
    /// If it does not fit into one transaction: copy all of it, and delete what was copied then.
    #[arg(long)]
    pub(crate) by_steps: bool,
    #[arg(value_name = "SRC")]
    pub(crate) source: String,
    /// The new path; with / at its end what it is to be a child of.
    #[arg(value_name = "DST")]
    pub(crate) target: String,
}

#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// Compare ACLs too.
    #[arg(long)]
    pub(crate) acl: bool,
    /// Leave out ephemeral znodes.
    #[arg(long)]
    pub(crate) persistent: bool,
    /// A path, or `NAME:/path` of an ensemble in the configuration file.
    #[arg(value_name = "A")]
    pub(crate) left: Place,
    /// What it is compared with.
    #[arg(value_name = "B")]
    pub(crate) right: Place,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_bounds_and_units() {
        for (text, bound) in [
            ("0", SizeBound::Exactly(0)),
            ("10k", SizeBound::Exactly(10_240)),
            ("+1M", SizeBound::More(1 << 20)),
            ("-3", SizeBound::Less(3)),
        ] {
            assert_eq!(text.parse(), Ok(bound));
        }
        for bad in
            ["", "+", "k", "1G", "++1", "-+1", "ü", "99999999999999999999", "99999999999999999k"]
        {
            assert!(bad.parse::<SizeBound>().is_err(), "{bad}");
        }
        assert!(SizeBound::More(3).holds(4) && !SizeBound::More(3).holds(3));
        assert!(SizeBound::Less(3).holds(2) && !SizeBound::Less(3).holds(3));
        assert_eq!(session("0xffffffffffffffff"), Ok(SessionId(-1)));
        assert!(session("x").is_err());
    }

    #[test]
    fn a_place_may_have_the_name_of_an_ensemble() {
        let place = |ensemble: Option<&str>, path: &str| Place {
            ensemble: ensemble.map(str::to_owned),
            path: path.to_owned(),
        };
        assert_eq!(Place::from("/a:/b"), place(None, "/a:/b"));
        assert_eq!(Place::from("test:/"), place(Some("test"), "/"));
        assert_eq!(Place::from("test:/a:/b"), place(Some("test"), "/a:/b"));
        assert_eq!(Place::from("a"), place(None, "a"));
    }
}
