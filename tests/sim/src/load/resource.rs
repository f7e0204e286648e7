//! What locks guard: a resource outside of the ensemble that compares fencing tokens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Guarded resources, one for each lock's path. Clones are the same resources.
#[derive(Clone, Debug, Default)]
pub struct GuardedResources {
    greatest: Arc<Mutex<BTreeMap<String, i64>>>,
}

impl GuardedResources {
    /// Writes under a token. Returns whether the resource took it: not if it has seen a greater one.
    pub fn write(&self, lock: &str, token: i64) -> bool {
        let mut greatest = self.greatest.lock().unwrap_or_else(PoisonError::into_inner);
        match greatest.get_mut(lock) {
            Some(seen) if token < *seen => false,
            Some(seen) => {
                *seen = token;
                true
            }
            None => {
                greatest.insert(lock.to_owned(), token);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_refused_behind_a_greater_one_of_the_same_lock() {
        let resources = GuardedResources::default();
        assert!(resources.write("/a", 5));
        assert!(resources.clone().write("/a", 5));
        assert!(resources.write("/a", 7));
        assert!(!resources.write("/a", 6));
        assert!(resources.write("/b", 1));
    }
}
