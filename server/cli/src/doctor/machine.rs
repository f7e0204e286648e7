//! What the operating system allows the process.

use rustix::process::{Resource, getrlimit};
use zoolet_server::embed::config::ServerConfig;

use super::finding::Findings;

const FILES: &str = "open files";

/// The files that a server has open besides the connections of clients.
const OWN_FILES: u64 = 200;

/// The least that a server with few clients should be allowed.
const FILES_MIN: u64 = 4096;

/// Checks the limit of open files: each connection is one.
pub(super) fn check(config: &ServerConfig, findings: &mut Findings) {
    // A server raises the soft limit.
    let Some(limit) = getrlimit(Resource::Nofile).maximum else {
        findings.ok(FILES, "without a limit");
        return;
    };
    let connections = config.limits.connections_max as u64;
    let needed = if connections == 0 { FILES_MIN } else { connections.saturating_add(OWN_FILES) };
    let text = format!("at most {limit} (ulimit -Hn)");
    if limit < needed {
        let why = if connections == 0 {
            format!("each client is one: {needed} leave room")
        } else {
            format!("connections_max = {connections} needs {needed}")
        };
        findings.warn(FILES, format!("{text}: {why}"));
    } else {
        findings.ok(FILES, text);
    }
}
