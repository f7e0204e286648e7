//! What TLS needs from files: loaded at the start, and again when they change.

use tokio::sync::watch;
use zoolet_tls::{CertificatesInForce, LoadedTls, TlsSettings};

use super::StartError;
use crate::config::{TlsPort, TlsSide};
use crate::fatal::Fatal;

/// Loads keys and certificates, which reads files. `peer_hosts` are the hosts by which the other
/// servers call this one; `None` on the port for clients.
pub(super) async fn load(
    port: &'static str,
    settings: Option<TlsSettings>,
    side: &TlsSide,
    peer_hosts: Option<Vec<String>>,
) -> Result<Option<LoadedTls>, StartError> {
    let Some(settings) = settings else { return Ok(None) };
    let of = if peer_hosts.is_some() { TlsPort::Servers } else { TlsPort::Clients };
    let loading = tokio::task::spawn_blocking(move || LoadedTls::load(port, settings, peer_hosts));
    let loaded = loading.await.map_err(|error| StartError::Failed(error.to_string()))?;
    loaded.map(Some).map_err(|error| StartError::Tls(port, side.describe(&error, of)))
}

/// The certificates of a port, as they change.
pub(super) type Certificates = (&'static str, watch::Receiver<CertificatesInForce>);

/// Returns the certificates of the port for clients and of the port for servers, with the names of
/// these ports in metrics.
pub(super) fn certificates(loaded: [&Option<LoadedTls>; 2]) -> Vec<Certificates> {
    let named = ["clients", "servers"].into_iter().zip(loaded);
    named.filter_map(|(port, loaded)| Some((port, loaded.as_ref()?.certificates()))).collect()
}

/// Warns of certificates that expire, and with `reloads` loads keys and certificates again whenever
/// their files change.
pub(super) async fn follow(fatal: Fatal, loaded: Option<LoadedTls>, reloads: bool) {
    if let Some(loaded) = loaded {
        fatal.endless("reload of certificates", loaded.follow(reloads)).await;
    }
}
