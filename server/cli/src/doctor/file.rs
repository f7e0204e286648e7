//! What the file says: keys that do nothing here, and values that are dangerous.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use zoolet_server::embed::config::{HostPort, MemberRole, ServerConfig, Warning, Words};

use super::finding::Findings;

/// The shortest secret that a server takes, in bytes.
const SECRET_BYTES_MIN: usize = 16;

/// A pause of a process or a network that happens now and then, in milliseconds.
const PAUSE_MS: u32 = 2000;

/// Checks what can be seen in the file alone.
pub(super) fn check(
    path: &Path,
    config: &ServerConfig,
    warnings: &[Warning],
    findings: &mut Findings,
) {
    let members = config.members.len();
    let servers = if config.standalone { "standalone".to_owned() } else { format!("of {members}") };
    let text = format!("{}: server {}, {servers}", path.display(), config.server_id);
    findings.ok("file", text);
    for warning in warnings {
        findings.warn("file", warning.to_string());
    }
    let keys = Keys { path, text: fs::read_to_string(path).unwrap_or_default() };
    check_access(config, &keys, findings);
    check_secret(config, &keys, findings);
    check_times(config, &keys, findings);
    check_voters(config, findings);
}

/// The file, to find keys in.
struct Keys<'a> {
    path: &'a Path,
    text: String,
}

impl Keys<'_> {
    /// Returns the file, the line and the key that sets something. The first name is that in
    /// `cluster.toml`.
    fn place(&self, names: &[&str]) -> String {
        let path = self.path.display();
        match line_of(&self.text, names) {
            Some((line, key)) => format!("{path}:{line}: {key}"),
            None => format!("{path}: {}", names.first().copied().unwrap_or_default()),
        }
    }
}

/// The first line that sets one of these keys, and the key as it is there.
fn line_of<'a>(text: &'a str, names: &[&str]) -> Option<(usize, &'a str)> {
    let key_of = |line: &'a str| {
        let key = line.split(['=', ':']).next().unwrap_or_default().trim();
        let name = key.strip_prefix("zookeeper.").or_else(|| key.strip_prefix("zoolet."));
        names.contains(&name.unwrap_or(key)).then_some(key)
    };
    let mut lines = text.lines().zip(1..);
    lines.find_map(|(line, number)| key_of(line).map(|key| (number, key)))
}

/// What is open to more people than it should be.
fn check_access(config: &ServerConfig, keys: &Keys<'_>, findings: &mut Findings) {
    if config.auth.acl_skipped {
        let key = keys.place(&["acl_skipped", "skipACL"]);
        findings.warn("access", format!("{key}: every client may do everything"));
    }
    if config.four_letter.words == Words::All {
        let key = keys.place(&["words", "4lw.commands.whitelist"]);
        let why = "every client may ask for all paths and sessions (wchp, dump)";
        findings.warn("access", format!("{key}: {why}"));
    }
    for (bind, names) in [
        (&config.http_bind, ["http", "admin.serverAddress"]),
        (&config.metrics_bind, ["metrics", "metricsProvider.httpHost"]),
    ] {
        if let Some(bind) = bind.as_ref().filter(|bind| !is_loopback(bind)) {
            let key = keys.place(&names);
            let text = format!(
                "{key}: HTTP on {bind} is not encrypted and shows paths, addresses and session ids \
                 to everyone who reaches it"
            );
            findings.warn("access", text);
        }
    }
    if config.speaks_tls() && config.tls.client_port_unification {
        let key = keys.place(&["client_port_unification", "client.portUnification"]);
        findings.warn("access", format!("{key}: clients may do without TLS"));
    }
    if config.tls.peer_enabled && config.tls.peer_port_unification {
        let key = keys.place(&["peer_port_unification", "portUnification"]);
        findings.warn("access", format!("{key}: servers are accepted without TLS, for a switch"));
    }
}

/// Who may join on the peer port.
fn check_secret(config: &ServerConfig, keys: &Keys<'_>, findings: &mut Findings) {
    let Some(peer_bind) = &config.peer_bind else { return };
    let Some(path) = &config.ensemble.peer_secret_file else {
        let is_closed = config.tls.peer_enabled && !config.tls.peer_port_unification;
        if !is_closed && !is_loopback(peer_bind) {
            let text = format!(
                "every program that reaches {peer_bind} may join as a server: set peer_secret_file, \
                 or TLS between servers"
            );
            findings.warn("secret", text);
        }
        return;
    };
    let key = keys.place(&["peer_secret_file", "peerSecretFile"]);
    let shown = path.display();
    match fs::read(path) {
        Ok(bytes) if bytes.trim_ascii().len() < SECRET_BYTES_MIN => {
            let text = format!("{key}: {shown} has fewer than {SECRET_BYTES_MIN} bytes");
            findings.error("secret", text);
        }
        Ok(_) => match fs::metadata(path).map(|about| about.permissions().mode() & 0o077) {
            Ok(0) => findings.ok("secret", format!("{shown}: for its owner alone")),
            _ => findings.warn("secret", format!("{key}: others may read {shown}: chmod 600")),
        },
        Err(error) => findings.error("secret", format!("{key}: cannot read {shown}: {error}")),
    }
}

/// Timeouts that a short pause exceeds.
fn check_times(config: &ServerConfig, keys: &Keys<'_>, findings: &mut Findings) {
    let session = &config.session;
    if session.timeout_ms_min < PAUSE_MS {
        let key = keys.place(&["timeout_ms_min", "minSessionTimeout", "tick_time_ms", "tickTime"]);
        let text = format!(
            "{key}: sessions may be as short as {} ms: a pause of a client or of the network ends \
             them",
            session.timeout_ms_min
        );
        findings.warn("timeouts", text);
    }
    let sync_limit_ms = config.sync_limit_ms();
    if sync_limit_ms < 4 * u64::from(config.ensemble.election_timeout_ms_max) {
        let key = keys.place(&["sync_limit_ticks", "syncLimit", "tick_time_ms", "tickTime"]);
        let text = format!(
            "{key}: a server stops to serve {sync_limit_ms} ms after it has lost its leader, and \
             an election may take longer"
        );
        findings.warn("timeouts", text);
    }
    let (shortest, longest) = (session.timeout_ms_min, session.timeout_ms_max);
    findings.ok("timeouts", format!("sessions of {shortest} to {longest} ms"));
}

/// How many losses the ensemble survives. That an even number is not better is a warning of the file.
fn check_voters(config: &ServerConfig, findings: &mut Findings) {
    let is_voter = |role: MemberRole| role == MemberRole::Participant;
    let voters = config.members.values().filter(|member| is_voter(member.role)).count();
    let lost = voters.saturating_sub(1) / 2;
    let text = format!("{voters} with a vote: {} are needed, {lost} may be lost", voters / 2 + 1);
    if lost > 0 || config.standalone {
        findings.ok("voters", text);
    } else {
        findings.warn("voters", text);
    }
}

/// Whether only this machine reaches it.
pub(super) fn is_loopback(bind: &HostPort) -> bool {
    bind.host.eq_ignore_ascii_case("localhost")
        || bind.host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_both_forms_of_files() {
        let text =
            "# skipACL\ntickTime=2000\n  zookeeper.skipACL = yes\n[auth]\nacl_skipped = true\n";
        assert_eq!(line_of(text, &["skipACL"]), Some((3, "zookeeper.skipACL")));
        assert_eq!(line_of(text, &["acl_skipped", "none"]), Some((5, "acl_skipped")));
        assert_eq!(line_of(text, &["skip"]), None);
    }
}
