//! Keys and certificates that are loaded again when their files change.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::stamps::FileStamps;
use crate::{HandshakeThreads, TlsAcceptor, TlsConnector, TlsError, TlsSettings};

/// The pause between two looks at the files.
const LOOK_PAUSE: Duration = Duration::from_secs(2);

/// What was loaded, for one port. It holds for the connections that begin later.
#[derive(Debug)]
pub struct LoadedTls {
    /// Which port it is for, in log lines.
    port: &'static str,
    settings: Arc<TlsSettings>,
    threads: HandshakeThreads,
    acceptor: watch::Sender<TlsAcceptor>,
    /// None if this side never calls another.
    connector: Option<watch::Sender<TlsConnector>>,
    stamps: FileStamps,
    /// Why the files could not be used when they were tried last.
    failure: Option<String>,
}

impl LoadedTls {
    /// Loads the files. `calls` says whether this side makes connections too.
    pub fn load(port: &'static str, settings: TlsSettings, calls: bool) -> Result<Self, TlsError> {
        let (settings, threads) = (Arc::new(settings), HandshakeThreads::default());
        // Looked at first: what changes from here on is loaded again.
        let stamps = FileStamps::of(&settings);
        let acceptor = watch::Sender::new(settings.acceptor(threads.clone())?);
        let connector = if calls {
            Some(watch::Sender::new(settings.connector(Some(threads.clone()))?))
        } else {
            None
        };
        Ok(Self { port, settings, threads, acceptor, connector, stamps, failure: None })
    }

    /// Returns what accepts connections, as it changes.
    pub fn acceptor(&self) -> watch::Receiver<TlsAcceptor> {
        self.acceptor.subscribe()
    }

    /// Returns what makes connections, as it changes; none if this side makes none.
    pub fn connector(&self) -> Option<watch::Receiver<TlsConnector>> {
        self.connector.as_ref().map(watch::Sender::subscribe)
    }

    /// Loads the files again whenever one has changed. Files that cannot be used leave what was
    /// loaded before in force.
    pub async fn follow(mut self) {
        loop {
            sleep(LOOK_PAUSE).await;
            self.look().await;
        }
    }

    async fn look(&mut self) {
        let (settings, threads) = (Arc::clone(&self.settings), self.threads.clone());
        let (known, calls) = (self.stamps.clone(), self.connector.is_some());
        let looking = spawn_blocking(move || {
            let stamps = FileStamps::of(&settings);
            (stamps != known).then(|| (stamps, load(&settings, threads, calls)))
        });
        // A panic of the loader ends its own thread, and the next look loads again.
        let Ok(Some((stamps, loaded))) = looking.await else { return };
        let port = self.port;
        match loaded {
            Ok((acceptor, connector)) => {
                self.acceptor.send_replace(acceptor);
                if let (Some(sender), Some(connector)) = (&self.connector, connector) {
                    sender.send_replace(connector);
                }
                info!(port, "keys and certificates are loaded again, for new connections");
            }
            Err(error) => {
                // The same files may be readable later, with other permissions.
                let why = error.to_string();
                if self.failure.as_ref() != Some(&why) {
                    warn!(
                        port, %error,
                        "the changed keys and certificates cannot be used: those before stay in \
                         force, and the files are tried again"
                    );
                }
                self.failure = Some(why);
                return;
            }
        }
        self.failure = None;
        self.stamps = stamps;
    }
}

fn load(
    settings: &TlsSettings,
    threads: HandshakeThreads,
    calls: bool,
) -> Result<(TlsAcceptor, Option<TlsConnector>), TlsError> {
    let connector = if calls { Some(settings.connector(Some(threads.clone()))?) } else { None };
    Ok((settings.acceptor(threads)?, connector))
}
