//! `mntr`: the figures that dashboards read. What is not measured is left out.

use std::fmt::Display;

use zoolet_replica::Role;

use super::super::context::PortContext;
use super::{VERSION, four_decimals, mode, put};
use crate::process::file_descriptors;

pub(in super::super) fn mntr(context: &PortContext) -> String {
    let report = context.host.report();
    let server_info = &context.options.server_info;
    let latency = report.figures.latency;
    let mut out = Lines::default();
    out.add("version", VERSION);
    out.add("server_state", mode(context, report.role));
    if !server_info.standalone {
        out.add("peer_state", peer_state(report.role));
    }
    out.add("ephemerals_count", report.ephemerals);
    out.add("num_alive_connections", context.registry.count());
    out.add("min_latency", latency.min_ms());
    out.add("avg_latency", four_decimals(latency.average_ms()));
    out.add("max_latency", latency.max_ms());
    out.add("outstanding_requests", report.outstanding);
    out.add("throttled_ops", report.figures.throttled);
    out.add("znode_count", report.znodes);
    out.add("global_sessions", report.sessions);
    // Every session is known to the whole ensemble.
    out.add("local_sessions", 0);
    out.add("watch_count", report.watches);
    out.add("packets_received", report.figures.received);
    out.add("packets_sent", report.figures.sent);
    let turned_away = context.registry.turned_away();
    out.add("connection_rejected", turned_away.refused);
    out.add("sessionless_connections_expired", turned_away.late);
    out.add("uptime", context.opened.elapsed().as_millis());
    out.add("approximate_data_size", report.data_bytes);
    let descriptors @ (open, max) = file_descriptors();
    if let Some(open) = open {
        out.add("open_file_descriptor_count", open);
    }
    if let Some(max) = max {
        out.add("max_file_descriptor_count", max);
    }
    if let Some(ensemble) = &server_info.ensemble {
        let figures = ensemble.figures();
        out.add("quorum_size", figures.voters);
        if report.role == Role::Leader {
            out.add("learners", figures.learners);
            out.add("synced_followers", figures.synced_followers);
            out.add("synced_observers", figures.synced_observers);
            out.add("leader_uptime", figures.leader_uptime_ms);
            let [last, min, max] = figures.proposal_sizes;
            out.add("last_proposal_size", last);
            out.add("min_proposal_size", min);
            out.add("max_proposal_size", max);
        }
        out.add("raft_term", figures.term);
        out.add("raft_last_log_index", figures.last_log);
        out.add("raft_applied_index", figures.applied);
        out.add("raft_snapshot_index", figures.snapshot);
        out.add("state_diverged", u8::from(figures.diverged));
        out.add("state_differing_servers", figures.differing);
        out.add("state_agreed_index", figures.agreed);
        out.add("state_age_ms", figures.state_age_ms);
        out.add("state_age_stops", figures.age_stops);
        out.add("leader_step_downs", figures.step_downs);
    }
    out.add("max_lock_hold_us", report.figures.hold_us_max);
    out.add("state_zxid", report.zxid);
    out.add("state_digest", format_args!("{:#018x}", report.digest));
    for limit in context.limits_with(descriptors) {
        let name = limit.name;
        if let Some(used) = limit.used {
            out.add(&format!("limit_{name}_used"), used);
        }
        out.add(&format!("limit_{name}_max"), limit.max);
        out.add(&format!("limit_{name}_refused"), limit.refused);
    }
    out.0
}

fn peer_state(role: Role) -> &'static str {
    match role {
        Role::Leader => "leading - broadcast",
        Role::Follower => "following - broadcast",
        Role::Observer => "observing - broadcast",
        Role::Looking => "looking",
    }
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, key: &str, value: impl Display) {
        put(&mut self.0, format_args!("zk_{key}\t{value}\n"));
    }
}
