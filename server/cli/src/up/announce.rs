//! What `zoolet up` prints when its servers serve.

use std::io::{self, Write};

use super::UpError;
use super::child::Child;
use super::plan::Plan;

/// Prints the connect string, and each server's role. All of it is one write: a program that reads a
/// part of it and leaves does not end the ensemble.
pub(super) fn announce(plan: &Plan, children: &[Child], as_json: bool) -> Result<(), UpError> {
    let text = if as_json {
        Ok(format!("{}\n", plan.state(children)).into_bytes())
    } else {
        text(plan, children)
    };
    let printed = text.and_then(|text| {
        let mut stdout = io::stdout().lock();
        stdout.write_all(&text)?;
        stdout.flush()
    });
    printed.map_err(UpError::Terminal)
}

fn text(plan: &Plan, children: &[Child]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    writeln!(out, "connect string: {}", plan.connect_string())?;
    for child in children {
        let (id, port, pid) = (child.server.id, child.server.client.port, child.pid());
        match (child.end(), child.mode()) {
            (Some(why), _) => writeln!(out, "server {id}: not running, client port {port}: {why}")?,
            (None, mode) => {
                let mode = mode.unwrap_or("starting");
                writeln!(out, "server {id}: {mode}, client port {port}, pid {pid}")?;
            }
        }
    }
    if let Some(files) = plan.client_files() {
        let (trust, key) = (files.trust_store.display(), files.key_store.display());
        writeln!(out, "TLS: on the same ports, with trust store {trust} and key store {key}")?;
        let servers = plan.connect_string();
        writeln!(out, "zooletctl --servers {servers} --trust-store {trust} --key-store {key}")?;
    }
    Ok(out)
}
