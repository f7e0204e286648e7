//! Where this server listens for clients once a change of the ensemble has moved it.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use crate::config::{HostPort, ServerConfig, parse_members};
use crate::replication;

/// The pause between two looks at the members' list.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// The client addresses of the configuration file.
#[derive(Debug)]
pub(super) struct Configured {
    server: u8,
    /// Where to listen.
    bind: HostPort,
    /// What the server's line says, if it says anything.
    member: Option<HostPort>,
}

impl Configured {
    pub(super) fn new(config: &ServerConfig) -> Self {
        let member = config.member().and_then(|member| member.client.clone());
        Self { server: config.server_id.0, bind: config.client_bind.clone(), member }
    }

    /// Where to listen, given the server's line in the members' list. A line that says what the
    /// file says, or nothing, leaves it at the file, which may name another address to listen on.
    fn wanted(&self, line: Option<&str>) -> String {
        let text = line.map(|line| format!("server.{}={line}", self.server));
        let members = text.and_then(|text| parse_members(&text).ok()).unwrap_or_default();
        let client = members.into_values().find_map(|member| member.client);
        let moved = client.filter(|client| self.member.as_ref() != Some(client));
        moved.as_ref().unwrap_or(&self.bind).to_string()
    }

    /// Has the port follow the members' list.
    pub(super) async fn follow(
        self,
        list: replication::StatusSource,
        wanted: watch::Sender<String>,
    ) {
        loop {
            sleep(LOOK_PAUSE).await;
            let address = self.wanted(list.own_line().as_deref());
            wanted.send_if_modified(|known| {
                let is_new = *known != address;
                *known = address;
                is_new
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_counts_where_it_says_something_else_than_the_file() {
        let configured = Configured {
            server: 3,
            bind: HostPort::new("10.0.0.3", 2181),
            member: Some(HostPort::new("0.0.0.0", 2181)),
        };
        for (line, expected) in [
            (None, "10.0.0.3:2181"),
            (Some("h:1:2:participant;0.0.0.0:2181"), "10.0.0.3:2181"),
            (Some("h:1:2:participant"), "10.0.0.3:2181"),
            (Some("h:1:2:participant;2182"), "0.0.0.0:2182"),
            (Some("h:1:2:observer;h:2182"), "h:2182"),
            (Some("h:1:2:observer;[::1]:2182"), "[::1]:2182"),
            (Some("of a later version"), "10.0.0.3:2181"),
        ] {
            assert_eq!(configured.wanted(line), expected, "{line:?}");
        }
    }
}
