//! `zoolet console`: the web console of any ensemble, until a signal stops it.

use std::fs;
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};
use zoolet_client::ConnectString;
use zoolet_client::tls::{Password, StoreFile, TlsError, TlsOptions};
use zoolet_console::{ConsoleOptions, ConsolePort, ConsolePortError, PortTls, SharedConnector};
use zoolet_tls::{ClientAuth, TlsSettings};

use crate::cli::ConsoleArgs;
use crate::output::{Output, failure_of};

/// Why the console cannot be served.
#[derive(Debug, Error)]
pub(crate) enum ConsoleError {
    /// The servers are named wrongly.
    #[error("--connect: {0}")]
    Connect(zoolet_client::Error),
    /// More HTTP ports are named than servers.
    #[error(
        "--http names {http} servers, and --connect {servers}: one for each, in the same order"
    )]
    Http { http: usize, servers: usize },
    /// The certificates cannot be used.
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    /// The file with their password cannot be read.
    #[error("{}: {source}", path.display())]
    Password { path: PathBuf, source: io::Error },
    /// The address is taken.
    #[error(transparent)]
    Port(#[from] ConsolePortError),
    /// An HTTP port speaks TLS, and it is not said whom to trust.
    #[error(
        "--http names https://{0}: it needs --trust-store with the authorities of its certificate"
    )]
    Https(String),
    /// Signals cannot be handled.
    #[error("cannot handle signals: {0}")]
    Signals(io::Error),
    /// The address cannot be printed.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
}

/// Serves the console.
pub(crate) async fn console(args: ConsoleArgs) -> Result<(), ConsoleError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(ConsoleError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ConsoleError::Signals)?;
    let (listen, until_stdin_ends) = (args.listen.clone(), args.until_stdin_ends);
    let tls = port_tls(&args)?;
    let (scheme, asks) = match &tls {
        Some(tls) => ("https", tls.settings.client_auth == ClientAuth::Need),
        None => ("http", false),
    };
    let port = ConsolePort::open(&listen, options(args)?, tls).await?;
    let address = port.local_addr();
    if !address.ip().is_loopback() && scheme == "http" {
        warn!(%address, "the console is not encrypted, and everyone who reaches it sees the ensemble");
    } else if !address.ip().is_loopback() && !asks {
        warn!(%address, "everyone who reaches the console sees the ensemble");
    }
    let line = format!("console: {scheme}://{address}/console/\n");
    let stdout = Output::results_on_stdout().map_err(ConsoleError::Output)?;
    let printing = failure_of(stdout.print(line.as_bytes()));
    tokio::select! {
        error = printing => return Err(ConsoleError::Output(error)),
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = stdin_ends(until_stdin_ends) => {}
    }
    info!("stopped");
    Ok(())
}

/// TLS of the console's own port.
fn port_tls(args: &ConsoleArgs) -> Result<Option<PortTls>, ConsoleError> {
    let Some(key_store) = &args.tls_key_store else { return Ok(None) };
    let store = stores(args.tls_password_file.as_deref())?;
    let mut settings = TlsSettings::default();
    settings.key_store = Some(store(key_store));
    settings.trust_store = args.tls_trust_store.as_deref().map(store);
    settings.revocations.clone_from(&args.tls_crl_file);
    settings.client_auth =
        if settings.trust_store.is_some() { ClientAuth::Need } else { ClientAuth::None };
    Ok(Some(PortTls { settings, accepts_plain: false, reload: true }))
}

fn options(args: ConsoleArgs) -> Result<ConsoleOptions, ConsoleError> {
    let servers: ConnectString = args.connect.parse().map_err(ConsoleError::Connect)?;
    let http = args.http.unwrap_or_default();
    if http.count() > servers.addresses().len() {
        let (http, servers) = (http.count(), servers.addresses().len());
        return Err(ConsoleError::Http { http, servers });
    }
    let mut options = ConsoleOptions::new(servers);
    options.http = http;
    options.logins = !args.read_only;
    options.tls_name = args.behind_tls;
    options.watches_always = true;
    if let Some(trust_store) = &args.trust_store {
        let store = stores(args.store_password_file.as_deref())?;
        let mut tls = TlsOptions::new()
            .trust_store(store(trust_store))
            .verify_server_name(!args.any_server_name);
        if let Some(key_store) = &args.key_store {
            tls = tls.key_store(store(key_store));
        }
        let connector = tls.connector()?;
        options.https_connector = Some(SharedConnector::new(connector.clone()));
        options = options.connector(connector);
        options.is_tls = true;
    } else if let Some(address) = options.http.first_https() {
        return Err(ConsoleError::Https(address.to_owned()));
    }
    Ok(options)
}

/// Returns what makes stores of files, with the password that they share.
fn stores(password_file: Option<&Path>) -> Result<impl Fn(&Path) -> StoreFile, ConsoleError> {
    let password = password_file.map(password).transpose()?.unwrap_or_default();
    Ok(move |file: &Path| {
        let mut store = StoreFile::new(file);
        store.password = Password::new(password.as_str());
        store
    })
}

/// Reads a password: the first line of its file.
fn password(path: &Path) -> Result<String, ConsoleError> {
    let text = fs::read_to_string(path)
        .map_err(|source| ConsoleError::Password { path: path.to_owned(), source })?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

async fn stdin_ends(is_watched: bool) {
    if !is_watched {
        return pending().await;
    }
    let mut input = tokio::io::stdin();
    let mut bytes = [0; 256];
    // An error is an end as well.
    while input.read(&mut bytes).await.is_ok_and(|read| read > 0) {}
}
