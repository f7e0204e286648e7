//! The answers to four-letter words, in the exact form that the clients' parsers accept
//! (protocol §14.2).

mod connections;
mod monitor;
mod sessions;

use std::fmt::Write;
use std::fs;
use std::path::Path;

pub(super) use connections::{cons, reset_connections, reset_server, stat};
pub(super) use monitor::mntr;
pub(super) use sessions::{dump, wchc, wchp, wchs};

use super::port::Shared;
use crate::host::ServerReport;
use crate::replica::Role;

/// What stands for the version of Apache `ZooKeeper` whose protocol this is. kazoo reads the
/// leading digits and dots; Go wants letters, digits, dots and dashes, and a date of this form.
pub(super) const VERSION: &str =
    concat!("3.9.5-zoolet-", env!("CARGO_PKG_VERSION"), ", built on 11/21/2026 00:00 UTC");

/// Java's name of a role.
fn mode(shared: &Shared, role: Role) -> &'static str {
    let standalone = shared.options.facts.standalone;
    match role {
        Role::Looking if shared.host.read_only() => "read-only",
        Role::Leader if standalone => "standalone",
        Role::Leader => "leader",
        Role::Follower => "follower",
        Role::Observer => "observer",
        Role::Looking => "looking",
    }
}

pub(super) fn srvr(shared: &Shared) -> String {
    let report = shared.host.report();
    format!("Zookeeper version: {VERSION}\n{}{}", banner(shared), server_lines(shared, &report))
}

/// The line that a server in read-only mode adds (protocol §14.2).
fn banner(shared: &Shared) -> &'static str {
    if shared.host.read_only() { "READ-ONLY mode; serving only read-only clients\n" } else { "" }
}

/// What `srvr` and `stat` have in common, from the latency on.
fn server_lines(shared: &Shared, report: &ServerReport) -> String {
    let latency = report.figures.latency;
    let mut out = format!(
        "Latency min/avg/max: {}/{}/{}\nReceived: {}\nSent: {}\nConnections: {}\n\
         Outstanding: {}\nZxid: {}\nMode: {}\n",
        latency.min_ms(),
        four_decimals(latency.average_ms()),
        latency.max_ms(),
        report.figures.received,
        report.figures.sent,
        shared.registry.count(),
        report.outstanding,
        report.zxid,
        mode(shared, report.role),
    );
    put(&mut out, format_args!("Node count: {}\n", report.znodes));
    // Go's client expects the number of znodes right behind the mode, as Apache's leader has it.
    if report.role == Role::Leader && !shared.options.facts.standalone {
        out.push_str("Proposal sizes last/min/max: -1/-1/-1\n");
    }
    out
}

/// At most four decimals and at least one, as Java prints them.
fn four_decimals(number: f64) -> String {
    let text = format!("{number:.4}");
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
}

pub(super) fn conf(shared: &Shared) -> String {
    let facts = &shared.options.facts;
    let (dir, bytes) = (facts.data_dir.display(), directory_bytes(&facts.data_dir));
    let mut out = format!(
        "clientPort={}\nsecureClientPort=-1\ndataDir={dir}\ndataDirSize={bytes}\n\
         dataLogDir={dir}\ndataLogSize={bytes}\ntickTime={}\nmaxClientCnxns={}\n\
         minSessionTimeout={}\nmaxSessionTimeout={}\nclientPortListenBacklog={}\nserverId={}\n",
        facts.client_port,
        facts.tick_ms,
        facts.connections_per_address_max,
        facts.session_timeout_ms_min,
        facts.session_timeout_ms_max,
        facts.backlog,
        facts.server_id,
    );
    if !facts.standalone {
        put(
            &mut out,
            format_args!(
                "initLimit={}\nsyncLimit={}\nelectionAlg=3\nelectionPort={}\nquorumPort={}\n\
                 peerType={}\nmembership: \n{}",
                facts.init_limit_ticks,
                facts.sync_limit_ticks,
                facts.election_port,
                facts.peer_port,
                u8::from(facts.is_observer),
                facts.members_text,
            ),
        );
    }
    out
}

pub(super) fn dirs(shared: &Shared) -> String {
    let bytes = directory_bytes(&shared.options.facts.data_dir);
    format!("datadir_size: {bytes}\nlogdir_size: {bytes}\n")
}

/// The bytes of a directory's files, two levels down, which is all that a server has.
fn directory_bytes(directory: &Path) -> u64 {
    let entries = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
    let mut bytes = 0;
    for entry in entries(directory) {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            let inner = entries(&entry.path()).filter_map(|entry| entry.metadata().ok());
            bytes += inner.map(|metadata| metadata.len()).sum::<u64>();
        } else {
            bytes += metadata.len();
        }
    }
    bytes
}

/// The keys that parsers look for, with what is true of a server without a JVM.
pub(super) fn envi() -> String {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let first_line = |path: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().next().unwrap_or_default().to_owned()
    };
    let current = std::env::current_dir().map(|path| path.display().to_string());
    let mut out = "Environment:\n".to_owned();
    for (key, value) in [
        ("zookeeper.version", VERSION.to_owned()),
        ("host.name", first_line("/proc/sys/kernel/hostname")),
        ("java.version", "<NA>".to_owned()),
        ("java.vendor", "<NA>".to_owned()),
        ("java.home", "<NA>".to_owned()),
        ("java.io.tmpdir", std::env::temp_dir().display().to_string()),
        ("os.name", first_line("/proc/sys/kernel/ostype")),
        ("os.arch", java_name(std::env::consts::ARCH).to_owned()),
        ("os.version", first_line("/proc/sys/kernel/osrelease")),
        ("user.name", variable("USER")),
        ("user.home", variable("HOME")),
        ("user.dir", current.unwrap_or_default()),
    ] {
        put(&mut out, format_args!("{key}={value}\n"));
    }
    out
}

/// What Java calls a processor.
fn java_name(architecture: &str) -> &str {
    if architecture == "x86_64" { "amd64" } else { architecture }
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
