//! The first bytes of a connection, from both sides.
//!
//! ```text
//! caller   magic (8) · version (2) · cluster (8) · caller (8) · called (8) · boot (8) · lane (1)
//! called   magic (8) · version (2) · verdict (1) · boot (8)
//! ```

use std::io;
use std::ops::RangeInclusive;

use bytes::{Buf, BufMut};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Lane;
use crate::transport::Stream;

const MAGIC: [u8; 8] = *b"zoopeer\n";

/// The version of the handshake and of the frames' format.
const VERSION: u16 = 1;

/// The numbers that servers have. With one connection for each lane of each, they bound what the
/// peer port holds open, whatever callers say of themselves.
pub(super) const SERVERS: RangeInclusive<u64> = 1..=254;

const HELLO_BYTES: usize = 2 + 4 * 8 + 1;
const WELCOME_BYTES: usize = 8 + 2 + 1 + 8;

/// Who a server is, to its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The ensemble's number. Servers of different ensembles do not talk.
    pub cluster: u64,
    /// The server's number.
    pub server: u64,
    /// Its start: later starts have larger numbers.
    pub boot: u64,
}

/// Why a handshake failed.
#[derive(Debug, Error)]
pub enum HandshakeError {
    /// The other side speaks another protocol. Nothing is answered.
    #[error("the other side is no zoolet server")]
    Magic,
    /// The other side speaks another version of this one.
    #[error("the other side speaks version {theirs}, this server speaks version {VERSION}")]
    Version { theirs: u16 },
    /// The other side belongs to another ensemble.
    #[error("the other side is of cluster {theirs:#018x}, this server is of {ours:#018x}")]
    Cluster { theirs: u64, ours: u64 },
    /// The caller wanted another server; its configuration has wrong addresses.
    #[error("the other side looks for server {wanted}, this is server {ours}")]
    Target { wanted: u64, ours: u64 },
    /// The caller's number is none that a server has.
    #[error("the other side calls itself server {theirs}, and servers are 1 to 254")]
    Caller { theirs: u64 },
    /// A field has a value that does not exist.
    #[error("the handshake is malformed")]
    Malformed,
    /// The called side has refused, for the reason that it has logged.
    #[error("the other side refused: {0}")]
    Refused(&'static str),
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What the called side says to a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Accepted = 0,
    Version = 1,
    Cluster = 2,
    Target = 3,
    Malformed = 4,
}

/// The caller's side.
pub(super) async fn greet(
    stream: &mut dyn Stream,
    ours: Identity,
    target: u64,
    lane: Lane,
) -> Result<(), HandshakeError> {
    let mut hello = Vec::with_capacity(MAGIC.len() + HELLO_BYTES);
    hello.put_slice(&MAGIC);
    hello.put_u16(VERSION);
    hello.put_u64(ours.cluster);
    hello.put_u64(ours.server);
    hello.put_u64(target);
    hello.put_u64(ours.boot);
    hello.put_u8(lane as u8);
    stream.write_all(&hello).await?;

    let mut welcome = [0; WELCOME_BYTES];
    stream.read_exact(&mut welcome).await?;
    let Some(mut welcome) = welcome.strip_prefix(&MAGIC) else {
        return Err(HandshakeError::Magic);
    };
    let theirs = welcome.get_u16();
    match welcome.get_u8() {
        0 => Ok(()),
        1 => Err(HandshakeError::Version { theirs }),
        2 => Err(HandshakeError::Refused("it is of another cluster")),
        3 => Err(HandshakeError::Refused("it is another server: check the addresses")),
        _ => Err(HandshakeError::Refused("it did not understand the handshake")),
    }
}

/// The called side. Gives the caller and what the connection is for.
pub(super) async fn receive(
    stream: &mut dyn Stream,
    ours: Identity,
    any_cluster: bool,
) -> Result<(Identity, Lane), HandshakeError> {
    let mut magic = [0; MAGIC.len()];
    stream.read_exact(&mut magic).await?;
    if magic != MAGIC {
        return Err(HandshakeError::Magic);
    }
    let mut hello = [0; HELLO_BYTES];
    stream.read_exact(&mut hello).await?;
    let (verdict, result) = judge(&hello, ours, any_cluster);
    let mut welcome = Vec::with_capacity(WELCOME_BYTES);
    welcome.put_slice(&MAGIC);
    welcome.put_u16(VERSION);
    welcome.put_u8(verdict as u8);
    welcome.put_u64(ours.boot);
    stream.write_all(&welcome).await?;
    result
}

fn judge(
    mut hello: &[u8],
    ours: Identity,
    any_cluster: bool,
) -> (Verdict, Result<(Identity, Lane), HandshakeError>) {
    let version = hello.get_u16();
    let cluster = hello.get_u64();
    let server = hello.get_u64();
    let wanted = hello.get_u64();
    let boot = hello.get_u64();
    let lane = Lane::from_byte(hello.get_u8());
    if version != VERSION {
        return (Verdict::Version, Err(HandshakeError::Version { theirs: version }));
    }
    if cluster != ours.cluster && !any_cluster {
        let error = HandshakeError::Cluster { theirs: cluster, ours: ours.cluster };
        return (Verdict::Cluster, Err(error));
    }
    if wanted != ours.server || server == ours.server {
        let error = HandshakeError::Target { wanted, ours: ours.server };
        return (Verdict::Target, Err(error));
    }
    if !SERVERS.contains(&server) {
        return (Verdict::Malformed, Err(HandshakeError::Caller { theirs: server }));
    }
    match lane {
        Some(lane) => (Verdict::Accepted, Ok((Identity { cluster, server, boot }, lane))),
        None => (Verdict::Malformed, Err(HandshakeError::Malformed)),
    }
}
