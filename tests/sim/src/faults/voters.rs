//! Whose disks may be lost: an ensemble bears the loss of one while a majority of its voters have theirs.

use std::collections::BTreeSet;

use zoolet_replica::ServerId;

use super::event::Event;
use crate::trace::Mark;

/// The servers that have been voters since they were given their disks. One that has not been is not in
/// the ensemble yet, or waits to be taken in again.
#[derive(Clone, Debug, Default)]
pub(super) struct Voters {
    seen: BTreeSet<ServerId>,
    /// Those that are being taken in. A server follows as soon as its log has the change, and until the
    /// change is through, a majority of the members before it is needed as well: without the server.
    joining: BTreeSet<ServerId>,
}

impl Voters {
    /// A line of a server may show that it is one, or is one no more.
    pub(super) fn look_at(&mut self, mark: &Mark) {
        let Some(server) = mark.server() else { return };
        let shows = |text: &str| mark.text.contains(text);
        if shows("to=Leader") || shows("to=Follower") {
            self.seen.insert(server);
        } else if shows("to=Observer") {
            self.seen.remove(&server);
        } else if let Some((Event::TakenIn, joining)) = Event::of(mark) {
            self.joining.insert(joining);
        } else if shows("the directory is part of the ensemble") {
            if let Some(joined) = mark.names() {
                self.joining.remove(&joined);
            }
        } else if shows("an unfinished change of the membership is through") {
            self.joining.clear();
        }
    }

    /// A server has an empty disk.
    pub(super) fn lose(&mut self, server: ServerId) {
        self.seen.remove(&server);
    }

    /// Whether the others are a majority of all `servers`.
    pub(super) fn can_lose(&self, server: ServerId, servers: usize) -> bool {
        let others = self.seen.difference(&self.joining).filter(|voter| **voter != server);
        others.count() > servers / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimTime;

    fn say(voters: &mut Voters, server: u8, text: &str) {
        let (who, text) = (format!("server {server}"), format!("INFO {text}"));
        voters.look_at(&Mark { at: SimTime::from_ms(1), who, text });
    }

    /// Of five servers three have founded the ensemble. The fourth followed before a majority of the three
    /// could do without one of them: the change that took it in was not through.
    #[test]
    fn a_server_that_is_being_taken_in_counts_when_that_is_through() {
        let ends = [
            "the directory is part of the ensemble server=4 directory=\"0x7\" votes=true",
            "an unfinished change of the membership is through",
        ];
        for end in ends {
            let mut voters = Voters::default();
            for server in [1, 3, 5] {
                say(&mut voters, server, "role from=Looking to=Follower");
            }
            say(&mut voters, 5, "taking a directory into the ensemble server=4 directory=\"0x7\"");
            say(&mut voters, 4, "role from=Looking to=Follower");
            assert!(!voters.can_lose(ServerId(3), 5));
            say(&mut voters, 5, end);
            assert!(voters.can_lose(ServerId(3), 5), "{end}");
        }
    }

    #[test]
    fn a_disk_may_be_lost_while_a_majority_have_theirs() {
        let mut voters = Voters::default();
        let see = |voters: &mut Voters, server: u8, role: &str| {
            say(voters, server, &format!("role from=Looking to={role}"));
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
