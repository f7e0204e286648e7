//! The names of what clients do, for the command line.

use super::Role;
use super::locks::Recipe;
use super::structures::Structure;

/// Each role but that of changing the ensemble, which a run either has or not.
const NAMED: [(&str, Role); 30] = [
    ("random", Role::Random),
    ("register", Role::Register),
    ("bank", Role::Bank),
    ("sequence", Role::Sequence),
    ("raw-queue", Role::Queue),
    ("mirror", Role::Mirror),
    ("curator", Role::Curator),
    ("operator", Role::Operator),
    ("storm", Role::Storm),
    ("mutex", Role::Recipe(Recipe::Mutex)),
    ("read-write", Role::Recipe(Recipe::ReadWrite)),
    ("semaphore", Role::Recipe(Recipe::Semaphore(2))),
    ("latch", Role::Recipe(Recipe::Latch)),
    ("simple", Role::Recipe(Recipe::Simple)),
    ("multi", Role::Recipe(Recipe::Multi)),
    ("selector", Role::Recipe(Recipe::Selector)),
    ("mixed", Role::Recipe(Recipe::Mixed)),
    ("bilingual", Role::Recipe(Recipe::Bilingual)),
    ("revocable", Role::Recipe(Recipe::Revocable)),
    ("semaphore-mutex", Role::Recipe(Recipe::SemaphoreMutex)),
    ("shared-semaphore", Role::Recipe(Recipe::SharedSemaphore(3))),
    ("queue", Role::Structure(Structure::Queue)),
    ("distributed-queue", Role::Structure(Structure::DistributedQueue)),
    ("kazoo-queue", Role::Structure(Structure::KazooQueue)),
    ("counter", Role::Structure(Structure::Counter)),
    ("shared-count", Role::Structure(Structure::SharedCount)),
    ("gate", Role::Structure(Structure::Gate)),
    ("barrier", Role::Structure(Structure::Barrier)),
    ("cache", Role::Structure(Structure::Cache)),
    ("group", Role::Structure(Structure::Group)),
];

impl Role {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        let named = NAMED.iter().find(|(_, role)| *role == self);
        named.map_or("reconfig", |(name, _)| name)
    }

    /// The role with a name.
    ///
    /// # Errors
    ///
    /// There is none: the names that there are.
    pub fn named(name: &str) -> Result<Self, String> {
        let found = NAMED.iter().find(|(known, _)| *known == name);
        found.map(|(_, role)| *role).ok_or_else(|| {
            let names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
            format!("expected one of {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_has_a_name_of_its_own() {
        let mut roles: Vec<Role> = Recipe::ALL.iter().copied().map(Role::Recipe).collect();
        roles.extend(Recipe::MORE.iter().copied().map(Role::Recipe));
        roles.extend(Structure::ALL.iter().copied().map(Role::Structure));
        roles.extend(NAMED.iter().map(|(_, role)| *role));
        let mut names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
        for (role, name) in roles.iter().zip(&names) {
            assert_eq!(Role::named(name), Ok(*role));
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NAMED.len());
        let error = Role::named("mutexes").unwrap_err();
        assert!(error.starts_with("expected one of random, register"), "{error}");
    }
}
