//! The way to a server: which one comes next, after which wait, and what was wrong with the others.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;
use zoolet_jute::{ConnectRequest, ConnectResponse, Decode, Encode, frame};

use super::core::REPLY_BYTES_MAX;
use super::dials::{Dialed, Dials};
use super::timeouts::Timeouts;
use crate::hosts::Hosts;
use crate::{Connector, Error, Transport};

/// The bytes to make room for before each read.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// How many addresses are remembered with what was wrong with them.
const FAILURES_MAX: usize = 64;

/// One connection, with what has been read of it.
pub(crate) struct Wire {
    pub(crate) reader: ReadHalf<Box<dyn Transport>>,
    pub(crate) writer: WriteHalf<Box<dyn Transport>>,
    pub(crate) incoming: BytesMut,
    /// Whether the transport may hold bytes back.
    pub(crate) flushed: bool,
}

/// A server's answer to the handshake.
pub(crate) struct Reached {
    pub(crate) wire: Wire,
    pub(crate) response: ConnectResponse,
    pub(crate) asked_at: Instant,
    pub(crate) address: String,
}

/// What was wrong with each server when it was last tried; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures(Arc<Mutex<BTreeMap<String, String>>>);

impl Failures {
    pub(crate) fn note(&self, address: &str, why: impl Into<String>) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= FAILURES_MAX && !failures.contains_key(address) {
            failures.pop_first();
        }
        failures.insert(address.to_owned(), why.into());
    }

    /// Returns them as a text: each server, and what was wrong.
    pub(crate) fn to_text(&self) -> String {
        let failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let each = failures.iter().map(|(address, why)| format!("{address}: {why}"));
        each.collect::<Vec<_>>().join("; ")
    }
}

/// How badly an address of a server has done. One that is not known comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Record {
    /// It has served a connection, which has ended.
    Left,
    /// It has not answered.
    Unreachable,
}

/// The way to a server.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) hosts: Hosts,
    pub(crate) connector: Arc<dyn Connector>,
    failures: Failures,
    /// Of the addresses of names that have several.
    records: BTreeMap<String, Record>,
    /// How many rounds over all servers were fruitless. A connection that ends at once counts as fruitless.
    rounds: u32,
    /// Whether all servers have been tried since the last wait.
    tired: bool,
    /// Whether a connection was lost and no server tried since.
    is_lost: bool,
}

impl Route {
    pub(crate) fn new(hosts: Hosts, connector: Arc<dyn Connector>, failures: Failures) -> Self {
        let records = BTreeMap::new();
        Self { hosts, connector, failures, records, rounds: 0, tired: false, is_lost: false }
    }

    /// Tries the servers in turn until one answers, with a growing wait after each round.
    pub(crate) async fn reach(&mut self, request: &ConnectRequest, timeouts: Timeouts) -> Reached {
        loop {
            self.wait(timeouts).await;
            let (server, round_ends) = self.hosts.next();
            self.tired = round_ends;
            let addresses = self.resolve(&server, timeouts).await;
            if let Some(reached) = self.try_all(addresses, request, timeouts).await {
                self.records.remove(&reached.address);
                return reached;
            }
        }
    }

    /// Asks for the session at the first address that a connection is made to, then at the next;
    /// `None` when none answers.
    async fn try_all(
        &mut self,
        addresses: Vec<String>,
        request: &ConnectRequest,
        timeouts: Timeouts,
    ) -> Option<Reached> {
        // One address of several that is silent leaves time for another.
        let shares = if addresses.len() < 2 { 1 } else { 3 };
        let limit = timeouts.connect(self.hosts.count().max(shares));
        let dial = if self.rounds == 0 { timeouts.dial() } else { limit };
        let patience = (dial.min(limit), timeouts.stagger(addresses.len()));
        // Several that are silent leave time for the next server.
        let (mut limit, later_limit) =
            (limit, limit / u32::try_from(addresses.len()).unwrap_or(1).max(1));
        let mut dials = Dials::new(&self.connector, &self.failures, addresses, patience);
        while let Some(Dialed { address, took, connected }) = dials.next().await {
            let transport = match connected {
                Ok(transport) => transport,
                Err(error) => {
                    self.fail(&address, Error::from(error).cause());
                    continue;
                }
            };
            // One that was connected while another one was asked has its time nevertheless.
            let rest = limit.saturating_sub(took).max(limit / 2);
            limit = later_limit;
            match timeout(rest, handshake(transport, &address, request)).await {
                Ok(Ok(reached)) => return Some(reached),
                Ok(Err(error)) => self.fail(&address, error.cause()),
                Err(_) => self.fail(&address, format!("no answer within {} ms", rest.as_millis())),
            }
        }
        None
    }

    /// Waits a while after each round over all servers. The first of many clients that have lost one
    /// server must not all come to the next one in the same moment.
    async fn wait(&mut self, timeouts: Timeouts) {
        let is_lost = std::mem::take(&mut self.is_lost);
        if !self.tired && !is_lost {
            return;
        }
        let chance = self.hosts.chance();
        if self.tired {
            sleep(timeouts.backoff(self.rounds, chance)).await;
            self.rounds = self.rounds.saturating_add(1);
        } else {
            sleep(timeouts.spread(chance)).await;
        }
    }

    /// Returns the addresses of a server, those first that have done well.
    async fn resolve(&mut self, server: &str, timeouts: Timeouts) -> Vec<String> {
        let limit = timeouts.connect(self.hosts.count());
        let mut addresses = match timeout(limit, self.connector.resolve(server)).await {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(error)) => {
                self.failures.note(server, error.to_string());
                return Vec::new();
            }
            Err(_) => {
                self.failures.note(server, "its name was not resolved in time");
                return Vec::new();
            }
        };
        if addresses.len() < 2 {
            return addresses;
        }
        self.hosts.shuffle(&mut addresses);
        if self.records.len() > FAILURES_MAX {
            self.records.clear();
        }
        addresses.sort_by_key(|address| self.records.get(address).copied());
        addresses
    }

    /// Notes what is wrong with an address.
    pub(crate) fn fail(&mut self, address: &str, why: String) {
        debug!(address, why, "no session here");
        self.records.insert(address.to_owned(), Record::Unreachable);
        self.failures.note(address, why);
    }

    /// Notes that a connection to an address was lost.
    pub(crate) fn leave(&mut self, address: String) {
        self.records.insert(address, Record::Left);
        self.is_lost = true;
    }

    /// Forgets the fruitless rounds.
    pub(crate) fn refresh(&mut self) {
        (self.rounds, self.tired) = (0, false);
    }
}

async fn handshake(
    transport: Box<dyn Transport>,
    address: &str,
    request: &ConnectRequest,
) -> Result<Reached, Error> {
    let (mut reader, mut writer) = split(transport);
    let asked_at = Instant::now();
    let mut outgoing = BytesMut::new();
    frame::put(&mut outgoing, |out| request.encode(out));
    writer.write_all_buf(&mut outgoing).await?;
    writer.flush().await?;
    let mut incoming = BytesMut::with_capacity(READ_BYTES);
    let mut payload = loop {
        if let Some(payload) = frame::split(&mut incoming, REPLY_BYTES_MAX)? {
            break payload;
        }
        if reader.read_buf(&mut incoming).await? == 0 {
            let why = "the server has closed the connection";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why).into());
        }
    };
    let response = ConnectResponse::decode(&mut payload, "connect")?;
    let wire = Wire { reader, writer, incoming, flushed: true };
    Ok(Reached { wire, response, asked_at, address: address.to_owned() })
}
