//! Changes of the ensemble (protocol §15.4). The leader's raft module makes them; here a client's
//! request waits for its turn and for the outcome, and the leader writes the new members down.

use bytes::Bytes;
use zoolet_jute::{ErrorCode, Id, Reply, SessionId, Stat, perms};

use super::proposals::{CommandDraft, ProposalOwner};
use super::session::{PendingRequest, RequestState};
use super::state::State;
use super::written::Written;
use super::{ConnectionId, Op, Output, Replica};

/// The ensemble's own znode.
pub(crate) const CONFIG: &str = "/zookeeper/config";

impl Replica {
    /// Hands the change of the ensemble at the front of a connection's queue on, if one is there.
    /// What precedes it in the queue is applied here, so the leader's judgment includes it.
    pub(crate) fn ask_reconfig(&mut self, connection: ConnectionId, out: &mut Vec<Output>) {
        let number = self.reconfig_last + 1;
        let asking = self.connections.get_mut(&connection);
        if let Some((request, identities)) = asking.and_then(|asking| asking.take_reconfig(number))
        {
            self.reconfig_last = number;
            self.reconfigs.insert(number, connection);
            out.push(Output::Reconfig { number, request, identities });
        }
    }

    pub(crate) fn on_reconfigured(
        &mut self,
        number: u64,
        result: Result<Option<Written>, ErrorCode>,
        out: &mut Vec<Output>,
    ) {
        let Some(connection) = self.reconfigs.remove(&number) else { return };
        let Some(asking) = self.connections.get_mut(&connection) else { return };
        let Some(pending) = asking.pop_reconfig(number) else { return };
        let PendingRequest { reply_to: to, wait } = pending;
        if let RequestState::Reconfig { identities, .. } = wait {
            let written = |done: &Option<Written>| {
                done.as_ref().map_or_else(|| self.state.last_zxid(), |written| written.stat.mzxid)
            };
            let outcome = result.as_ref().map(written).map_err(|code| *code);
            self.audit_reconfig((connection, to.xid), identities, &outcome, out);
        }
        if let Ok(Some(Written { text, stat })) = result {
            let reply = Reply::Data(Some(Bytes::from(text)), stat);
            let (zxid, result) = (stat.mzxid, Ok(reply));
            out.push(Output::Reply { to, zxid, result });
            return self.close(connection, out);
        }
        let written = result.and_then(|_| {
            let stat = self.state.stat(CONFIG).ok_or(ErrorCode::NoNode)?;
            Ok(Reply::Data(self.state.data(CONFIG), stat))
        });
        self.reply(to, written, out);
        if self.serving {
            self.drain(connection, out);
        } else {
            // This server was removed meanwhile.
            self.close(connection, out);
        }
    }

    pub(crate) fn on_reconfig_lost(&mut self, number: u64, out: &mut Vec<Output>) {
        if let Some(connection) = self.reconfigs.remove(&number) {
            self.close(connection, out);
        }
    }

    /// From now on the members are these, whatever the configuration file says.
    pub(crate) fn on_members(&mut self, text: String, write: bool, out: &mut Vec<Output>) {
        if self.options.config_text.as_ref() != Some(&text) {
            self.config_proposed = false;
        }
        self.options.config_text = Some(text.clone());
        if let Some(term) = self.term.filter(|_| write) {
            self.config_proposed = true;
            let op = Op::SetConfig { term, text, is_first: false };
            self.propose(ProposalOwner::Config, CommandDraft::own(SessionId::NONE, op), out);
        }
    }

    /// The data of `/zookeeper/config`.
    pub fn config_data(&self) -> String {
        let data = self.state.data(CONFIG).unwrap_or_default();
        String::from_utf8_lossy(&data).into_owned()
    }

    /// The stat of `/zookeeper/config`.
    pub fn config_stat(&self) -> Option<Stat> {
        self.state.stat(CONFIG)
    }

    /// Whether these identities may change the ensemble.
    pub fn may_reconfigure(&self, identities: &[Id]) -> bool {
        let acl = self.state.acl(CONFIG).unwrap_or_default();
        State::permits(&acl, perms::WRITE, identities, self.options.policy.skip_acl)
    }
}
