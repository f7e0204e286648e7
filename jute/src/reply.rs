//! Everything that a server can answer (protocol §2).

use bytes::{Bytes, BytesMut};

use crate::frame::LENGTH_BYTES;
use crate::multi::Parts;
use crate::{
    Acl, ClientInfo, Decode, DecodeError, Encode, MultiResult, OpCode, ReplyHeader, Stat,
    WatcherEvent,
};

/// A reply's body; a refused request has none. Exhaustive on purpose: see [`OpCode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The header says it all.
    Empty,
    /// Of a create: the path.
    Path(String),
    /// Of a sync: the path of the request, null included.
    Sync(Option<String>),
    /// Of a create2, container or TTL create.
    PathStat(String, Stat),
    /// Of an exists, setData or setACL.
    Stat(Stat),
    /// Of a getData or reconfig.
    Data(Option<Bytes>, Stat),
    /// Of a getACL.
    Acl(Vec<Acl>, Stat),
    /// Of a getChildren or getEphemerals.
    Children(Vec<String>),
    /// Of a getChildren2.
    ChildrenStat(Vec<String>, Stat),
    /// Of a multi or `multiRead`.
    Multi(Parts<MultiResult>),
    /// Of a getAllChildrenNumber.
    Count(i32),
    /// Of an addWatch: always zero.
    AddWatch(i32),
    /// Of a whoAmI.
    WhoAmI(Vec<ClientInfo>),
    /// Of a SASL token: the next one.
    Sasl(Option<Bytes>),
    /// Not an answer: a watch has fired.
    Event(WatcherEvent),
}

impl Encode for Reply {
    fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Empty => {}
            Self::Path(path) => path.encode(out),
            Self::Sync(path) => path.encode(out),
            Self::PathStat(path, stat) => {
                path.encode(out);
                stat.encode(out);
            }
            Self::Stat(stat) => stat.encode(out),
            Self::Data(data, stat) => {
                data.encode(out);
                stat.encode(out);
            }
            Self::Acl(acl, stat) => {
                acl.encode(out);
                stat.encode(out);
            }
            Self::Children(children) => children.encode(out),
            Self::ChildrenStat(children, stat) => {
                children.encode(out);
                stat.encode(out);
            }
            Self::Multi(results) => results.encode(out),
            Self::Count(number) | Self::AddWatch(number) => number.encode(out),
            Self::WhoAmI(identities) => identities.encode(out),
            Self::Sasl(token) => token.encode(out),
            Self::Event(event) => event.encode(out),
        }
    }
}

impl Reply {
    /// Decodes the body of a successful reply to `op`.
    pub fn decode(op: OpCode, input: &mut Bytes) -> Result<Self, DecodeError> {
        match op {
            OpCode::Create => Ok(Self::Path(Decode::decode(input, "path")?)),
            OpCode::Sync => Ok(Self::Sync(Decode::decode(input, "path")?)),
            OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                Ok(Self::PathStat(Decode::decode(input, "path")?, Decode::decode(input, "stat")?))
            }
            OpCode::Exists | OpCode::SetData | OpCode::SetAcl => {
                Ok(Self::Stat(Decode::decode(input, "stat")?))
            }
            OpCode::GetData | OpCode::Reconfig => {
                Ok(Self::Data(Decode::decode(input, "data")?, Decode::decode(input, "stat")?))
            }
            OpCode::GetAcl => {
                Ok(Self::Acl(Decode::decode(input, "acl")?, Decode::decode(input, "stat")?))
            }
            OpCode::GetChildren | OpCode::GetEphemerals => {
                Ok(Self::Children(Decode::decode(input, "children")?))
            }
            OpCode::GetChildren2 => Ok(Self::ChildrenStat(
                Decode::decode(input, "children")?,
                Decode::decode(input, "stat")?,
            )),
            OpCode::Multi | OpCode::MultiRead => Ok(Self::Multi(Decode::decode(input, "multi")?)),
            OpCode::GetAllChildrenNumber => Ok(Self::Count(Decode::decode(input, "totalNumber")?)),
            OpCode::AddWatch => Ok(Self::AddWatch(Decode::decode(input, "err")?)),
            OpCode::WhoAmI => Ok(Self::WhoAmI(Decode::decode(input, "clientInfo")?)),
            OpCode::Sasl => Ok(Self::Sasl(Decode::decode(input, "token")?)),
            OpCode::Notification => Ok(Self::Event(Decode::decode(input, "event")?)),
            OpCode::Delete
            | OpCode::Ping
            | OpCode::Check
            | OpCode::CheckWatches
            | OpCode::RemoveWatches
            | OpCode::DeleteContainer
            | OpCode::Auth
            | OpCode::SetWatches
            | OpCode::SetWatches2
            | OpCode::CreateSession
            | OpCode::CloseSession
            | OpCode::Error => Ok(Self::Empty),
        }
    }

    /// The bytes of the body, give or take a few hundred for each znode in it: what decides
    /// whether it can be sent at all. Replies of a few numbers count as nothing.
    pub fn bulk_bytes(&self) -> usize {
        match self {
            Self::Data(data, _) => data.as_ref().map_or(0, Bytes::len),
            Self::Children(names) | Self::ChildrenStat(names, _) => names_bytes(names),
            Self::Multi(results) => results.0.iter().map(MultiResult::bulk_bytes).sum(),
            Self::Acl(acl, _) => acl.iter().map(|entry| 4 + entry.id.encoded_bytes()).sum(),
            Self::Path(path) | Self::PathStat(path, _) => path.len(),
            Self::Sync(path) => path.as_ref().map_or(0, String::len),
            Self::Empty
            | Self::Stat(_)
            | Self::Count(_)
            | Self::AddWatch(_)
            | Self::WhoAmI(_)
            | Self::Sasl(_)
            | Self::Event(_) => 0,
        }
    }

    /// Appends header and body, without the frame's length.
    pub fn encode_with(&self, header: ReplyHeader, out: &mut BytesMut) {
        header.encode(out);
        self.encode(out);
    }
}

/// The bytes of a list of names.
pub(crate) fn names_bytes(names: &[String]) -> usize {
    names.iter().map(|name| LENGTH_BYTES + name.len()).sum()
}
