//! What it takes to resume a session.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use bytes::Bytes;
use zoolet_jute::{SessionId, Zxid};

use crate::{Error, ErrorKind};

/// What a client needs to resume its session, in this process or in another.
///
/// [`to_text`](Self::to_text) writes it down, [`str::parse`] reads it again:
///
/// ```
/// # fn example(left: zoolet_client::SessionInfo) -> Result<(), zoolet_client::Error> {
/// let text = left.to_text();
/// let session: zoolet_client::SessionInfo = text.parse()?;
/// assert_eq!(session, left);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The id; [`SessionId::NONE`] before the first connection.
    pub id: SessionId,
    /// The password, 16 bytes. With it and the id another program can take the session over.
    pub password: Bytes,
    /// The timeout that the server granted, in milliseconds.
    pub timeout_ms: u64,
    /// The newest zxid that was seen. Servers that are behind it do not serve the session.
    pub last_zxid: Zxid,
}

impl SessionInfo {
    /// As a line of text: id, password, timeout and zxid, with colons between them. It holds a
    /// secret.
    pub fn to_text(&self) -> String {
        let mut password = String::new();
        for byte in &self.password {
            // Writing to a String does not fail.
            let _ = write!(password, "{byte:02x}");
        }
        format!("{:x}:{password}:{}:{:x}", self.id.0, self.timeout_ms, self.last_zxid.0)
    }

    fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.trim().split(':');
        let id = hex(parts.next()?)?;
        let password = parts.next()?.as_bytes().chunks(2).map(|pair| {
            u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?, 16)
                .ok()
        });
        let password: Option<Vec<u8>> = password.collect();
        let timeout_ms = parts.next()?.parse().ok()?;
        let last_zxid = hex(parts.next()?)?;
        parts.next().is_none().then_some(Self {
            id: SessionId(id),
            password: password?.into(),
            timeout_ms,
            last_zxid: Zxid(last_zxid),
        })
    }
}

/// A number as `{:x}` writes it: a negative one as its bits.
fn hex(text: &str) -> Option<i64> {
    u64::from_str_radix(text, 16).ok().map(u64::cast_signed)
}

impl FromStr for SessionInfo {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        // The text is a secret: it does not go into the message.
        let wrong = || ErrorKind::Protocol("invalid text of a session".into()).into();
        Self::from_text(text).ok_or_else(wrong)
    }
}

/// Without the password.
impl fmt::Debug for SessionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionInfo")
            .field("id", &self.id)
            .field("timeout_ms", &self.timeout_ms)
            .field("last_zxid", &self.last_zxid)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_survives_being_written_down() {
        for id in [0x0100_000b_d0bd_0000, -1, i64::MIN] {
            let session = SessionInfo {
                id: SessionId(id),
                password: (0..16).map(|byte| byte * 17).collect::<Vec<u8>>().into(),
                timeout_ms: 10_000,
                last_zxid: Zxid(0x5_0000_0001),
            };
            let text = session.to_text();
            assert_eq!(format!("{text}\n").parse::<SessionInfo>().unwrap(), session);
            assert!(!format!("{session:?}").contains("ffee"), "{session:?}");
        }
    }

    #[test]
    fn an_invalid_session_is_refused_and_not_repeated() {
        for bad in ["", "1:2", "x:00:1:1", "1:0:1:1", "1:zz:1:1", "1:00:-1:1", "1:00:1:1:secret"] {
            let error = bad.parse::<SessionInfo>().unwrap_err();
            assert!(!error.to_string().contains("secret"), "{bad}: {error}");
        }
    }
}
