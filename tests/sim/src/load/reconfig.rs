//! A client that changes the ensemble: it takes servers out and puts them back, makes observers of
//! voters and voters of observers, one at a time or by a whole list.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use zoolet_jute::{AuthPacket, ErrorCode, ReconfigRequest, Reply, Request, Zxid};
use zoolet_replica::ServerId;

use super::chance::Chance;
use super::session::Outcome;
use super::worker::{Worker, read, sync};

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
    /// How many voters stay at least.
    pub voters_min: usize,
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
        let Some(request) = draw(&mut worker.chance, plan, &members) else { continue };
        let config_id = request.config_id;
        match worker.call(Request::Reconfig(request)).await {
            // The session may have begun anew, or another process resumed it.
            Outcome::Refused(ErrorCode::NoAuth) => authenticate(worker, plan).await,
            Outcome::Done(..) if config_id >= 0 && config_id < members.version => {
                let (old, newest) = (Zxid(config_id), Zxid(members.version));
                worker.complain(format!(
                    "the configuration was changed over version {old}, and it had version {newest} before"
                ));
            }
            Outcome::Done(..) | Outcome::Refused(_) | Outcome::Unknown => {}
        }
        worker.drop_events();
    }
    let all: Vec<String> =
        plan.lines.iter().map(|(_, line)| with_role(line, Role::Voter)).collect();
    worker.call(Request::Reconfig(reconfig(Change::Joins(all), -1))).await;
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

/// What a server is in the ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Voter,
    Observer,
}

/// An ensemble as its configuration has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Members {
    roles: BTreeMap<ServerId, Role>,
    version: i64,
}

impl Members {
    fn voters(&self) -> usize {
        self.roles.values().filter(|role| **role == Role::Voter).count()
    }
}

/// The members by the newest configuration.
async fn members(worker: &Worker) -> Option<Members> {
    // Without it, the server may be one that lacks the newest one.
    let Outcome::Done(..) = worker.call(sync(CONFIG)).await else { return None };
    match worker.call(Request::GetData(read(CONFIG, false))).await {
        Outcome::Done(_, Reply::Data(Some(data), _)) => parse_members(&data),
        Outcome::Done(..) | Outcome::Refused(_) | Outcome::Unknown => None,
    }
}

fn parse_members(config: &[u8]) -> Option<Members> {
    let text = String::from_utf8_lossy(config);
    let server = |line: &str| {
        let (number, address) = line.strip_prefix("server.")?.split_once('=')?;
        let is_observer = address.contains(":observer");
        let role = if is_observer { Role::Observer } else { Role::Voter };
        Some((ServerId(number.parse().ok()?), role))
    };
    let version = text.lines().find_map(|line| line.strip_prefix("version="))?;
    let version = i64::from_str_radix(version, 16).ok()?;
    Some(Members { roles: text.lines().filter_map(server).collect(), version })
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    /// These lines join, or have other roles.
    Joins(Vec<String>),
    Leaves(ServerId),
    /// These lines are the ensemble.
    Whole(Vec<String>),
}

/// A change of one server, or a whole list with changes of up to three.
///
/// One that takes a vote away names the version: a change before it that was not answered may still
/// come, and both together could leave too few voters.
fn draw(chance: &mut Chance, plan: &ReconfigPlan, members: &Members) -> Option<ReconfigRequest> {
    let mut next = members.clone();
    let change = if chance.one_in(4) {
        for _ in 0..chance.between(1..=3) {
            change_one(chance, plan, &mut next);
        }
        let line =
            |(server, role): (&ServerId, &Role)| Some(with_role(line_of(plan, *server)?, *role));
        Change::Whole(next.roles.iter().map(line).collect::<Option<_>>()?)
    } else {
        let server = change_one(chance, plan, &mut next)?;
        match next.roles.get(&server) {
            Some(role) => Change::Joins(vec![with_role(line_of(plan, server)?, *role)]),
            None => Change::Leaves(server),
        }
    };
    let keeps_vote = |(server, role): (&ServerId, &Role)| {
        *role == Role::Observer || next.roles.get(server) == Some(&Role::Voter)
    };
    let takes_votes = !members.roles.iter().all(keeps_vote);
    let config_id = match chance.between(0..=9) {
        // An old version, which is refused. Version 0 has none before it, and −1 would ask for no version.
        0 => (members.version - 1).max(0),
        1..=4 if !takes_votes => -1,
        _ => members.version,
    };
    Some(reconfig(change, config_id))
}

fn line_of(plan: &ReconfigPlan, server: ServerId) -> Option<&str> {
    plan.lines.iter().find(|(id, _)| *id == server).map(|(_, line)| line.as_str())
}

/// Changes what one server is, and returns it; `None` if enough voters would not stay.
fn change_one(chance: &mut Chance, plan: &ReconfigPlan, next: &mut Members) -> Option<ServerId> {
    let server = chance.pick(&plan.lines)?.0;
    let is_second = chance.one_in(3);
    let role = match next.roles.get(&server) {
        None => Some(if is_second { Role::Observer } else { Role::Voter }),
        Some(Role::Observer) => (!is_second).then_some(Role::Voter),
        Some(Role::Voter) if next.voters() <= plan.voters_min => return None,
        Some(Role::Voter) => is_second.then_some(Role::Observer),
    };
    match role {
        Some(role) => next.roles.insert(server, role),
        None => next.roles.remove(&server),
    };
    Some(server)
}

/// The line of a server with this role.
fn with_role(line: &str, role: Role) -> String {
    let (peers, clients) = line.split_once(';').unwrap_or((line, ""));
    let peers = peers.trim_end_matches(":participant").trim_end_matches(":observer");
    let role = if role == Role::Observer { "observer" } else { "participant" };
    format!("{peers}:{role};{clients}")
}

fn reconfig(change: Change, config_id: i64) -> ReconfigRequest {
    let (mut joining_servers, mut leaving_servers, mut new_members) = (None, None, None);
    match change {
        Change::Joins(lines) => joining_servers = Some(lines.join(",")),
        Change::Leaves(server) => leaving_servers = Some(server.0.to_string()),
        Change::Whole(lines) => new_members = Some(lines.join(",")),
    }
    ReconfigRequest { joining_servers, leaving_servers, new_members, config_id }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &[u8] = b"server.1=a:1:2:participant;3\nserver.3=b:1:2:observer;3\nversion=1f";

    fn plan() -> ReconfigPlan {
        let line = |id| (ServerId(id), format!("server.{id}=h{id}:1:2;3"));
        let pause = Duration::from_secs(1);
        ReconfigPlan { lines: (1..=5).map(line).collect(), digest: None, voters_min: 3, pause }
    }

    #[test]
    fn members_are_read_from_the_configuration() {
        let roles = [(ServerId(1), Role::Voter), (ServerId(3), Role::Observer)].into();
        assert_eq!(parse_members(CONFIG), Some(Members { roles, version: 0x1f }));
        assert_eq!(parse_members(b"server.1=a:1:2:participant;3"), None, "it has no version");
    }

    #[test]
    fn a_line_gets_its_role() {
        for line in ["server.1=h:1:2;3", "server.1=h:1:2:observer;3"] {
            assert_eq!(with_role(line, Role::Voter), "server.1=h:1:2:participant;3");
        }
        let line = with_role("server.1=h:1:2:participant;3", Role::Observer);
        assert_eq!(line, "server.1=h:1:2:observer;3");
    }

    /// What an ensemble is after a request.
    fn after(members: &Members, request: &ReconfigRequest) -> Members {
        let mut next = members.clone();
        let text = |text: &Option<String>| text.clone().unwrap_or_default().replace(',', "\n");
        let read = |lines: String| parse_members(format!("{lines}\nversion=1").as_bytes()).unwrap();
        if request.new_members.is_some() {
            next.roles = read(text(&request.new_members)).roles;
        }
        next.roles.extend(read(text(&request.joining_servers)).roles);
        if let Some(server) = &request.leaving_servers {
            next.roles.remove(&ServerId(server.parse().unwrap()));
        }
        next
    }

    #[derive(Debug, Default)]
    struct Seen {
        joins: u32,
        leaves: u32,
        whole_lists: u32,
        several_at_once: u32,
        observers: u32,
        old_versions: u32,
        without_version: u32,
    }

    fn five_voters(version: i64) -> Members {
        Members { roles: (1..=5).map(|id| (ServerId(id), Role::Voter)).collect(), version }
    }

    #[test]
    fn a_change_that_takes_votes_names_the_first_version_too() {
        let (plan, members) = (plan(), five_voters(0));
        let mut chance = Chance::new(1, 1);
        let is_voter = |members: &Members, id| members.roles.get(id) == Some(&Role::Voter);
        let mut taken = 0;
        for request in (0..1000).filter_map(|_| draw(&mut chance, &plan, &members)) {
            let next = after(&members, &request);
            if members.roles.keys().any(|id| !is_voter(&next, id)) {
                assert_eq!(request.config_id, 0, "{request:?}");
                taken += 1;
            }
        }
        assert!(taken > 100, "{taken}");
    }

    #[test]
    fn enough_voters_stay_and_every_kind_of_change_comes() {
        let plan = plan();
        let mut chance = Chance::new(1, 1);
        let mut members = five_voters(7);
        let mut seen = Seen::default();
        let count = |counter: &mut u32, is_so: bool| *counter += u32::from(is_so);
        for _ in 0..1000 {
            let Some(request) = draw(&mut chance, &plan, &members) else { continue };
            let next = after(&members, &request);
            assert!(next.voters() >= 3, "{members:?} {request:?}");
            let observers = |members: &Members| members.roles.len() - members.voters();
            if next.voters() < members.voters() {
                assert_ne!(request.config_id, -1, "{members:?} {request:?}");
            }
            count(&mut seen.joins, request.joining_servers.is_some());
            count(&mut seen.leaves, request.leaving_servers.is_some());
            count(&mut seen.whole_lists, request.new_members.is_some());
            count(&mut seen.several_at_once, next.voters().abs_diff(members.voters()) > 1);
            count(&mut seen.observers, observers(&next) > observers(&members));
            count(&mut seen.old_versions, request.config_id == 6);
            count(&mut seen.without_version, request.config_id == -1);
            members = next;
        }
        let Seen { joins, leaves, whole_lists, several_at_once, observers, .. } = seen;
        let Seen { old_versions, without_version, .. } = seen;
        let all = [joins, leaves, whole_lists, several_at_once, observers, old_versions];
        assert!(all.iter().all(|times| *times > 5) && without_version > 5, "{seen:?}");
    }
}
