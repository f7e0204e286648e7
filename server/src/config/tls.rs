//! TLS: keys and trusted certificates, on the port for clients, between servers, and on the HTTP port.

use std::path::PathBuf;

use zoolet_tls::{
    ClientAuth, Password, Protocol, StoreFile, StoreType, StoredCertificate, TlsError, TlsSettings,
};

use super::model::ServerConfig;

/// TLS, on the port for clients, between servers, and on the HTTP port.
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// Whether clients may speak TLS on the port for plain text too; the first byte decides.
    pub client_port_unification: bool,
    /// What clients meet where they speak TLS.
    pub client: TlsSide,
    /// The name of the certificate, in the form of RFC 2253, whose owner may do everything.
    pub x509_super_user: Option<String>,
    /// Whether this server calls the others by TLS, and accepts only those that do the same.
    pub peer_enabled: bool,
    /// Whether the others are accepted with TLS and without it.
    pub peer_port_unification: bool,
    /// What the servers show each other.
    pub peer: TlsSide,
    /// Whether the HTTP port speaks TLS alone.
    pub http_enabled: bool,
    /// Whether the HTTP port speaks TLS and plain HTTP; the first byte decides.
    pub http_port_unification: bool,
    /// What clients of the HTTP port meet where they speak TLS. By default they are asked for no
    /// certificate: a browser that is asked interrupts its user.
    pub http: TlsSide,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self {
            client_port_unification: false,
            client: TlsSide::default(),
            x509_super_user: None,
            peer_enabled: false,
            peer_port_unification: false,
            peer: TlsSide::default(),
            http_enabled: false,
            http_port_unification: false,
            http: TlsSide { client_auth: ClientAuth::None, ..TlsSide::default() },
        }
    }
}

/// A port that may speak TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPort {
    /// That of clients.
    Clients,
    /// That of the other servers.
    Servers,
    /// The HTTP port.
    Http,
}

impl TlsPort {
    /// Returns how the keys of its side begin, in a `zoo.cfg` and in a `cluster.toml`.
    const fn prefixes(self) -> (&'static str, &'static str) {
        match self {
            Self::Clients => ("ssl.", "client_"),
            Self::Servers => ("ssl.quorum.", "peer_"),
            Self::Http => ("admin.ssl.", "http_"),
        }
    }
}

/// What one port does about TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSide {
    /// The key of this server and its certificates.
    pub key_store: StoreConfig,
    /// The certificates that vouch for those of the other side.
    pub trust_store: StoreConfig,
    /// A file with lists of revoked certificates.
    pub revocations: Option<PathBuf>,
    /// Whether the calling side needs a certificate.
    pub client_auth: ClientAuth,
    /// Whether the calling side compares the name in the certificate of the server that it calls.
    /// For clients this is a setting of their own.
    pub verify_server_name: bool,
    /// Whether the called side compares the address of the caller with those in its certificate.
    pub verify_client_address: bool,
    /// The versions that are spoken; all for an empty list.
    pub protocols: Vec<Protocol>,
    /// The cipher suites; all that are supported for an empty list.
    pub cipher_suites: Vec<String>,
    /// Whether the files are loaded again when they change.
    pub reload: bool,
}

impl Default for TlsSide {
    fn default() -> Self {
        Self {
            key_store: StoreConfig::default(),
            trust_store: StoreConfig::default(),
            revocations: None,
            client_auth: ClientAuth::Need,
            verify_server_name: true,
            verify_client_address: false,
            protocols: Vec::new(),
            cipher_suites: Vec::new(),
            reload: false,
        }
    }
}

/// A key store or a trust store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreConfig {
    /// The file; none for no store.
    pub file: Option<PathBuf>,
    /// The password.
    pub password: Option<Password>,
    /// A file with the password, which counts before [`password`](Self::password).
    pub password_file: Option<PathBuf>,
    /// The format; without it, the ending of the file's name decides.
    pub store_type: Option<StoreType>,
}

impl StoreConfig {
    fn store(&self) -> Option<StoreFile> {
        Some(StoreFile {
            location: self.file.clone()?,
            password: self.password.clone().unwrap_or_default(),
            password_file: self.password_file.clone(),
            store_type: self.store_type,
        })
    }
}

impl TlsSide {
    /// Returns what connections are made with.
    pub fn settings(&self) -> TlsSettings {
        let mut settings = TlsSettings::default();
        settings.key_store = self.key_store.store();
        settings.trust_store = self.trust_store.store();
        settings.revocations.clone_from(&self.revocations);
        settings.client_auth = self.client_auth;
        settings.verify_server_name = self.verify_server_name;
        settings.verify_client_address = self.verify_client_address;
        settings.protocols.clone_from(&self.protocols);
        settings.cipher_suites.clone_from(&self.cipher_suites);
        settings
    }

    /// Loads the stores, and returns their certificates: those of the key, then those that are
    /// trusted. It blocks: it is for programs that look after a configuration.
    pub fn certificates(&self) -> Result<Vec<StoredCertificate>, TlsError> {
        self.settings().certificates()
    }

    /// Returns an error of its files with the key that names the file, in `zoo.cfg` and in
    /// `cluster.toml`; `port` is the one that this side is of.
    pub fn describe(&self, error: &TlsError, port: TlsPort) -> String {
        let (TlsError::File { file, .. } | TlsError::NoPassword { file, .. }) = error else {
            return error.to_string();
        };
        let needs_password = matches!(error, TlsError::NoPassword { .. });
        let is_it = |known: &Option<PathBuf>| known.as_ref() == Some(file);
        let (zoo, toml) = port.prefixes();
        let stores = [
            ("keyStore", "key_store", &self.key_store),
            ("trustStore", "trust_store", &self.trust_store),
        ];
        for (zoo_store, toml_store, store) in stores {
            let named = |zoo_key: &str, toml_key: &str| {
                format!("{zoo}{zoo_store}.{zoo_key} ({toml}{toml_store}{toml_key})")
            };
            if is_it(&store.file) && needs_password {
                let (key, password) = (named("location", ""), named("password", "_password"));
                return format!("{key}: {error}; set {password}");
            }
            if is_it(&store.file) {
                return format!("{}: {error}", named("location", ""));
            }
            if is_it(&store.password_file) {
                return format!("{}: {error}", named("passwordPath", "_password_file"));
            }
        }
        if is_it(&self.revocations) {
            return format!("{zoo}crlFile ({toml}crl_file): {error}");
        }
        error.to_string()
    }

    /// The files that it names.
    pub(super) fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let (keys, trusted) = (&mut self.key_store, &mut self.trust_store);
        let files = [
            &mut keys.file,
            &mut keys.password_file,
            &mut trusted.file,
            &mut trusted.password_file,
            &mut self.revocations,
        ];
        files.into_iter().flatten()
    }
}

impl ServerConfig {
    /// Returns the hosts by which the other servers call this one; none if its own entry has a
    /// wildcard address, because their files have another one.
    pub(crate) fn peer_hosts(&self) -> Vec<String> {
        let peer = self.member().map(|member| &member.peer).filter(|peer| !peer.is_wildcard());
        peer.map(|peer| peer.host.clone()).into_iter().collect()
    }

    /// Loads the stores for the peer port, and returns why servers with the same settings would refuse
    /// this server's certificate. It blocks: it is for programs that look after a configuration.
    pub fn peer_refusals(&self) -> Result<Vec<String>, TlsError> {
        self.tls.peer.settings().peer_refusals(&self.peer_hosts())
    }
}

impl TlsConfig {
    /// What is missing; the name is the key in `cluster.toml`.
    pub(super) fn missing(config: &ServerConfig) -> Option<(&'static str, String)> {
        let tls = &config.tls;
        let need = |is_on: bool, what: &str, key: &'static str, file: &Option<PathBuf>| {
            (is_on && file.is_none()).then(|| (key, format!("{what} needs {key}")))
        };
        let clients = config.speaks_tls();
        let (client, peer) = (&tls.client, &tls.peer);
        let asks = clients && client.client_auth != ClientAuth::None;
        let peers = config.peer_bind.is_some() && (tls.peer_enabled || tls.peer_port_unification);
        let http = config.speaks_https();
        let asks_http = http && tls.http.client_auth != ClientAuth::None;
        let asking_http =
            "TLS on the HTTP port with certificates of clients (http_auth is not none)";
        let (http_keys, http_trust) = (&tls.http.key_store.file, &tls.http.trust_store.file);
        let asking = "TLS for clients that show certificates (client_auth is not none)";
        need(clients, "TLS for clients", "client_key_store", &client.key_store.file)
            .or_else(|| need(asks, asking, "client_trust_store", &client.trust_store.file))
            .or_else(|| need(peers, "TLS between servers", "peer_key_store", &peer.key_store.file))
            .or_else(|| {
                need(peers, "TLS between servers", "peer_trust_store", &peer.trust_store.file)
            })
            .or_else(|| need(http, "TLS on the HTTP port", "http_key_store", http_keys))
            .or_else(|| need(asks_http, asking_http, "http_trust_store", http_trust))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_file_names_its_key() {
        let store = |name: &str| StoreConfig {
            file: Some(name.into()),
            password_file: Some(format!("{name}.password").into()),
            ..StoreConfig::default()
        };
        let side = TlsSide {
            key_store: store("/key.p12"),
            trust_store: store("/trust.p12"),
            revocations: Some("/crl".into()),
            ..TlsSide::default()
        };
        let error = |file: &str| TlsError::File { file: file.into(), why: "why".to_owned() };
        for (file, expected) in [
            ("/key.p12", "ssl.keyStore.location (client_key_store): /key.p12: why"),
            ("/trust.p12", "ssl.trustStore.location (client_trust_store): /trust.p12: why"),
            (
                "/key.p12.password",
                "ssl.keyStore.passwordPath (client_key_store_password_file): /key.p12.password: why",
            ),
            ("/crl", "ssl.crlFile (client_crl_file): /crl: why"),
            ("/other", "/other: why"),
        ] {
            assert_eq!(side.describe(&error(file), TlsPort::Clients), expected);
        }
        let error = TlsError::NoPassword { file: "/trust.p12".into(), why: "why".to_owned() };
        assert_eq!(
            side.describe(&error, TlsPort::Servers),
            "ssl.quorum.trustStore.location (peer_trust_store): /trust.p12: why; set \
             ssl.quorum.trustStore.password (peer_trust_store_password)"
        );
    }
}
