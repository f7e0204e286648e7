//! The kinds of operations, and which of them a run has.

use crate::load::chance::Chance;

macro_rules! kinds {
    ($($(#[$meta:meta])* $name:ident,)*) => {
        /// What an operation is for. One kind may be several operations of the protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum OperationKind { $($(#[$meta])* $name,)* }

        impl OperationKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

kinds! {
    /// A znode that stays.
    CreatePersistent,
    /// A znode of the session.
    CreateEphemeral,
    /// A znode that stays, with a number.
    CreateSequential,
    /// A znode of the session, with a number.
    CreateEphemeralSequential,
    /// A container.
    CreateContainer,
    /// A znode with a time to live, with a number or without.
    CreateTtl,
    /// A delete of any version.
    Delete,
    /// A delete of a version.
    DeleteVersion,
    /// A delete of a sequential znode that this client has created.
    DeleteOwn,
    /// A write over any version.
    SetData,
    /// A write over a version.
    SetDataVersion,
    /// A read of the data.
    GetData,
    /// The same, with a watch.
    GetDataWatch,
    /// A read of the Stat.
    Exists,
    /// The same, with a watch.
    ExistsWatch,
    /// A read of the children.
    GetChildren,
    /// The same, with a watch.
    GetChildrenWatch,
    /// A read of children and Stat.
    GetChildren2,
    /// The same, with a watch.
    GetChildren2Watch,
    /// A read of the ACL.
    GetAcl,
    /// A write of the ACL.
    SetAcl,
    /// Another identity.
    AddAuth,
    /// A sync.
    Sync,
    /// A transaction.
    Multi,
    /// Several reads.
    MultiRead,
    /// A lasting watch on a znode.
    AddWatch,
    /// A lasting watch on a part of the tree.
    AddWatchRecursive,
    /// A removal of watches, which may not be there.
    RemoveWatches,
    /// A look for watches.
    CheckWatches,
    /// Watches that are registered as after a reconnect, with a zxid of long ago or of now.
    SetWatches,
    /// A list of the session's znodes.
    GetEphemerals,
    /// A number of descendants.
    GetAllChildrenNumber,
    /// A list of identities.
    WhoAmI,
    /// A step towards a quota, or away from it.
    Quota,
    /// Something that no program should ask for.
    Wrong,
}

/// How often each kind occurs. Most mixes lack kinds: what is left then meets more often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    weights: Vec<(OperationKind, u32)>,
}

impl Mix {
    /// Every kind, as often as every other.
    pub fn even() -> Self {
        Self { weights: OperationKind::ALL.iter().map(|kind| (*kind, 1)).collect() }
    }

    /// A mix of a run: each kind is left out once in three times, and has one of very different
    /// weights otherwise.
    pub fn draw(chance: &mut Chance) -> Self {
        let mut weights = Vec::new();
        for kind in OperationKind::ALL {
            let weight = if chance.one_in(3) { 0 } else { 1 << chance.between(0..=5) };
            // Wrong requests close connections: a run of little else does nothing.
            let weight = if *kind == OperationKind::Wrong { weight.min(2) } else { weight };
            weights.push((*kind, weight));
        }
        if weights.iter().all(|(_, weight)| *weight == 0) {
            return Self::even();
        }
        Self { weights }
    }

    /// The next kind.
    pub(super) fn next(&self, chance: &mut Chance) -> OperationKind {
        chance.weighted(&self.weights).unwrap_or(OperationKind::GetData)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_differ_and_one_seed_gives_one() {
        let of = |seed| Mix::draw(&mut Chance::new(seed, 0));
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        for seed in 0..200 {
            assert!(of(seed).weights.iter().any(|(_, weight)| *weight > 0));
        }
    }
}
