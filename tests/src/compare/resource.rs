//! What the locks guard: it takes each write twice, as a resource that compares tokens
//! and as one that takes everything.

use std::collections::BTreeMap;

use zoolet_torture::RunRecorder;

/// A contender: which process, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Who {
    pub(super) process: usize,
    pub(super) number: usize,
}

/// What has become of the stale writes of a lock: those of a contender after whose grant another
/// one was granted the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stale {
    pub(super) attempted: u64,
    /// By a resource that compares nothing: it then has the value of the former holder.
    pub(super) accepted: u64,
    /// By a resource that compares tokens, or versions.
    pub(super) refused: u64,
}

#[derive(Debug, Default)]
struct Guarded {
    /// Grants so far, and the latest of each contender.
    grants: u64,
    granted: BTreeMap<Who, u64>,
    holder: Option<Who>,
    /// The last writer, as a resource has it that compares nothing.
    written_by: Option<Who>,
    stale: Stale,
    /// Writes of the present holder that the resource refused.
    refused_of_holder: u64,
    /// Writes that a version let through, and how many there were at each grant.
    commits: u64,
    commits_at_grant: BTreeMap<Who, u64>,
}

/// The resource behind all locks of a run.
#[derive(Debug, Default)]
pub(super) struct Resource {
    recorder: RunRecorder,
    locks: BTreeMap<String, Guarded>,
}

impl Resource {
    /// A contender is granted a lock; it writes at once.
    pub(super) fn granted(&mut self, lock: &str, who: Who, token: i64) {
        let guarded = self.locks.entry(lock.to_owned()).or_default();
        guarded.grants += 1;
        guarded.granted.insert(who, guarded.grants);
        guarded.commits_at_grant.insert(who, guarded.commits);
        guarded.holder = Some(who);
        if token != 0 {
            self.recorder.write(lock, who.process, token);
        }
    }

    /// A contender writes with the token of its latest grant; 0 if it has none. Returns whether the
    /// write is stale.
    pub(super) fn write(&mut self, lock: &str, who: Who, token: i64) -> bool {
        let accepted = token == 0 || self.recorder.write(lock, who.process, token);
        let guarded = self.locks.entry(lock.to_owned()).or_default();
        guarded.written_by = Some(who);
        let is_stale = guarded.holder != Some(who);
        if is_stale {
            guarded.stale.attempted += 1;
            guarded.stale.accepted += u64::from(guarded.written_by != guarded.holder);
            guarded.stale.refused += u64::from(!accepted);
        } else {
            guarded.refused_of_holder += u64::from(!accepted);
        }
        is_stale
    }

    /// A write that is itself a comparison of versions has come to its end. Returns whether it is
    /// stale: another one was let through since the version was read.
    pub(super) fn committed(&mut self, lock: &str, who: Who, accepted: bool) -> bool {
        let guarded = self.locks.entry(lock.to_owned()).or_default();
        let seen = guarded.commits_at_grant.get(&who).copied().unwrap_or_default();
        let is_stale = guarded.commits > seen;
        if is_stale {
            guarded.stale.attempted += 1;
            // The comparison is part of the write: none is without it.
            guarded.stale.accepted += u64::from(accepted);
            guarded.stale.refused += u64::from(!accepted);
        } else {
            guarded.refused_of_holder += u64::from(!accepted);
        }
        guarded.commits += u64::from(accepted);
        is_stale
    }

    pub(super) fn stale(&self, lock: &str) -> Stale {
        self.locks.get(lock).map(|guarded| guarded.stale).unwrap_or_default()
    }

    /// How many writes of present holders were refused, which a fence must not do.
    pub(super) fn refused_of_holder(&self, lock: &str) -> u64 {
        self.locks.get(lock).map_or(0, |guarded| guarded.refused_of_holder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Who = Who { process: 0, number: 0 };
    const B: Who = Who { process: 1, number: 0 };

    #[test]
    fn a_stale_write_is_refused_by_its_token_alone() {
        for (tokens, refused) in [((5, 6), 1), ((0, 0), 0)] {
            let mut resource = Resource::default();
            resource.granted("l", A, tokens.0);
            assert!(!resource.write("l", A, tokens.0));
            resource.granted("l", B, tokens.1);
            assert!(resource.write("l", A, tokens.0));
            assert!(!resource.write("l", B, tokens.1));
            assert_eq!(resource.stale("l"), Stale { attempted: 1, accepted: 1, refused });
            assert_eq!(resource.refused_of_holder("l"), 0);
        }
    }

    #[test]
    fn a_token_that_falls_is_seen_as_a_refused_holder() {
        let mut resource = Resource::default();
        resource.granted("l", A, 6);
        resource.granted("l", B, 5);
        resource.write("l", B, 5);
        assert_eq!(resource.refused_of_holder("l"), 1);
    }

    #[test]
    fn a_version_refuses_what_was_read_before_another_write() {
        let mut resource = Resource::default();
        resource.granted("l", A, 0);
        resource.granted("l", B, 0);
        assert!(!resource.committed("l", B, true));
        assert!(resource.committed("l", A, false));
        assert_eq!(resource.stale("l"), Stale { attempted: 1, accepted: 0, refused: 1 });
    }
}
