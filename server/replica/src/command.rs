//! What goes into the log: commands, a batch of them in each entry.
//!
//! A command holds everything that its effect depends on, so that every server that applies it
//! comes to the same state: the time, the identities, even the switches of the configuration.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use zoolet_jute::{Decode, DecodeError, Encode, Id, OpCode, Request, SessionId, Xid};

use super::level::{self, FeatureLevel};
use super::policy::Policy;
use super::size;
use crate::{Boot, ProposalNumber, ServerId, Term};

/// The first byte of a batch: the version of its format.
const BATCH_VERSION: u8 = 2;

/// Where the leader's time is in a batch: behind version, server, boot and stream.
const TIME_AT: usize = 1 + 1 + 8 + 8;

/// Version, server, boot, stream, time, first number, count.
const HEAD_BYTES: usize = TIME_AT + 8 + 8 + 4;

/// Who proposed a batch. Together with the numbers of the commands it keeps a server's commands in
/// order and each of them from being applied twice, whatever happens between it and the leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The server whose clients asked.
    pub server: ServerId,
    /// Its start: later starts have larger numbers.
    pub boot: Boot,
    /// Its stream of proposals, within the start. A server that has given proposals up for lost
    /// begins the next stream, and what may still arrive of the old one is not applied.
    pub stream: u64,
}

/// One log entry's commands. Their numbers follow each other without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Who proposed it.
    pub origin: Origin,
    /// The leader's wall clock when it put the batch into the log, milliseconds since 1970; zero
    /// before that. See [`Batch::stamp`].
    pub now_ms: i64,
    /// The commands, in order.
    pub commands: Vec<Command>,
}

/// What a batch says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHead {
    /// Who proposed it.
    pub origin: Origin,
    /// The number of its first command.
    pub first: ProposalNumber,
    /// How many there are.
    pub count: u64,
}

/// What the leader adds to a batch when it puts it into the log. All commands of the batch have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The term in which it leads.
    pub term: Term,
    /// Its wall clock, milliseconds since 1970: what creation and modification times are, and times
    /// to live are judged by. The proposers' clocks play no part.
    pub now_ms: i64,
}

/// One write on its way through the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its number among all that the server has proposed since its start, from 1.
    pub number: ProposalNumber,
    /// The session that asked; [`SessionId::NONE`] for what the leader itself decides.
    pub session: SessionId,
    /// The number of the command with which the connection began or resumed the session, among
    /// those of the same start; its own number for such a command, [`ProposalNumber::NONE`] for
    /// what the leader itself decides. A write has an effect only while its session has this attachment.
    pub attachment: ProposalNumber,
    /// The xid of the request.
    pub cxid: Xid,
    /// The switches of the proposer's configuration.
    pub policy: Policy,
    /// Whom the connection had proved to be when the request was received.
    pub identities: Arc<[Id]>,
    /// What to do.
    pub op: Op,
}

/// What a command does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Begin the session.
    CreateSession {
        /// The negotiated timeout in milliseconds.
        timeout_ms: i32,
    },
    /// Make the proposing server the session's owner.
    ResumeSession {
        /// The negotiated timeout in milliseconds.
        timeout_ms: i32,
    },
    /// End the session, because its client asks for it.
    CloseSession,
    /// End the session, because its client gave no sign of life. It has no effect if the session
    /// was resumed since the leader decided it, or if another leader, who has given everyone the
    /// whole timeout, put it into the log.
    ExpireSession {
        /// How often the session had been resumed when the leader decided it.
        generation: u64,
        /// The term of the leader that decided it.
        term: Term,
    },
    /// Reap a container or TTL znode that is still empty.
    DeleteContainer {
        /// Its path.
        path: String,
    },
    /// Write `/zookeeper/config`. It has no effect under another leader, who may know of newer
    /// members and writes them by itself.
    SetConfig {
        /// The term of the leader that decided it.
        term: Term,
        /// The servers, a line each, without the version line.
        text: String,
        /// Whether it founds the ensemble's tree: as the first command of all it has the zxid with
        /// which its term begins, as in Apache `ZooKeeper`.
        is_first: bool,
    },
    /// A client's write: a create of any kind, delete, setData, setACL, multi or reconfig.
    Write(Request),
    /// The same with an ACL that names identities of the scheme `x509`. A server of the first level
    /// cannot read it, and stops: it would refuse the ACL, and go on with another state.
    WriteX509(Request),
    /// The same with an ACL that names identities of the scheme `sasl`, or of a connection that has
    /// one: servers of the first two levels would apply it otherwise.
    WriteSasl(Request),
    /// Agree on a feature level. It has no effect under another leader.
    SetLevel {
        /// The level.
        level: FeatureLevel,
        /// The term of the leader that found that all servers have it.
        term: Term,
    },
    /// A create that a later release could have: the znode gets other data.
    #[cfg(feature = "made_up")]
    MadeUp(zoolet_jute::CreateRequest),
}

impl Batch {
    /// The entry's bytes.
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u8(BATCH_VERSION);
        out.put_u8(self.origin.server.0);
        out.put_u64(self.origin.boot.0);
        out.put_u64(self.origin.stream);
        out.put_i64(self.now_ms);
        out.put_u64(self.commands.first().map_or(0, |command| command.number.0));
        out.put_u32(u32::try_from(self.commands.len()).expect("a batch is bounded"));
        let mut previous: Option<&Arc<[Id]>> = None;
        for command in &self.commands {
            command.encode(previous, &mut out);
            previous = Some(&command.identities);
        }
        out.freeze()
    }

    /// The head of an entry's bytes; `None` if that is not one of a batch. The commands may still
    /// turn out not to decode. This takes about 20 ns.
    pub fn head(batch: &Bytes) -> Option<BatchHead> {
        let mut input = batch.slice(..batch.len().min(HEAD_BYTES));
        decode_head(&mut input).ok().map(|(head, _)| head)
    }

    /// Reads an entry. What does not decode was written by no zoolet; it is never half applied.
    pub fn decode(mut input: Bytes) -> Result<Self, DecodeError> {
        let (BatchHead { origin, first, count }, now_ms) = decode_head(&mut input)?;
        let mut commands: Vec<Command> = Vec::new();
        for offset in 0..count {
            let previous = commands.last().map(|command| &command.identities);
            let number = ProposalNumber(first.0.wrapping_add(offset));
            let command = Command::decode(number, previous, &mut input)?;
            commands.push(command);
        }
        if !input.is_empty() {
            let value = i32::try_from(input.len()).unwrap_or(i32::MAX);
            return Err(DecodeError::UnknownValue { field: "batch.end", value });
        }
        Ok(Self { origin, now_ms, commands })
    }

    /// An entry's bytes with the leader's time in them, in a buffer of their own. What is too short
    /// for a batch comes back as it is.
    pub fn stamp(batch: &[u8], now_ms: i64) -> Bytes {
        let mut stamped = BytesMut::from(batch);
        if let Some(time) = stamped.get_mut(TIME_AT..TIME_AT + 8) {
            time.copy_from_slice(&now_ms.to_be_bytes());
        }
        stamped.freeze()
    }
}

fn decode_head(input: &mut Bytes) -> Result<(BatchHead, i64), DecodeError> {
    let version = get_u8(input, "batch.version")?;
    if version != BATCH_VERSION {
        let value = i32::from(version);
        return Err(DecodeError::UnknownValue { field: "batch.version", value });
    }
    let origin = Origin {
        server: ServerId(get_u8(input, "batch.server")?),
        boot: Boot(get_u64(input, "batch.boot")?),
        stream: get_u64(input, "batch.stream")?,
    };
    let now_ms = i64::decode(input, "batch.now_ms")?;
    let first = ProposalNumber(get_u64(input, "batch.first")?);
    let count = u64::from(get_u32(input, "batch.count")?);
    Ok((BatchHead { origin, first, count }, now_ms))
}

impl Batch {
    /// The feature level that a server needs to apply all of it.
    pub fn level(&self) -> FeatureLevel {
        let levels = self.commands.iter().map(|command| command.op.level());
        levels.max().unwrap_or(FeatureLevel::FIRST)
    }

    /// The entry's bytes, of which it is certain that every server can read them: a command that
    /// does not come back from its bytes as it was loses its effect. Logged, it would end every
    /// server at every start.
    ///
    /// The parse for this check is not the one that applies the commands: what is applied comes
    /// from the log, whose bytes went over the disk, and keeping the commands until then would need
    /// their memory twice. It costs about half a microsecond per command.
    pub fn encode_checked(mut self) -> Bytes {
        let bytes = self.encode();
        if Self::decode(bytes.clone()).as_ref() == Ok(&self) {
            return bytes;
        }
        let (origin, now_ms) = (self.origin, self.now_ms);
        for command in &mut self.commands {
            let alone = Self { origin, now_ms, commands: vec![command.clone()] };
            if Self::decode(alone.encode()).as_ref() != Ok(&alone) {
                command.void();
            }
        }
        self.encode()
    }
}

impl Command {
    /// Takes its effect away. It keeps its number, because numbers must not have gaps, and its
    /// connection is closed when it is applied.
    pub fn void(&mut self) {
        self.session = SessionId::NONE;
        self.identities = Arc::from([]);
        // No session has this id.
        self.op = Op::CloseSession;
    }

    /// The most bytes that it takes in a batch.
    pub fn encoded_bytes(&self) -> usize {
        self.op.encoded_bytes() + size::of_identities(&self.identities) + size::COMMAND
    }

    fn encode(&self, previous: Option<&Arc<[Id]>>, out: &mut BytesMut) {
        self.session.encode(out);
        out.put_u64(self.attachment.0);
        self.cxid.encode(out);
        out.put_u8(self.policy.bits());
        // Neighbors mostly come from the same place: the same identities are written once.
        let same = previous.is_some_and(|previous| *previous == self.identities);
        out.put_u8(u8::from(same));
        if !same {
            self.identities.to_vec().encode(out);
        }
        self.op.encode(out);
    }

    fn decode(
        number: ProposalNumber,
        previous: Option<&Arc<[Id]>>,
        input: &mut Bytes,
    ) -> Result<Self, DecodeError> {
        let session = SessionId::decode(input, "command.session")?;
        let attachment = ProposalNumber(get_u64(input, "command.attachment")?);
        let cxid = Xid::decode(input, "command.cxid")?;
        let policy = Policy::from_bits(get_u8(input, "command.policy")?);
        let identities = match (get_u8(input, "command.identities")?, previous) {
            (0, _) => Vec::<Id>::decode(input, "command.identities")?.into(),
            (_, Some(previous)) => Arc::clone(previous),
            (_, None) => return Err(DecodeError::Null { field: "command.identities" }),
        };
        let op = Op::decode(input)?;
        Ok(Self { number, session, attachment, cxid, policy, identities, op })
    }
}

/// The first byte of an op.
mod tag {
    pub(super) const CREATE_SESSION: u8 = 1;
    pub(super) const RESUME_SESSION: u8 = 2;
    pub(super) const CLOSE_SESSION: u8 = 3;
    pub(super) const EXPIRE_SESSION: u8 = 4;
    pub(super) const DELETE_CONTAINER: u8 = 5;
    pub(super) const SET_CONFIG: u8 = 6;
    pub(super) const WRITE: u8 = 7;
    pub(super) const SET_LEVEL: u8 = 8;
    pub(super) const FIRST_CONFIG: u8 = 9;
    pub(super) const WRITE_X509: u8 = 10;
    pub(super) const WRITE_SASL: u8 = 11;
    #[cfg(feature = "made_up")]
    pub(super) const MADE_UP: u8 = 255;
}

impl Op {
    /// The feature level that a server needs to apply it.
    pub fn level(&self) -> FeatureLevel {
        match self {
            Self::CreateSession { .. }
            | Self::ResumeSession { .. }
            | Self::CloseSession
            | Self::ExpireSession { .. }
            | Self::DeleteContainer { .. }
            | Self::SetConfig { .. }
            | Self::Write(_)
            | Self::SetLevel { .. } => FeatureLevel::FIRST,
            Self::WriteX509(_) => FeatureLevel::X509,
            Self::WriteSasl(_) => FeatureLevel::SASL,
            #[cfg(feature = "made_up")]
            Self::MadeUp(_) => FeatureLevel(FeatureLevel::OF_RELEASE.0 + 1),
        }
    }

    /// Returns a client's write, at the level that its content and its client's identities need.
    pub(super) fn of_write(request: Request, identities: &[Id]) -> Self {
        let level = level::of_acls(&request).max(level::of_identities(identities));
        if level >= FeatureLevel::SASL {
            Self::WriteSasl(request)
        } else if level >= FeatureLevel::X509 {
            Self::WriteX509(request)
        } else {
            Self::Write(request)
        }
    }

    /// Whether it makes the connection that asks the session's only one.
    pub fn attaches(&self) -> bool {
        matches!(self, Self::CreateSession { .. } | Self::ResumeSession { .. })
    }

    /// Whether a client asks for it on the connection to which its session is attached.
    pub fn needs_attachment(&self) -> bool {
        match self {
            Self::Write(_) | Self::WriteX509(_) | Self::WriteSasl(_) | Self::CloseSession => true,
            #[cfg(feature = "made_up")]
            Self::MadeUp(_) => true,
            Self::CreateSession { .. }
            | Self::ResumeSession { .. }
            | Self::ExpireSession { .. }
            | Self::DeleteContainer { .. }
            | Self::SetConfig { .. }
            | Self::SetLevel { .. } => false,
        }
    }

    /// The bytes that it takes in a batch, counted and not written: this is done under the host's
    /// lock.
    pub fn encoded_bytes(&self) -> usize {
        1 + match self {
            Self::CreateSession { .. } | Self::ResumeSession { .. } => 4,
            Self::CloseSession => 0,
            Self::ExpireSession { .. } => 16,
            Self::DeleteContainer { path } => 4 + path.len(),
            Self::SetConfig { text, .. } => 12 + text.len(),
            Self::Write(request) | Self::WriteX509(request) | Self::WriteSasl(request) => {
                4 + size::of_request(request)
            }
            Self::SetLevel { .. } => 12,
            #[cfg(feature = "made_up")]
            Self::MadeUp(body) => size::of_request(&Request::Create(body.clone())),
        }
    }

    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::CreateSession { timeout_ms } => {
                out.put_u8(tag::CREATE_SESSION);
                timeout_ms.encode(out);
            }
            Self::ResumeSession { timeout_ms } => {
                out.put_u8(tag::RESUME_SESSION);
                timeout_ms.encode(out);
            }
            Self::CloseSession => out.put_u8(tag::CLOSE_SESSION),
            Self::ExpireSession { generation, term } => {
                out.put_u8(tag::EXPIRE_SESSION);
                out.put_u64(*generation);
                out.put_u64(term.0);
            }
            Self::DeleteContainer { path } => {
                out.put_u8(tag::DELETE_CONTAINER);
                path.encode(out);
            }
            Self::SetConfig { term, text, is_first } => {
                out.put_u8(if *is_first { tag::FIRST_CONFIG } else { tag::SET_CONFIG });
                out.put_u64(term.0);
                text.encode(out);
            }
            Self::Write(request) => encode_write(tag::WRITE, request, out),
            Self::WriteX509(request) => encode_write(tag::WRITE_X509, request, out),
            Self::WriteSasl(request) => encode_write(tag::WRITE_SASL, request, out),
            Self::SetLevel { level, term } => {
                out.put_u8(tag::SET_LEVEL);
                out.put_u32(level.0);
                out.put_u64(term.0);
            }
            #[cfg(feature = "made_up")]
            Self::MadeUp(body) => {
                out.put_u8(tag::MADE_UP);
                body.encode(out);
            }
        }
    }

    fn decode(input: &mut Bytes) -> Result<Self, DecodeError> {
        match get_u8(input, "op.tag")? {
            tag::CREATE_SESSION => {
                Ok(Self::CreateSession { timeout_ms: Decode::decode(input, "op.timeout")? })
            }
            tag::RESUME_SESSION => {
                Ok(Self::ResumeSession { timeout_ms: Decode::decode(input, "op.timeout")? })
            }
            tag::CLOSE_SESSION => Ok(Self::CloseSession),
            tag::EXPIRE_SESSION => Ok(Self::ExpireSession {
                generation: get_u64(input, "op.generation")?,
                term: Term(get_u64(input, "op.term")?),
            }),
            tag::DELETE_CONTAINER => {
                Ok(Self::DeleteContainer { path: Decode::decode(input, "op.path")? })
            }
            tag @ (tag::SET_CONFIG | tag::FIRST_CONFIG) => Ok(Self::SetConfig {
                term: Term(get_u64(input, "op.term")?),
                text: Decode::decode(input, "op.text")?,
                is_first: tag == tag::FIRST_CONFIG,
            }),
            tag::WRITE => decode_write(input).map(Self::Write),
            tag::WRITE_X509 => decode_write(input).map(Self::WriteX509),
            tag::WRITE_SASL => decode_write(input).map(Self::WriteSasl),
            tag::SET_LEVEL => Ok(Self::SetLevel {
                level: FeatureLevel(get_u32(input, "op.level")?),
                term: Term(get_u64(input, "op.term")?),
            }),
            #[cfg(feature = "made_up")]
            tag::MADE_UP => {
                let body: zoolet_jute::CreateRequest = Decode::decode(input, "op.body")?;
                if body.path.ends_with("/unreadable") {
                    return Err(DecodeError::Null { field: "op.body" });
                }
                Ok(Self::MadeUp(body))
            }
            tag => Err(DecodeError::UnknownValue { field: "op.tag", value: i32::from(tag) }),
        }
    }
}

fn encode_write(tag: u8, request: &Request, out: &mut BytesMut) {
    out.put_u8(tag);
    (request.op_code() as i32).encode(out);
    request.encode(out);
}

fn decode_write(input: &mut Bytes) -> Result<Request, DecodeError> {
    let code = i32::decode(input, "op.code")?;
    let op = OpCode::from_i32(code).ok_or(DecodeError::UnknownOp(code))?;
    Request::decode(op, input)
}

fn get_u8(input: &mut Bytes, field: &'static str) -> Result<u8, DecodeError> {
    bytes::Buf::try_get_u8(input).map_err(|_| DecodeError::UnexpectedEnd { field })
}

fn get_u32(input: &mut Bytes, field: &'static str) -> Result<u32, DecodeError> {
    bytes::Buf::try_get_u32(input).map_err(|_| DecodeError::UnexpectedEnd { field })
}

fn get_u64(input: &mut Bytes, field: &'static str) -> Result<u64, DecodeError> {
    bytes::Buf::try_get_u64(input).map_err(|_| DecodeError::UnexpectedEnd { field })
}
