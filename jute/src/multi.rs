//! Transactions of writes, and several reads in one (protocol §10).

use bytes::{Bytes, BytesMut};

use crate::create::{check_acl, check_flags};
use crate::reply::names_bytes;
use crate::wire::record;
use crate::{
    CreateRequest, CreateTtlRequest, Decode, DecodeError, Encode, ErrorCode, OpCode,
    PathVersionRequest, PathWatchRequest, SetDataRequest, Stat,
};

record! {
    /// In front of every part of a multi, and behind the last.
    #[derive(Copy)]
    pub struct MultiHeader {
        /// The operation of the part; −1 for an error and at the end.
        pub op: i32,
        /// Whether this is the end.
        pub done: bool,
        /// The part's error; −1 in requests and at the end.
        pub err: i32,
    }
}

impl MultiHeader {
    /// What stands behind the last part.
    pub const END: Self = Self { op: -1, done: true, err: -1 };
}

/// One write of a multi. Exhaustive on purpose: see [`OpCode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultiOp {
    /// Create a znode, answer its path.
    Create(CreateRequest),
    /// Create a znode, answer path and Stat.
    Create2(CreateRequest),
    /// Create a container.
    CreateContainer(CreateRequest),
    /// Create a znode with a time to live.
    CreateTtl(CreateTtlRequest),
    /// Delete a znode.
    Delete(PathVersionRequest),
    /// Write data.
    SetData(SetDataRequest),
    /// Compare a version.
    Check(PathVersionRequest),
}

impl MultiOp {
    /// The operation code.
    pub const fn op_code(&self) -> OpCode {
        match self {
            Self::Create(_) => OpCode::Create,
            Self::Create2(_) => OpCode::Create2,
            Self::CreateContainer(_) => OpCode::CreateContainer,
            Self::CreateTtl(_) => OpCode::CreateTtl,
            Self::Delete(_) => OpCode::Delete,
            Self::SetData(_) => OpCode::SetData,
            Self::Check(_) => OpCode::Check,
        }
    }

    fn encode_body(&self, out: &mut BytesMut) {
        match self {
            Self::Create(body) | Self::Create2(body) | Self::CreateContainer(body) => {
                body.encode(out);
            }
            Self::CreateTtl(body) => body.encode(out),
            Self::Delete(body) | Self::Check(body) => body.encode(out),
            Self::SetData(body) => body.encode(out),
        }
    }

    fn decode_body(code: i32, input: &mut Bytes) -> Result<Self, DecodeError> {
        let unknown = DecodeError::UnknownValue { field: "multi.type", value: code };
        let op = OpCode::from_i32(code).ok_or(unknown.clone())?;
        #[allow(clippy::wildcard_enum_match_arm, reason = "a multi holds these writes only")]
        let op = match op {
            OpCode::Create => Self::Create(Decode::decode(input, "create")?),
            OpCode::Create2 => Self::Create2(Decode::decode(input, "create2")?),
            OpCode::CreateContainer => {
                Self::CreateContainer(Decode::decode(input, "createContainer")?)
            }
            OpCode::CreateTtl => Self::CreateTtl(Decode::decode(input, "createTTL")?),
            OpCode::Delete => Self::Delete(Decode::decode(input, "delete")?),
            OpCode::SetData => Self::SetData(Decode::decode(input, "setData")?),
            OpCode::Check => Self::Check(Decode::decode(input, "check")?),
            _ => return Err(unknown),
        };
        op.check().map(|()| op)
    }

    fn check(&self) -> Result<(), DecodeError> {
        match self {
            Self::Create(body) | Self::Create2(body) | Self::CreateContainer(body) => {
                check_acl(body.acl.is_some())?;
                check_flags(body.flags, false)
            }
            Self::CreateTtl(body) => check_flags(body.flags, true),
            Self::Delete(_) | Self::SetData(_) | Self::Check(_) => Ok(()),
        }
    }
}

/// One read of a `multiRead`; its watch flag is ignored. Exhaustive on purpose: see [`OpCode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultiReadOp {
    /// List the children.
    GetChildren(PathWatchRequest),
    /// Read the data.
    GetData(PathWatchRequest),
}

impl MultiReadOp {
    fn decode_body(code: i32, input: &mut Bytes) -> Result<Self, DecodeError> {
        match code {
            code if code == OpCode::GetChildren as i32 => {
                Ok(Self::GetChildren(Decode::decode(input, "getChildren")?))
            }
            code if code == OpCode::GetData as i32 => {
                Ok(Self::GetData(Decode::decode(input, "getData")?))
            }
            value => Err(DecodeError::UnknownValue { field: "multi.type", value }),
        }
    }
}

/// The result of one part of a multi or `multiRead`. Exhaustive, because [`MultiOp`] and
/// [`MultiReadOp`] are: each has its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultiResult {
    /// Of a create: the path.
    Create {
        /// The path that was created.
        path: String,
    },
    /// Of a create2, container or TTL create: path and Stat.
    Create2 {
        /// The path that was created.
        path: String,
        /// Its Stat when it was created.
        stat: Stat,
    },
    /// Of a delete.
    Delete,
    /// Of a setData: the Stat.
    SetData(Stat),
    /// Of a check.
    Check,
    /// Of a read: the children.
    Children(Vec<String>),
    /// Of a read: data and Stat.
    Data {
        /// The data.
        data: Option<Bytes>,
        /// The Stat.
        stat: Stat,
    },
    /// The part failed, or (`None`) was undone because another one failed.
    Error(Option<ErrorCode>),
}

impl MultiResult {
    /// The bytes of the part, about; see [`crate::Reply::bulk_bytes`].
    pub fn bulk_bytes(&self) -> usize {
        const HEADER_AND_STAT: usize = 100;
        HEADER_AND_STAT
            + match self {
                Self::Children(names) => names_bytes(names),
                Self::Data { data, .. } => data.as_ref().map_or(0, Bytes::len),
                Self::Create { path } | Self::Create2 { path, .. } => path.len(),
                Self::Delete | Self::SetData(_) | Self::Check | Self::Error(_) => 0,
            }
    }

    /// Appends one part of a reply: for a reply that is written part by part.
    pub fn put_part(&self, out: &mut BytesMut) {
        MultiHeader { op: self.type_code(), done: false, err: self.header_err() }.encode(out);
        self.encode_body(out);
    }

    /// Appends what precedes a list of children in a reply.
    pub fn put_children_head(out: &mut BytesMut) {
        MultiHeader { op: OpCode::GetChildren as i32, done: false, err: 0 }.encode(out);
    }

    /// Appends what precedes data and Stat in a reply.
    pub fn put_data_head(out: &mut BytesMut) {
        MultiHeader { op: OpCode::GetData as i32, done: false, err: 0 }.encode(out);
    }

    /// Appends the end of a reply.
    pub fn put_end(out: &mut BytesMut) {
        MultiHeader::END.encode(out);
    }

    fn type_code(&self) -> i32 {
        match self {
            Self::Create { .. } => OpCode::Create as i32,
            Self::Create2 { .. } => OpCode::Create2 as i32,
            Self::Delete => OpCode::Delete as i32,
            Self::SetData(_) => OpCode::SetData as i32,
            Self::Check => OpCode::Check as i32,
            Self::Children(_) => OpCode::GetChildren as i32,
            Self::Data { .. } => OpCode::GetData as i32,
            Self::Error(_) => OpCode::Error as i32,
        }
    }

    fn encode_body(&self, out: &mut BytesMut) {
        match self {
            Self::Create { path } => path.encode(out),
            Self::Create2 { path, stat } => {
                path.encode(out);
                stat.encode(out);
            }
            Self::Delete | Self::Check => {}
            Self::SetData(stat) => stat.encode(out),
            Self::Children(children) => children.encode(out),
            Self::Data { data, stat } => {
                data.encode(out);
                stat.encode(out);
            }
            Self::Error(err) => err.encode(out),
        }
    }

    fn decode_body(code: i32, input: &mut Bytes) -> Result<Self, DecodeError> {
        let unknown = DecodeError::UnknownValue { field: "multi.type", value: code };
        #[allow(clippy::wildcard_enum_match_arm, reason = "results have these types only")]
        match OpCode::from_i32(code).ok_or(unknown.clone())? {
            OpCode::Create => Ok(Self::Create { path: Decode::decode(input, "path")? }),
            OpCode::Create2 => Ok(Self::Create2 {
                path: Decode::decode(input, "path")?,
                stat: Decode::decode(input, "stat")?,
            }),
            OpCode::Delete => Ok(Self::Delete),
            OpCode::SetData => Ok(Self::SetData(Decode::decode(input, "stat")?)),
            OpCode::Check => Ok(Self::Check),
            OpCode::GetChildren => Ok(Self::Children(Decode::decode(input, "children")?)),
            OpCode::GetData => Ok(Self::Data {
                data: Decode::decode(input, "data")?,
                stat: Decode::decode(input, "stat")?,
            }),
            OpCode::Error => Ok(Self::Error(Decode::decode(input, "err")?)),
            _ => Err(unknown),
        }
    }
}

macro_rules! parts {
    ($part:ty, $code:expr, $err:expr) => {
        /// The parts one after the other, each behind its header, and the end (protocol §10.1).
        impl Encode for Parts<$part> {
            fn encode(&self, out: &mut BytesMut) {
                for part in &self.0 {
                    MultiHeader { op: $code(part), done: false, err: $err(part) }.encode(out);
                    part.encode_body(out);
                }
                MultiHeader::END.encode(out);
            }
        }

        impl Decode for Parts<$part> {
            fn decode(input: &mut Bytes, field: &'static str) -> Result<Self, DecodeError> {
                let mut parts = Vec::new();
                loop {
                    let header = MultiHeader::decode(input, field)?;
                    if header.done {
                        return Ok(Self(parts));
                    }
                    parts.push(<$part>::decode_body(header.op, input)?);
                }
            }
        }
    };
}

/// The parts of a multi, a `multiRead` or their reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts<T>(pub Vec<T>);

parts!(MultiOp, |op: &MultiOp| op.op_code() as i32, |_| -1);
parts!(MultiReadOp, MultiReadOp::type_code, |_| -1);
parts!(MultiResult, MultiResult::type_code, MultiResult::header_err);

impl MultiReadOp {
    fn type_code(&self) -> i32 {
        match self {
            Self::GetChildren(_) => OpCode::GetChildren as i32,
            Self::GetData(_) => OpCode::GetData as i32,
        }
    }

    fn encode_body(&self, out: &mut BytesMut) {
        match self {
            Self::GetChildren(body) | Self::GetData(body) => body.encode(out),
        }
    }
}

impl MultiResult {
    /// The header repeats the error of the body (protocol §10.3).
    fn header_err(&self) -> i32 {
        match self {
            Self::Error(Some(code)) => *code as i32,
            Self::Error(None)
            | Self::Create { .. }
            | Self::Create2 { .. }
            | Self::Delete
            | Self::SetData(_)
            | Self::Check
            | Self::Children(_)
            | Self::Data { .. } => 0,
        }
    }
}
