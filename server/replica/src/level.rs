//! Feature levels: the commands that every server of an ensemble can apply
//! (`docs/decisions/0012-feature-levels.md`).
//!
//! A server that meets a command which it does not know must stop, because its state would be
//! another from there on. So a new kind of command has a level, a release says up to which level it
//! knows the commands, and none is proposed before the state has a level that all servers have
//! agreed on.

use std::fmt;

/// A feature level. A higher one includes the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeatureLevel(pub u32);

impl FeatureLevel {
    /// The level of an ensemble that has not agreed on another one.
    pub const FIRST: Self = Self(1);

    /// What this release can apply. To be raised with each new kind of command, and with each new
    /// meaning of an old one.
    pub const OF_RELEASE: Self = Self::FIRST;
}

impl fmt::Display for FeatureLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a server stands to feature levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// What the state says that all servers have agreed on.
    pub agreed: FeatureLevel,
    /// The highest that this server agrees to.
    pub offered: FeatureLevel,
}
