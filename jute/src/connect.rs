//! The handshake (protocol §1.4), where each side may speak an older form.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};

use crate::{Decode, DecodeError, Encode, SessionId, Zxid};

/// The bytes of a session's password; the C client accepts no other length.
pub const PASSWORD_BYTES: usize = 16;

/// The first frame of a client, without a header.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectRequest {
    /// Ignored by servers.
    pub protocol_version: i32,
    /// The newest zxid that the client has seen: a server that is behind it must not serve it.
    pub last_zxid_seen: Zxid,
    /// The session timeout that the client wishes, in milliseconds.
    pub timeout_ms: i32,
    /// The session to resume; [`SessionId::NONE`] asks for a new one.
    pub session_id: SessionId,
    /// The password of the session to resume.
    pub password: Option<Bytes>,
    /// Whether a read-only server will do; `None` from clients before 3.4, Go and Node, which must
    /// not get the byte back either.
    pub read_only: Option<bool>,
}

/// Without the password.
impl fmt::Debug for ConnectRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectRequest")
            .field("protocol_version", &self.protocol_version)
            .field("last_zxid_seen", &self.last_zxid_seen)
            .field("timeout_ms", &self.timeout_ms)
            .field("session_id", &self.session_id)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

impl Encode for ConnectRequest {
    fn encode(&self, out: &mut BytesMut) {
        self.protocol_version.encode(out);
        self.last_zxid_seen.encode(out);
        self.timeout_ms.encode(out);
        self.session_id.encode(out);
        self.password.encode(out);
        if let Some(read_only) = self.read_only {
            read_only.encode(out);
        }
    }
}

impl Decode for ConnectRequest {
    fn decode(input: &mut Bytes, _: &'static str) -> Result<Self, DecodeError> {
        Ok(Self {
            protocol_version: Decode::decode(input, "protocolVersion")?,
            last_zxid_seen: Decode::decode(input, "lastZxidSeen")?,
            timeout_ms: Decode::decode(input, "timeOut")?,
            session_id: Decode::decode(input, "sessionId")?,
            password: Decode::decode(input, "passwd")?,
            read_only: decode_read_only(input)?,
        })
    }
}

/// The first frame of a server, without a header.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectResponse {
    /// Always zero.
    pub protocol_version: i32,
    /// The negotiated session timeout in milliseconds; zero tells that the session has ended.
    pub timeout_ms: i32,
    /// The session; zero tells that it has ended.
    pub session_id: SessionId,
    /// The session's password, [`PASSWORD_BYTES`] long.
    pub password: Option<Bytes>,
    /// Whether the server is read-only; sent if and only if the request held the byte.
    pub read_only: Option<bool>,
}

impl ConnectResponse {
    /// The answer to a client whose session has ended, in every form that a client looks for.
    pub fn expired(read_only: Option<bool>) -> Self {
        Self {
            protocol_version: 0,
            timeout_ms: 0,
            session_id: SessionId::NONE,
            password: Some(Bytes::from_static(&[0; PASSWORD_BYTES])),
            read_only: read_only.map(|_| false),
        }
    }
}

/// Without the password.
impl fmt::Debug for ConnectResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectResponse")
            .field("protocol_version", &self.protocol_version)
            .field("timeout_ms", &self.timeout_ms)
            .field("session_id", &self.session_id)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

impl Encode for ConnectResponse {
    fn encode(&self, out: &mut BytesMut) {
        self.protocol_version.encode(out);
        self.timeout_ms.encode(out);
        self.session_id.encode(out);
        self.password.encode(out);
        if let Some(read_only) = self.read_only {
            read_only.encode(out);
        }
    }
}

impl Decode for ConnectResponse {
    fn decode(input: &mut Bytes, _: &'static str) -> Result<Self, DecodeError> {
        Ok(Self {
            protocol_version: Decode::decode(input, "protocolVersion")?,
            timeout_ms: Decode::decode(input, "timeOut")?,
            session_id: Decode::decode(input, "sessionId")?,
            password: Decode::decode(input, "passwd")?,
            read_only: decode_read_only(input)?,
        })
    }
}

/// The byte that came with 3.4: there, or not there at all.
fn decode_read_only(input: &mut Bytes) -> Result<Option<bool>, DecodeError> {
    if input.has_remaining() { bool::decode(input, "readOnly").map(Some) } else { Ok(None) }
}
