//! Whose disks may be lost: an ensemble bears the loss of one while a majority of its voters have theirs.

use std::collections::BTreeSet;

use zoolet_replica::ServerId;

use crate::trace::Mark;

/// The servers that have been voters since they were given their disks. One that has not been is not in
/// the ensemble yet, or waits to be taken in again.
#[derive(Clone, Debug, Default)]
pub(super) struct Voters(BTreeSet<ServerId>);

impl Voters {
    /// A line of a server may show that it is one, or is one no more.
    pub(super) fn look_at(&mut self, mark: &Mark) {
        let is_one = ["to=Leader", "to=Follower"].into_iter().any(|role| mark.text.contains(role));
        self.0.extend(mark.server().filter(|_| is_one));
        if mark.text.contains("to=Observer")
            && let Some(server) = mark.server()
        {
            self.0.remove(&server);
        }
    }

    /// A server has an empty disk.
    pub(super) fn lose(&mut self, server: ServerId) {
        self.0.remove(&server);
    }

    /// Whether the others are a majority of all `servers`.
    pub(super) fn can_lose(&self, server: ServerId, servers: usize) -> bool {
        self.0.iter().filter(|voter| **voter != server).count() > servers / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimTime;

    #[test]
    fn a_disk_may_be_lost_while_a_majority_have_theirs() {
        let mut voters = Voters::default();
        let see = |voters: &mut Voters, server: u8, role: &str| {
            let (who, text) =
                (format!("server {server}"), format!("INFO role from=Looking to={role}"));
            voters.look_at(&Mark { at: SimTime::from_ms(1), who, text });
        };
        see(&mut voters, 1, "Leader");
        see(&mut voters, 2, "Follower");
        see(&mut voters, 3, "Observer");
        assert!(voters.can_lose(ServerId(3), 3) && !voters.can_lose(ServerId(1), 3));
        see(&mut voters, 3, "Follower");
        assert!(voters.can_lose(ServerId(1), 3));
        voters.lose(ServerId(1));
        assert!(!voters.can_lose(ServerId(2), 3), "the first is not back yet");
        see(&mut voters, 3, "Observer");
        assert!(!voters.can_lose(ServerId(1), 3), "the third has no vote any more");
        see(&mut voters, 3, "Follower");
        see(&mut voters, 1, "Follower");
        assert!(voters.can_lose(ServerId(2), 3) && !voters.can_lose(ServerId(2), 5));
    }
}
