//! Four-letter words: what a server says of itself at its client port.

use std::fmt;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use zoolet_client::Connector;

/// How long an answer may take.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// Longer answers are cut here, in bytes. The longest is that of `cons`, with about 200 for each
/// connection.
const ANSWER_BYTES_MAX: u64 = 32 << 20;

/// The longest refusal, in bytes: a longer answer may have its words in a path.
const REFUSAL_BYTES_MAX: usize = 200;

/// Why a server did not say what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Silence {
    /// No connection.
    Unreachable(String),
    /// It took the connection, and said nothing in time.
    Late,
    /// Its configuration forbids this word.
    Forbidden,
    /// It has no leader.
    NotServing,
    /// It has answered otherwise.
    Refused {
        /// The status of an answer by HTTP; 0 for one at a client port.
        status: u16,
        /// What it says.
        why: String,
    },
}

impl Silence {
    /// Returns what an answer at a client port says if it refuses to answer.
    pub fn of_answer(answer: &str) -> Option<Self> {
        if answer.len() >= REFUSAL_BYTES_MAX {
            return None;
        }
        if answer.contains("not in the whitelist") {
            return Some(Self::Forbidden);
        }
        answer.contains("not currently serving requests").then_some(Self::NotServing)
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "unreachable: {why}"),
            Self::Late => f.write_str("takes connections, and does not answer"),
            Self::Forbidden => f.write_str("does not allow it (4lw.commands.whitelist)"),
            Self::NotServing => f.write_str("up, without a leader"),
            Self::Refused { why, .. } => f.write_str(why),
        }
    }
}

impl From<io::Error> for Silence {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::ConnectionRefused {
            return Self::Unreachable("connection refused, no program listens there".to_owned());
        }
        Self::Unreachable(error.to_string())
    }
}

/// Asks a server at its client port.
pub async fn ask(
    connector: &dyn Connector,
    address: &str,
    word: &'static str,
) -> Result<String, Silence> {
    let answer = timeout(ANSWER_TIME, exchange(connector, address, word)).await;
    let answer = answer.map_err(|_| Silence::Late)??;
    match Silence::of_answer(&answer) {
        Some(silence) => Err(silence),
        None => Ok(answer),
    }
}

async fn exchange(connector: &dyn Connector, address: &str, word: &str) -> io::Result<String> {
    let mut stream = connector.connect(address).await?;
    stream.write_all(word.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    match stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await {
        Ok(_) => {}
        // A server that closes while bytes of ours are unread resets the connection behind its answer.
        Err(_) if !answer.is_empty() => {}
        Err(error) => return Err(error),
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_not_an_answer_with_its_words() {
        let word = "cons is not executed because it is not in the whitelist.\n";
        assert_eq!(Silence::of_answer(word), Some(Silence::Forbidden));
        let none = "This ZooKeeper instance is not currently serving requests\n";
        assert_eq!(Silence::of_answer(none), Some(Silence::NotServing));
        let paths = format!("0x1\n\t/{}/not in the whitelist\n", "a".repeat(REFUSAL_BYTES_MAX));
        assert_eq!(Silence::of_answer(&paths), None);
    }
}
