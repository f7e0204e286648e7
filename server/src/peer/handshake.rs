//! The first bytes of a connection, from both sides.
//!
//! ```text
//! caller   magic (8) · version (2) · cluster (8) · founding (8) · caller (8) · its directory (8) ·
//!          called (8) · its directory (8) · boot (8) · lane (1)
//! called   magic (8) · version (2) · verdict (1) · founding (8) · directory (8) · boot (8)
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
const VERSION: u16 = 2;

/// The numbers that servers have. With one connection for each lane of each, they bound what the
/// peer port holds open, whatever callers say of themselves.
pub(super) const SERVERS: RangeInclusive<u64> = 0..=255;

/// What follows the version in a hello.
const HELLO_BYTES: usize = 7 * 8 + 1;
const WELCOME_BYTES: usize = 8 + 2 + 1 + 3 * 8;

/// The most that is read of a hello of an unknown version.
const UNKNOWN_BYTES_MAX: u64 = 1024;

/// In a hello, in the place of a directory: the caller talks to whichever directory it finds.
const ANY_DIRECTORY: u64 = u64::MAX;

/// Who a server is, to its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The ensemble's number. Servers of different ensembles do not talk.
    pub cluster: u64,
    /// The ensemble's founding, zero as long as the server belongs to none. Servers of different
    /// foundings do not talk, even if their ensembles have the same name and members.
    pub founding: u64,
    /// The server's number.
    pub server: u64,
    /// The id of its data directory. A replaced disk is another directory under the same number.
    pub directory: u64,
    /// Its start: later starts have larger numbers.
    pub boot: u64,
}

/// The server that a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its number.
    pub server: u64,
    /// Its directory; `None` for whichever directory it has.
    pub directory: Option<u64>,
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
    /// The other side belongs to another founding of the ensemble.
    #[error(
        "the other side belongs to another ensemble of the same name: its founding is \
         {theirs:#018x}, this server's is {ours:#018x}; one of the two was founded again without \
         the data of the other, and its servers' directories must be emptied before they can join"
    )]
    Founding { theirs: u64, ours: u64 },
    /// The caller wanted another directory of this server, or has found one.
    #[error("the directory is {theirs:#018x}, wanted is {wanted:#018x}: the disk was replaced")]
    Directory { theirs: u64, wanted: u64 },
    /// The caller wanted another server; its configuration has wrong addresses.
    #[error("the other side looks for server {wanted}, this is server {ours}")]
    Target { wanted: u64, ours: u64 },
    /// The caller's number is none that a server has.
    #[error("the other side calls itself server {theirs}, and servers are 0 to 255")]
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
    Founding = 5,
    Directory = 6,
}

/// The caller's side. Returns who the other side is.
pub(super) async fn greet(
    stream: &mut dyn Stream,
    ours: Identity,
    target: Target,
    lane: Lane,
) -> Result<Identity, HandshakeError> {
    let mut hello = Vec::with_capacity(MAGIC.len() + HELLO_BYTES);
    hello.put_slice(&MAGIC);
    hello.put_u16(VERSION);
    hello.put_u64(ours.cluster);
    hello.put_u64(ours.founding);
    hello.put_u64(ours.server);
    hello.put_u64(ours.directory);
    hello.put_u64(target.server);
    hello.put_u64(target.directory.unwrap_or(ANY_DIRECTORY));
    hello.put_u64(ours.boot);
    hello.put_u8(lane as u8);
    stream.write_all(&hello).await?;

    let mut welcome = [0; WELCOME_BYTES];
    stream.read_exact(&mut welcome).await?;
    let Some(mut welcome) = welcome.strip_prefix(&MAGIC) else {
        return Err(HandshakeError::Magic);
    };
    let theirs = welcome.get_u16();
    let verdict = welcome.get_u8();
    let (founding, directory, boot) = (welcome.get_u64(), welcome.get_u64(), welcome.get_u64());
    let (cluster, server) = (ours.cluster, target.server);
    match verdict {
        0 => Ok(Identity { cluster, founding, server, directory, boot }),
        1 => Err(HandshakeError::Version { theirs }),
        2 => Err(HandshakeError::Refused("it is of another cluster")),
        3 => Err(HandshakeError::Refused("it is another server: check the addresses")),
        5 => Err(HandshakeError::Founding { theirs: founding, ours: ours.founding }),
        6 => Err(HandshakeError::Directory {
            theirs: directory,
            wanted: target.directory.unwrap_or(ANY_DIRECTORY),
        }),
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
    let version = stream.read_u16().await?;
    let mut hello = [0; HELLO_BYTES];
    let (verdict, result) = if version == VERSION {
        stream.read_exact(&mut hello).await?;
        judge(&hello, ours, any_cluster)
    } else {
        (Verdict::Version, Err(HandshakeError::Version { theirs: version }))
    };
    let mut welcome = Vec::with_capacity(WELCOME_BYTES);
    welcome.put_slice(&MAGIC);
    welcome.put_u16(VERSION);
    welcome.put_u8(verdict as u8);
    welcome.put_u64(ours.founding);
    welcome.put_u64(ours.directory);
    welcome.put_u64(ours.boot);
    stream.write_all(&welcome).await?;
    if version != VERSION {
        // What is left unread would take the answer back.
        stream.shutdown().await?;
        stream.take(UNKNOWN_BYTES_MAX).read_to_end(&mut Vec::new()).await?;
    }
    result
}

fn judge(
    mut hello: &[u8],
    ours: Identity,
    any_cluster: bool,
) -> (Verdict, Result<(Identity, Lane), HandshakeError>) {
    let (cluster, founding) = (hello.get_u64(), hello.get_u64());
    let (server, directory) = (hello.get_u64(), hello.get_u64());
    let (wanted, wanted_directory) = (hello.get_u64(), hello.get_u64());
    let boot = hello.get_u64();
    let lane = Lane::from_byte(hello.get_u8());
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
    if founding != 0 && ours.founding != 0 && founding != ours.founding {
        let error = HandshakeError::Founding { theirs: founding, ours: ours.founding };
        return (Verdict::Founding, Err(error));
    }
    if wanted_directory != ANY_DIRECTORY && wanted_directory != ours.directory {
        let error = HandshakeError::Directory { theirs: ours.directory, wanted: wanted_directory };
        return (Verdict::Directory, Err(error));
    }
    match lane {
        Some(lane) => {
            let from = Identity { cluster, founding, server, directory, boot };
            (Verdict::Accepted, Ok((from, lane)))
        }
        None => (Verdict::Malformed, Err(HandshakeError::Malformed)),
    }
}
