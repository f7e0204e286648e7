//! The whole state: znodes and sessions, and what a command does to them.

use std::collections::BTreeMap;

use zoolet_jute::{ErrorCode, Reply, SessionId, Zxid};
use zoolet_replica::{
    Boot, Command, FeatureLevel, Op, Origin, ProposalNumber, ServerId, Stamp, Term,
};

use super::access::{Schemes, Who};
use super::change::Change;
use super::tree::Tree;
use super::write::{Context, Writer};

/// A session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its timeout, in milliseconds.
    pub timeout_ms: i32,
    /// How often it was resumed.
    pub generation: u64,
    /// The command that began or last resumed it: writes have an effect on its behalf alone.
    pub attachment: Attachment,
}

/// The command by which a connection got its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attachment {
    /// The server of the connection.
    pub server: ServerId,
    /// That server's start.
    pub boot: Boot,
    /// The number of the command in this start.
    pub number: ProposalNumber,
}

impl Attachment {
    /// The attachment by which a command was asked for.
    pub fn of(origin: Origin, command: &Command) -> Self {
        Self { server: origin.server, boot: origin.boot, number: command.attachment }
    }
}

/// What a command came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The zxid that it took.
    pub zxid: Zxid,
    /// The reply that its client must get.
    pub result: Result<Reply, ErrorCode>,
    /// What it changed, in the order in which watches fire.
    pub changes: Vec<Change>,
    /// The session that it ended.
    pub ended: Option<SessionId>,
}

/// The state behind a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The znodes.
    pub tree: Tree,
    /// The sessions that live.
    pub sessions: BTreeMap<SessionId, Session>,
    /// The zxid of the last command.
    pub last_zxid: Zxid,
    /// The feature level that is agreed on.
    pub level: FeatureLevel,
}

impl Default for State {
    fn default() -> Self {
        Self {
            tree: Tree::default(),
            sessions: BTreeMap::new(),
            last_zxid: Zxid(0),
            level: FeatureLevel::FIRST,
        }
    }
}

impl State {
    /// Carries out a command.
    pub fn apply(&mut self, stamp: Stamp, origin: Origin, command: &Command) -> Outcome {
        let zxid = self.next_zxid(stamp.term, &command.op);
        let context = Context {
            zxid,
            now_ms: stamp.now_ms,
            session: command.session,
            policy: command.policy,
            who: Who {
                ids: command.identities.to_vec(),
                has_no_other: true,
                skips_acl: command.policy.skip_acl,
            },
            schemes: Schemes {
                x509: matches!(command.op, Op::WriteX509(_) | Op::WriteSasl(_)),
                sasl: matches!(command.op, Op::WriteSasl(_)),
            },
        };
        let writer = Writer { tree: &mut self.tree, context: &context, changes: Vec::new() };
        let (sessions, level) = (&mut self.sessions, &mut self.level);
        let mut step = Step { sessions, level, writer, ended: None };
        let result = step.run((stamp.term, origin), command);
        let (changes, ended) = (step.writer.changes, step.ended);
        self.last_zxid = zxid;
        Outcome { zxid, result, changes, ended }
    }

    fn next_zxid(&self, term: Term, op: &Op) -> Zxid {
        let epoch = u32::try_from(term.0).unwrap_or(u32::MAX);
        let is_first = matches!(op, Op::SetConfig { is_first: true, .. });
        if is_first && self.last_zxid == Zxid(0) {
            Zxid::new(epoch, 0)
        } else if epoch > self.last_zxid.epoch() {
            Zxid::new(epoch, 1)
        } else {
            Zxid(self.last_zxid.0 + 1)
        }
    }
}

/// A command that is being carried out.
struct Step<'a> {
    sessions: &'a mut BTreeMap<SessionId, Session>,
    level: &'a mut FeatureLevel,
    writer: Writer<'a>,
    ended: Option<SessionId>,
}

impl Step<'_> {
    #[allow(
        clippy::match_wildcard_for_single_variants,
        reason = "in builds for tests of a later release"
    )]
    fn run(
        &mut self,
        (term, origin): (Term, Origin),
        command: &Command,
    ) -> Result<Reply, ErrorCode> {
        let by_this_leader =
            |decided: Term| if decided == term { Ok(()) } else { Err(ErrorCode::BadVersion) };
        match &command.op {
            Op::CreateSession { timeout_ms } => self.open(origin, command, *timeout_ms),
            Op::ResumeSession { timeout_ms } => self.resume(origin, command, *timeout_ms),
            Op::CloseSession => {
                self.check_attachment(origin, command)?;
                Ok(self.end(command.session))
            }
            Op::ExpireSession { generation, term } => {
                by_this_leader(*term)?;
                let session = self.session(command.session)?;
                if session.generation != *generation {
                    return Err(ErrorCode::BadVersion);
                }
                Ok(self.end(command.session))
            }
            Op::DeleteContainer { path } => self.writer.reap(path),
            Op::SetConfig { term, text, .. } => {
                by_this_leader(*term)?;
                self.writer.set_config(text)
            }
            Op::Write(request) | Op::WriteX509(request) | Op::WriteSasl(request) => {
                self.check_attachment(origin, command)?;
                self.writer.write(request)
            }
            Op::SetLevel { level, term } => {
                by_this_leader(*term)?;
                *self.level = *level;
                Ok(Reply::Empty)
            }
            #[allow(
                unreachable_patterns,
                clippy::wildcard_enum_match_arm,
                reason = "a made-up command of a later release, in builds for its tests alone"
            )]
            _ => Err(ErrorCode::Unimplemented),
        }
    }

    fn session(&self, id: SessionId) -> Result<Session, ErrorCode> {
        self.sessions.get(&id).copied().ok_or(ErrorCode::SessionExpired)
    }

    fn check_attachment(&self, origin: Origin, command: &Command) -> Result<(), ErrorCode> {
        let session = self.session(command.session)?;
        let is_newest = session.attachment == Attachment::of(origin, command);
        if is_newest { Ok(()) } else { Err(ErrorCode::SessionMoved) }
    }

    fn open(
        &mut self,
        origin: Origin,
        command: &Command,
        timeout_ms: i32,
    ) -> Result<Reply, ErrorCode> {
        if command.session == SessionId::NONE {
            return Err(ErrorCode::BadArguments);
        }
        if self.sessions.contains_key(&command.session) {
            return Err(ErrorCode::NodeExists);
        }
        let attachment = Attachment::of(origin, command);
        self.sessions.insert(command.session, Session { timeout_ms, generation: 0, attachment });
        Ok(Reply::Empty)
    }

    fn resume(
        &mut self,
        origin: Origin,
        command: &Command,
        timeout_ms: i32,
    ) -> Result<Reply, ErrorCode> {
        let before = self.session(command.session)?;
        let generation = before.generation + 1;
        let attachment = Attachment::of(origin, command);
        self.sessions.insert(command.session, Session { timeout_ms, generation, attachment });
        Ok(Reply::Empty)
    }

    /// The session ends, and its ephemeral znodes with it, under one zxid (protocol §7.7).
    fn end(&mut self, session: SessionId) -> Reply {
        let owned: Vec<String> = self.writer.tree.ephemerals(session).map(str::to_owned).collect();
        for path in owned {
            self.writer.remove(&path);
        }
        self.sessions.remove(&session);
        self.ended = Some(session);
        Reply::Empty
    }
}
