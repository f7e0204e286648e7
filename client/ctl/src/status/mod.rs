//! `status`: all servers of the ensemble, and whether they serve; and why no session can be had.

mod look;
mod print;
mod tls;

use futures_util::future::join_all;
use zoolet_client::tls::TlsConnector;
use zoolet_client::{ConnectString, TcpConnector};
use zoolet_survey::ensemble::{Serving, Split, leader, splits_by_configuration, splits_by_role};
use zoolet_survey::members::{Identity, Named, Unknown, identify, others, resolved};
use zoolet_survey::srvr::Served;

use crate::args::{Options, Status};
use crate::error::{CtlError, Exit};
use crate::options::TlsFiles;
use crate::output::{Output, note};

use look::Look;

/// `status`. The exit code is that of a failure unless all servers serve.
pub(crate) async fn run(arguments: &Status, options: &Options) -> Result<(), CtlError> {
    let servers: ConnectString =
        options.connect_string().parse().map_err(|error| CtlError::of_call(&error))?;
    let tls = options.tls.connector()?;
    let mut ensemble = Ensemble::look(servers.addresses(), tls.as_ref()).await;
    if !arguments.named {
        ensemble.add_others(tls.as_ref()).await;
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
    if ensemble.serving().any(|it| it.served.is_leader()) {
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
    unknown: Vec<Unknown>,
    /// Why the ensemble's configuration was not read, so that it is not known which others there are.
    unread: Option<String>,
    /// Evidence in the configurations of the servers that they are not one ensemble.
    splits: Vec<Split>,
}

impl Ensemble {
    async fn look(addresses: &[String], tls: Option<&TlsConnector>) -> Self {
        let looks = look::look_at(addresses, tls).await;
        Self { looks, unknown: Vec::new(), unread: None, splits: Vec::new() }
    }

    /// Adds the servers of the ensemble that the command line does not name.
    async fn add_others(&mut self, tls: Option<&TlsConnector>) {
        let config = match self.identify(0, tls).await {
            Ok(Some(config)) => config,
            Ok(None) => return,
            Err(why) => return self.unread = Some(why),
        };
        let found = others(&config, &self.named().await, tls.is_some()).await.found;
        if !found.is_empty() {
            let named = self.looks.len();
            let identities: Vec<_> = self.looks.iter_mut().map(|it| it.identity.take()).collect();
            let addresses = self.looks.iter().map(|look| look.address.clone());
            let addresses: Vec<_> =
                addresses.chain(found.into_iter().map(|found| found.address)).collect();
            // Their zxids are those of one moment.
            self.looks = look::look_at(&addresses, tls).await;
            for (look, identity) in self.looks.iter_mut().zip(identities) {
                look.identity = identity;
            }
            // Those without an identity are compared by their addresses and roles.
            let _ = self.identify(named, tls).await;
        }
        let named = self.named().await;
        self.unknown = others(&config, &named, tls.is_some()).await.into_unknown();
        self.leave_out_repeated(&named);
        self.splits = splits_by_configuration(&self.serving().collect::<Vec<_>>()).await;
    }

    /// Identifies the servers that serve, without the first ones, and returns the configuration of
    /// the first successful read, or the error if all reads failed; `None` if no server serves.
    async fn identify(
        &mut self,
        without: usize,
        tls: Option<&TlsConnector>,
    ) -> Result<Option<String>, String> {
        let new = self.looks.iter_mut().skip(without).filter(|look| look.is_serving());
        let identified = new.map(async |look| {
            let identity = identity(&look.address, tls).await?;
            let config = identity.config.clone();
            look.identity = Some(identity);
            config
        });
        let mut refusal = None;
        for config in join_all(identified).await {
            match config {
                Ok(config) => return Ok(Some(config)),
                Err(why) => refusal = refusal.or(Some(why)),
            }
        }
        refusal.map_or(Ok(None), Err)
    }

    /// Leaves out every server that an earlier name leads to.
    fn leave_out_repeated(&mut self, named: &[Named]) {
        let is_first = |at: usize, it: &Named| !named.iter().take(at).any(|one| one.is_same(it));
        let mut firsts = named.iter().enumerate().map(|(at, it)| is_first(at, it));
        self.looks.retain(|_| firsts.next().unwrap_or(true));
    }

    async fn named(&self) -> Vec<Named> {
        join_all(self.looks.iter().map(named)).await
    }

    /// Returns how the command line has to be changed for the first server that needs it.
    fn remedy(&self, flags: &TlsFiles) -> Option<&'static str> {
        self.looks.iter().find_map(|look| look.found.remedy(flags))
    }

    /// Returns the leader, if there is only one.
    fn leader(&self) -> Option<&Look> {
        let leads = |look: &Look| look.found.serving().is_some_and(Served::is_leader);
        leader(self.looks.iter().map(|look| (look, leads(look))))
    }

    /// Returns the evidence that the servers are not one ensemble.
    fn splits(&self) -> Vec<Split> {
        let serving: Vec<_> = self.serving().collect();
        let mut splits = splits_by_role(&serving, self.looks.len() + self.unknown.len());
        splits.extend(self.splits.iter().cloned());
        splits
    }

    /// Whether a limit of all clients is reached on any server: it refuses newcomers.
    fn refuses_clients(&self) -> bool {
        let mut limits = self.serving().flat_map(|server| &server.served.limits_reached);
        limits.any(|limit| limit.is_total)
    }

    fn serving(&self) -> impl Iterator<Item = Serving<'_>> {
        self.looks.iter().filter_map(|look| {
            let served = look.found.serving()?;
            Some(Serving { address: &look.address, served, identity: look.identity.as_ref() })
        })
    }

    /// Returns with which exit code to end; `None` if all is well.
    fn exit(&self) -> Option<Exit> {
        let is_whole = self.unknown.is_empty() && self.unread.is_none();
        let serving = self.serving().count();
        if !self.splits().is_empty() {
            return Some(Exit::Failed);
        }
        match self.leader() {
            // A server that cannot be asked may lead.
            None if is_whole || serving == 0 => Some(Exit::Connection),
            Some(_) if is_whole && serving == self.looks.len() && !self.refuses_clients() => None,
            None | Some(_) => Some(Exit::Failed),
        }
    }

    /// The same for these servers alone: their leader may be another. A limit that is reached does
    /// not count, because this is a health check, and a restart does not help.
    fn exit_of_named(&self) -> Option<Exit> {
        match self.serving().count() {
            0 => Some(Exit::Connection),
            serving if serving < self.looks.len() => Some(Exit::Failed),
            _ => None,
        }
    }

    /// Returns the state of the whole in one line.
    fn summary(&self) -> String {
        let mut summary = self.summary_of_known();
        let splits = self.splits();
        if !splits.is_empty() {
            summary.push_str("; not one ensemble: ");
            summary += &splits.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        }
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
        let (all, serving) = (self.looks.len() + self.unknown.len(), self.serving().count());
        let serve = if all == 1 { "server serves" } else { "servers serve" };
        if let Some(leader) = self.leader() {
            let refuses = if self.refuses_clients() { "; newcomers are refused" } else { "" };
            return format!("{serving} of {all} {serve}; {} leads{refuses}", leader.address);
        }
        let up = self.looks.iter().filter(|look| look.found.is_server()).count();
        let needed = all / 2 + 1;
        match up {
            _ if self.serving().any(|server| server.served.is_leader()) => {
                format!("{serving} of {all} {serve}")
            }
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
}

/// Returns the identity of a server.
async fn identity(address: &str, tls: Option<&TlsConnector>) -> Result<Identity, String> {
    match tls {
        Some(tls) => identify(address, tls.clone()).await,
        None => identify(address, TcpConnector).await,
    }
}

/// Returns what is known of a server that was looked at.
async fn named(look: &Look) -> Named {
    let address = look.address.clone();
    let at = match look.peer {
        Some(peer) => vec![peer],
        // Without a connection, any of the addresses may be the server's.
        None => resolved(&address).await,
    };
    Named { address, at, identity: look.identity.clone() }
}

#[cfg(test)]
mod tests {
    use zoolet_survey::members::Member;
    use zoolet_survey::srvr::ReachedLimit;

    use super::look::Found;
    use super::*;

    fn ensemble(found: &[Found]) -> Ensemble {
        let look = |(port, found): (usize, &Found)| Look {
            address: format!("a:{port}"),
            peer: None,
            found: found.clone(),
            identity: None,
        };
        let looks = found.iter().enumerate().map(look).collect();
        Ensemble { looks, unknown: Vec::new(), unread: None, splits: Vec::new() }
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
        let unknown = |id: u64| {
            let (host, peer) = ("b".to_owned(), "b:2888".to_owned());
            Unknown { member: Member { id, host, peer, client: None }, taken: None }
        };
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

    /// "3 of 3 servers serve; a:0 leads", and exit code 0, for three ensembles.
    #[test]
    fn servers_of_several_ensembles_are_not_one() {
        let alone = serving("standalone");
        let split = ensemble(&[alone.clone(), serving("follower"), serving("leader")]);
        let expected = "3 of 3 servers serve; not one ensemble: 2 servers lead: a:0, a:2";
        assert_eq!((split.summary().as_str(), split.exit()), (expected, Some(Exit::Failed)));
        assert!(split.leader().is_none());
        let beside = ensemble(&[serving("follower"), alone]);
        let expected =
            "2 of 2 servers serve; a:1 leads; not one ensemble: a:1 is a standalone server";
        assert_eq!((beside.summary().as_str(), beside.exit()), (expected, Some(Exit::Failed)));
        let mut stranger = ensemble(&[serving("leader"), serving("follower")]);
        stranger.splits = vec![Split::Stranger { server: "a:1".to_owned(), of: "a:0".to_owned() }];
        let expected = "2 of 2 servers serve; a:0 leads; not one ensemble: a:1 is not in the \
                        configuration of a:0";
        assert_eq!((stranger.summary().as_str(), stranger.exit()), (expected, Some(Exit::Failed)));
    }

    #[test]
    fn a_server_is_listed_once() {
        let at = |port: u16| std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let mut twice = ensemble(&[serving("leader"), serving("follower"), serving("leader")]);
        let named: Vec<Named> =
            [1, 2, 1].map(|port| Named { at: vec![at(port)], ..Named::default() }).into();
        twice.leave_out_repeated(&named);
        assert_eq!((twice.looks.len(), twice.exit()), (2, None));
    }
}
