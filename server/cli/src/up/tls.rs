//! Certificates for an ensemble on this machine: an authority of its own, and a key store each for the
//! servers and for a client. They are for trials: every reader of the directory can act as a server.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use zoolet_server::embed::config::{ClientAuth, ServerConfig, StoreConfig};

/// Writes a file with these rights, durably.
pub(super) type Write = fn(&Path, &str, u32) -> io::Result<()>;

/// A file that cannot be made, and why.
pub(super) type FileError = (PathBuf, io::Error);

/// The directory of the certificates, in that of the ensemble.
const DIRECTORY: &str = "tls";

/// What a client trusts, what it shows, and the same in two files for clients that want that.
const TRUST_STORE: &str = "ca.pem";
const CLIENT: &str = "client";
const SERVER: &str = "server";

/// Keys are for the owner's eyes only.
const KEY_MODE: u32 = 0o600;
const CERTIFICATE_MODE: u32 = 0o644;

/// How servers and clients on this machine call a server.
const HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The files that a client needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientFiles {
    pub(super) trust_store: PathBuf,
    pub(super) key_store: PathBuf,
}

impl ClientFiles {
    /// Returns those of an ensemble, if it was started with TLS.
    pub(super) fn of(directory: &Path) -> Option<Self> {
        let files = Self {
            trust_store: directory.join(DIRECTORY).join(TRUST_STORE),
            key_store: directory.join(DIRECTORY).join(format!("{CLIENT}.pem")),
        };
        (files.trust_store.is_file() && files.key_store.is_file()).then_some(files)
    }
}

/// Has the servers speak TLS to each other, and clients on the ports that they have, where they may
/// speak plain text too. The files are made unless an earlier start has made them.
pub(super) fn set_up(
    directory: &Path,
    configs: &mut [ServerConfig],
    write: Write,
) -> Result<(), FileError> {
    if ClientFiles::of(directory).is_none() {
        make(&directory.join(DIRECTORY), write)?;
    }
    // Relative to the file that names them, so that the directory can be moved.
    let store = |name: &str| StoreConfig {
        file: Some(Path::new(DIRECTORY).join(name)),
        ..StoreConfig::default()
    };
    for config in configs {
        let tls = &mut config.tls;
        tls.client_port_unification = true;
        tls.client.client_auth = ClientAuth::Want;
        tls.peer_enabled = true;
        for side in [&mut tls.client, &mut tls.peer] {
            side.key_store = store(&format!("{SERVER}.pem"));
            side.trust_store = store(TRUST_STORE);
        }
    }
    Ok(())
}

fn make(directory: &Path, write: Write) -> Result<(), FileError> {
    let error = |source: io::Error| (directory.to_owned(), source);
    fs::create_dir_all(directory).map_err(error)?;
    let made = authority().map_err(|source| error(io::Error::other(source)))?;
    // The authority is last: without it, all are made anew.
    let mut files =
        issue(&made, SERVER, &HOSTS).map_err(|source| error(io::Error::other(source)))?;
    files.extend(issue(&made, CLIENT, &[]).map_err(|source| error(io::Error::other(source)))?);
    files.push((TRUST_STORE.to_owned(), made.pem(), CERTIFICATE_MODE));
    for (name, text, mode) in files {
        let path = directory.join(name);
        write(&path, &text, mode).map_err(|source| (path, source))?;
    }
    Ok(())
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "zoolet up");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

/// Makes the key and the certificate `CN=name`: the names of files, their texts and their rights.
fn issue(
    authority: &CertifiedIssuer<'static, KeyPair>,
    name: &str,
    hosts: &[&str],
) -> Result<Vec<(String, String, u32)>, rcgen::Error> {
    let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name.push(DnType::CommonName, name);
    // A server calls the others, and shows them the same certificate.
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, authority)?.pem();
    let key = key.serialize_pem();
    Ok(vec![
        (format!("{name}.pem"), format!("{key}{certificate}"), KEY_MODE),
        (format!("{name}.key"), key, KEY_MODE),
        (format!("{name}.crt"), certificate, CERTIFICATE_MODE),
    ])
}
