//! The keys of TLS that depend on each other.

use zoolet_tls::{ClientAuth, Protocol};

use super::super::address::{HostPort, parse_host, parse_port};
use super::super::error::ConfigError;
use super::super::tls::TlsSide;
use super::ZooCfgReader;

impl ZooCfgReader<'_> {
    /// Reads what is left of TLS, once all simple keys are taken over.
    pub(super) fn read_tls(&mut self) -> Result<(), ConfigError> {
        self.read_protocol("ssl.", |tls| &mut tls.client)?;
        self.read_protocol("ssl.quorum.", |tls| &mut tls.peer)?;
        self.read_protocol("admin.ssl.", |tls| &mut tls.http)?;
        self.read_https()?;
        let tls = &self.draft.config.tls;
        let crl_files =
            [("ssl.", &tls.client), ("ssl.quorum.", &tls.peer), ("admin.ssl.", &tls.http)];
        for (prefix, side) in crl_files {
            let key = format!("{prefix}crl");
            if self.flag(&key)? == Some(true) && side.revocations.is_none() {
                let why = format!(
                    "lists of revoked certificates are not fetched: name a file with them in \
                     {prefix}crlFile"
                );
                let error = |property| self.wrong(property, &why);
                return Err(self.keys.get(&key).map_or_else(|| self.source.error(0, &why), error));
            }
        }
        Ok(())
    }

    /// An `AdminServer` shows the certificates of `ssl.quorum.`, and so does the HTTP port where it has
    /// no stores of its own.
    fn read_https(&mut self) -> Result<(), ConfigError> {
        let needs = self.flag("admin.needClientAuth")?;
        let needed = self.keys.get("admin.needClientAuth").filter(|_| needs == Some(true)).cloned();
        if let Some(property) = &needed
            && self.keys.contains_key("admin.ssl.clientAuth")
        {
            let why = "admin.ssl.clientAuth says it too: one of them is enough";
            return Err(self.wrong(property, why));
        }
        let tls = &mut self.draft.config.tls;
        if needed.is_some() {
            tls.http.client_auth = ClientAuth::Need;
        }
        if !tls.http_enabled && !tls.http_port_unification {
            let why = "certificates are shown by TLS alone: it needs admin.forceHttps";
            return needed.map_or(Ok(()), |property| Err(self.wrong(&property, why)));
        }
        if tls.http.key_store.file.is_none() {
            tls.http.key_store = tls.peer.key_store.clone();
        }
        if tls.http.trust_store.file.is_none() && tls.http.client_auth != ClientAuth::None {
            tls.http.trust_store = tls.peer.trust_store.clone();
            if tls.http.revocations.is_none() {
                tls.http.revocations.clone_from(&tls.peer.revocations);
            }
        }
        Ok(())
    }

    /// In Java the protocol is the highest version.
    fn read_protocol(
        &mut self,
        prefix: &str,
        side: fn(&mut super::super::tls::TlsConfig) -> &mut TlsSide,
    ) -> Result<(), ConfigError> {
        let Some(property) = self.keys.get(&format!("{prefix}protocol")).cloned() else {
            return Ok(());
        };
        let highest = match property.value.as_str() {
            "TLS" | "Default" => Protocol::Tls13,
            text => text.parse().map_err(|why: String| self.wrong(&property, &why))?,
        };
        let side = side(&mut self.draft.config.tls);
        if side.protocols.is_empty() && highest == Protocol::Tls12 {
            side.protocols = vec![Protocol::Tls12];
        }
        Ok(())
    }

    /// The port for TLS alone.
    pub(super) fn secure_client_address(&self) -> Result<Option<HostPort>, ConfigError> {
        let host = match self.keys.get("secureClientPortAddress") {
            Some(property) => Some(
                parse_host(&property.value).map_err(|why: String| self.wrong(property, &why))?,
            ),
            None => None,
        };
        match (self.keys.get("secureClientPort"), host) {
            (Some(property), host) => {
                let port = parse_port(&property.value).map_err(|why| self.wrong(property, &why))?;
                Ok(Some(HostPort::new(host.unwrap_or("0.0.0.0"), port)))
            }
            (None, Some(_)) => {
                let why = "secureClientPortAddress is set and secureClientPort is not";
                Err(self.source.error(self.line("secureClientPortAddress"), why))
            }
            (None, None) => Ok(None),
        }
    }

    /// Names what is missing by the keys of this file.
    pub(super) fn check_tls(&self) -> Result<(), ConfigError> {
        let (config, tls) = (&self.draft.config, &self.draft.config.tls);
        let peers = config.peer_bind.is_some() && (tls.peer_enabled || tls.peer_port_unification);
        let sides = [
            (
                config.speaks_tls(),
                "ssl.",
                &tls.client,
                ["secureClientPort", "client.portUnification"],
            ),
            (peers, "ssl.quorum.", &tls.peer, ["sslQuorum", "portUnification"]),
            (
                config.speaks_https(),
                "admin.ssl.",
                &tls.http,
                ["admin.forceHttps", "admin.portUnification"],
            ),
        ];
        for (_, prefix, side, keys) in sides.into_iter().filter(|(is_on, ..)| *is_on) {
            let error = |missing: &str| {
                let why = format!("needs {prefix}{missing}");
                Err(match keys.into_iter().find_map(|key| self.keys.get(key)) {
                    Some(property) => self.wrong(property, &why),
                    None => self.source.error(0, format!("TLS {why}")),
                })
            };
            if side.key_store.file.is_none() {
                return error("keyStore.location");
            }
            let asks = prefix == "ssl.quorum." || side.client_auth != ClientAuth::None;
            if asks && side.trust_store.file.is_none() {
                return error("trustStore.location, or clientAuth=none");
            }
        }
        Ok(())
    }
}
