//! `ZooKeeper`'s wire protocol: every record, operation and error code, in both directions.
//!
//! This crate is pure: bytes in, values out, and back. It opens no socket and reads no clock, and
//! whatever bytes come in, it returns a value or a [`DecodeError`] and never panics.
//!
//! ```
//! use bytes::{Bytes, BytesMut};
//! use zoolet_jute::{Decode, OpCode, Request, RequestHeader, Xid, frame};
//!
//! let mut buffer = BytesMut::new();
//! frame::put(&mut buffer, |out| Request::Ping.encode_with(Xid::PING, out));
//!
//! let mut payload = frame::split(&mut buffer, frame::FRAME_BYTES_MAX_DEFAULT)?.expect("whole");
//! let header = RequestHeader::decode(&mut payload, "header")?;
//! assert_eq!(OpCode::from_i32(header.op), Some(OpCode::Ping));
//! # Ok::<(), zoolet_jute::DecodeError>(())
//! ```
//!
//! # What changes with `ZooKeeper`
//!
//! [`ErrorCode`], [`EventType`], [`KeeperState`] and [`DecodeError`] may grow in any release of this
//! crate, so they are `non_exhaustive`. Operations, their bodies and their modes are exhaustive: a
//! server or a proxy that matches them is meant to stop compiling when an operation is added, and
//! that release is a breaking one. A record has exactly the fields that it has on the wire.

#![warn(missing_docs)]

mod acl;
mod code;
mod connect;
mod create;
mod data;
mod error;
pub mod frame;
mod header;
mod ids;
mod multi;
mod op;
mod reply;
mod request;
mod stat;
mod watch;
mod wire;

pub use acl::{Acl, ClientInfo, Id, perms};
pub use code::ErrorCode;
pub use connect::{ConnectRequest, ConnectResponse, PASSWORD_BYTES};
pub use create::{CreateMode, CreateRequest, CreateTtlRequest, PathVersionRequest};
pub use data::{
    AuthPacket, NullablePathRequest, PathRequest, PathWatchRequest, ReconfigRequest, SetAclRequest,
    SetDataRequest,
};
pub use error::DecodeError;
pub use header::{ReplyHeader, RequestHeader};
pub use ids::{SessionId, Xid, Zxid};
pub use multi::{MultiHeader, MultiOp, MultiReadOp, MultiResult, Parts};
pub use op::OpCode;
pub use reply::Reply;
pub use request::Request;
pub use stat::Stat;
pub use watch::{
    AddWatchMode, AddWatchRequest, EventType, KeeperState, SetWatches2Request, SetWatchesRequest,
    WatcherEvent, WatcherType, WatchesRequest,
};
pub use wire::{Decode, Encode};
