//! The writer of `cluster.toml`.

use std::path::Path;

use super::model::ServerConfig;
use super::setting::{Setting, quote};
use super::settings::{self, SECTIONS};

const HEAD: &str = "\
# An ensemble of zoolet servers: one [[server]] for each, then what they have in common.
# A line that starts with # and no blank shows a setting at its default.
# Start one server with: zoolet serve --config cluster.toml --id N

";

const SERVERS: &str = "\
# id             0 to 255, never used again for another server
# peer           host:port for the other servers; one server alone needs none
# election_port  for clients that parse ZooKeeper's server lines: nothing listens there;
#                peer's port + 1000 unless given
# role           participant, or observer for one without a vote; participant unless given
# client         host:port for clients; none is needed beside secure_client
# secure_client  host:port for clients that speak TLS
# data_dir       where snapshots and log live; relative to the directory of this file
# data_log_dir   where the log lives instead, best on a disk of its own; data_dir unless given
# http           host:port for HTTP: metrics, health, ZooKeeper's admin commands; off unless given
# metrics        host:port for metrics alone; off unless given

";

/// The `cluster.toml` of an ensemble, from the configurations of all of its servers.
///
/// What the servers have in common is taken from the first of them. Every setting is there, with
/// its meaning, unit and range; one at its default is commented out, and one that has no value is
/// there as a comment. Reading the text gives the
/// same configurations again.
pub fn to_cluster_toml(servers: &[ServerConfig]) -> String {
    let mut text = [HEAD, SERVERS].concat();
    for server in servers {
        push_server(&mut text, server);
    }
    let first = servers.first().cloned().unwrap_or_default();
    let defaults = ServerConfig::default();
    let is_default = |setting: &Setting| setting.to_toml(&first) == setting.to_toml(&defaults);
    // A derived default follows other settings, so it is one only beside their defaults.
    let all_default = settings::all().all(is_default);
    for (section, about) in SECTIONS {
        push_line(&mut text, &format!("[{section}]\n# {about}\n"));
        for setting in settings::all().filter(|setting| setting.section == section) {
            let comment = setting.about.replace('\n', "\n# ");
            push_line(&mut text, &format!("# {comment}\n# {}", setting.expected()));
            let quiet = is_default(setting) && (all_default || !setting.derived);
            let (mark, value) = match setting.to_toml(&first) {
                Some(value) if quiet => ("#", value),
                Some(value) => ("", value),
                // Not a default that could be put in force: something to be written otherwise.
                None => ("# ", setting.example().to_owned()),
            };
            push_line(&mut text, &format!("{mark}{} = {value}\n", setting.key));
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn push_server(text: &mut String, server: &ServerConfig) {
    let mut push = |key: &str, value: String| push_line(text, &format!("{key} = {value}"));
    push("[[server]]\nid", server.server_id.to_string());
    if let Some(member) = server.member() {
        if member.peer.port != 0 {
            push("peer", quote(&member.peer.to_string()));
            push("election_port", member.election_port.to_string());
        }
        push("role", quote(member.role.name()));
    }
    let client = if server.client_is_secure { "secure_client" } else { "client" };
    push(client, quote(&server.client_bind.to_string()));
    if let Some(secure) = &server.secure_client_bind {
        push("secure_client", quote(&secure.to_string()));
    }
    push("data_dir", quote_path(&server.data_dir));
    if server.data_log_dir != server.data_dir {
        push("data_log_dir", quote_path(&server.data_log_dir));
    }
    for (key, bind) in [("http", &server.http_bind), ("metrics", &server.metrics_bind)] {
        if let Some(bind) = bind {
            push(key, quote(&bind.to_string()));
        }
    }
    push_line(text, "");
}

fn quote_path(path: &Path) -> String {
    quote(&path.to_string_lossy())
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}
