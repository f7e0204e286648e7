//! The keys of TLS. Those of clients begin with `ssl.`, those between servers with `ssl.quorum.`, those
//! of the HTTP port with `admin.ssl.`, which are zoolet's own.

use super::rule::{Key, Rule, Shape, own, text, true_false};

const fn refused(
    name: &'static str,
    shape: Shape,
    same: &'static [&'static str],
    why: &'static str,
) -> Key {
    Key { name, rule: Rule::Refused { shape, same, why } }
}

const fn inert(
    name: &'static str,
    shape: Shape,
    same: &'static [&'static str],
    why: &'static str,
) -> Key {
    Key { name, rule: Rule::Inert { shape, same, why } }
}

const OFF: &[&str] = &["false"];

const OCSP: &str = "OCSP is not supported: use lists of revoked certificates (crlFile)";
const REVERSE: &str = "names are not looked up by address: name the addresses in the certificates";
const SUPPLIER: &str = "a class of Java cannot be used: set keyStore.* and trustStore.*";
const HANDSHAKE: &str = "nio.sessionlessCnxnTimeout bounds handshakes";
const PROVIDER: &str = "rustls is the only provider";
const AUTH_PROVIDER: &str = "certificates give identities of the scheme x509 only";

/// The keys that both sides have.
macro_rules! side {
    ($zoo:literal, $toml:literal) => {
        [
            text(concat!($zoo, "keyStore.location"), ("tls", concat!($toml, "key_store"))),
            text(concat!($zoo, "keyStore.password"), ("tls", concat!($toml, "key_store_password"))),
            text(
                concat!($zoo, "keyStore.passwordPath"),
                ("tls", concat!($toml, "key_store_password_file")),
            ),
            text(concat!($zoo, "keyStore.type"), ("tls", concat!($toml, "key_store_type"))),
            text(concat!($zoo, "trustStore.location"), ("tls", concat!($toml, "trust_store"))),
            text(
                concat!($zoo, "trustStore.password"),
                ("tls", concat!($toml, "trust_store_password")),
            ),
            text(
                concat!($zoo, "trustStore.passwordPath"),
                ("tls", concat!($toml, "trust_store_password_file")),
            ),
            text(concat!($zoo, "trustStore.type"), ("tls", concat!($toml, "trust_store_type"))),
            text(concat!($zoo, "clientAuth"), ("tls", concat!($toml, "auth"))),
            true_false(
                concat!($zoo, "clientHostnameVerification"),
                ("tls", concat!($toml, "address_verified")),
            ),
            text(concat!($zoo, "enabledProtocols"), ("tls", concat!($toml, "protocols"))),
            text(concat!($zoo, "ciphersuites"), ("tls", concat!($toml, "cipher_suites"))),
            text(concat!($zoo, "crlFile"), ("tls", concat!($toml, "crl_file"))),
            own(concat!($zoo, "protocol")),
            own(concat!($zoo, "crl")),
            refused(concat!($zoo, "ocsp"), Shape::TrueFalse, OFF, OCSP),
            refused(concat!($zoo, "allowReverseDnsLookup"), Shape::TrueFalse, OFF, REVERSE),
            refused(concat!($zoo, "context.supplier.class"), Shape::Any, &[], SUPPLIER),
            inert(concat!($zoo, "handshakeDetectionTimeoutMillis"), Shape::Number, &[], HANDSHAKE),
            inert(concat!($zoo, "sslProvider"), Shape::Any, &[], PROVIDER),
            inert(concat!($zoo, "authProvider"), Shape::Any, &["x509"], AUTH_PROVIDER),
        ]
    };
}

pub(super) static CLIENT_SIDE: [Key; 21] = side!("ssl.", "client_");
pub(super) static PEER_SIDE: [Key; 21] = side!("ssl.quorum.", "peer_");
pub(super) static HTTP_SIDE: [Key; 21] = side!("admin.ssl.", "http_");

#[rustfmt::skip]
pub(super) static TLS: [Key; 16] = [
    own("secureClientPort"),
    own("secureClientPortAddress"),
    true_false("client.portUnification", ("tls", "client_port_unification")),
    true_false("client.certReload", ("tls", "client_reload")),
    text("X509AuthenticationProvider.superUser", ("tls", "x509_super_user")),
    true_false("sslQuorum", ("tls", "peer_enabled")),
    true_false("portUnification", ("tls", "peer_port_unification")),
    true_false("sslQuorumReloadCertFiles", ("tls", "peer_reload")),
    true_false("ssl.quorum.hostnameVerification", ("tls", "peer_name_verified")),
    true_false("admin.forceHttps", ("tls", "http_enabled")),
    true_false("admin.portUnification", ("tls", "http_port_unification")),
    own("admin.needClientAuth"),
    true_false("admin.certReload", ("tls", "http_reload")),
    inert("ssl.hostnameVerification", Shape::TrueFalse, &[], "clients verify the server's name by settings of their own"),
    inert("fips-mode", Shape::TrueFalse, &[], "the cryptography is not validated for FIPS 140, and the address of a server that connects is compared with its certificate only with ssl.quorum.clientHostnameVerification=true"),
    inert("authProvider.x509", Shape::Any, &["org.apache.zookeeper.server.auth.X509AuthenticationProvider"], "certificates give identities of the scheme x509 always"),
];
