//! What the audit log receives of a change, or of the attempt at one: who asked, for what, and with
//! which outcome.
//!
//! A server reports the commands that it has proposed itself, when they are applied: those of its own
//! clients and those that it has decided as the leader. As in Apache `ZooKeeper`, each is in the log
//! of one server.

use std::sync::Arc;

use zoolet_jute::{
    CreateMode, CreateRequest, ErrorCode, Id, MultiOp, MultiResult, Reply, Request, SessionId, Xid,
    Zxid,
};

use super::audit_event::{AuditEvent, AuditOperation, AuditedChange};
use super::{Command, ConnectionId, Op, Output, Replica};
use crate::proposals::CommandDraft;

impl AuditedChange {
    fn of(operation: AuditOperation, path: &str) -> Self {
        Self { operation, path: Some(path.to_owned()), mode: None, acl: None }
    }

    fn create(path: &str, flags: i32) -> Self {
        let mode = CreateMode::from_flags(flags);
        Self { mode, ..Self::of(AuditOperation::Create, path) }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "the others change no znode")]
    fn of_request(request: &Request) -> Option<Self> {
        Some(match request {
            Request::Create(CreateRequest { path, flags, .. })
            | Request::Create2(CreateRequest { path, flags, .. })
            | Request::CreateContainer(CreateRequest { path, flags, .. }) => {
                Self::create(path, *flags)
            }
            Request::CreateTtl(body) => Self::create(&body.path, body.flags),
            Request::Delete(body) => Self::of(AuditOperation::Delete, &body.path),
            Request::SetData(body) => Self::of(AuditOperation::SetData, &body.path),
            Request::SetAcl(body) => {
                let acl = body.acl.clone();
                Self { acl, ..Self::of(AuditOperation::SetAcl, &body.path) }
            }
            Request::Multi(_) => {
                Self { operation: AuditOperation::Multi, path: None, mode: None, acl: None }
            }
            Request::Reconfig(_) => Self::of(AuditOperation::Reconfig, crate::reconfig::CONFIG),
            _ => return None,
        })
    }

    fn of_part(part: &MultiOp) -> Self {
        match part {
            MultiOp::Create(CreateRequest { path, flags, .. })
            | MultiOp::Create2(CreateRequest { path, flags, .. })
            | MultiOp::CreateContainer(CreateRequest { path, flags, .. }) => {
                Self::create(path, *flags)
            }
            MultiOp::CreateTtl(body) => Self::create(&body.path, body.flags),
            MultiOp::Delete(body) => Self::of(AuditOperation::Delete, &body.path),
            MultiOp::SetData(body) => Self::of(AuditOperation::SetData, &body.path),
            MultiOp::Check(body) => Self::of(AuditOperation::Check, &body.path),
        }
    }
}

/// A command whose outcome is not known yet.
#[derive(Debug)]
pub(crate) struct AuditDraft {
    event: AuditEvent,
    /// What the parts of a multi are, in its order.
    parts: Vec<AuditedChange>,
    /// Whether it is the end of a session, whose ephemeral znodes go.
    is_end_of_session: bool,
}

impl AuditDraft {
    /// Begins the report of a command, unless it is of a kind that is not reported.
    pub(crate) fn of(command: &Command) -> Option<Box<Self>> {
        let (mut changes, mut parts) = (Vec::new(), Vec::new());
        let mut is_end_of_session = false;
        match &command.op {
            Op::Write(request) | Op::WriteX509(request) | Op::WriteSasl(request) => {
                if let Request::Multi(ops) = request {
                    parts.extend(ops.0.iter().map(AuditedChange::of_part));
                }
                changes.push(AuditedChange::of_request(request)?);
            }
            #[cfg(feature = "made_up")]
            Op::MadeUp(body) => changes.push(AuditedChange::create(&body.path, body.flags)),
            Op::DeleteContainer { path } => {
                changes.push(AuditedChange::of(AuditOperation::Delete, path));
            }
            Op::CloseSession | Op::ExpireSession { .. } => is_end_of_session = true,
            Op::CreateSession { .. }
            | Op::ResumeSession { .. }
            | Op::SetConfig { .. }
            | Op::SetLevel { .. } => return None,
        }
        let Command { session, cxid, .. } = *command;
        // As in Apache `ZooKeeper`, the server deletes what a session has left, even if its client
        // has closed it.
        let identities =
            if is_end_of_session { Arc::from([]) } else { Arc::clone(&command.identities) };
        let event = AuditEvent { session, identities, cxid, zxid: None, changes, error: None };
        Some(Box::new(Self { event, parts, is_end_of_session }))
    }

    /// Notes a znode that is deleted by the command.
    pub(crate) fn deleted(&mut self, path: &str) {
        if self.is_end_of_session {
            let change = AuditedChange::of(AuditOperation::EphemeralDelete, path);
            self.event.changes.push(change);
        }
    }

    /// Returns the report, if there is something in it.
    pub(crate) fn finish(
        self,
        zxid: Zxid,
        result: &Result<Reply, ErrorCode>,
    ) -> Option<Box<AuditEvent>> {
        let Self { mut event, parts, .. } = self;
        event.zxid = Some(zxid);
        match result {
            Err(code) => event.error = Some(*code),
            Ok(Reply::Multi(results)) => match first_refusal(&results.0) {
                Some((place, code)) => {
                    event.error = Some(code);
                    let path = parts.into_iter().nth(place).and_then(|part| part.path);
                    event.changes.iter_mut().for_each(|change| change.path.clone_from(&path));
                }
                None => event.changes = changed_by(parts, &results.0),
            },
            Ok(Reply::Path(path) | Reply::PathStat(path, _)) => {
                event.changes.iter_mut().for_each(|change| change.path = Some(path.clone()));
            }
            Ok(_) => {}
        }
        (!event.changes.is_empty()).then(|| Box::new(event))
    }
}

/// The part that has made a multi fail; those in front of it were undone, those behind it not tried.
fn first_refusal(results: &[MultiResult]) -> Option<(usize, ErrorCode)> {
    results.iter().enumerate().find_map(|(place, result)| {
        let MultiResult::Error(Some(code)) = result else { return None };
        Some((place, *code))
    })
}

/// What the parts of a multi have changed, with the paths that the created znodes got.
fn changed_by(parts: Vec<AuditedChange>, results: &[MultiResult]) -> Vec<AuditedChange> {
    let parts = parts.into_iter().zip(results);
    let changes = parts.filter(|(part, _)| part.operation != AuditOperation::Check);
    let named = changes.map(|(mut part, result)| {
        if let MultiResult::Create { path } | MultiResult::Create2 { path, .. } = result {
            part.path = Some(path.clone());
        }
        part
    });
    named.collect()
}

impl Replica {
    /// Begins the report of a command of this server.
    pub(crate) fn audit(&self, command: &Command) -> Option<Box<AuditDraft>> {
        if self.options.audit { AuditDraft::of(command) } else { None }
    }

    /// Reports a write that does not get into the log.
    pub(crate) fn audit_refusal(
        &self,
        (connection, cxid): (ConnectionId, Xid),
        request: &Request,
        code: ErrorCode,
        out: &mut Vec<Output>,
    ) {
        if !self.options.audit {
            return;
        }
        if let Some(change) = AuditedChange::of_request(request) {
            let identities = self.identities(connection);
            let result = Err(code);
            self.audit_outcome((connection, cxid), identities, change, &result, out);
        }
    }

    /// Reports a client's write that is not proposed.
    pub(crate) fn audit_refused_draft(
        &self,
        draft: &CommandDraft,
        code: ErrorCode,
        out: &mut Vec<Output>,
    ) {
        let &CommandDraft { session, cxid, ref identities, ref op, .. } = draft;
        if self.options.audit
            && let Op::Write(request) | Op::WriteX509(request) | Op::WriteSasl(request) = op
            && let Some(change) = AuditedChange::of_request(request)
        {
            let (identities, changes) = (Arc::clone(identities), vec![change]);
            let event =
                AuditEvent { session, identities, cxid, zxid: None, changes, error: Some(code) };
            out.push(Output::Audit(Box::new(event)));
        }
    }

    /// Reports the outcome of a change of the ensemble.
    pub(crate) fn audit_reconfig(
        &self,
        to: (ConnectionId, Xid),
        identities: Arc<[Id]>,
        result: &Result<Zxid, ErrorCode>,
        out: &mut Vec<Output>,
    ) {
        if self.options.audit {
            let change = AuditedChange::of(AuditOperation::Reconfig, crate::reconfig::CONFIG);
            self.audit_outcome(to, identities, change, result, out);
        }
    }

    fn audit_outcome(
        &self,
        (connection, cxid): (ConnectionId, Xid),
        identities: Arc<[Id]>,
        change: AuditedChange,
        result: &Result<Zxid, ErrorCode>,
        out: &mut Vec<Output>,
    ) {
        let session = self.connections.get(&connection).map_or(SessionId::NONE, |it| it.session);
        let (zxid, error, changes) = (result.ok(), result.err(), vec![change]);
        let event = AuditEvent { session, identities, cxid, zxid, changes, error };
        out.push(Output::Audit(Box::new(event)));
    }
}
