//! How this server stands to the log: what of its own was admitted, as which start it goes on, and
//! which commands the ensemble has agreed on.

use zoolet_jute::SessionId;
use zoolet_replica::state::Admitted;
use zoolet_replica::{Boot, Input, Levels, ProposalNumber};

use super::Host;

impl Host {
    /// How far this server's commands are admitted by the state.
    pub fn admitted(&self) -> Admitted {
        self.locked(|inner, _| inner.replica.admitted())
    }

    /// This server goes on under a number of a start that no earlier one has had. If that is another
    /// number than before, its commands so far are lost. Returns the number of the last of them.
    pub fn started(&self, boot: Boot) -> ProposalNumber {
        self.locked(|inner, now| {
            self.take_input(inner, now, Input::Started { boot });
            inner.replica.last_proposed()
        })
    }

    /// The feature levels that are agreed and offered.
    pub fn levels(&self) -> Levels {
        self.locked(|inner, _| inner.replica.levels())
    }

    /// Takes signs of life of other servers' clients. Only the leader gets this. Returns the
    /// sessions that it does not count: they have ended, or are about to.
    pub fn touched(&self, sessions: &[SessionId]) -> Vec<SessionId> {
        let mut refused = Vec::new();
        for some in sessions.chunks(Input::SESSIONS_MAX) {
            self.locked(|inner, now| {
                self.take_input(inner, now, Input::Touched { sessions: some.to_vec() });
                let counts = |session: &SessionId| inner.replica.counts(*session);
                refused.extend(some.iter().copied().filter(|session| !counts(session)));
            });
        }
        refused
    }
}
