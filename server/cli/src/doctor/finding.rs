//! What a check has found, and how it is printed.

use std::fmt;
use std::fmt::Write as _;

use serde_json::{Value, json};

/// How bad a finding is. The order is that of the exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// The server starts, and something may go wrong later.
    Warning,
    /// The server does not start, or does not work.
    Error,
}

impl Level {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    /// The exit code of a program whose worst finding this is.
    pub(super) fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Warning => 1,
            Self::Error => 2,
        }
    }
}

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// What was checked, in a word or two.
    pub(super) check: &'static str,
    pub(super) text: String,
}

/// All findings, in the order of the checks.
#[derive(Debug, Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    pub(super) fn ok(&mut self, check: &'static str, text: impl Into<String>) {
        self.add(Level::Ok, check, text);
    }

    pub(super) fn warn(&mut self, check: &'static str, text: impl Into<String>) {
        self.add(Level::Warning, check, text);
    }

    pub(super) fn error(&mut self, check: &'static str, text: impl Into<String>) {
        self.add(Level::Error, check, text);
    }

    pub(super) fn add(&mut self, level: Level, check: &'static str, text: impl Into<String>) {
        self.0.push(Finding { level, check, text: text.into() });
    }

    fn count(&self, level: Level) -> usize {
        self.0.iter().filter(|finding| finding.level == level).count()
    }

    /// The worst of them.
    pub(super) fn level(&self) -> Level {
        self.0.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
    }

    pub(super) fn to_json(&self) -> Value {
        let findings = self.0.iter().map(|finding| {
            json!({ "level": finding.level.name(), "check": finding.check, "text": finding.text })
        });
        json!({
            "level": self.level().name(),
            "exit": self.level().exit_code(),
            "findings": findings.collect::<Vec<_>>(),
        })
    }
}

/// A table, and a line that counts.
impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.iter().map(|finding| finding.check.len()).max().unwrap_or(0);
        let mut table = String::new();
        for Finding { level, check, text } in &self.0 {
            writeln!(table, "{:<7}  {check:<width$}  {text}", level.name())?;
        }
        let (errors, warnings) = (self.count(Level::Error), self.count(Level::Warning));
        write!(f, "{table}\nerrors: {errors}, warnings: {warnings}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_decides() {
        let mut findings = Findings::default();
        assert_eq!(findings.level().exit_code(), 0);
        findings.ok("files", "there");
        findings.warn("a port", "odd");
        assert_eq!(findings.level().exit_code(), 1);
        findings.error("disk", "full");
        findings.ok("clock", "right");
        assert_eq!(findings.to_json()["exit"], 2);
        let text = findings.to_string();
        assert!(text.contains("warning  a port  odd\nerror    disk    full\n"), "{text}");
        assert!(text.ends_with("\nerrors: 1, warnings: 1"), "{text}");
    }
}
