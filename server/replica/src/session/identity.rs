//! Who a connection is: the schemes of `auth` requests, and what they prove (protocol §2.12, §9.5).

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zoolet_jute::{AuthPacket, Id};

use crate::{DigestAlgorithm, Options};

/// The schemes that are switched on, and what they know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schemes<'a> {
    /// Whether `digest` is there at all.
    pub(crate) digest: bool,
    /// How it hashes.
    pub(crate) algorithm: DigestAlgorithm,
    /// The super user's digest, as `user:base64`.
    pub(crate) super_digest: Option<&'a str>,
}

impl<'a> Schemes<'a> {
    /// Those of a server's configuration.
    pub(crate) fn of(options: &'a Options) -> Self {
        Self {
            digest: options.digest_auth,
            algorithm: options.digest_algorithm,
            super_digest: options.super_digest.as_deref(),
        }
    }
}

impl Schemes<'_> {
    /// The identities that credentials prove, from a connection that has some already; `None`
    /// refuses them.
    pub(crate) fn authenticate(
        self,
        packet: &AuthPacket,
        peer: IpAddr,
        known: &[Id],
    ) -> Option<Vec<Id>> {
        match packet.scheme.as_deref() {
            Some("ip") => Some(vec![ip_identity(peer)]),
            // The certificate of the connection is the proof, and was looked at when it began.
            Some(X509) => has_x509(known).then(Vec::new),
            Some("digest") if self.digest => {
                let credentials = String::from_utf8_lossy(packet.auth.as_ref()?);
                let digest = digest_of(self.algorithm, &credentials);
                let is_super = self.super_digest == Some(digest.as_str());
                let superuser = is_super.then(|| Id::new("super", ""));
                Some(superuser.into_iter().chain([Id::new("digest", digest)]).collect())
            }
            // `world` and `auth` prove nothing, `sasl` has an operation of its own.
            _ => None,
        }
    }
}

/// The scheme of identities that certificates prove.
pub(crate) const X509: &str = "x509";

fn has_x509(known: &[Id]) -> bool {
    known.iter().any(|id| id.scheme.as_deref() == Some(X509))
}

/// The identities of a new connection: its address, and what the connection itself has proved.
pub(crate) fn first_identities(peer: IpAddr, proved: &[Id]) -> Arc<[Id]> {
    std::iter::once(ip_identity(peer)).chain(proved.iter().cloned()).collect()
}

/// The identity that every connection has from the start.
fn ip_identity(peer: IpAddr) -> Id {
    Id::new("ip", java_address(peer))
}

/// `user:base64(hash("user:password"))`. Without a colon the whole text is the user.
fn digest_of(algorithm: DigestAlgorithm, credentials: &str) -> String {
    let user = credentials.split(':').next().unwrap_or_default();
    let hash = algorithm.hash(credentials.as_bytes());
    format!("{user}:{}", STANDARD.encode(hash))
}

/// The address as Java writes it, because ACLs in the field hold it so: IPv6 in full, without
/// leading zeros and never shortened to `::`.
fn java_address(peer: IpAddr) -> String {
    match peer.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => address.segments().map(|segment| format!("{segment:x}")).join(":"),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn authenticate(schemes: Schemes<'_>, scheme: &str, auth: &'static str) -> Option<Vec<Id>> {
        let packet = AuthPacket {
            auth_type: 0,
            scheme: Some(scheme.to_owned()),
            auth: Some(Bytes::from_static(auth.as_bytes())),
        };
        schemes.authenticate(&packet, IpAddr::from([127, 0, 0, 1]), &[])
    }

    const PLAIN: Schemes<'static> =
        Schemes { digest: true, algorithm: DigestAlgorithm::Sha1, super_digest: None };

    #[test]
    fn a_digest_is_the_sha1_of_user_and_password() {
        // The value is from ZooKeeper's own documentation.
        let digest = |credentials| digest_of(DigestAlgorithm::Sha1, credentials);
        assert_eq!(digest("super:admin"), "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=");
        // Without a colon the whole text is user and hashed text.
        assert_eq!(digest("abc"), "abc:qZk+NkcGgWq6PiVxeFDCbJzQ2J0=");
    }

    #[test]
    fn other_hashes_are_those_of_javas_providers() {
        // printf abc | openssl dgst -binary -sha256 | base64
        assert_eq!(
            digest_of(DigestAlgorithm::Sha256, "abc"),
            "abc:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="
        );
        assert_eq!(
            digest_of(DigestAlgorithm::Sha512, "abc"),
            "abc:3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/BqDa6PCOj/uu9RU1EI2Q86A4qmslPpUyknw=="
        );
        for (algorithm, hash) in [
            (DigestAlgorithm::Sha3_224, "5kKCTD+M8krQkjTufTx2b8mjpRaNDJStc7Rv3w=="),
            (DigestAlgorithm::Sha3_256, "Ophdp0/iJbIEXBcta9OQvYVfCG4+nVJbRr/iRRFDFTI="),
            (
                DigestAlgorithm::Sha3_384,
                "7AFJgohRb8kmRZ9Y4satjfm0c8sPwIwlltp88OSb5LKY2IzqknrH9Tnx7fIoN20l",
            ),
            (
                DigestAlgorithm::Sha3_512,
                "t1GFCxpXFopWk82SS2sJbgj2IYJ0RPcNiE9dAkDScS4Q4RbpGSrzyRp+xXZH45NAVzQLTPQI1aVlkvgnTuxT8A==",
            ),
        ] {
            assert_eq!(digest_of(algorithm, "abc"), format!("abc:{hash}"));
        }
    }

    #[test]
    fn the_super_digest_gives_two_identities() {
        let digest = "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=";
        let schemes = Schemes { super_digest: Some(digest), ..PLAIN };
        assert_eq!(
            authenticate(schemes, "digest", "super:admin"),
            Some(vec![Id::new("super", ""), Id::new("digest", digest)])
        );
        assert_eq!(
            authenticate(PLAIN, "digest", "super:admin"),
            Some(vec![Id::new("digest", digest)])
        );
    }

    #[test]
    fn schemes_that_prove_nothing_are_refused() {
        for scheme in ["world", "auth", "sasl", "super", "x509", "", "nonsense"] {
            assert_eq!(authenticate(PLAIN, scheme, "anyone"), None, "{scheme}");
        }
        let off = Schemes { digest: false, ..PLAIN };
        assert_eq!(authenticate(off, "digest", "a:b"), None);
        let null = AuthPacket { auth_type: 0, scheme: Some("digest".to_owned()), auth: None };
        assert_eq!(PLAIN.authenticate(&null, IpAddr::from([127, 0, 0, 1]), &[]), None);
    }

    #[test]
    fn a_certificate_proves_the_same_as_often_as_it_is_asked_for() {
        let packet = AuthPacket { auth_type: 0, scheme: Some(X509.to_owned()), auth: None };
        let peer = IpAddr::from([127, 0, 0, 1]);
        let known = first_identities(peer, &[Id::new(X509, "CN=me")]);
        assert_eq!(*known, [Id::new("ip", "127.0.0.1"), Id::new(X509, "CN=me")]);
        assert_eq!(PLAIN.authenticate(&packet, peer, &known), Some(Vec::new()));
        assert_eq!(PLAIN.authenticate(&packet, peer, &first_identities(peer, &[])), None);
    }

    #[test]
    fn addresses_are_written_as_java_writes_them() {
        let text = |address: &str| java_address(address.parse().expect("an address"));
        assert_eq!(text("127.0.0.1"), "127.0.0.1");
        assert_eq!(text("::1"), "0:0:0:0:0:0:0:1");
        assert_eq!(text("2001:0db8::00ff:0"), "2001:db8:0:0:0:0:ff:0");
        assert_eq!(text("::ffff:10.1.2.3"), "10.1.2.3");
    }
}
