//! What `zoolet up` prints when its servers serve.

use std::fmt::{self, Write};

use super::child::Child;
use super::plan::Plan;

/// Returns the connect string, each server's role, and where its files and HTTP ports are. All of it
/// is one write: a program that reads a part of it and leaves does not end the ensemble.
pub(super) fn announcement(plan: &Plan, children: &[Child], as_json: bool) -> String {
    if as_json { format!("{}\n", plan.state(children)) } else { text(plan, children) }
}

/// Programs read the first lines: the connect string, and a line for each server.
fn text(plan: &Plan, children: &[Child]) -> String {
    let mut out = String::new();
    write_text(&mut out, plan, children).expect("a String takes everything");
    out
}

fn write_text(out: &mut String, plan: &Plan, children: &[Child]) -> fmt::Result {
    writeln!(out, "connect string: {}", plan.connect_string())?;
    for child in children {
        match child.end() {
            Some(why) => {
                let (id, port) = (child.server.id, child.server.client.port);
                writeln!(out, "server {id}: not running, client port {port}: {why}")?;
            }
            None => out.push_str(&line_of(child, child.mode())),
        }
    }
    if let Some(files) = plan.client_files() {
        let (trust, key) = (files.trust_store.display(), files.key_store.display());
        writeln!(out, "TLS: on the same ports, with trust store {trust} and key store {key}")?;
        let servers = plan.connect_string();
        writeln!(out, "zooletctl --servers {servers} --trust-store {trust} --key-store {key}")?;
    }
    let end = if plan.is_temporary() { ", removed at the end" } else { "" };
    writeln!(out, "data directory: {}{end}", plan.directory().display())?;
    if let Some(url) = plan.servers.iter().find_map(|server| server.web_url.as_ref()) {
        writeln!(out, "HTTP: {url}")?;
    }
    writeln!(out, "Ctrl-C stops all servers; --log info shows what they do")
}

/// Returns the line of a server that runs.
pub(super) fn line_of(child: &Child, mode: Option<&str>) -> String {
    let (id, port, pid) = (child.server.id, child.server.client.port, child.pid());
    let mode = mode.unwrap_or("starting");
    format!("server {id}: {mode}, client port {port}, pid {pid}\n")
}
