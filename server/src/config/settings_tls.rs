//! The settings of TLS: those of clients, those between servers and those of the HTTP port are alike.

use super::setting::{Field, Setting};

const NO_RANGE: (u64, u64) = (0, 0);
const FILE: &str = "(the name of a file)";
const FLAG: &str = "true or false";

/// A setting of the section `tls`.
macro_rules! tls {
    ($key:expr, $unit:expr, $about:expr, $field:expr) => {
        Setting {
            section: "tls",
            key: $key,
            unit: $unit,
            range: NO_RANGE,
            about: $about,
            derived: false,
            field: $field,
        }
    };
}

/// The settings that both sides have.
macro_rules! side {
    ($prefix:literal, $side:ident, $other:literal) => {
        [
            tls!(concat!($prefix, "key_store"), FILE,
                "The private key and its certificates, in one file: PEM (.pem), PKCS12 (.p12) or JKS (.jks).",
                |c| Field::File(&mut c.tls.$side.key_store.file)),
            tls!(concat!($prefix, "key_store_password"), "(a password)",
                "What opens that file, if it is encrypted.",
                |c| Field::Password(&mut c.tls.$side.key_store.password)),
            tls!(concat!($prefix, "key_store_password_file"), FILE,
                "A file with that password. It counts before the password.",
                |c| Field::File(&mut c.tls.$side.key_store.password_file)),
            tls!(concat!($prefix, "key_store_type"), "PEM, PKCS12 or JKS",
                "The format. Without it, the ending of the name decides.",
                |c| Field::StoreType(&mut c.tls.$side.key_store.store_type)),
            tls!(concat!($prefix, "trust_store"), FILE,
                concat!("The certificates of the authorities that ", $other, " must have theirs from."),
                |c| Field::File(&mut c.tls.$side.trust_store.file)),
            tls!(concat!($prefix, "trust_store_password"), "(a password)",
                "What opens that file, if it is encrypted.",
                |c| Field::Password(&mut c.tls.$side.trust_store.password)),
            tls!(concat!($prefix, "trust_store_password_file"), FILE,
                "A file with that password. It counts before the password.",
                |c| Field::File(&mut c.tls.$side.trust_store.password_file)),
            tls!(concat!($prefix, "trust_store_type"), "PEM, PKCS12 or JKS",
                "The format. Without it, the ending of the name decides.",
                |c| Field::StoreType(&mut c.tls.$side.trust_store.store_type)),
            tls!(concat!($prefix, "crl_file"), FILE,
                "Lists of revoked certificates, in PEM or DER, one of each authority. A certificate of an\n\
                 authority without a list is refused.",
                |c| Field::File(&mut c.tls.$side.revocations)),
            tls!(concat!($prefix, "auth"), "need, want or none",
                concat!("Whether ", $other, " must show a certificate, may, or are not asked."),
                |c| Field::ClientAuth(&mut c.tls.$side.client_auth)),
            tls!(concat!($prefix, "address_verified"), FLAG,
                concat!("Whether the certificate of one of ", $other, " must name the address that it calls from."),
                |c| Field::Flag(&mut c.tls.$side.verify_client_address)),
            tls!(concat!($prefix, "protocols"), "a list of TLSv1.2 and TLSv1.3; empty for both",
                "The versions of TLS.",
                |c| Field::Protocols(&mut c.tls.$side.protocols)),
            tls!(concat!($prefix, "cipher_suites"), "a list of names such as TLS_AES_256_GCM_SHA384; empty for all",
                "The cipher suites, by their IANA names.",
                |c| Field::CipherSuites(&mut c.tls.$side.cipher_suites)),
            tls!(concat!($prefix, "reload"), FLAG,
                "Whether these files are loaded again when they change, for new connections.",
                |c| Field::Flag(&mut c.tls.$side.reload)),
        ]
    };
}

/// What only clients have.
#[rustfmt::skip]
pub(super) static CLIENT: [Setting; 2] = [
    tls!("client_port_unification", FLAG,
        "Whether clients may speak TLS on the port for plain text too, while they are switched over.\n\
         The ports for TLS alone are the servers' secure_client.",
        |c| Field::Flag(&mut c.tls.client_port_unification)),
    tls!("x509_super_user", "(a name)",
        "The name of the certificate whose owner may do everything, in the form of RFC 2253, such as\n\
         CN=admin,O=Example. Without it, there is none.",
        |c| Field::Text(&mut c.tls.x509_super_user)),
];

#[rustfmt::skip]
pub(super) static CLIENT_SIDE: [Setting; 14] = side!("client_", client, "clients");

/// What only servers have.
#[rustfmt::skip]
pub(super) static PEER: [Setting; 3] = [
    tls!("peer_enabled", FLAG,
        "Whether servers speak TLS to each other. The peer secret, if there is one, is proved within it.",
        |c| Field::Flag(&mut c.tls.peer_enabled)),
    tls!("peer_port_unification", FLAG,
        "Whether other servers are accepted with TLS and without it, while they are switched over.",
        |c| Field::Flag(&mut c.tls.peer_port_unification)),
    tls!("peer_name_verified", FLAG,
        "Whether the certificate of a server must name the host that it is called at.",
        |c| Field::Flag(&mut c.tls.peer.verify_server_name)),
];

#[rustfmt::skip]
pub(super) static PEER_SIDE: [Setting; 14] = side!("peer_", peer, "other servers");

/// What only the HTTP port has.
#[rustfmt::skip]
pub(super) static HTTP: [Setting; 2] = [
    tls!("http_enabled", FLAG,
        "Whether the HTTP port speaks TLS alone: metrics, commands and the console are at https://. The\n\
         port for metrics alone speaks plain HTTP.",
        |c| Field::Flag(&mut c.tls.http_enabled)),
    tls!("http_port_unification", FLAG,
        "Whether the HTTP port speaks TLS and plain HTTP, while its clients are switched over.",
        |c| Field::Flag(&mut c.tls.http_port_unification)),
];

#[rustfmt::skip]
pub(super) static HTTP_SIDE: [Setting; 14] = side!("http_", http, "clients of HTTP");
