//! Stores that `openssl` and `keytool` have written (`tests/stores`, password `secret`), whole and
//! damaged.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use zoolet_tls::{Password, StoreFile, StoreType, TlsError, subject_name};

const STORES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stores");
const KEYS: [&str; 5] = ["encrypted.pem", "java.p12", "key.jks", "legacy.p12", "openssl.p12"];
const TRUSTED: [&str; 3] = ["ca.pem", "trust.jks", "trust.p12"];

fn path(name: &str) -> PathBuf {
    Path::new(STORES).join(name)
}

fn store(name: &str, password: &str) -> StoreFile {
    StoreFile { password: Password::new(password), ..StoreFile::new(path(name)) }
}

fn key_error(store: &StoreFile) -> String {
    store.load_key().unwrap_err().to_string()
}

#[test]
fn every_format_holds_the_same_key() {
    let plain = store("key.pem", "").load_key().unwrap();
    let PrivateKeyDer::Pkcs8(expected) = &plain.key else { unreachable!("openssl writes PKCS#8") };
    for name in KEYS {
        let entry = store(name, "secret").load_key().unwrap();
        let PrivateKeyDer::Pkcs8(key) = &entry.key else { unreachable!("{name}") };
        assert_eq!(key.secret_pkcs8_der(), expected.secret_pkcs8_der(), "{name}");
        assert_eq!(entry.chain[0], plain.chain[0], "{name}");
        let ca = CertificateDer::from_pem_file(path("ca.pem")).unwrap();
        let has_issuer = name != "encrypted.pem";
        assert_eq!(entry.chain.get(1), has_issuer.then_some(&ca), "{name}");
    }
}

#[test]
fn every_format_holds_what_is_trusted() {
    let ca = CertificateDer::from_pem_file(path("ca.pem")).unwrap();
    for name in TRUSTED {
        assert_eq!(
            store(name, "secret").load_trusted().unwrap(),
            std::slice::from_ref(&ca),
            "{name}"
        );
    }
    // A key's own chain vouches for others only if it was imported for that.
    let why = store("key.jks", "secret").load_trusted().unwrap_err().to_string();
    assert!(why.ends_with("key.jks: the store has no trusted certificate"), "{why}");
}

#[test]
fn a_wrong_password_is_named() {
    for name in KEYS {
        let why = key_error(&store(name, "wrong"));
        assert!(why.contains(name) && why.contains("password"), "{why}");
    }
    for name in KEYS {
        let error = store(name, "").load_key().unwrap_err();
        assert!(matches!(error, TlsError::NoPassword { .. }), "{error:?}");
        let why = error.to_string();
        assert!(why.contains("password") && !why.contains("is wrong"), "{why}");
    }
    let why = key_error(&store("encrypted.pem", ""));
    assert!(why.ends_with("the private key is encrypted: a password is needed"), "{why}");
}

#[test]
fn several_keys_in_one_file_are_refused() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("two.pem");
    for (name, expected) in [("encrypted.pem", "several encrypted"), ("key.pem", "several")] {
        let one = fs::read_to_string(path(name)).unwrap();
        fs::write(&file, one.repeat(2)).unwrap();
        let why = key_error(&StoreFile { location: file.clone(), ..store("", "secret") });
        assert!(why.contains("two.pem") && why.contains(expected), "{why}");
    }
}

#[test]
fn a_password_can_be_in_a_file() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("password");
    fs::write(&file, "secret\n").unwrap();
    let with = |file: &Path| StoreFile {
        password_file: Some(file.to_owned()),
        ..store("key.jks", "not this one")
    };
    with(&file).load_key().unwrap();
    let missing = directory.path().join("missing");
    let why = key_error(&with(&missing));
    assert!(why.contains("missing: cannot be read"), "{why}");
}

#[test]
fn the_format_comes_from_the_name_or_from_the_type() {
    let directory = TempDir::new().unwrap();
    let renamed = directory.path().join("server.key");
    fs::copy(path("key.jks"), &renamed).unwrap();
    let mut renamed = StoreFile { location: renamed, ..store("", "secret") };
    let why = key_error(&renamed);
    assert!(why.contains("expected a name that ends in .pem, .p12 or .jks"), "{why}");
    renamed.store_type = Some(StoreType::Jks);
    renamed.load_key().unwrap();
    renamed.store_type = Some(StoreType::Pkcs12);
    assert!(key_error(&renamed).contains("not a PKCS12 store, or damaged"));
    let why = key_error(&store("other.bcfks", ""));
    assert!(why.contains("cannot be read"), "{why}");
    assert!("bcfks".parse::<StoreType>().unwrap_err().contains("keytool"));
    assert_eq!("jks".parse(), Ok(StoreType::Jks));
}

/// A damaged store is refused, or what is left of it is whole; it never ends the program.
#[test]
fn a_damaged_store_is_an_error() {
    let directory = TempDir::new().unwrap();
    for name in KEYS.iter().chain(&TRUSTED).chain(&["key.pem"]) {
        let whole = fs::read(path(name)).unwrap();
        let file = directory.path().join(name);
        // With JKS and PKCS#12, the digest of the whole is checked.
        let is_checked = !name.ends_with("pem");
        for password in ["secret", ""] {
            let damaged = StoreFile {
                location: file.clone(),
                password: Password::new(password),
                ..StoreFile::default()
            };
            let step = if name.ends_with("jks") { 7 } else { 149 };
            for at in (0..whole.len()).step_by(step) {
                let mut bytes = whole.clone();
                bytes[at] ^= 0xff;
                fs::write(&file, &bytes).unwrap();
                let (key, trusted) = (damaged.load_key(), damaged.load_trusted());
                if is_checked && !password.is_empty() {
                    assert!(key.is_err() && trusted.is_err(), "{name}, byte {at}");
                }
                fs::write(&file, &whole[..at]).unwrap();
                let (key, trusted) = (damaged.load_key(), damaged.load_trusted());
                if is_checked {
                    assert!(key.is_err() && trusted.is_err(), "{name}, {at} bytes");
                }
            }
        }
    }
}

/// Lengths of a gigabyte in a few bytes.
#[test]
fn a_length_takes_no_memory() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("large.jks");
    for tag in [1_u32, 2] {
        let mut bytes = [0xfeed_feed_u32, 2, u32::MAX, tag].map(u32::to_be_bytes).concat();
        bytes.extend([0, 0].into_iter().chain([0xff; 40]));
        fs::write(&file, &bytes).unwrap();
        let why = StoreFile::new(&file).load_trusted().unwrap_err().to_string();
        assert!(why.contains("ends in the middle"), "{why}");
    }
}

/// `names.txt` is what Java prints for the certificates in `names.pem`.
#[test]
fn names_are_written_as_java_writes_them() {
    let expected = fs::read_to_string(path("names.txt")).unwrap();
    let certificates = CertificateDer::pem_file_iter(path("names.pem")).unwrap();
    let names: Vec<String> =
        certificates.map(|certificate| subject_name(&certificate.unwrap()).unwrap()).collect();
    assert_eq!(names, expected.lines().collect::<Vec<_>>());
    assert!(subject_name(b"no certificate").is_err());
}
