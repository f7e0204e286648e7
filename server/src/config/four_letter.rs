//! The four-letter words that are answered.

use std::collections::BTreeSet;

/// Four-letter words (protocol, section 14.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FourLetterConfig {
    /// Which of them are answered.
    pub words: Words,
}

impl Default for FourLetterConfig {
    fn default() -> Self {
        Self { words: Words::Only(BTreeSet::from(["srvr".to_owned()])) }
    }
}

/// A set of four-letter words.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Words {
    /// Every word that exists.
    All,
    /// These only.
    Only(BTreeSet<String>),
}

impl Words {
    /// Whether the word is in the set. `srvr` always is, as in ZooKeeper: its scripts need it.
    pub fn allow(&self, word: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(words) => word == "srvr" || words.contains(word),
        }
    }
}
