//! The arguments of `locks`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use zoolet_client::SessionId;

use super::duration;

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct Locks {
    /// Numbered ephemeral znodes of no known form too.
    #[arg(long)]
    pub(crate) all: bool,
    /// Show who waits for whom, and each deadlock by its cycle; the exit code is 7 if there is one.
    #[arg(long, conflicts_with_all = ["watch", "release"])]
    pub(crate) graph: bool,
    /// Print the graph in the language of Graphviz.
    #[arg(long, requires = "graph")]
    pub(crate) dot: bool,
    /// Show the locks again and again, as top shows processes; q or Ctrl-C ends it.
    #[arg(long, conflicts_with = "release")]
    pub(crate) watch: bool,
    /// The time between two looks of --watch.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "1s",
        requires = "watch",
        value_parser = interval
    )]
    pub(crate) interval: Duration,
    /// What --watch sorts by, the highest first; on a terminal the key s takes the next one.
    #[arg(long, value_enum, default_value_t, requires = "watch")]
    pub(crate) sort: Order,
    /// Delete the znode of a lock's holder, after a question.
    #[arg(long, value_name = "LOCK", conflicts_with_all = ["all", "path"])]
    pub(crate) release: Option<String>,
    /// Of --release: the place of this session instead of the only holder's.
    #[arg(long, value_name = "ID", requires = "release", value_parser = session)]
    pub(crate) session: Option<SessionId>,
    /// Of --release: the place of this znode, by its name or its path.
    #[arg(long, value_name = "ZNODE", requires = "release", conflicts_with = "session")]
    pub(crate) znode: Option<String>,
    /// Of --release: do not ask.
    #[arg(long, requires = "release")]
    pub(crate) yes: bool,
    #[arg(default_value = "/")]
    pub(crate) path: String,
}

/// What comes first in `locks --watch`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// The longest queue.
    #[default]
    Queue,
    /// The longest wait.
    Wait,
    /// The longest hold.
    Held,
    /// The most hand-overs.
    HandOvers,
    /// The path, the lowest first.
    Path,
}

impl Order {
    /// The one behind it, behind the last one the first.
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Queue => Self::Wait,
            Self::Wait => Self::Held,
            Self::Held => Self::HandOvers,
            Self::HandOvers => Self::Path,
            Self::Path => Self::Queue,
        }
    }

    /// Its name, as it is shown.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Wait => "wait",
            Self::Held => "held",
            Self::HandOvers => "hand-overs",
            Self::Path => "path",
        }
    }
}

/// The shortest time between two looks: each of them is a request for each lock.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

fn interval(text: &str) -> Result<Duration, String> {
    let interval = duration(text)?;
    if interval < INTERVAL_MIN {
        return Err(format!("the shortest interval is {} ms", INTERVAL_MIN.as_millis()));
    }
    Ok(interval)
}

/// The id of a session, as it is shown: `0x100000000000001`.
fn session(text: &str) -> Result<SessionId, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    // A sign would be taken for a part of the number.
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let id = u64::from_str_radix(digits, 16).ok().filter(|id| is_hex && *id != 0);
    let id = id.ok_or("a session is written as it is shown, such as 0x100000000000001")?;
    Ok(SessionId(id.cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_read_as_it_is_shown() {
        for id in [SessionId(1), SessionId(-1), SessionId(0x0100_0000_0000_0001)] {
            assert_eq!(session(&id.to_string()), Ok(id));
        }
        assert_eq!(session("a1"), Ok(SessionId(0xa1)));
        for bad in ["", "0x", "0", "+1", "0x-1", "x1", "0x10000000000000000"] {
            assert!(session(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_interval_is_not_too_short() {
        assert_eq!(interval("100ms"), Ok(Duration::from_millis(100)));
        assert!(interval("0").is_err());
    }
}
