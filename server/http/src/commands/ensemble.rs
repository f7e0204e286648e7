//! The ensemble.

use serde_json::{Value, json};
use zoolet_server::embed::{Member, Reports, Role};

use super::{Object, entries};

pub(super) fn leader(reports: &Reports) -> Result<Object, String> {
    let leader = reports.leader().ok_or("server is not initialized")?;
    let (id, host) = match leader.known {
        Some((id, host)) => (Value::from(id), host),
        None => (Value::from(-1), String::new()),
    };
    Ok(entries([
        ("is_leader", leader.is_self.into()),
        ("leader_id", id),
        ("leader_ip", host.into()),
    ]))
}

/// The observers of the ensemble; how many of them are synced is the leader's to know.
pub(super) fn observers(reports: &Reports) -> Object {
    let membership = reports.membership();
    let synced = membership.as_ref().map_or(0, |membership| membership.synced_observers);
    let members = membership.map(|membership| membership.members).unwrap_or_default();
    let shown = |member: &Member| json!({ "sid": member.server, "peer_address": member.peer });
    let observers: Vec<Value> =
        members.iter().filter(|member| !member.is_voter).map(shown).collect();
    entries([("synced_observers", synced.into()), ("observers", observers.into())])
}

pub(super) fn voting_view(reports: &Reports) -> Object {
    let members = reports.membership().map(|membership| membership.members).unwrap_or_default();
    let view = |member: &Member| {
        let view = json!({
            "server_addresses": [member.peer],
            "election_addresses": [member.election],
            "client_address": member.client.clone().unwrap_or_default(),
            "learner_type": "participant",
        });
        (member.server.to_string(), view)
    };
    let voters = members.iter().filter(|member| member.is_voter).map(view).collect();
    entries([("current_config", Value::Object(voters))])
}

pub(super) fn zab_state(reports: &Reports) -> Object {
    let Some(membership) = reports.membership() else {
        return entries([("voting", false.into()), ("zabstate", "".into())]);
    };
    let own = membership.members.iter().find(|member| member.server == membership.own);
    let (zxid, role) = (reports.digest().0, reports.role());
    let phase = if role == Role::Looking { "election" } else { "broadcast" };
    entries([
        ("myid", membership.own.into()),
        ("is_leader", (role == Role::Leader).into()),
        ("quorum_address", addresses(own.map(|member| member.peer.as_str()))),
        ("election_address", addresses(own.map(|member| member.election.as_str()))),
        ("client_address", reports.client_addr().to_string().into()),
        ("voting", own.is_some_and(|member| member.is_voter).into()),
        ("last_zxid", format!("{zxid:#x}").into()),
        ("zab_epoch", (zxid >> 32).into()),
        ("zab_counter", (zxid & 0xffff_ffff).into()),
        ("zabstate", phase.into()),
    ])
}

/// The form in which an `AdminServer` shows the addresses of a server, of which there is one here.
fn addresses(address: Option<&str>) -> Value {
    let all: Vec<&str> = address.into_iter().collect();
    let split = || all.iter().filter_map(|address| address.rsplit_once(':'));
    let hosts: Vec<&str> = split().map(|(host, _)| host).collect();
    let ports: Vec<u16> = split().filter_map(|(_, port)| port.parse().ok()).collect();
    let everywhere: Vec<String> = ports.iter().map(|port| format!("0.0.0.0:{port}")).collect();
    json!({
        "all_addresses": all,
        "all_reachable_addresses": all,
        "all_reachable_addresses_or_all": all,
        "all_host_strings": hosts,
        "all_ports": ports,
        "wildcard_addresses": everywhere,
        "one": address,
        "reachable_address": address,
        "reachable_or_one": address,
        "empty": all.is_empty(),
    })
}
