//! `status`: all servers of the ensemble, and whether they serve; and why no session can be had.

mod look;
mod print;
mod tls;

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;
use zoolet_client::tls::TlsConnector;
use zoolet_client::{ClientOptions, ConnectString, TcpConnector};
use zoolet_survey::members::{Member, Named, Others, identify, needs_identities, others, resolved};
use zoolet_survey::srvr::Served;

use crate::args::{Options, Status};
use crate::error::{CtlError, Exit};
use crate::options::TlsFiles;
use crate::output::{Output, note};

use look::Look;

/// How long the servers may take to say which others there are.
const CONFIG_TIME: Duration = Duration::from_secs(3);

/// `status`. The exit code is that of a failure unless all servers serve.
pub(crate) async fn run(arguments: &Status, options: &Options) -> Result<(), CtlError> {
    let servers: ConnectString =
        options.connect_string().parse().map_err(|error| CtlError::of_call(&error))?;
    let tls = options.tls.connector()?;
    let mut ensemble = Ensemble::look(servers.addresses(), tls.as_ref()).await;
    if !arguments.named {
        let others = ensemble.others(options, tls.as_ref()).await;
        let Others { addresses, unknown } = others.unwrap_or_else(|why| {
            ensemble.unread = Some(why);
            Others::default()
        });
        if !addresses.is_empty() {
            // Their zxids are those of one moment.
            let all: Vec<_> = servers.addresses().iter().cloned().chain(addresses).collect();
            ensemble.looks = look::look_at(&all, tls.as_ref()).await;
        }
        ensemble.unknown = unknown;
    }
    let output = Output { json: options.json };
    output.result(|| print::text(&ensemble), || print::json(&ensemble))?;
    if let Some(remedy) = ensemble.remedy(&options.tls)
        && !options.json
    {
        note(remedy);
    }
    let exit = if arguments.named { ensemble.exit_of_named() } else { ensemble.exit() };
    match exit {
        None => Ok(()),
        Some(exit) => Err(CtlError::new(exit, "")),
    }
}

/// Why no session can be had.
#[derive(Debug)]
pub(crate) struct Reasons {
    pub(crate) summary: String,
    /// What each server answers, on a line each, behind the end of the line before.
    pub(crate) details: String,
    /// What to do about it, if the command line has to be changed.
    pub(crate) remedy: Option<&'static str>,
    /// Whether waiting cannot help.
    pub(crate) is_final: bool,
}

/// Returns why no session can be had with the servers of a connect string.
pub(crate) async fn explain(
    connect_string: &str,
    flags: &TlsFiles,
    tls: Option<&TlsConnector>,
) -> Option<Reasons> {
    let servers: ConnectString = connect_string.parse().ok()?;
    let ensemble = Ensemble::look(servers.addresses(), tls).await;
    // Then the reason is another, such as a session that is refused.
    if ensemble.leader().is_some() {
        return None;
    }
    let lines = ensemble.looks.iter().map(|look| format!("\n  {}: {}", look.address, look.found));
    Some(Reasons {
        summary: ensemble.summary(),
        details: lines.collect(),
        remedy: ensemble.remedy(flags),
        is_final: ensemble.looks.iter().all(|look| look.found.is_tls_mistake()),
    })
}

/// What was found at the addresses of an ensemble.
#[derive(Debug)]
struct Ensemble {
    looks: Vec<Look>,
    /// The servers of the ensemble's configuration that cannot be asked.
    unknown: Vec<Member>,
    /// Why the ensemble's configuration was not read, so that it is not known which others there are.
    unread: Option<String>,
}

impl Ensemble {
    async fn look(addresses: &[String], tls: Option<&TlsConnector>) -> Self {
        let looks = look::look_at(addresses, tls).await;
        Self { looks, unknown: Vec::new(), unread: None }
    }

    /// Returns how the command line has to be changed for the first server that needs it.
    fn remedy(&self, flags: &TlsFiles) -> Option<&'static str> {
        self.looks.iter().find_map(|look| look.found.remedy(flags))
    }

    fn leader(&self) -> Option<&Look> {
        self.looks.iter().find(|look| look.found.serving().is_some_and(Served::is_leader))
    }

    /// Whether a limit of all clients is reached on any server: it refuses newcomers.
    fn refuses_clients(&self) -> bool {
        let serving = self.looks.iter().filter_map(|look| look.found.serving());
        serving.flat_map(|served| &served.limits_reached).any(|limit| limit.is_total)
    }

    fn serving(&self) -> usize {
        self.looks.iter().filter(|look| look.found.serving().is_some()).count()
    }

    /// Returns with which exit code to end; `None` if all is well.
    fn exit(&self) -> Option<Exit> {
        let is_whole = self.unknown.is_empty() && self.unread.is_none();
        match self.leader() {
            // A server that cannot be asked may lead.
            None if is_whole || self.serving() == 0 => Some(Exit::Connection),
            Some(_)
                if is_whole && self.serving() == self.looks.len() && !self.refuses_clients() =>
            {
                None
            }
            None | Some(_) => Some(Exit::Failed),
        }
    }

    /// The same for these servers alone: their leader may be another. A limit that is reached does
    /// not count, because this is a health check, and a restart does not help.
    fn exit_of_named(&self) -> Option<Exit> {
        match self.serving() {
            0 => Some(Exit::Connection),
            serving if serving < self.looks.len() => Some(Exit::Failed),
            _ => None,
        }
    }

    /// Returns the state of the whole in one line.
    fn summary(&self) -> String {
        let mut summary = self.summary_of_known();
        match self.unknown.len() {
            0 => {}
            1 => summary.push_str("; 1 is unknown"),
            unknown => summary.extend(["; ", &unknown.to_string(), " are unknown"]),
        }
        if let Some(why) = &self.unread {
            let not_read =
                "; other servers are unknown: the ensemble's configuration was not read: ";
            summary.extend([not_read, why]);
        }
        summary
    }

    fn summary_of_known(&self) -> String {
        let (all, serving) = (self.looks.len() + self.unknown.len(), self.serving());
        let serve = if all == 1 { "server serves" } else { "servers serve" };
        if let Some(leader) = self.leader() {
            let refuses = if self.refuses_clients() { "; newcomers are refused" } else { "" };
            return format!("{serving} of {all} {serve}; {} leads{refuses}", leader.address);
        }
        let up = self.looks.iter().filter(|look| look.found.is_server()).count();
        let needed = all / 2 + 1;
        match up {
            _ if serving > 0 => {
                format!("{serving} of {all} {serve}; the leader was not asked")
            }
            _ if self.looks.iter().all(|look| look.found.is_tls_mistake()) => {
                "no server can be used with these options for TLS".to_owned()
            }
            _ if all == 1 && up == 1 => "the server has no leader".to_owned(),
            _ if all == 1 => "the server cannot be reached".to_owned(),
            _ if up < needed => format!("{up} of {all} servers reachable; {needed} are needed"),
            _ => format!("{up} of {all} servers reachable, and none leads"),
        }
    }

    /// Returns the servers of the ensemble that the command line does not name, or the reason why they
    /// are not known.
    async fn others(
        &self,
        options: &Options,
        tls: Option<&TlsConnector>,
    ) -> Result<Others, String> {
        let serving = self.looks.iter().filter(|look| look.found.serving().is_some());
        let serving = serving.map(|look| look.address.as_str()).collect::<Vec<_>>().join(",");
        if serving.is_empty() {
            return Ok(Others::default());
        }
        let config = timeout(CONFIG_TIME, config(&serving, options, tls)).await;
        let late = |_| Err(format!("no answer within {} ms", CONFIG_TIME.as_millis()));
        let config = config.unwrap_or_else(late)?;
        let needs_identities = needs_identities(&config, tls.is_some());
        let named = self.looks.iter().map(|look| named(look, tls, needs_identities));
        Ok(others(&config, &join_all(named).await, tls.is_some()).await)
    }
}

/// Returns what is known of a server that the command line names.
async fn named(look: &Look, tls: Option<&TlsConnector>, needs_identity: bool) -> Named {
    let address = look.address.clone();
    let at = match look.peer {
        Some(peer) => vec![peer],
        // Without a connection, any of the addresses may be the server's.
        None => resolved(&address).await,
    };
    let is_asked = needs_identity && look.found.serving().is_some();
    let id = match tls {
        _ if !is_asked => None,
        Some(tls) => identify(&address, tls.clone()).await,
        None => identify(&address, TcpConnector).await,
    };
    Named { address, at, id }
}

/// Reads the configuration of an ensemble.
async fn config(
    servers: &str,
    options: &Options,
    tls: Option<&TlsConnector>,
) -> Result<String, String> {
    let mut client =
        ClientOptions::new().session_timeout(options.session_timeout).connect_timeout(CONFIG_TIME);
    if let Some(tls) = tls {
        client = client.connector(tls.clone());
    }
    let client = client.connect(servers).await.map_err(|error| error.to_string())?;
    let config = client.config().await;
    // An unused session goes by itself.
    let _ = client.close().await;
    let (data, _) = config.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&data).into_owned())
}

#[cfg(test)]
mod tests {
    use zoolet_survey::srvr::ReachedLimit;

    use super::look::Found;
    use super::*;

    fn ensemble(found: &[Found]) -> Ensemble {
        let look = |(port, found): (usize, &Found)| Look {
            address: format!("a:{port}"),
            peer: None,
            found: found.clone(),
        };
        let looks = found.iter().enumerate().map(look).collect();
        Ensemble { looks, unknown: Vec::new(), unread: None }
    }

    fn serving(mode: &str) -> Found {
        let answer = format!(
            "Zookeeper version: 3.9.5, built\nLatency min/avg/max: 0/0.0/0\nConnections: 1\n\
             Outstanding: 0\nZxid: 0x1\nMode: {mode}\nNode count: 5\n"
        );
        Found::Serving(Served::parse(&answer).unwrap())
    }

    #[test]
    fn the_summary_says_how_many_are_needed() {
        let says = |found: &[Found]| ensemble(found).summary();
        let (leader, follower) = (serving("leader"), serving("follower"));
        let (refused, none) = (Found::Refused, Found::NotServing);
        assert_eq!(says(&[follower.clone(), leader.clone()]), "2 of 2 servers serve; a:1 leads");
        assert_eq!(says(&[serving("standalone")]), "1 of 1 server serves; a:0 leads");
        let few = [none.clone(), refused.clone(), refused.clone()];
        assert_eq!(says(&few), "1 of 3 servers reachable; 2 are needed");
        let enough = [none.clone(), none.clone(), refused.clone()];
        assert_eq!(says(&enough), "2 of 3 servers reachable, and none leads");
        assert_eq!(says(&[none]), "the server has no leader");
        assert_eq!(says(std::slice::from_ref(&refused)), "the server cannot be reached");
        let alone = says(&[follower, refused]);
        assert_eq!(alone, "1 of 2 servers serve; the leader was not asked");
        let looking = [serving("looking"), serving("read-only"), Found::Silent];
        assert_eq!(says(&looking), "2 of 3 servers reachable, and none leads");
    }

    #[test]
    fn the_exit_code_is_zero_if_all_serve() {
        let exit = |found: &[Found]| ensemble(found).exit();
        assert_eq!(exit(&[serving("leader"), serving("observer")]), None);
        assert_eq!(exit(&[serving("leader"), Found::Refused]), Some(Exit::Failed));
        assert_eq!(exit(&[serving("leader"), serving("read-only")]), Some(Exit::Failed));
        assert_eq!(exit(&[serving("follower"), Found::Refused]), Some(Exit::Connection));
        assert_eq!(exit(&[Found::NotServing]), Some(Exit::Connection));
        let Found::Serving(mut full) = serving("leader") else { unreachable!() };
        let text = "sessions 5 of 5, 0 refused (limits.sessions_max)".to_owned();
        full.limits_reached = vec![ReachedLimit { text, is_total: false }];
        assert_eq!(exit(&[Found::Serving(full.clone())]), None, "a limit of one client");
        full.limits_reached.iter_mut().for_each(|limit| limit.is_total = true);
        assert_eq!(exit(&[Found::Serving(full)]), Some(Exit::Failed));
        let named = |found: &[Found]| ensemble(found).exit_of_named();
        assert_eq!(named(&[serving("follower")]), None);
        assert_eq!(named(&[serving("follower"), Found::Refused]), Some(Exit::Failed));
        assert_eq!(named(&[serving("read-only")]), Some(Exit::Connection));
    }

    /// "1 of 1 server serves", and exit code 0, with one of three down.
    #[test]
    fn servers_that_cannot_be_asked_are_unknown() {
        let unknown =
            |id: u64| Member { id, host: "b".to_owned(), peer: "b:2888".to_owned(), client: None };
        let mut seen = ensemble(&[serving("leader")]);
        seen.unknown = vec![unknown(2), unknown(3)];
        assert_eq!(seen.summary(), "1 of 3 servers serve; a:0 leads; 2 are unknown");
        assert_eq!((seen.exit(), seen.exit_of_named()), (Some(Exit::Failed), None));
        // The leader may be among them.
        let mut seen = ensemble(&[serving("follower")]);
        seen.unknown = vec![unknown(2)];
        let expected = "1 of 2 servers serve; the leader was not asked; 1 is unknown";
        assert_eq!((seen.summary().as_str(), seen.exit()), (expected, Some(Exit::Failed)));
        let mut seen = ensemble(&[serving("leader")]);
        seen.unread = Some("no answer".to_owned());
        assert!(seen.summary().starts_with("1 of 1 server serves; a:0 leads; other servers are "));
        assert_eq!(seen.exit(), Some(Exit::Failed));
    }
}
