//! What servers say to each other about changes of the ensemble.

use std::io;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use zoolet_jute::{Decode, Encode, ErrorCode, Id, ReconfigRequest, Stat};
use zoolet_replica::Written;

use crate::wire::{Reader, malformed};

/// A request for a change, on its way from a client.
#[derive(Clone, Debug)]
pub(in crate::replication) struct Asked {
    pub number: u64,
    pub request: ReconfigRequest,
    pub identities: Arc<[Id]>,
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is done, and written to `/zookeeper/config`.
    Done(Written),
    /// Nothing was changed, for this reason.
    Refused(ErrorCode),
    /// This server does not lead, or no longer: nothing was changed that matters.
    Again,
    /// It may be done, or half done.
    Unknown,
}

pub(super) fn encode(asked: &Asked) -> Bytes {
    let mut out = BytesMut::new();
    asked.request.encode(&mut out);
    asked.identities.to_vec().encode(&mut out);
    out.freeze()
}

pub(super) fn decode(mut body: Bytes) -> io::Result<Asked> {
    let bad = |_| malformed("a malformed reconfiguration");
    let request = ReconfigRequest::decode(&mut body, "reconfig").map_err(bad)?;
    let identities = Vec::<Id>::decode(&mut body, "identities").map_err(bad)?.into();
    Ok(Asked { number: 0, request, identities })
}

impl Verdict {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Self::Done(Written { text, stat }) => {
                out.put_u8(0);
                text.encode(&mut out);
                stat.encode(&mut out);
            }
            Self::Refused(code) => {
                out.put_u8(1);
                out.put_u32((*code as i32).cast_unsigned());
            }
            Self::Again => out.put_u8(2),
            Self::Unknown => out.put_u8(3),
        }
        out.freeze()
    }

    pub(super) fn decode(body: Bytes) -> io::Result<Self> {
        let mut reader = Reader(body);
        Ok(match reader.u8()? {
            0 => {
                let bad = |_| malformed("a malformed configuration");
                let text = String::decode(&mut reader.0, "text").map_err(bad)?;
                let stat = Stat::decode(&mut reader.0, "stat").map_err(bad)?;
                Self::Done(Written { text, stat })
            }
            1 => {
                let code = ErrorCode::from_i32(reader.u32()?.cast_signed());
                Self::Refused(code.ok_or_else(|| malformed("an unknown error"))?)
            }
            2 => Self::Again,
            _ => Self::Unknown,
        })
    }
}
