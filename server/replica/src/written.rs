//! What a change of the ensemble has written.

use zoolet_jute::Stat;

/// `/zookeeper/config` as a change has left it at the leader: the answer of a server that the
/// change has removed, which gets no more of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Its data.
    pub text: String,
    /// Its stat.
    pub stat: Stat,
}
