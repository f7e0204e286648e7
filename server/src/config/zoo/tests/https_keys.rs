//! The keys of TLS on the HTTP port: Apache's, and zoolet's own `admin.ssl.…`.

use zoolet_tls::{ClientAuth, Protocol, StoreType};

use super::keys::Outcome::{self, Honored, Refused, Silent, Warned};

#[rustfmt::skip]
pub(super) static ADMIN_TLS: &[(&str, Outcome)] = &[
    // Without a port there is nothing that needs a key store.
    ("admin.portUnification=true", Honored(|c| c.tls.http_port_unification)),
    ("admin.portUnification=false", Silent),
    ("admin.forceHttps=true", Honored(|c| c.tls.http_enabled)),
    ("admin.forceHttps=false", Silent),
    ("admin.forceHttps=yes", Refused),
    ("admin.forceHttps=true\nadmin.serverAddress=127.0.0.1", Refused),
    ("admin.forceHttps=true\nadmin.serverAddress=127.0.0.1\nadmin.ssl.keyStore.location=/x",
        Honored(|c| c.speaks_https() && c.tls.http.client_auth == ClientAuth::None)),
    ("admin.forceHttps=true\nadmin.serverAddress=127.0.0.1\nadmin.ssl.keyStore.location=/x\n\
      admin.ssl.clientAuth=want", Refused),
    ("admin.needClientAuth=true", Refused),
    ("admin.needClientAuth=false", Silent),
    ("admin.needClientAuth=true\nadmin.forceHttps=true",
        Honored(|c| c.tls.http.client_auth == ClientAuth::Need)),
    ("admin.needClientAuth=true\nadmin.forceHttps=true\nadmin.ssl.clientAuth=want", Refused),
    ("admin.forceHttps=true\nssl.quorum.keyStore.location=/x\nssl.quorum.keyStore.password=y",
        Honored(|c| c.tls.http.key_store.file.is_some()
            && c.tls.http.key_store == c.tls.peer.key_store)),
    ("admin.forceHttps=true\nadmin.ssl.clientAuth=want\nssl.quorum.trustStore.location=/x\n\
      ssl.quorum.crlFile=/y",
        Honored(|c| c.tls.http.trust_store.file.as_deref() == Some("/x".as_ref())
            && c.tls.http.revocations.as_deref() == Some("/y".as_ref()))),
    ("admin.certReload=true", Honored(|c| c.tls.http.reload)),
    ("admin.ssl.keyStore.location=/x",
        Honored(|c| c.tls.http.key_store.file.as_deref() == Some("/x".as_ref()))),
    ("admin.ssl.keyStore.password=x", Honored(|c| c.tls.http.key_store.password.is_some())),
    ("admin.ssl.keyStore.passwordPath=/x",
        Honored(|c| c.tls.http.key_store.password_file.is_some())),
    ("admin.ssl.keyStore.type=PEM",
        Honored(|c| c.tls.http.key_store.store_type == Some(StoreType::Pem))),
    ("admin.ssl.trustStore.location=/x", Honored(|c| c.tls.http.trust_store.file.is_some())),
    ("admin.ssl.trustStore.password=x", Honored(|c| c.tls.http.trust_store.password.is_some())),
    ("admin.ssl.trustStore.passwordPath=/x",
        Honored(|c| c.tls.http.trust_store.password_file.is_some())),
    ("admin.ssl.trustStore.type=JKS", Honored(|c| c.tls.http.trust_store.store_type.is_some())),
    ("admin.ssl.clientAuth=want", Honored(|c| c.tls.http.client_auth == ClientAuth::Want)),
    ("admin.ssl.clientAuth=perhaps", Refused),
    ("admin.ssl.clientHostnameVerification=true", Honored(|c| c.tls.http.verify_client_address)),
    ("admin.ssl.enabledProtocols=TLSv1.3", Honored(|c| c.tls.http.protocols == [Protocol::Tls13])),
    ("admin.ssl.ciphersuites=TLS_AES_128_GCM_SHA256",
        Honored(|c| c.tls.http.cipher_suites.len() == 1)),
    ("admin.ssl.crlFile=/x", Honored(|c| c.tls.http.revocations.is_some())),
    ("admin.ssl.crl=true", Refused),
    ("admin.ssl.protocol=TLSv1.2", Honored(|c| c.tls.http.protocols == [Protocol::Tls12])),
    ("admin.ssl.ocsp=true", Refused),
    ("metricsProvider.httpsPort=7001", Warned),
    ("metricsProvider.ssl.keyStore.location=/x", Warned),
];
