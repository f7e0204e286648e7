//! Which address a session connects from: the servers report it with the four-letter word `cons`.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use zoolet_client::{ConnectString, Connector, SessionId, TcpConnector};
use zoolet_survey::locks::Lock;

use crate::args::Options;
use crate::error::CtlError;
use crate::output::note;

/// How long one server may take.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The longest answer that is read, in bytes: a line of some 200 for each connection.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The addresses of sessions.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    addresses: BTreeMap<SessionId, String>,
    /// The servers that did not report it, and why.
    silent: Vec<String>,
}

impl Clients {
    /// The addresses of all sessions, if there are locks to show.
    pub(crate) async fn of(locks: &[Lock], options: &Options) -> Result<Self, CtlError> {
        let mut clients = Self::default();
        if !locks.is_empty() {
            let tls = options.tls.connector()?;
            let connector: &dyn Connector = tls.as_ref().map_or(&TcpConnector, |tls| tls);
            clients.ask(options.connect_string(), connector).await;
        }
        Ok(clients)
    }

    /// These sessions, which are all.
    #[cfg(test)]
    pub(crate) fn known(addresses: Vec<(SessionId, String)>) -> Self {
        Self { addresses: addresses.into_iter().collect(), silent: Vec::new() }
    }

    /// Whether every server has reported its sessions.
    pub(crate) fn are_complete(&self) -> bool {
        self.silent.is_empty()
    }

    /// Asks every server of a connect string. A session is connected to one of them.
    async fn ask(&mut self, connect_string: &str, connector: &dyn Connector) {
        // A client is connected to it, so it is valid.
        let servers = connect_string.parse::<ConnectString>();
        for address in servers.iter().flat_map(ConnectString::addresses) {
            match timeout(ANSWER_MAX, ask(connector, address)).await {
                Ok(Ok(answer)) if answer.contains("not in the whitelist") => {
                    self.silent.push(format!("{address} does not allow `cons`"));
                }
                Ok(Ok(answer)) => self.addresses.extend(answer.lines().filter_map(parse)),
                Ok(Err(error)) => self.silent.push(format!("{address}: {error}")),
                Err(_) => self.silent.push(format!("{address} does not answer")),
            }
        }
    }

    /// Where a session comes from.
    pub(crate) fn address(&self, session: SessionId) -> Option<&str> {
        self.addresses.get(&session).map(String::as_str)
    }

    /// Tells why addresses may be missing.
    pub(crate) fn complain(&self) {
        for why in &self.silent {
            note(&format!("client addresses may be missing: {why} (4lw.commands.whitelist)"));
        }
    }
}

async fn ask(connector: &dyn Connector, address: &str) -> std::io::Result<String> {
    let mut stream = connector.connect(address).await?;
    stream.write_all(b"cons").await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// ` /127.0.0.1:5000[1](queued=0,recved=3,sent=3,sid=0x100000000000000,…)`.
fn parse(line: &str) -> Option<(SessionId, String)> {
    // The interest in brackets is the last of these in front of the figures; an IPv6 address has
    // brackets as well.
    let (head, figures) = line.trim().strip_prefix('/')?.split_once("](")?;
    let (address, _) = head.rsplit_once('[')?;
    let (_, session) = figures.split_once("sid=0x")?;
    let digits = session.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(session.len());
    let session = u64::from_str_radix(session.get(..digits)?, 16).ok()?;
    Some((SessionId(session.cast_signed()), address.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_cons_has_address_and_session() {
        let line = " /127.0.0.1:51234[1](queued=0,recved=3,sent=3,sid=0xa00000000000001,lop=PING)";
        assert_eq!(parse(line), Some((SessionId(0x0a00_0000_0000_0001), "127.0.0.1:51234".into())));
        let line = " /[::1]:5[1](queued=0,recved=3,sent=3,sid=0xffffffffffffffff)";
        assert_eq!(parse(line), Some((SessionId(-1), "[::1]:5".into())));
        assert_eq!(parse(" /127.0.0.1:5[0](queued=0,recved=1,sent=0)"), None, "no session yet");
    }
}
