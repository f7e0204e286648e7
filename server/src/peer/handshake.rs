//! The first bytes of a connection, from both sides.
//!
//! ```text
//! caller   magic (8) · version (2) · length (2) · hello
//!          hello    identity · called (8) · its directory (8) · lane (1) · method (1) · nonce (32)
//! called   magic (8) · version (2) · verdict (1) · length (2) · welcome
//!          welcome  identity · nonce (32) · proof (32)
//! caller   proof (32), if there is a secret and it was let in
//!          identity cluster (8) · founding (8) · server (8) · directory (8)
//! ```
//!
//! A length counts what follows it. Who speaks another version gets a welcome without the length
//! and what follows.
//!
//! Without a secret the method is 0, and nonces and proofs are zeros. With a secret the method is
//! 1, and each side proves that it knows the secret: a proof is the HMAC-SHA256 of a label, which
//! is different for the two sides, of the verdict, and of all bytes of the hello and of the welcome
//! before the proof. These hold both nonces and both identities, so a proof is worth nothing on any
//! other connection, nor in the mouth of the other side. The called side proves first, a refusal
//! too; a caller that finds the proof wrong sends zeros as its own, which prove nothing but name the
//! fault in the log of the called side, and hangs up. A caller that hangs up without a proof has timed
//! out: the called side may have been stopped for longer than its peers wait.
//!
//! The handshake runs over any [`Stream`]: over one that encrypts, it is the same.

use std::io;
use std::ops::RangeInclusive;

use bytes::{Buf, BufMut, Bytes};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Lane;
use super::refusals::Refused;
use super::secret::{NONCE_BYTES, PROOF_BYTES, Secret};
use super::tls::is_end;
use crate::transport::Stream;

const MAGIC: [u8; 8] = *b"zoopeer\n";

/// The version of the handshake and of the frames' format.
const VERSION: u16 = 4;

/// The numbers that servers have. With one connection for each lane of each, they bound what the
/// peer port holds open, whatever callers say of themselves.
pub(super) const SERVERS: RangeInclusive<u64> = 0..=255;

/// The longest hello or welcome, in bytes.
const PART_BYTES_MAX: u16 = 1024;

/// The labels under which the two sides prove that they know the secret.
const CALLER: &[u8] = b"zoolet peer: caller\0";
const CALLED: &[u8] = b"zoolet peer: called\0";

/// The most that is read of a hello of an unknown version.
const UNKNOWN_BYTES_MAX: u64 = 1024;

/// In a hello, in the place of a directory: the caller talks to whichever directory it finds.
const ANY_DIRECTORY: u64 = u64::MAX;

/// Who a server is, to its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerIdentity {
    /// The ensemble's number. Servers of different ensembles do not talk.
    pub cluster: u64,
    /// The ensemble's founding, zero as long as the server belongs to none. Servers of different
    /// foundings do not talk, even if their ensembles have the same name and members.
    pub founding: u64,
    /// The server's number.
    pub server: u64,
    /// The id of its data directory. A replaced disk is another directory under the same number.
    pub directory: u64,
}

impl PeerIdentity {
    fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.cluster, self.founding, self.server, self.directory] {
            out.put_u64(number);
        }
    }

    fn decode(input: &mut Bytes) -> Result<Self, HandshakeError> {
        let mut number = || input.try_get_u64().map_err(|_| HandshakeError::Malformed);
        let (cluster, founding, server) = (number()?, number()?, number()?);
        Ok(Self { cluster, founding, server, directory: number()? })
    }
}

/// The server that a caller wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Its number.
    pub server: u64,
    /// Its directory; `None` for whichever directory it has.
    pub directory: Option<u64>,
}

/// Why a handshake failed.
#[derive(Debug, Error)]
pub(super) enum HandshakeError {
    /// The other side speaks another protocol. Nothing is answered.
    #[error("the other side is not a zoolet server")]
    Magic,
    /// The other side speaks TLS, which is off here.
    #[error(
        "TLS hello on the plain peer port: TLS between servers (sslQuorum) is off on this server"
    )]
    TlsHello,
    /// TLS fails.
    #[error(transparent)]
    Tls(zoolet_tls::HandshakeError),
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
    /// One side has a secret and the other has none.
    #[error(
        "only one side has a secret: set peer_secret_file on all servers, with the same secret"
    )]
    Method,
    /// The other side does not know the secret.
    #[error(
        "the other side has another secret: peer_secret_file must hold the same on all servers"
    )]
    Secret,
    /// The caller hung up before its proof.
    #[error("the other side hung up before its proof")]
    Unproved,
    /// A field has a value that does not exist.
    #[error("the handshake is malformed")]
    Malformed,
    /// The called side has refused, for the reason that it has logged.
    #[error("the other side refused: {0}")]
    Refused(&'static str),
    /// The called side hung up before it had said anything.
    #[error("the other side hung up without an answer ({0})")]
    NoAnswer(io::Error),
    /// The called side hung up before it had said anything in TLS.
    #[error(
        "the other side hung up within the TLS handshake ({0}): it may speak plain text, with TLS \
         between servers (sslQuorum, peer_enabled) off"
    )]
    NoTls(io::Error),
    /// The socket failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What the called side says to a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandshakeVerdict {
    Accepted = 0,
    Version = 1,
    Cluster = 2,
    Target = 3,
    Malformed = 4,
    Founding = 5,
    Directory = 6,
    Method = 7,
}

/// Returns the hello of a caller.
fn hello_of(
    ours: PeerIdentity,
    (target, lane): (Target, Lane),
    secret: Option<&Secret>,
) -> Vec<u8> {
    let mut hello = Vec::new();
    ours.encode(&mut hello);
    hello.put_u64(target.server);
    hello.put_u64(target.directory.unwrap_or(ANY_DIRECTORY));
    hello.put_u8(lane as u8);
    hello.put_u8(method(secret));
    hello.put_slice(&nonce(secret));
    hello
}

/// Returns what a caller sends first.
fn opening(hello: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(MAGIC.len() + 4 + hello.len());
    out.put_slice(&MAGIC);
    out.put_u16(VERSION);
    put_part(&mut out, hello);
    out
}

/// Returns what a caller sends first for a lane, for those who recognize connections by it.
#[cfg(feature = "internals")]
pub fn opening_of(ours: PeerIdentity, server: u64, lane: Lane) -> Vec<u8> {
    opening(&hello_of(ours, (Target { server, directory: None }, lane), None))
}

/// Carries out the caller's side. Returns who the other side is.
pub(super) async fn greet(
    stream: &mut dyn Stream,
    ours: PeerIdentity,
    (target, lane): (Target, Lane),
    secret: Option<&Secret>,
) -> Result<PeerIdentity, HandshakeError> {
    let hello = hello_of(ours, (target, lane), secret);
    let out = opening(&hello);
    let mut head = [0; MAGIC.len() + 3];
    let answered = async {
        stream.write_all(&out).await?;
        stream.flush().await?;
        stream.read_exact(&mut head).await
    };
    answered.await.map_err(unanswered)?;
    let Some(mut head) = head.strip_prefix(&MAGIC) else {
        return Err(HandshakeError::Magic);
    };
    let (theirs, verdict) = (head.get_u16(), head.get_u8());
    if theirs != VERSION || verdict == HandshakeVerdict::Version as u8 {
        return Err(HandshakeError::Version { theirs });
    }
    if verdict == HandshakeVerdict::Method as u8 {
        return Err(HandshakeError::Method);
    }
    let welcome = read_part(stream).await?;
    let Some((welcome, proof)) = welcome.split_last_chunk::<PROOF_BYTES>() else {
        return Err(HandshakeError::Malformed);
    };
    if secret.is_some_and(|known| !known.is_proof(proof, &[CALLED, &[verdict], &hello, welcome])) {
        // The error is the same whether or not the other side receives this.
        let _ = stream.write_all(&[0; PROOF_BYTES]).await;
        let _ = stream.flush().await;
        return Err(HandshakeError::Secret);
    }
    let identity = PeerIdentity::decode(&mut Bytes::copy_from_slice(welcome))?;
    check_verdict(verdict, ours, target, identity)?;
    if let Some(secret) = secret {
        stream.write_all(&secret.prove(&[CALLER, &[verdict], &hello, welcome])).await?;
        stream.flush().await?;
    }
    Ok(identity)
}

/// The error when nothing was received.
fn unanswered(error: io::Error) -> HandshakeError {
    if is_end(&error) { HandshakeError::NoAnswer(error) } else { HandshakeError::Io(error) }
}

fn check_verdict(
    verdict: u8,
    ours: PeerIdentity,
    target: Target,
    theirs: PeerIdentity,
) -> Result<(), HandshakeError> {
    let PeerIdentity { founding, directory, server, .. } = theirs;
    match verdict {
        0 if server == target.server => Ok(()),
        0 => Err(HandshakeError::Target { wanted: target.server, ours: server }),
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

/// Carries out the called side. Returns the caller and what the connection is for.
pub(super) async fn receive(
    stream: &mut dyn Stream,
    ours: PeerIdentity,
    any_cluster: bool,
    secret: Option<&Secret>,
) -> Result<(PeerIdentity, Lane), Refused> {
    let mut server = None;
    let received = receive_from(stream, ours, any_cluster, secret, &mut server).await;
    received.map_err(|error| Refused { server, error })
}

/// `server` is set to what the caller calls itself, as soon as it has.
async fn receive_from(
    stream: &mut dyn Stream,
    ours: PeerIdentity,
    any_cluster: bool,
    secret: Option<&Secret>,
    server: &mut Option<u64>,
) -> Result<(PeerIdentity, Lane), HandshakeError> {
    let mut magic = [0; MAGIC.len()];
    stream.read_exact(&mut magic).await?;
    if magic != MAGIC {
        let is_tls = magic.first().copied().is_some_and(zoolet_tls::is_hello);
        return Err(if is_tls { HandshakeError::TlsHello } else { HandshakeError::Magic });
    }
    let theirs = stream.read_u16().await?;
    if theirs != VERSION {
        stream.write_all(&head(HandshakeVerdict::Version)).await?;
        // What is left unread would take the answer back.
        stream.shutdown().await?;
        stream.take(UNKNOWN_BYTES_MAX).read_to_end(&mut Vec::new()).await?;
        return Err(HandshakeError::Version { theirs });
    }
    let hello = read_part(stream).await?;
    *server = PeerIdentity::decode(&mut hello.clone()).ok().map(|caller| caller.server);
    let (verdict, result) = match judge(hello.clone(), ours, any_cluster, method(secret)) {
        Ok(judged) => (HandshakeVerdict::Accepted, Ok(judged)),
        Err((verdict, error)) => (verdict, Err(error)),
    };
    let mut welcome = Vec::new();
    ours.encode(&mut welcome);
    welcome.put_slice(&nonce(secret));
    let said = [verdict as u8];
    let proof =
        secret.map_or([0; PROOF_BYTES], |secret| secret.prove(&[CALLED, &said, &hello, &welcome]));
    let mut out = head(verdict);
    put_part(&mut out, &[&welcome[..], &proof].concat());
    stream.write_all(&out).await?;
    stream.flush().await?;
    if let (Some(secret), Ok(_)) = (secret, &result) {
        let mut proof = [0; PROOF_BYTES];
        stream.read_exact(&mut proof).await.map_err(|_| HandshakeError::Unproved)?;
        if !secret.is_proof(&proof, &[CALLER, &said, &hello, &welcome]) {
            return Err(HandshakeError::Secret);
        }
    }
    result
}

/// Returns how the two sides know each other: 0 for not at all, 1 by a secret.
fn method(secret: Option<&Secret>) -> u8 {
    u8::from(secret.is_some())
}

fn nonce(secret: Option<&Secret>) -> [u8; NONCE_BYTES] {
    secret.map_or([0; NONCE_BYTES], Secret::nonce)
}

fn head(verdict: HandshakeVerdict) -> Vec<u8> {
    let mut head = Vec::new();
    head.put_slice(&MAGIC);
    head.put_u16(VERSION);
    head.put_u8(verdict as u8);
    head
}

fn put_part(out: &mut Vec<u8>, part: &[u8]) {
    out.put_u16(u16::try_from(part.len()).expect("a part is short"));
    out.put_slice(part);
}

async fn read_part(stream: &mut dyn Stream) -> Result<Bytes, HandshakeError> {
    let length = stream.read_u16().await?;
    if length > PART_BYTES_MAX {
        return Err(HandshakeError::Malformed);
    }
    let mut part = vec![0; usize::from(length)];
    stream.read_exact(&mut part).await?;
    Ok(part.into())
}

fn judge(
    mut hello: Bytes,
    ours: PeerIdentity,
    any_cluster: bool,
    method: u8,
) -> Result<(PeerIdentity, Lane), (HandshakeVerdict, HandshakeError)> {
    let malformed = |_| (HandshakeVerdict::Malformed, HandshakeError::Malformed);
    let caller =
        PeerIdentity::decode(&mut hello).map_err(|error| (HandshakeVerdict::Malformed, error))?;
    let wanted = hello.try_get_u64().map_err(malformed)?;
    let wanted_directory = hello.try_get_u64().map_err(malformed)?;
    let lane = Lane::from_byte(hello.try_get_u8().map_err(malformed)?);
    let theirs = hello.try_get_u8().map_err(malformed)?;
    let PeerIdentity { cluster, founding, server, .. } = caller;
    if theirs != method {
        return Err((HandshakeVerdict::Method, HandshakeError::Method));
    }
    if cluster != ours.cluster && !any_cluster {
        let error = HandshakeError::Cluster { theirs: cluster, ours: ours.cluster };
        return Err((HandshakeVerdict::Cluster, error));
    }
    if wanted != ours.server || server == ours.server {
        let error = HandshakeError::Target { wanted, ours: ours.server };
        return Err((HandshakeVerdict::Target, error));
    }
    if !SERVERS.contains(&server) {
        return Err((HandshakeVerdict::Malformed, HandshakeError::Caller { theirs: server }));
    }
    if founding != 0 && ours.founding != 0 && founding != ours.founding {
        let error = HandshakeError::Founding { theirs: founding, ours: ours.founding };
        return Err((HandshakeVerdict::Founding, error));
    }
    if wanted_directory != ANY_DIRECTORY && wanted_directory != ours.directory {
        let error = HandshakeError::Directory { theirs: ours.directory, wanted: wanted_directory };
        return Err((HandshakeVerdict::Directory, error));
    }
    match lane {
        Some(lane) if hello.len() == NONCE_BYTES => Ok((caller, lane)),
        _ => Err((HandshakeVerdict::Malformed, HandshakeError::Malformed)),
    }
}
