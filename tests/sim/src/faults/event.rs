//! What happens in a run that a fault may wait for, so that it strikes within milliseconds of it.

use zoolet_replica::ServerId;

use super::{Fault, Whom};
use crate::trace::Mark;

/// What a fault waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A server becomes the leader.
    Leads,
    /// A server has the state of another one's snapshot, and its log is not cut yet.
    Installs,
    /// A server proposes a change of the ensemble.
    Reconfigures,
    /// A server is started.
    Starts,
    /// A server has ended.
    Ends,
    /// A server with an empty directory is taken into the ensemble.
    TakenIn,
}

impl Event {
    /// All events.
    pub(super) const ALL: &'static [Self] =
        &[Self::Leads, Self::Installs, Self::Reconfigures, Self::Starts, Self::Ends, Self::TakenIn];

    /// The event that a line of a server shows, and the server.
    pub(super) fn of(mark: &Mark) -> Option<(Self, ServerId)> {
        let server = mark.server()?;
        let text = mark.text.as_str();
        if text.contains("to=Leader") {
            Some((Self::Leads, server))
        } else if text.contains("a snapshot of another server is installed") {
            Some((Self::Installs, server))
        } else if text.contains("reconfiguration to=") {
            Some((Self::Reconfigures, server))
        } else if text.contains("taking a directory into the ensemble") {
            Some((Self::TakenIn, mark.names()?))
        } else {
            None
        }
    }
}

impl Fault {
    /// The fault at the server of the event that it has waited for.
    pub(super) fn at(mut self, there: ServerId) -> Self {
        if let Some(server) = self.whom_mut()
            && *server == Whom::There
        {
            *server = Whom::Server(there);
        }
        self
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "the others do not strike one server")]
    pub(super) fn whom_mut(&mut self) -> Option<&mut Whom> {
        match self {
            Self::Kill { server, .. }
            | Self::EndAt { server, .. }
            | Self::Restart { server }
            | Self::Stop { server }
            | Self::SlowDisk { server, .. }
            | Self::SlowCpu { server, .. }
            | Self::Stall { server }
            | Self::BitRot { server, .. }
            | Self::ReadError { server, .. }
            | Self::LostFile { server, .. } => Some(server),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimTime;

    #[test]
    fn lines_of_servers_are_events() {
        let event = |who: &str, text: &str| {
            let (who, text) = (who.to_owned(), text.to_owned());
            Event::of(&Mark { at: SimTime::default(), who, text })
        };
        let one = ServerId(1);
        assert_eq!(
            event("server 1", "INFO role from=Looking to=Leader"),
            Some((Event::Leads, one))
        );
        let taking = "INFO taking a directory into the ensemble server=3 directory=\"0x7\"";
        assert_eq!(event("server 1", taking), Some((Event::TakenIn, ServerId(3))));
        assert_eq!(event("nemesis", "to=Leader"), None);
        assert_eq!(event("server 1", "INFO nothing"), None);
    }

    #[test]
    fn a_fault_strikes_where_its_event_was() {
        let there = Fault::Stop { server: Whom::There }.at(ServerId(2));
        assert_eq!(there, Fault::Stop { server: Whom::Server(ServerId(2)) });
        let leader = Fault::Stop { server: Whom::Leader }.at(ServerId(2));
        assert_eq!(leader, Fault::Stop { server: Whom::Leader });
    }
}
