//! Certificates for the suite.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, date_time_ymd,
};
use tempfile::TempDir;
use zoolet_client::ClientOptions;
use zoolet_client::tls::{StoreFile, TlsOptions};

/// An authority, and the directory with the files that it has made.
pub(crate) struct Authority {
    directory: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { directory, issuer }
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    pub(crate) fn text(&self, file: &str) -> String {
        self.path(file).display().to_string()
    }

    /// Makes the key and the certificate `CN=name` for these hosts: `name.pem` has both, and
    /// `name.key` and `name.crt` each.
    pub(crate) fn issue(
        &self,
        name: &str,
        hosts: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> PathBuf {
        let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
        fs::write(self.path(&format!("{name}.crt")), &certificate).unwrap();
        let file = self.path(&format!("{name}.pem"));
        fs::write(&file, key.serialize_pem() + &certificate).unwrap();
        file
    }

    /// The same for the servers of this machine.
    pub(crate) fn issue_server(&self) -> PathBuf {
        self.issue("server", &["localhost", "127.0.0.1"], |_| {})
    }

    /// Writes a list that revokes these numbers of certificates.
    pub(crate) fn revoke(&self, numbers: &[u64]) -> PathBuf {
        self.revoke_until(numbers, (2024, 2999))
    }

    /// The same, from the begin of one year to that of another.
    pub(crate) fn revoke_until(&self, numbers: &[u64], (first, last): (i32, i32)) -> PathBuf {
        let revoked = numbers.iter().map(|number| RevokedCertParams {
            serial_number: (*number).into(),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(first, 1, 1),
            next_update: date_time_ymd(last, 1, 1),
            crl_number: 1_u64.into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let file = self.path("revoked.crl");
        fs::write(&file, list.signed_by(&self.issuer).unwrap().pem().unwrap()).unwrap();
        file
    }

    /// How a client with this key store connects, which trusts this authority.
    pub(crate) fn options(&self, key_store: Option<&Path>) -> ClientOptions {
        let mut tls = TlsOptions::new().trust_store(StoreFile::new(self.path("ca.pem")));
        if let Some(key_store) = key_store {
            tls = tls.key_store(StoreFile::new(key_store));
        }
        ClientOptions::new().connector(tls.connector().unwrap())
    }
}
