//! What TLS needs from files: loaded at the start, and again when they change.

use zoolet_tls::{LoadedTls, TlsSettings};

use super::StartError;
use crate::config::{TlsPort, TlsSide};
use crate::fatal::Fatal;

/// Loads keys and certificates, which reads files. Servers call each other, and no clients.
pub(super) async fn load(
    port: &'static str,
    settings: Option<TlsSettings>,
    side: &TlsSide,
    is_peer: bool,
) -> Result<Option<LoadedTls>, StartError> {
    let Some(settings) = settings else { return Ok(None) };
    let loading = tokio::task::spawn_blocking(move || LoadedTls::load(port, settings, is_peer));
    let of = if is_peer { TlsPort::Servers } else { TlsPort::Clients };
    let loaded = loading.await.map_err(|error| StartError::Failed(error.to_string()))?;
    loaded.map(Some).map_err(|error| StartError::Tls(port, side.describe(&error, of)))
}

/// Loads keys and certificates again whenever their files change.
pub(super) async fn follow(fatal: Fatal, loaded: Option<LoadedTls>) {
    if let Some(loaded) = loaded {
        fatal.endless("reload of certificates", loaded.follow()).await;
    }
}
