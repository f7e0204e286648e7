//! Everything that a client can ask (protocol §2).

use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::multi::Parts;
use crate::{
    AddWatchRequest, AuthPacket, CreateRequest, CreateTtlRequest, Decode, DecodeError, Encode,
    MultiOp, MultiReadOp, NullablePathRequest, OpCode, PathRequest, PathVersionRequest,
    PathWatchRequest, ReconfigRequest, RequestHeader, SetAclRequest, SetDataRequest,
    SetWatches2Request, SetWatchesRequest, WatchesRequest, Xid,
};

macro_rules! requests {
    ($($(#[$meta:meta])* $name:ident($body:ty) = $op:ident,)* ;
     $($(#[$empty_meta:meta])* $empty:ident = $empty_op:ident,)*) => {
        /// A request's body. Exhaustive on purpose: see [`OpCode`].
        #[derive(Clone, PartialEq, Eq)]
        pub enum Request {
            $($(#[$meta])* $name($body),)*
            $($(#[$empty_meta])* $empty,)*
        }

        impl Request {
            /// The operation code.
            pub const fn op_code(&self) -> OpCode {
                match self {
                    $(Self::$name(_) => OpCode::$op,)*
                    $(Self::$empty => OpCode::$empty_op,)*
                }
            }

            /// Decodes the body of a known operation. Bytes behind the body are ignored, as the
            /// reference does (protocol §1.2).
            pub fn decode(op: OpCode, input: &mut Bytes) -> Result<Self, DecodeError> {
                match op {
                    $(OpCode::$op => Ok(Self::$name(Decode::decode(input, stringify!($op))?)),)*
                    $(OpCode::$empty_op => Ok(Self::$empty),)*
                    OpCode::Notification
                    | OpCode::Check
                    | OpCode::DeleteContainer
                    | OpCode::CreateSession
                    | OpCode::Error => Err(DecodeError::UnknownOp(op as i32)),
                }
            }
        }

        /// Without credentials.
        impl fmt::Debug for Request {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if let Self::Sasl(_) = self {
                    return f.write_str("Sasl(..)");
                }
                match self {
                    $(Self::$name(body) => f.debug_tuple(stringify!($name)).field(body).finish(),)*
                    $(Self::$empty => f.write_str(stringify!($empty)),)*
                }
            }
        }

        /// The body alone; the header goes in front of it, see [`Request::encode_with`].
        impl Encode for Request {
            fn encode(&self, out: &mut BytesMut) {
                match self {
                    $(Self::$name(body) => body.encode(out),)*
                    $(Self::$empty => {})*
                }
            }
        }
    };
}

requests! {
    /// Create a znode, answer its path.
    Create(CreateRequest) = Create,
    /// Create a znode, answer path and Stat.
    Create2(CreateRequest) = Create2,
    /// Create a container.
    CreateContainer(CreateRequest) = CreateContainer,
    /// Create a znode with a time to live.
    CreateTtl(CreateTtlRequest) = CreateTtl,
    /// Delete a znode.
    Delete(PathVersionRequest) = Delete,
    /// Read a Stat.
    Exists(PathWatchRequest) = Exists,
    /// Read data and Stat.
    GetData(PathWatchRequest) = GetData,
    /// Write data.
    SetData(SetDataRequest) = SetData,
    /// Read the ACL.
    GetAcl(PathRequest) = GetAcl,
    /// Write the ACL.
    SetAcl(SetAclRequest) = SetAcl,
    /// List the children.
    GetChildren(PathWatchRequest) = GetChildren,
    /// List the children, with the Stat.
    GetChildren2(PathWatchRequest) = GetChildren2,
    /// Wait for everything committed before.
    Sync(NullablePathRequest) = Sync,
    /// A transaction of writes.
    Multi(Parts<MultiOp>) = Multi,
    /// Several reads in one.
    MultiRead(Parts<MultiReadOp>) = MultiRead,
    /// Change the ensemble.
    Reconfig(ReconfigRequest) = Reconfig,
    /// Ask whether a watch is registered.
    CheckWatches(WatchesRequest) = CheckWatches,
    /// Remove watches.
    RemoveWatches(WatchesRequest) = RemoveWatches,
    /// Authenticate the connection.
    Auth(AuthPacket) = Auth,
    /// Register watches anew after a reconnect.
    SetWatches(SetWatchesRequest) = SetWatches,
    /// Register watches anew, persistent ones as well.
    SetWatches2(SetWatches2Request) = SetWatches2,
    /// A SASL token.
    Sasl(Option<Bytes>) = Sasl,
    /// List the session's ephemeral znodes.
    GetEphemerals(NullablePathRequest) = GetEphemerals,
    /// Count all descendants.
    GetAllChildrenNumber(PathRequest) = GetAllChildrenNumber,
    /// Register a persistent watch.
    AddWatch(AddWatchRequest) = AddWatch,
    ;
    /// Keep the session alive.
    Ping = Ping,
    /// List the connection's identities.
    WhoAmI = WhoAmI,
    /// End the session.
    CloseSession = CloseSession,
}

impl Request {
    /// Appends header and body, without the frame's length.
    pub fn encode_with(&self, xid: Xid, out: &mut BytesMut) {
        RequestHeader { xid, op: self.op_code() as i32 }.encode(out);
        self.encode(out);
    }
}
