//! The answers to four-letter words, in the exact form that the clients' parsers accept
//! (protocol §14.2).

mod connections;
mod list;
mod monitor;
mod sessions;

use std::fmt::Write;

use zoolet_replica::Role;

pub(super) use connections::{cons, last_operation, reset_connections, reset_server, stat};
pub(super) use monitor::mntr;
pub(super) use sessions::{dump, wchc, wchp, wchs};

use super::context::PortContext;
use super::tls::Spoken;
use crate::host::ServerReport;
use crate::limits::LimitReading;
use crate::process::environment;

/// What stands for the version of Apache `ZooKeeper` whose protocol this is. kazoo reads the
/// leading digits and dots; Go wants letters, digits, dots and dashes, and a date of
/// this form; it is that of the release, not of the build, which would differ every time.
pub(super) const VERSION: &str =
    concat!("3.9.5-zoolet-", env!("CARGO_PKG_VERSION"), ", built on 11/21/2026 00:00 UTC");

/// Java's name of a role.
pub(super) fn mode(context: &PortContext, role: Role) -> &'static str {
    let standalone = context.options.server_info.standalone;
    match role {
        Role::Looking if context.host.read_only() => "read-only",
        Role::Leader if standalone => "standalone",
        Role::Leader => "leader",
        Role::Follower => "follower",
        Role::Observer => "observer",
        Role::Looking => "looking",
    }
}

pub(super) fn srvr(context: &PortContext) -> String {
    let report = context.host.report();
    let mut out = format!(
        "Zookeeper version: {VERSION}\n{}{}",
        banner(context),
        server_lines(context, &report)
    );
    // Last, because parsers look for the others by their place.
    for limit in context.limits().iter().filter(|limit| limit.is_exhausted()) {
        let LimitReading { name, setting, used, max, refused, is_total } = *limit;
        let whose = if is_total { "" } else { " for one address or identity" };
        let used = used.unwrap_or(0);
        put(
            &mut out,
            format_args!(
                "Limit reached{whose}: {name} {used} of {max}, {refused} refused ({setting})\n"
            ),
        );
    }
    out
}

/// The line that a server in read-only mode adds (protocol §14.2).
fn banner(context: &PortContext) -> &'static str {
    if context.host.read_only() { "READ-ONLY mode; serving only read-only clients\n" } else { "" }
}

/// What `srvr` and `stat` have in common, from the latency on.
fn server_lines(context: &PortContext, report: &ServerReport) -> String {
    let latency = report.figures.latency;
    let mut out = format!(
        "Latency min/avg/max: {}/{}/{}\nReceived: {}\nSent: {}\nConnections: {}\n\
         Outstanding: {}\nZxid: {}\nMode: {}\n",
        latency.min_ms(),
        four_decimals(latency.average_ms()),
        latency.max_ms(),
        report.figures.received,
        report.figures.sent,
        context.registry.count(),
        report.outstanding,
        report.zxid,
        mode(context, report.role),
    );
    put(&mut out, format_args!("Node count: {}\n", report.znodes));
    // Go's client expects the number of znodes right behind the mode, as Apache's leader has it.
    if report.role == Role::Leader
        && let Some(ensemble) = &context.options.server_info.ensemble
    {
        let [last, min, max] = ensemble.figures().proposal_sizes;
        put(&mut out, format_args!("Proposal sizes last/min/max: {last}/{min}/{max}\n"));
    }
    out
}

/// At most four decimals and at least one, as Java prints them.
fn four_decimals(number: f64) -> String {
    let text = format!("{number:.4}");
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
}

pub(super) fn conf(context: &PortContext) -> String {
    let server_info = &context.options.server_info;
    let sizes = (server_info.sizes)();
    let bound = i32::from(context.bound_at.borrow().port());
    let secure = context.secure_at.map_or(-1, |secure| i32::from(secure.port()));
    let is_only_secure = context.options.spoken == Spoken::Tls;
    let (client_port, secure_port) = if is_only_secure { (-1, bound) } else { (bound, secure) };
    let mut out = format!(
        "clientPort={}\nsecureClientPort={}\ndataDir={}\ndataDirSize={}\n\
         dataLogDir={}\ndataLogSize={}\ntickTime={}\nmaxClientCnxns={}\n\
         minSessionTimeout={}\nmaxSessionTimeout={}\nclientPortListenBacklog={}\nserverId={}\n",
        client_port,
        secure_port,
        server_info.data_dir.display(),
        sizes.data,
        server_info.data_log_dir.display(),
        sizes.log,
        server_info.tick_ms,
        server_info.connections_per_address_max,
        server_info.session_timeout_ms_min,
        server_info.session_timeout_ms_max,
        server_info.backlog,
        server_info.server_id,
    );
    if !server_info.standalone {
        let written = context.host.config_text();
        // Until a leader has written it, it is the file's.
        let members = if written.is_empty() { &server_info.members_text } else { &written };
        put(
            &mut out,
            format_args!(
                "initLimit={}\nsyncLimit={}\nelectionAlg=3\nelectionPort={}\nquorumPort={}\n\
                 peerType={}\nmembership: \n{}",
                server_info.init_limit_ticks,
                server_info.sync_limit_ticks,
                server_info.election_port,
                server_info.peer_port,
                u8::from(server_info.is_observer),
                members,
            ),
        );
    }
    out
}

pub(super) fn dirs(context: &PortContext) -> String {
    let sizes = (context.options.server_info.sizes)();
    format!("datadir_size: {}\nlogdir_size: {}\n", sizes.data, sizes.log)
}

/// The keys that parsers look for, with what is true of a server without a JVM.
pub(super) fn envi() -> String {
    let mut out = format!("Environment:\nzookeeper.version={VERSION}\n");
    for (key, value) in environment() {
        put(&mut out, format_args!("{key}={value}\n"));
    }
    out
}

/// Appends to a text, which cannot fail.
fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a string takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_decimals_that_java_prints() {
        for (number, text) in [(0.0, "0.0"), (0.86049, "0.8605"), (12.5, "12.5"), (3.0, "3.0")] {
            assert_eq!(four_decimals(number), text);
        }
    }
}
