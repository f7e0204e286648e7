//! Keys and certificates that are loaded again when their files change.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::in_force::CertificatesInForce;
use crate::stamps::FileStamps;
use crate::{HandshakeThreads, TlsAcceptor, TlsConnector, TlsError, TlsSettings};

/// The pause between two looks at the files.
const LOOK_PAUSE: Duration = Duration::from_secs(2);

/// The pause between two warnings that certificates expire.
const WARN_PAUSE: Duration = Duration::from_hours(24);

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
    certificates: watch::Sender<CertificatesInForce>,
    stamps: FileStamps,
    /// Why the files could not be used when they were tried last, and when that was logged.
    failure: Option<(String, Instant)>,
}

impl LoadedTls {
    /// Loads the files, and logs which certificates have expired or soon will. `calls` is whether this
    /// side makes connections too.
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
        let certificates = CertificatesInForce::load(&settings, port);
        certificates.log(port);
        let certificates = watch::Sender::new(certificates);
        Ok(Self {
            port,
            settings,
            threads,
            acceptor,
            connector,
            certificates,
            stamps,
            failure: None,
        })
    }

    /// Returns the certificates that were loaded, as they change.
    pub fn certificates(&self) -> watch::Receiver<CertificatesInForce> {
        self.certificates.subscribe()
    }

    /// Returns what accepts connections, as it changes.
    pub fn acceptor(&self) -> watch::Receiver<TlsAcceptor> {
        self.acceptor.subscribe()
    }

    /// Returns what makes connections, as it changes; none if this side makes none.
    pub fn connector(&self) -> Option<watch::Receiver<TlsConnector>> {
        self.connector.as_ref().map(watch::Sender::subscribe)
    }

    /// Warns once a day of certificates that have expired or soon will. With `reloads`, loads the
    /// files again whenever one has changed. Files that cannot be used, or whose certificates are not
    /// valid now while those before are, leave what was loaded before in force.
    pub async fn follow(mut self, reloads: bool) {
        let mut warned_at = Instant::now();
        loop {
            sleep(LOOK_PAUSE).await;
            if reloads {
                self.look().await;
            }
            if warned_at.elapsed() >= WARN_PAUSE {
                warned_at = Instant::now();
                self.certificates.borrow().log(self.port);
            }
        }
    }

    async fn look(&mut self) {
        let (settings, threads) = (Arc::clone(&self.settings), self.threads.clone());
        let (known, calls) = (self.stamps.clone(), self.connector.is_some());
        let (port, in_force) = (self.port, self.certificates.borrow().clone());
        let looking = spawn_blocking(move || {
            let stamps = FileStamps::of(&settings);
            if stamps == known {
                return None;
            }
            let loaded = load((port, &settings), threads, calls, &in_force);
            // Files that change in the meantime are loaded by the next look, all at one state.
            (stamps == FileStamps::of(&settings)).then_some((stamps, loaded))
        });
        // A panic of the loader ends its own thread, and the next look loads again.
        let Ok(Some((stamps, loaded))) = looking.await else { return };
        match loaded {
            Ok(Loaded { acceptor, connector, certificates }) => {
                self.acceptor.send_replace(acceptor);
                if let (Some(sender), Some(connector)) = (&self.connector, connector) {
                    sender.send_replace(connector);
                }
                info!(port, "keys and certificates are loaded again, for new connections");
                certificates.log(port);
                self.certificates.send_replace(certificates);
            }
            Err(error) => {
                // The same files may be readable later, with other permissions.
                let why = error.to_string();
                let is_known =
                    |(known, at): &(String, Instant)| *known == why && at.elapsed() < WARN_PAUSE;
                if !self.failure.as_ref().is_some_and(is_known) {
                    warn!(
                        port, %error,
                        "the changed keys and certificates cannot be used: those before stay in \
                         force, and the files are tried again"
                    );
                    self.failure = Some((why, Instant::now()));
                }
                return;
            }
        }
        self.failure = None;
        self.stamps = stamps;
    }
}

/// The result of loading the files once.
struct Loaded {
    acceptor: TlsAcceptor,
    connector: Option<TlsConnector>,
    certificates: CertificatesInForce,
}

fn load(
    (port, settings): (&'static str, &TlsSettings),
    threads: HandshakeThreads,
    calls: bool,
    in_force: &CertificatesInForce,
) -> Result<Loaded, TlsError> {
    let connector = if calls { Some(settings.connector(Some(threads.clone()))?) } else { None };
    let acceptor = settings.acceptor(threads)?;
    let certificates = CertificatesInForce::load(settings, port);
    if let Some(why) = certificates.worse_than(in_force) {
        return Err(TlsError::Setting(why));
    }
    Ok(Loaded { acceptor, connector, certificates })
}
