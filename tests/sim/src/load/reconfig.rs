//! A client that takes servers out of the ensemble and puts them back, one at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use zoolet_jute::{AuthPacket, ReconfigRequest, Reply, Request};
use zoolet_replica::ServerId;

use super::session::Outcome;
use super::worker::{Worker, read};

/// Where servers keep the ensemble's configuration.
const CONFIG: &str = "/zookeeper/config";

/// The credentials of the superuser of a run.
pub const SUPER_CREDENTIALS: &str = "super:test";

/// The same as servers have it: the user, and the base64 of the SHA-1 of the credentials.
pub const SUPER_DIGEST: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

/// What a run's reconfigurations are about.
#[derive(Clone, Debug)]
pub struct ReconfigPlan {
    /// The servers and their lines as in the configuration file,
    /// `server.N=host:port:port[:role];[host:]port`.
    pub lines: Vec<(ServerId, String)>,
    /// The credentials of an identity that may reconfigure, `user:password` of the digest scheme;
    /// `None` if every client may.
    pub digest: Option<String>,
    /// How many servers stay at least.
    pub servers_min: usize,
    /// The longest wait between two changes; each waits for a tenth of it at least.
    pub pause: Duration,
}

/// Changes the ensemble now and then. In the end every server is a member again, if there is a
/// majority that accepts it in time.
pub(super) async fn reconfigure(worker: &mut Worker, plan: &ReconfigPlan) {
    authenticate(worker, plan).await;
    while !worker.is_stopped() {
        let pause = plan.pause / 10 + worker.chance.up_to(plan.pause);
        worker.rest(pause).await;
        if worker.is_stopped() {
            break;
        }
        let Some(members) = members(worker).await else { continue };
        let absent: Vec<&(ServerId, String)> =
            plan.lines.iter().filter(|(server, _)| !members.contains(server)).collect();
        let members: Vec<ServerId> = members.into_iter().collect();
        let may_remove = members.len() > plan.servers_min;
        let joins = !may_remove || worker.chance.one_in(2);
        let request = match worker.chance.pick(&absent) {
            Some((_, line)) if joins => Some(change(Some(line.clone()), None)),
            _ if may_remove => {
                worker.chance.pick(&members).map(|server| change(None, Some(server.0.to_string())))
            }
            _ => None,
        };
        if let Some(request) = request
            && matches!(worker.call(request).await, Outcome::Refused(_))
        {
            // The session may have begun anew, or another process resumed it.
            authenticate(worker, plan).await;
        }
        worker.drop_events();
    }
    let all: Vec<&str> = plan.lines.iter().map(|(_, line)| line.as_str()).collect();
    worker.call(change(Some(all.join(",")), None)).await;
}

async fn authenticate(worker: &Worker, plan: &ReconfigPlan) {
    let Some(digest) = &plan.digest else { return };
    let packet = AuthPacket {
        auth_type: 0,
        scheme: Some("digest".to_owned()),
        auth: Some(Bytes::from(digest.clone())),
    };
    worker.call(Request::Auth(packet)).await;
}

/// The members by the configuration that a server has now.
async fn members(worker: &Worker) -> Option<BTreeSet<ServerId>> {
    match worker.call(Request::GetData(read(CONFIG, false))).await {
        Outcome::Done(_, Reply::Data(Some(data), _)) => Some(parse_members(&data)),
        Outcome::Done(..) | Outcome::Refused(_) | Outcome::Unknown => None,
    }
}

fn parse_members(config: &[u8]) -> BTreeSet<ServerId> {
    let text = String::from_utf8_lossy(config);
    let server = |line: &str| -> Option<ServerId> {
        let (number, _) = line.strip_prefix("server.")?.split_once('=')?;
        number.parse().ok().map(ServerId)
    };
    text.lines().filter_map(server).collect()
}

fn change(joining_servers: Option<String>, leaving_servers: Option<String>) -> Request {
    Request::Reconfig(ReconfigRequest {
        joining_servers,
        leaving_servers,
        new_members: None,
        config_id: -1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_from_the_configuration() {
        let config = b"server.1=a:1:2:participant;3\nserver.12=b:1:2:observer;3\nversion=0";
        assert_eq!(parse_members(config), [ServerId(1), ServerId(12)].into());
    }
}
