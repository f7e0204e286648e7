//! How the servers of a new ensemble agree on its founding: one random id, and which directory each
//! voter has. All first entries of an ensemble's logs have the same place in the log, so they must
//! be the same entry, whichever server writes it.
//!
//! The voters decide by the classic two rounds of Paxos for one value: a majority promises to take
//! nothing older, and reports what it has taken; a majority takes the newest of that, or something
//! new. What a server has promised and taken is durable before it says so. A server that loses its
//! disk in between can make two foundings possible, but nothing was written under either: the
//! servers of one do not talk to those of the other.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use crc32c::crc32c;
use zoolet_storage::{Disk, StorageError, read_small_file, replace_small_file};

use crate::consensus::MemberNode;
use crate::node_id::NodeId;
use crate::wire::{Reader, malformed, put_bytes};

/// The version of the file's format.
const VERSION: u8 = 1;

/// Longer files are not read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The file, beside the log.
pub(super) const FILE_NAME: &str = "founding";

/// The bits of a ballot that are the server's number.
const SERVER_BITS: u32 = 8;

/// The founding of an ensemble.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Founding {
    /// Its random id.
    pub id: u64,
    /// The voters by their numbers, each with its directory, zero if that is not known, and the
    /// address of its peer port.
    pub voters: BTreeMap<u64, (u64, String)>,
}

impl Founding {
    /// Returns the first membership of the log.
    pub(super) fn members(&self) -> BTreeMap<NodeId, MemberNode> {
        let voters = self.voters.iter();
        let member = |(server, (directory, address)): (&u64, &(u64, String))| {
            let member = MemberNode { address: address.clone(), line: String::new() };
            (NodeId::new(*server, *directory), member)
        };
        voters.map(member).collect()
    }

    fn put(&self, out: &mut BytesMut) {
        out.put_u64(self.id);
        out.put_u32(u32::try_from(self.voters.len()).unwrap_or(0));
        for (server, (directory, address)) in &self.voters {
            out.put_u64(*server);
            out.put_u64(*directory);
            put_bytes(out, address.as_bytes());
        }
    }

    fn take(reader: &mut Reader) -> io::Result<Self> {
        let (id, mut voters) = (reader.u64()?, BTreeMap::new());
        for _ in 0..reader.u32()? {
            let (server, directory) = (reader.u64()?, reader.u64()?);
            let address = String::from_utf8(reader.bytes()?.to_vec());
            let address = address.map_err(|_| malformed("an address that is not UTF-8"))?;
            voters.insert(server, (directory, address));
        }
        Ok(Self { id, voters })
    }
}

/// Returns the ballot of a server's attempt. Ballots of different servers differ.
pub(super) fn ballot(round: u64, server: u64) -> u64 {
    round << SERVER_BITS | server
}

/// Returns the attempt that a ballot is of.
pub(super) fn round_of(ballot: u64) -> u64 {
    ballot >> SERVER_BITS
}

/// What a server asks of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// To take nothing of an older ballot.
    Prepare { ballot: u64 },
    /// To take this founding.
    Accept { ballot: u64, founding: Founding },
}

/// What a server says to that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// It has promised this ballot, which is newer.
    Refused { promised: u64 },
    /// It has promised what was asked for; what it has taken before.
    Promised { accepted: Option<(u64, Founding)> },
    /// It has taken the founding.
    Accepted,
    /// It belongs to a founding.
    Founded,
}

impl Request {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Self::Prepare { ballot } => {
                out.put_u8(0);
                out.put_u64(*ballot);
            }
            Self::Accept { ballot, founding } => {
                out.put_u8(1);
                out.put_u64(*ballot);
                founding.put(&mut out);
            }
        }
        out.freeze()
    }

    pub(super) fn decode(body: Bytes) -> io::Result<Self> {
        let mut reader = Reader(body);
        match (reader.u8()?, reader.u64()?) {
            (0, ballot) => Ok(Self::Prepare { ballot }),
            (1, ballot) => Ok(Self::Accept { ballot, founding: Founding::take(&mut reader)? }),
            _ => Err(malformed("an unknown question about the founding")),
        }
    }
}

impl Reply {
    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Self::Refused { promised } => {
                out.put_u8(0);
                out.put_u64(*promised);
            }
            Self::Promised { accepted } => {
                out.put_u8(1);
                put_accepted(&mut out, accepted.as_ref());
            }
            Self::Accepted => out.put_u8(2),
            Self::Founded => out.put_u8(3),
        }
        out.freeze()
    }

    pub(super) fn decode(body: Bytes) -> io::Result<Self> {
        let mut reader = Reader(body);
        Ok(match reader.u8()? {
            0 => Self::Refused { promised: reader.u64()? },
            1 => Self::Promised { accepted: take_accepted(&mut reader)? },
            2 => Self::Accepted,
            3 => Self::Founded,
            _ => return Err(malformed("an unknown answer about the founding")),
        })
    }
}

fn put_accepted(out: &mut BytesMut, accepted: Option<&(u64, Founding)>) {
    out.put_u8(u8::from(accepted.is_some()));
    if let Some((ballot, founding)) = accepted {
        out.put_u64(*ballot);
        founding.put(out);
    }
}

fn take_accepted(reader: &mut Reader) -> io::Result<Option<(u64, Founding)>> {
    match reader.u8()? {
        0 => Ok(None),
        _ => Ok(Some((reader.u64()?, Founding::take(reader)?))),
    }
}

/// Returns what is to be taken by a majority of `voters`, if that many have promised: the newest
/// that any of them has taken, or else a new founding.
pub(super) fn choose(
    promises: &[Reply],
    voters: usize,
    new: impl FnOnce() -> Founding,
) -> Option<Founding> {
    let promised = promises.iter().filter_map(|promise| match promise {
        Reply::Promised { accepted } => Some(accepted.as_ref()),
        Reply::Refused { .. } | Reply::Accepted | Reply::Founded => None,
    });
    if promised.clone().count() <= voters / 2 {
        return None;
    }
    let newest = promised.flatten().max_by_key(|(ballot, _)| *ballot);
    Some(newest.map_or_else(new, |(_, founding)| founding.clone()))
}

/// What a server has promised and taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Acceptor {
    promised: u64,
    accepted: Option<(u64, Founding)>,
}

impl Acceptor {
    /// Returns the answer to a request. What it has changed must be durable before the answer
    /// leaves.
    fn step(&mut self, request: Request) -> Reply {
        match request {
            Request::Prepare { ballot } if ballot > self.promised => {
                self.promised = ballot;
                Reply::Promised { accepted: self.accepted.clone() }
            }
            Request::Accept { ballot, founding } if ballot >= self.promised => {
                self.promised = ballot;
                self.accepted = Some((ballot, founding));
                Reply::Accepted
            }
            Request::Prepare { .. } | Request::Accept { .. } => {
                Reply::Refused { promised: self.promised }
            }
        }
    }

    fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u8(VERSION);
        out.put_u64(self.promised);
        put_accepted(&mut out, self.accepted.as_ref());
        let checksum = crc32c(&out);
        out.put_u32(checksum);
        out.freeze()
    }

    fn decode(bytes: &[u8]) -> io::Result<Self> {
        let (fields, checksum) =
            bytes.split_last_chunk::<4>().ok_or_else(|| malformed("it is too short"))?;
        if crc32c(fields) != u32::from_be_bytes(*checksum) {
            return Err(malformed("its checksum is wrong"));
        }
        let mut reader = Reader(Bytes::copy_from_slice(fields));
        if reader.u8()? != VERSION {
            return Err(malformed("its version is unknown"));
        }
        Ok(Self { promised: reader.u64()?, accepted: take_accepted(&mut reader)? })
    }
}

/// The acceptor in its file, beside the log.
#[derive(Debug)]
pub(super) struct AcceptorFile {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    acceptor: Acceptor,
}

impl AcceptorFile {
    /// Reads the file, if there is one. Blocks.
    pub(super) fn open(disk: Arc<dyn Disk>, directory: PathBuf) -> Result<Self, StorageError> {
        let path = directory.join(FILE_NAME);
        let acceptor = match read_small_file(&*disk, &path, FILE_BYTES_MAX)? {
            Some(read) => Acceptor::decode(&read)
                .map_err(|error| StorageError::corrupt(&path, 0, error.to_string()))?,
            None => Acceptor::default(),
        };
        Ok(Self { disk, directory, acceptor })
    }

    /// Returns the founding that this server has taken.
    pub(super) fn accepted(&self) -> Option<&Founding> {
        self.acceptor.accepted.as_ref().map(|(_, founding)| founding)
    }

    /// Returns the answer to a request, after what it changes is durable. Blocks.
    pub(super) fn step(&mut self, request: Request) -> Result<Reply, StorageError> {
        let mut next = self.acceptor.clone();
        let reply = next.step(request);
        if next != self.acceptor {
            self.save(&next)?;
            self.acceptor = next;
        }
        Ok(reply)
    }

    fn save(&self, acceptor: &Acceptor) -> Result<(), StorageError> {
        replace_small_file(&*self.disk, &self.directory, FILE_NAME, &acceptor.encode())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use zoolet_storage::MemoryDisk;

    use super::*;

    fn founding(id: u64) -> Founding {
        let voter = |server: u64| (server, (server + 100, format!("host{server}:2")));
        Founding { id, voters: (1..=3).map(voter).collect() }
    }

    fn open(disk: &MemoryDisk) -> AcceptorFile {
        disk.create_dir_all(Path::new("data")).unwrap();
        AcceptorFile::open(Arc::new(disk.clone()), PathBuf::from("data")).unwrap()
    }

    #[test]
    fn what_was_promised_and_taken_is_there_after_a_restart() {
        let disk = MemoryDisk::new();
        let old = ballot(1, 3);
        let new = ballot(2, 1);
        assert_eq!(
            open(&disk).step(Request::Prepare { ballot: new }).unwrap(),
            Reply::Promised { accepted: None }
        );
        let refused = Reply::Refused { promised: new };
        assert_eq!(open(&disk).step(Request::Prepare { ballot: old }).unwrap(), refused);
        let taken = Request::Accept { ballot: old, founding: founding(7) };
        assert_eq!(open(&disk).step(taken).unwrap(), refused);
        let taken = Request::Accept { ballot: new, founding: founding(8) };
        assert_eq!(open(&disk).step(taken).unwrap(), Reply::Accepted);
        assert_eq!(open(&disk).accepted(), Some(&founding(8)));
        assert_eq!(
            open(&disk).step(Request::Prepare { ballot: ballot(3, 2) }).unwrap(),
            Reply::Promised { accepted: Some((new, founding(8))) }
        );
    }

    /// Three servers that all try at once, in every order of their steps that a seed gives, with
    /// restarts: no two of them find different foundings decided.
    #[test]
    fn no_two_foundings_are_decided() {
        for seed in 0..3000_u64 {
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut next = |below: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % below
            };
            let disks = [MemoryDisk::new(), MemoryDisk::new(), MemoryDisk::new()];
            let mut decided: Vec<Founding> = Vec::new();
            for round in 1..6 {
                for server in 1..=3_u64 {
                    let number = ballot(round + next(3), server);
                    let reached: Vec<usize> = (0..3).filter(|_| next(3) > 0).collect();
                    let promises: Vec<Reply> = reached
                        .iter()
                        .map(|at| {
                            open(&disks[*at]).step(Request::Prepare { ballot: number }).unwrap()
                        })
                        .collect();
                    let Some(value) = choose(&promises, 3, || founding(seed * 100 + number)) else {
                        continue;
                    };
                    let accept = Request::Accept { ballot: number, founding: value.clone() };
                    let reached = (0..3).filter(|_| next(3) > 0);
                    let taken = reached
                        .filter(|at| {
                            open(&disks[*at]).step(accept.clone()).unwrap() == Reply::Accepted
                        })
                        .count();
                    if taken >= 2 {
                        decided.push(value);
                    }
                }
            }
            decided.dedup();
            assert!(decided.len() <= 1, "seed {seed}: {decided:?}");
        }
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let requests = [
            Request::Prepare { ballot: 259 },
            Request::Accept { ballot: 1 << 40, founding: founding(u64::MAX) },
        ];
        for request in requests {
            assert_eq!(Request::decode(request.encode()).unwrap(), request);
            let bytes = request.encode();
            for end in 0..bytes.len() {
                assert!(Request::decode(bytes.slice(..end)).is_err(), "{end}");
            }
        }
        let replies = [
            Reply::Refused { promised: 3 },
            Reply::Promised { accepted: None },
            Reply::Promised { accepted: Some((4, founding(2))) },
            Reply::Accepted,
            Reply::Founded,
        ];
        for reply in replies {
            assert_eq!(Reply::decode(reply.encode()).unwrap(), reply);
        }
        assert!(Reply::decode(Bytes::from_static(&[9])).is_err());
    }
}
