//! PKCS#12, as Java, `openssl` and others write it.

use p12_keystore::Pkcs12Archive;
use p12_keystore::error::Error;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{KeyEntry, NO_PASSWORD};

/// Returns the private key and its chain.
pub(super) fn key(bytes: &[u8], password: &str) -> Result<KeyEntry, String> {
    let archive = open(bytes, password)?;
    let [entry] = archive.keys.as_slice() else {
        return Err(match archive.keys.len() {
            0 => "no private key in the store".to_owned(),
            count => format!("{count} private keys in the store: expected one"),
        });
    };
    let owner = |id: Option<&Vec<u8>>| {
        id.is_some_and(|id| {
            entry.local_key_id.as_ref().is_some_and(|key| key.as_ref() == id.as_slice())
        })
    };
    let certs = &archive.certs;
    // Without ids, a store with one certificate leaves no doubt.
    let own = certs.iter().find(|cert| owner(cert.local_key_id.as_ref().map(AsRef::as_ref)));
    let own = own.or(if certs.len() == 1 { certs.first() } else { None });
    let own = own.ok_or("the private key in the store has no certificate")?;
    let mut chain = vec![own.cert.clone()];
    while let Some(last) = chain.last()
        && last.issuer() != last.subject()
        && let Some(issuer) = certs.iter().find(|cert| cert.cert.subject() == last.issuer())
        && !chain.contains(&issuer.cert)
    {
        chain.push(issuer.cert.clone());
    }
    let chain = chain.iter().map(|cert| CertificateDer::from(cert.as_der().to_vec())).collect();
    let key = PrivatePkcs8KeyDer::from(entry.key.as_der().to_vec());
    Ok(KeyEntry { chain, key: PrivateKeyDer::Pkcs8(key) })
}

/// Returns the certificates that Java has marked as trusted; if none is, those without a key.
pub(super) fn trusted(
    bytes: &[u8],
    password: &str,
) -> Result<Vec<CertificateDer<'static>>, String> {
    let certs = open(bytes, password)?.certs;
    let any_marked = certs.iter().any(|cert| cert.trusted);
    let trusted = certs
        .iter()
        .filter(|cert| if any_marked { cert.trusted } else { cert.local_key_id.is_none() });
    Ok(trusted.map(|cert| CertificateDer::from(cert.cert.as_der().to_vec())).collect())
}

fn open(bytes: &[u8], password: &str) -> Result<Pkcs12Archive, String> {
    Pkcs12Archive::from_pkcs12(bytes, password).map_err(|error| {
        if matches!(error, Error::MacError(_)) && password.is_empty() {
            NO_PASSWORD.to_owned()
        } else if matches!(error, Error::MacError(_)) {
            "the password is wrong, or the store is damaged".to_owned()
        } else {
            format!("not a PKCS12 store, or damaged: {error}")
        }
    })
}
