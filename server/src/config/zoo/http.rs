//! The keys of Apache's `AdminServer` and of its metrics provider: the HTTP port.
//!
//! Apache opens port 8080 on all addresses if nothing is said. Here the port is open only if the
//! file says so, and on the loopback unless it names an address (decision 0020).

use super::ZooCfgReader;
use super::properties::Property;
use crate::config::address::{HostPort, parse_host, parse_port};
use crate::config::error::ConfigError;

/// Where it is found without an address.
const LOOPBACK: &str = "127.0.0.1";

const ADMIN_PORT: u16 = 8080;
const METRICS_PORT: u16 = 7000;

/// The provider that serves metrics over HTTP, and those that do not.
const PROMETHEUS: &str = "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider";
const WITHOUT_HTTP: [&str; 2] = [
    "org.apache.zookeeper.metrics.impl.DefaultMetricsProvider",
    "org.apache.zookeeper.metrics.impl.NullMetricsProvider",
];

impl ZooCfgReader<'_> {
    pub(super) fn read_http(&mut self) -> Result<(), ConfigError> {
        let named = ["admin.serverAddress", "admin.serverPort"];
        let is_named = named.iter().any(|key| self.keys.contains_key(*key));
        if self.flag("admin.enableServer")?.unwrap_or(is_named) {
            let keys = ["admin.enableServer", named[0], named[1]];
            self.draft.config.http_bind = Some(self.http_address(keys, ADMIN_PORT)?);
        }
        let provider = self.keys.get("metricsProvider.className").cloned();
        let Some(provider) = provider.filter(|provider| !provider.value.is_empty()) else {
            return Ok(());
        };
        if provider.value == PROMETHEUS {
            let keys = [
                "metricsProvider.className",
                "metricsProvider.httpHost",
                "metricsProvider.httpPort",
            ];
            let bind = self.http_address(keys, METRICS_PORT)?;
            let is_other = self.draft.config.http_bind.as_ref() != Some(&bind);
            self.draft.config.metrics_bind = is_other.then_some(bind);
        } else if !WITHOUT_HTTP.contains(&provider.value.as_str()) {
            let why = "not applicable: only the provider for Prometheus is there";
            self.draft.warn(&self.at(&provider), &provider.key, why);
        }
        Ok(())
    }

    /// Puts an address together; the keys open the port.
    fn http_address(
        &mut self,
        [opened, address, port_key]: [&str; 3],
        port_default: u16,
    ) -> Result<HostPort, ConfigError> {
        let port = match self.keys.get(port_key) {
            Some(property) => {
                parse_port(&property.value).map_err(|why| self.wrong(property, &why))?
            }
            None => port_default,
        };
        if let Some(property) = self.keys.get(address) {
            let host = parse_host(&property.value).map_err(|why| self.wrong(property, &why))?;
            return Ok(HostPort::new(host, port));
        }
        // Any of the keys opens the port: the one that the file has is named.
        let named = [opened, port_key].into_iter().find_map(|key| self.keys.get(key));
        let (line, key) = named.map_or((0, opened.to_owned()), |property: &Property| {
            (property.line, property.key.clone())
        });
        let why = format!(
            "without {address}, HTTP is served on {LOOPBACK}:{port} only, not on every address"
        );
        let at = super::At::new(&self.source.file, line);
        self.draft.warn(&at, &key, why);
        Ok(HostPort::new(LOOPBACK, port))
    }
}
