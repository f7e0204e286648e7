//! Which address a session connects from: the servers report it with the four-letter word `cons`.

use std::collections::BTreeMap;

use zoolet_client::{ConnectString, Connector, SessionId, TcpConnector};
use zoolet_survey::four_letter::{self, Silence};
use zoolet_survey::locks::{Form, Lock};
use zoolet_survey::sessions;

use crate::args::Options;
use crate::error::CtlError;
use crate::output::note;

/// The addresses of sessions.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    addresses: BTreeMap<SessionId, String>,
    /// The servers that do not allow the word.
    forbidden: Vec<String>,
    /// The servers that did not report it otherwise, and why.
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
        Self { addresses: addresses.into_iter().collect(), ..Self::default() }
    }

    /// Whether every server has reported its sessions.
    pub(crate) fn are_complete(&self) -> bool {
        self.silent.is_empty() && self.forbidden.is_empty()
    }

    /// Asks every server of a connect string. A session is connected to one of them.
    async fn ask(&mut self, connect_string: &str, connector: &dyn Connector) {
        // A client is connected to it, so it is valid.
        let servers = connect_string.parse::<ConnectString>();
        for address in servers.iter().flat_map(ConnectString::addresses) {
            match four_letter::ask(connector, address, "cons").await {
                Ok(answer) => {
                    let found = sessions::connections(&answer).into_iter();
                    self.addresses.extend(found.map(|it| (it.session, it.address)));
                }
                Err(Silence::Forbidden) => {
                    self.forbidden.push(address.clone());
                }
                Err(silence) => self.silent.push(format!("{address}: {silence}")),
            }
        }
    }

    /// Where a session comes from.
    pub(crate) fn address(&self, session: SessionId) -> Option<&str> {
        self.addresses.get(&session).map(String::as_str)
    }

    /// Returns the JSON form of locks, with these addresses.
    pub(crate) fn form(&self, now_ms: i64) -> Form<'_> {
        Form { addresses: &self.addresses, now_ms }
    }

    /// Says why addresses may be missing, in one line.
    pub(crate) fn complain(&self) {
        if let Some(why) = self.complaint() {
            note(&why);
        }
    }

    fn complaint(&self) -> Option<String> {
        let mut reasons = self.silent.clone();
        if !self.forbidden.is_empty() {
            reasons.push(format!(
                "the four-letter word `cons` is not allowed at {}; 4lw.commands.whitelist in zoo.cfg, \
                 or words of [four_letter] in cluster.toml, allows it",
                self.forbidden.join(", ")
            ));
        }
        (!reasons.is_empty())
            .then(|| format!("client addresses may be missing: {}", reasons.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three servers said the same, each in a line, and nothing what to set in `cluster.toml`.
    #[test]
    fn what_all_servers_refuse_is_said_once() {
        let forbidden = ["a:1", "b:2"].map(str::to_owned).to_vec();
        let silent = vec!["c:3: up, without a leader".to_owned()];
        let clients = Clients { forbidden, silent, ..Clients::default() };
        assert!(!clients.are_complete());
        let why = clients.complaint().unwrap();
        assert!(!why.contains('\n') && why.contains("c:3: up"), "{why}");
        assert!(why.contains("not allowed at a:1, b:2; 4lw.commands.whitelist"), "{why}");
        assert_eq!(Clients::default().complaint(), None);
    }
}
