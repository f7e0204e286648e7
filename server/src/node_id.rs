//! The ids of nodes in the log's membership: a node is a directory of a server.
//!
//! A server's number names its place in the ensemble, and its directory says which data
//! it has: a replaced disk is another member under the same number.

use std::fmt;

/// The bits of a node id that are the server's number.
const SERVER_BITS: u32 = 8;

/// The id of a node in the log's membership.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub u64);

impl NodeId {
    /// Returns the id of a directory of a server. A place whose directory is not known yet has
    /// the directory zero.
    pub(crate) const fn new(server: u64, directory: u64) -> Self {
        Self(directory << SERVER_BITS | server)
    }

    /// Returns the number of the server that it is a directory of.
    pub(crate) const fn server(self) -> u64 {
        self.0 & ((1 << SERVER_BITS) - 1)
    }

    /// Returns the directory that it is.
    pub(crate) const fn directory(self) -> u64 {
        self.0 >> SERVER_BITS
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Makes an id for a new directory of a random number. It is never zero, and fits into a node id.
pub(crate) fn new_directory(random: u64) -> u64 {
    (random >> SERVER_BITS).max(1)
}

/// Makes the id of a new founding of a random number. It is never zero.
pub(crate) fn new_founding(random: u64) -> u64 {
    random.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_a_directory_of_a_server() {
        for (server, directory) in [(1, 0), (254, 1), (3, (1 << 56) - 1)] {
            let node = NodeId::new(server, directory);
            assert_eq!((node.server(), node.directory()), (server, directory));
        }
        for random in [0, 1, 255, 256, u64::MAX] {
            let directory = new_directory(random);
            assert!(directory > 0 && directory < 1 << 56, "{random}");
            assert!(new_founding(random) > 0, "{random}");
        }
    }
}
