//! JKS, Java's own format.
//!
//! ```text
//! magic feedfeed (4) · version (4) · count (4) · entries · SHA-1 (20)
//! key entry          1 (4) · alias · time (8) · length (4) · encrypted key · chain count (4) · chain
//! trusted entry      2 (4) · alias · time (8) · certificate
//! certificate        type "X.509", in version 2 · length (4) · DER
//! ```
//!
//! A string is a length (2) and bytes. The digest at the end is that of the password in UTF-16, of
//! a fixed text and of everything before. A key is hidden by XOR with a chain of SHA-1 digests that begins
//! with the password and a salt, and its own digest follows it.

use bytes::{Buf, Bytes};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha1::{Digest, Sha1};
use x509_parser::der_parser::asn1_rs::Oid;

use super::{KeyEntry, NO_PASSWORD};

const MAGIC: u32 = 0xfeed_feed;
/// The magic of JCEKS, which holds keys that are encrypted in another way.
const MAGIC_JCEKS: u32 = 0xcece_cece;

const DIGEST_BYTES: usize = 20;

/// What the digest of the file is made of, between the password and the file.
const WHITENER: &[u8] = b"Mighty Aphrodite";

/// The algorithm of encrypted keys.
const KEY_PROTECTOR: &str = "1.3.6.1.4.1.42.2.17.1.1";

#[derive(Debug)]
enum Entry {
    Key { alias: String, encrypted: Bytes, chain: Vec<CertificateDer<'static>> },
    Trusted(CertificateDer<'static>),
}

/// Returns the private key and its chain.
pub(super) fn key(bytes: &[u8], password: &str) -> Result<KeyEntry, String> {
    let mut keys = entries(bytes, password)?.into_iter().filter_map(|entry| match entry {
        Entry::Key { alias, encrypted, chain } => Some((alias, encrypted, chain)),
        Entry::Trusted(_) => None,
    });
    let (alias, encrypted, chain) = keys.next().ok_or("no private key in the store")?;
    if let Some((other, ..)) = keys.next() {
        return Err(format!(
            "several private keys in the store, {alias} and {other}: expected one"
        ));
    }
    if chain.is_empty() {
        return Err(format!("entry {alias}: the private key has no certificate"));
    }
    let key = decrypt(&encrypted, password).map_err(|why| format!("entry {alias}: {why}"))?;
    Ok(KeyEntry { chain, key: PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)) })
}

/// Returns the certificates that are trusted.
pub(super) fn trusted(
    bytes: &[u8],
    password: &str,
) -> Result<Vec<CertificateDer<'static>>, String> {
    let entries = entries(bytes, password)?.into_iter();
    let trusted = entries.filter_map(|entry| match entry {
        Entry::Trusted(certificate) => Some(certificate),
        Entry::Key { .. } => None,
    });
    Ok(trusted.collect())
}

fn entries(bytes: &[u8], password: &str) -> Result<Vec<Entry>, String> {
    let end = || "the store ends in the middle of an entry: it is damaged".to_owned();
    let Some((content, digest)) = bytes.split_last_chunk::<DIGEST_BYTES>() else {
        return Err("not a JKS store: too short".to_owned());
    };
    let mut input = Bytes::copy_from_slice(content);
    match input.try_get_u32() {
        Ok(MAGIC) => {}
        Ok(MAGIC_JCEKS) => {
            return Err("JCEKS is not supported: convert the store to PKCS12".to_owned());
        }
        _ => return Err("not a JKS store: it does not begin with feedfeed".to_owned()),
    }
    // Without a password the digest cannot be checked.
    if !password.is_empty() && !is_digest(digest, content, password) {
        return Err("the password is wrong, or the store is damaged".to_owned());
    }
    let version = input.try_get_u32().map_err(|_| end())?;
    if version != 1 && version != 2 {
        return Err(format!("JKS of version {version} is unknown: expected 1 or 2"));
    }
    let count = input.try_get_u32().map_err(|_| end())?;
    let mut entries = Vec::new();
    for place in 1..=count {
        let entry = entry(&mut input, version).ok_or_else(end)?;
        entries.push(entry.map_err(|why| format!("entry {place}: {why}"))?);
    }
    Ok(entries)
}

fn is_digest(digest: &[u8; DIGEST_BYTES], content: &[u8], password: &str) -> bool {
    let mut hash = Sha1::new();
    hash.update(utf16(password));
    hash.update(WHITENER);
    hash.update(content);
    hash.finalize().as_slice() == digest
}

/// Reads an entry; `None` if the input ends before it does.
fn entry(input: &mut Bytes, version: u32) -> Option<Result<Entry, String>> {
    let tag = input.try_get_u32().ok()?;
    let alias = String::from_utf8_lossy(&text(input)?).into_owned();
    let _created = input.try_get_u64().ok()?;
    match tag {
        1 => {
            let encrypted = part(input)?;
            let count = input.try_get_u32().ok()?;
            let mut chain = Vec::new();
            for _ in 0..count {
                match certificate(input, version)? {
                    Ok(certificate) => chain.push(certificate),
                    Err(why) => return Some(Err(why)),
                }
            }
            Some(Ok(Entry::Key { alias, encrypted, chain }))
        }
        2 => Some(certificate(input, version)?.map(Entry::Trusted)),
        tag => Some(Err(format!("unknown kind {tag}"))),
    }
}

fn certificate(input: &mut Bytes, version: u32) -> Option<Result<CertificateDer<'static>, String>> {
    if version == 2 {
        let kind = text(input)?;
        if &*kind != b"X.509" {
            let kind = String::from_utf8_lossy(&kind).into_owned();
            return Some(Err(format!("a certificate of the unknown type {kind}")));
        }
    }
    Some(Ok(CertificateDer::from(part(input)?.to_vec())))
}

fn text(input: &mut Bytes) -> Option<Bytes> {
    let length = usize::from(input.try_get_u16().ok()?);
    (length <= input.len()).then(|| input.split_to(length))
}

fn part(input: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(input.try_get_u32().ok()?).ok()?;
    (length <= input.len()).then(|| input.split_to(length))
}

/// Returns the key, in PKCS#8.
fn decrypt(encrypted: &[u8], password: &str) -> Result<Vec<u8>, String> {
    let info = EncryptedKey::parse(encrypted)?;
    let (salt, rest) =
        info.data.split_first_chunk::<DIGEST_BYTES>().ok_or("the private key is damaged")?;
    let (hidden, check) =
        rest.split_last_chunk::<DIGEST_BYTES>().ok_or("the private key is damaged")?;
    let is_given = !password.is_empty();
    let password = utf16(password);
    let mut key = Vec::with_capacity(hidden.len());
    let mut mask: [u8; DIGEST_BYTES] = *salt;
    for block in hidden.chunks(DIGEST_BYTES) {
        mask = Sha1::new().chain_update(&password).chain_update(mask).finalize().into();
        key.extend(block.iter().zip(mask).map(|(byte, mask)| byte ^ mask));
    }
    let digest = Sha1::new().chain_update(&password).chain_update(&key).finalize();
    if digest.as_slice() != check && !is_given {
        return Err(NO_PASSWORD.to_owned());
    }
    if digest.as_slice() != check {
        return Err("the password of the private key is wrong, or the key is damaged: it must be \
                    that of the store"
            .to_owned());
    }
    Ok(key)
}

/// The encrypted part of an `EncryptedPrivateKeyInfo` whose algorithm is Java's own.
struct EncryptedKey<'a> {
    data: &'a [u8],
}

impl<'a> EncryptedKey<'a> {
    fn parse(der: &'a [u8]) -> Result<Self, String> {
        let damaged = |_| "the private key is damaged".to_owned();
        let (_, info) = x509_parser::der_parser::parse_der(der)
            .map_err(|_| "the private key is damaged".to_owned())?;
        let parts = info.as_sequence().map_err(damaged)?;
        let [algorithm, data] = parts.as_slice() else {
            return Err("the private key is damaged".to_owned());
        };
        let algorithm = algorithm.as_sequence().map_err(damaged)?;
        let oid = algorithm.first().and_then(|first| first.as_oid().ok());
        match oid.map(Oid::to_id_string) {
            Some(oid) if oid == KEY_PROTECTOR => {}
            Some(oid) => return Err(format!("the private key has the unknown encryption {oid}")),
            None => return Err("the private key is damaged".to_owned()),
        }
        Ok(Self { data: data.as_slice().map_err(damaged)? })
    }
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}
