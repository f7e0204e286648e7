//! `zoolet serve`: one server in this process, until a signal stops it.

use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use crate::cli::ServeArgs;
use crate::logging::Log;
use crate::output::Output;
use crate::own_console::{OwnConsole, show_console};
use crate::service::Service;
use crate::supervised::{self, Numbered};
use zoolet_http::{HttpError, HttpOptions, HttpPort, PortTls};
use zoolet_server::embed::config::{self, ConfigError, HostPort, ServerConfig, TlsPort, Warning};
use zoolet_server::embed::{Reports, Server, StartError, raise_descriptor_limit};

/// The orders of a supervisor that wait: it waits for the answer to each.
const ORDERS_MAX: usize = 8;

/// Why a server does not start, or cannot go on.
#[derive(Debug, Error)]
pub(crate) enum ServeError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The HTTP port cannot be opened.
    #[error(transparent)]
    Http(HttpError),
    /// TLS of the HTTP port cannot be set up.
    #[error("cannot set up TLS for HTTP: {0}")]
    HttpTls(String),
    /// Signals cannot be handled.
    #[error("cannot handle signals: {0}")]
    Signals(io::Error),
    /// Standard output cannot be used.
    #[error("standard output cannot be used: {0}")]
    Output(io::Error),
    /// The server does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The server can no longer work.
    #[error("the server has failed: {0}")]
    Failed(String),
}

/// Runs the server that the arguments name.
pub(crate) async fn serve(args: ServeArgs, log: Log) -> Result<(), ServeError> {
    let hangups = signal(SignalKind::hangup()).map_err(ServeError::Signals)?;
    let (audited, reports) = watch::channel(None);
    let service = Arc::new(Service::default());
    tokio::spawn(reopen_on(hangups, log, reports, Arc::clone(&service)));
    raise_descriptors();
    let mut config = load(&args.config, args.id)?;
    config.start_mode = args.start_mode();
    let answers = Output::results_on_stdout().map_err(ServeError::Output)?;
    let (orders, mut given) = mpsc::channel(ORDERS_MAX);
    let stop =
        stop_requested(args.until_stdin_ends.then_some(orders)).map_err(ServeError::Signals)?;
    tokio::pin!(stop);
    info!(server = config.server_id.0, data_dir = %config.data_dir.display(), "starting");
    service.starting();
    let ports = open_http(&config).await?;
    let console = OwnConsole::of(&config);
    let server = tokio::select! {
        started = Server::start(config) => started?,
        reason = &mut stop => {
            // Like a kill: a server can be killed at any time.
            info!(reason, "stopped before it served");
            service.stopping(&reason);
            return Ok(());
        }
    };
    for port in &ports {
        port.show(server.reports());
    }
    if let (Some(console), Some(port)) = (&console, ports.first()) {
        show_console(console, port, &server);
    }
    audited.send_replace(Some(server.reports()));
    let failed = {
        let report = service.report(&server);
        tokio::pin!(report);
        loop {
            tokio::select! {
                reason = &mut stop => {
                    info!(reason, "stopping");
                    service.stopping(&reason);
                    break None;
                }
                why = server.failed() => break Some(why),
                Some(order) = given.recv() => order.carry_out(&server, &answers),
                never = &mut report => match never {},
            }
        }
    };
    match failed {
        None => {
            server.shutdown().await;
            info!("stopped");
            Ok(())
        }
        Some(why) => Err(ServeError::Failed(why)),
    }
}

/// Raises the soft limit of open files to the hard one: many systems start programs with 1024.
fn raise_descriptors() {
    match raise_descriptor_limit() {
        Ok((before, after)) if before != after => {
            info!(before, after, "raised the limit of open files (ulimit -n)");
        }
        Ok(_) => {}
        Err(error) => warn!(%error, "cannot raise the limit of open files (ulimit -n)"),
    }
}

/// Opens the HTTP ports that the configuration names. They answer while the server still starts.
async fn open_http(config: &ServerConfig) -> Result<Vec<HttpPort>, ServeError> {
    let failed = |error: HttpError| match &error {
        HttpError::Tls(why) => ServeError::HttpTls(config.tls.http.describe(why, TlsPort::Http)),
        HttpError::Listen { .. } | _ => ServeError::Http(error),
    };
    let mut ports = Vec::new();
    for options in http_options(config) {
        let spoken = match &options.tls {
            None => "HTTP",
            Some(tls) if tls.accepts_plain => "HTTP and HTTPS",
            Some(_) => "HTTPS",
        };
        let port = HttpPort::open(options).await.map_err(failed)?;
        info!(address = %port.local_addr(), "listening for {spoken}");
        ports.push(port);
    }
    Ok(ports)
}

fn http_options(config: &ServerConfig) -> Vec<HttpOptions> {
    let options = |bind: &HostPort, command_url: Option<String>| {
        let mut options = HttpOptions::new(bind.to_string());
        options.command_url = command_url;
        options.connections_max = config.http.connections_max;
        options.idle_timeout = Duration::from_millis(config.http.idle_timeout_ms.into());
        options.snapshots = config.http.snapshots;
        let interval_ms = config.http.snapshot_interval_ms;
        options.snapshot_interval = Duration::from_millis(interval_ms.into());
        options
    };
    let command_url = || Some(config.http.command_url.clone());
    let all = config.http_bind.iter().map(|bind| {
        let mut options = options(bind, command_url());
        options.tls = config.speaks_https().then(|| PortTls {
            settings: config.tls.http.settings(),
            accepts_plain: config.tls.http_port_unification && !config.tls.http_enabled,
            reload: config.tls.http.reload,
        });
        options
    });
    let metrics = config.metrics_bind.iter().map(|bind| options(bind, None));
    all.chain(metrics).collect()
}

/// Reads the configuration, and logs what of it is not applicable.
pub(crate) fn load(path: &Path, id: Option<u8>) -> Result<ServerConfig, ConfigError> {
    let (config, warnings) = config::load(path, id)?;
    log_all(&warnings);
    Ok(config)
}

/// Logs what of a configuration is not applicable.
pub(crate) fn log_all(warnings: &[Warning]) {
    for warning in warnings {
        warn!("{warning}");
    }
}

/// Opens the log file and the audit log again at each SIGHUP, which would end the process otherwise.
async fn reopen_on(
    mut hangups: Signal,
    log: Log,
    server: watch::Receiver<Option<Reports>>,
    service: Arc<Service>,
) {
    while hangups.recv().await.is_some() {
        let reports = server.borrow().clone();
        service.reload(|| reopen(&log, reports.as_ref()));
    }
}

fn reopen(log: &Log, server: Option<&Reports>) {
    // Both logs report the result themselves: they are opened after the lines that wait.
    let is_audited = server.is_some_and(Reports::reopen_audit_log);
    if log.reopen().is_none() && !is_audited {
        info!("SIGHUP ignored: the server does not log to a file");
    }
}

/// Becomes ready when something asks the process to stop, and returns what; the handlers are in
/// place when this returns. With a place for orders, the end of standard input is such a request.
fn stop_requested(
    orders: Option<mpsc::Sender<Numbered>>,
) -> io::Result<impl Future<Output = String>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM".to_owned(),
            _ = interrupt.recv() => "SIGINT".to_owned(),
            Some(reason) = stdin_ends(orders) => reason,
        }
    })
}

async fn stdin_ends(orders: Option<mpsc::Sender<Numbered>>) -> Option<String> {
    Some(supervised::input_ends(tokio::io::stdin(), orders?).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_of_http_reaches_a_port() {
        assert!(http_options(&ServerConfig::default()).is_empty(), "it is off by default");
        let http_bind = Some(HostPort::new("127.0.0.1", 8080));
        let base = ServerConfig { http_bind, ..ServerConfig::default() };
        let before = http_options(&base);
        assert_eq!(before, [HttpOptions::new("127.0.0.1:8080")], "the defaults are the same");
        let changes: [fn(&mut ServerConfig); 9] = [
            |config| config.http_bind = None,
            |config| config.metrics_bind = Some(HostPort::new("127.0.0.1", 7000)),
            |config| config.http.connections_max += 1,
            |config| config.http.idle_timeout_ms += 1,
            |config| config.http.command_url.push('x'),
            |config| config.http.snapshots = false,
            |config| config.http.snapshot_interval_ms += 1,
            |config| config.tls.http_enabled = true,
            |config| config.tls.http_port_unification = true,
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut changed = base.clone();
            change(&mut changed);
            assert_ne!(http_options(&changed), before, "change {at}");
        }
    }

    #[test]
    fn tls_is_for_the_port_that_is_not_for_metrics_alone() {
        let base = ServerConfig {
            http_bind: Some(HostPort::new("127.0.0.1", 8080)),
            metrics_bind: Some(HostPort::new("127.0.0.1", 7000)),
            ..ServerConfig::default()
        };
        let tls = |is_enabled: bool, is_unified: bool| {
            let mut config = base.clone();
            (config.tls.http_enabled, config.tls.http_port_unification) = (is_enabled, is_unified);
            config.tls.http.reload = true;
            config.tls.http.key_store.file = Some("key.pem".into());
            let mut all = http_options(&config);
            assert_eq!(all.pop().unwrap().tls, None, "metrics alone");
            all.pop().unwrap().tls
        };
        assert_eq!(tls(false, false), None);
        let unified = tls(false, true).unwrap();
        assert!(unified.accepts_plain && unified.reload);
        assert_eq!(unified.settings.key_store.unwrap().location.to_str(), Some("key.pem"));
        assert!(!tls(true, false).unwrap().accepts_plain);
        assert!(!tls(true, true).unwrap().accepts_plain, "TLS alone counts");
    }
}
