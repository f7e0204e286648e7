//! The files with the users that log in by SASL.

use zoolet_server::embed::config::ServerConfig;

use super::finding::Findings;

const SASL: &str = "SASL";

/// Reads the files as the start does.
pub(super) fn check(config: &ServerConfig, findings: &mut Findings) {
    match config.sasl.check() {
        Ok(None) => {}
        Ok(Some((users, warnings))) => {
            findings.ok(SASL, format!("{users} users can log in"));
            for warning in warnings {
                findings.warn(SASL, warning.to_string());
            }
        }
        Err(error) => findings.error(SASL, error.to_string()),
    }
}
