//! What is proposed of a client's write while servers of several releases are in the ensemble
//! (`docs/decisions/0012-feature-levels.md`).

use std::sync::Arc;

#[cfg(feature = "made_up")]
use zoolet_jute::Request;
use zoolet_jute::{ErrorCode, Id, SessionId};

use crate::level::{self, FeatureLevel};
use crate::proposals::{CommandDraft, ProposalOwner};
use crate::{Op, Output, Replica};

impl Replica {
    /// Proposes, as leader, to agree on this feature level.
    pub(crate) fn on_level(&mut self, level: FeatureLevel, out: &mut Vec<Output>) {
        let Some(term) = self.term else { return };
        self.level_proposed = Some((term, level));
        if self.state.level() != level {
            let op = Op::SetLevel { level, term };
            self.propose(ProposalOwner::Level, CommandDraft::own(SessionId::NONE, op), out);
        }
    }

    /// Returns the level up to which this server proposes: the agreed one, and as leader not more than it
    /// has proposed to agree on, because what needs more would not be logged behind that.
    pub(crate) fn level_max(&self) -> FeatureLevel {
        if planted!("levels-are-not-heeded") {
            return self.options.level_offered();
        }
        let agreed = self.state.level();
        self.level_proposed.map_or(agreed, |(_, proposed)| proposed.min(agreed))
    }
}

impl CommandDraft {
    /// Lowers the command to what servers of this level can apply; until all know the scheme, a user of
    /// SASL writes like a client that has not logged in. Fails if its ACLs name a scheme that they do
    /// not know, and leaves it as it was.
    pub(crate) fn lower_to(&mut self, level: FeatureLevel) -> Result<(), ErrorCode> {
        let mut identities = Arc::clone(&self.identities);
        if level::of_identities(&identities) > level {
            let is_known = |id: &&Id| id.scheme.as_deref() != Some("sasl");
            identities = identities.iter().filter(is_known).cloned().collect();
        }
        if self.op.level() > level {
            let lowered = self.op.clone().with_identities(&identities);
            if lowered.level() > level {
                return Err(ErrorCode::InvalidAcl);
            }
            self.op = lowered;
        }
        self.identities = identities;
        Ok(())
    }
}

impl Op {
    /// Returns a client's write as that of a client with these identities.
    fn with_identities(self, identities: &[Id]) -> Self {
        match self {
            Self::Write(request) | Self::WriteX509(request) | Self::WriteSasl(request) => {
                Self::of_write(request, identities)
            }
            #[cfg(feature = "made_up")]
            Self::MadeUp(body) => Self::of_write(Request::Create2(body), identities),
            Self::CreateSession { .. }
            | Self::ResumeSession { .. }
            | Self::CloseSession
            | Self::ExpireSession { .. }
            | Self::DeleteContainer { .. }
            | Self::SetConfig { .. }
            | Self::SetLevel { .. } => self,
        }
    }
}
