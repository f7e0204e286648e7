//! PEM: certificates, one private key, lists of revoked certificates.

use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument};
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, PrivatePkcs8KeyDer,
};

use super::KeyEntry;

const ENCRYPTED: [&str; 2] =
    ["-----BEGIN ENCRYPTED PRIVATE KEY-----", "-----END ENCRYPTED PRIVATE KEY-----"];

type Sections = Vec<(SectionKind, Vec<u8>)>;

/// Returns the private key, decrypted if it is encrypted, and the certificates.
pub(super) fn key(bytes: &[u8], password: &str) -> Result<KeyEntry, String> {
    let chain = certificates(bytes)?;
    if chain.is_empty() {
        return Err("no certificate: expected -----BEGIN CERTIFICATE-----".to_owned());
    }
    let sections = sections(bytes)?;
    let mut keys = sections.into_iter().filter_map(|(kind, der)| private_key(kind, der));
    let plain = keys.next();
    let several = keys.next().is_some();
    let key = match (plain, encrypted(bytes, password)?) {
        (Some(key), None) if !several => key,
        (None, Some(key)) => key,
        (None, None) => {
            return Err("no private key: expected -----BEGIN PRIVATE KEY-----".to_owned());
        }
        _ => return Err("several private keys: expected one".to_owned()),
    };
    Ok(KeyEntry { chain, key })
}

fn private_key(kind: SectionKind, der: Vec<u8>) -> Option<PrivateKeyDer<'static>> {
    if kind == SectionKind::PrivateKey {
        Some(PrivateKeyDer::Pkcs8(der.into()))
    } else if kind == SectionKind::RsaPrivateKey {
        Some(PrivateKeyDer::Pkcs1(der.into()))
    } else if kind == SectionKind::EcPrivateKey {
        Some(PrivateKeyDer::Sec1(der.into()))
    } else {
        None
    }
}

/// Returns all certificates.
pub(super) fn certificates(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let sections = sections(bytes)?.into_iter();
    let certificates = sections.filter(|(kind, _)| *kind == SectionKind::Certificate);
    Ok(certificates.map(|(_, der)| der.into()).collect())
}

/// Returns all lists of revoked certificates; a file without a line of dashes is one list in DER.
pub(super) fn revocations(
    bytes: &[u8],
) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    if !bytes.windows(5).any(|window| window == b"-----") {
        return Ok(vec![bytes.to_vec().into()]);
    }
    let sections = sections(bytes)?.into_iter();
    let lists: Vec<_> =
        sections.filter(|(kind, _)| *kind == SectionKind::Crl).map(|(_, der)| der.into()).collect();
    if lists.is_empty() {
        return Err("no list of revoked certificates: expected -----BEGIN X509 CRL-----".to_owned());
    }
    Ok(lists)
}

fn sections(bytes: &[u8]) -> Result<Sections, String> {
    let sections = (1..).zip(<(SectionKind, Vec<u8>)>::pem_slice_iter(bytes));
    let sections = sections.map(|(place, section)| {
        section.map_err(|error| format!("entry {place} is damaged: {error}"))
    });
    sections.collect()
}

fn encrypted(bytes: &[u8], password: &str) -> Result<Option<PrivateKeyDer<'static>>, String> {
    let text = String::from_utf8_lossy(bytes);
    let [begin, end] = ENCRYPTED;
    let Some(at) = text.find(begin) else { return Ok(None) };
    let behind = text.get(at..).unwrap_or_default();
    let length = behind.find(end).ok_or("the encrypted private key has no end")?;
    let section = behind.get(..length + end.len()).unwrap_or_default();
    if behind.get(section.len()..).unwrap_or_default().contains(begin) {
        return Err("there are several encrypted private keys".to_owned());
    }
    if password.is_empty() {
        return Err("the private key is encrypted: a password is needed".to_owned());
    }
    let (_, document) = SecretDocument::from_pem(section)
        .map_err(|error| format!("the encrypted private key is damaged: {error}"))?;
    decrypt(document.as_bytes(), password).map(Some)
}

fn decrypt(der: &[u8], password: &str) -> Result<PrivateKeyDer<'static>, String> {
    let info = EncryptedPrivateKeyInfoRef::try_from(der)
        .map_err(|error| format!("the encrypted private key is damaged: {error}"))?;
    let decrypted = info.decrypt(password).map_err(|error| {
        format!("the private key cannot be decrypted: the password is wrong, or {error}")
    })?;
    Ok(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(decrypted.as_bytes().to_vec())))
}
