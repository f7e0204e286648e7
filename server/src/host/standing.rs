//! How this server stands to the log: what of its own was admitted, as which start it goes on, and
//! which commands the ensemble has agreed on.

use std::net::IpAddr;

use thiserror::Error;
use zoolet_jute::{Id, SessionId};
use zoolet_replica::state::{Admitted, SnapshotView};
use zoolet_replica::{Boot, Input, Levels, ProposalNumber};

use super::Host;

/// Why a server may not be administered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AdministrationRefused {
    /// The credentials prove nothing.
    #[error("Not authenticated")]
    NotAuthenticated,
    /// Their identity is not the superuser, and the root's ACL does not give it every permission by
    /// name.
    #[error("Not authorized")]
    NotAuthorized,
}

/// Why there is no backup at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NoBackup {
    /// A command is half applied: in a moment it is done.
    #[error("a command is being applied")]
    Applying,
    /// The state may lack what the log has.
    #[error("the server has failed")]
    Failed,
}

impl Host {
    /// How far this server's commands are admitted by the state.
    pub fn admitted(&self) -> Admitted {
        self.locked(|inner, _| inner.replica.admitted())
    }

    /// This server goes on under a number of a start that no earlier one has had. If that is another
    /// number than before, its commands so far are lost. Returns the number of the last of them.
    pub fn started(&self, boot: Boot) -> ProposalNumber {
        self.locked(|inner, _| {
            self.take_input(inner, Input::Started { boot });
            inner.replica.last_proposed()
        })
    }

    /// Finds out whether credentials may administer the server: change something about it as a whole,
    /// or read the whole state. On a root that is open to everyone they have to be the superuser's.
    pub fn permit_administration(
        &self,
        scheme: &str,
        credentials: &str,
        peer: IpAddr,
    ) -> Result<(), AdministrationRefused> {
        self.locked(|inner, _| {
            let identities = inner.replica.identities_of(scheme, credentials, peer);
            let identities = identities.ok_or(AdministrationRefused::NotAuthenticated)?;
            if inner.replica.may_administer(&identities) {
                Ok(())
            } else {
                Err(AdministrationRefused::NotAuthorized)
            }
        })
    }

    /// The same for identities that are proved already.
    pub fn permit_administration_of(&self, identities: &[Id]) -> Result<(), AdministrationRefused> {
        let may_administer = self.locked(|inner, _| inner.replica.may_administer(identities));
        if may_administer { Ok(()) } else { Err(AdministrationRefused::NotAuthorized) }
    }

    /// Returns the state at this moment, at any time and for any caller, unlike
    /// [`Host::snapshot`].
    pub fn backup(&self) -> Result<SnapshotView, NoBackup> {
        self.locked(|inner, _| {
            if inner.has_failed {
                Err(NoBackup::Failed)
            } else if inner.replica.is_applying() {
                Err(NoBackup::Applying)
            } else {
                Ok(inner.replica.state().snapshot())
            }
        })
    }

    /// The feature levels that are agreed and offered.
    pub fn levels(&self) -> Levels {
        self.locked(|inner, _| inner.replica.levels())
    }

    /// Ends a session as if its timeout were over. False if this server does not lead, or has no such
    /// session.
    pub fn expire(&self, session: SessionId) -> bool {
        self.locked(|inner, _| {
            let can_expire = !inner.has_failed && inner.replica.can_expire(session);
            if can_expire {
                self.take_input(inner, Input::Expire { session });
            }
            can_expire
        })
    }

    /// Takes signs of life of other servers' clients. Only the leader gets this. Returns the
    /// sessions that it does not count: they have ended, or are about to.
    pub fn touched(&self, sessions: &[SessionId]) -> Vec<SessionId> {
        let mut refused = Vec::new();
        for some in sessions.chunks(Input::SESSIONS_MAX) {
            self.locked(|inner, _| {
                self.take_input(inner, Input::Touched { sessions: some.to_vec() });
                let counts = |session: &SessionId| inner.replica.counts(*session);
                refused.extend(some.iter().copied().filter(|session| !counts(session)));
            });
        }
        refused
    }
}
