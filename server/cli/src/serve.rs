//! `zoolet serve`: one server in this process, until a signal stops it.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use crate::cli::ServeArgs;
use crate::logging::LogFile;
use crate::service::Service;
use crate::supervised::{self, Numbered};
use zoolet_console::{Console, ConsoleOptions};
use zoolet_http::{HttpError, HttpOptions, HttpPort};
use zoolet_server::embed::config::{
    self, ConfigError, HostPort, HttpConfig, ServerConfig, Warning,
};
use zoolet_server::embed::{Reports, Server, StartError};

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
    Http(#[from] HttpError),
    /// Signals cannot be handled.
    #[error("cannot handle signals: {0}")]
    Signals(io::Error),
    /// The server does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The server can no longer work.
    #[error("the server has failed: {0}")]
    Failed(String),
}

/// Runs the server that the arguments name.
pub(crate) async fn serve(args: ServeArgs, log: Option<Arc<LogFile>>) -> Result<(), ServeError> {
    let hangups = signal(SignalKind::hangup()).map_err(ServeError::Signals)?;
    let (audited, reports) = watch::channel(None);
    let service = Arc::new(Service::default());
    tokio::spawn(reopen_on(hangups, log, reports, Arc::clone(&service)));
    let mut config = load(&args.config, args.id)?;
    config.start_mode = args.start_mode();
    let (orders, mut given) = mpsc::channel(ORDERS_MAX);
    let stop =
        stop_requested(args.until_stdin_ends.then_some(orders)).map_err(ServeError::Signals)?;
    tokio::pin!(stop);
    info!(server = config.server_id.0, data_dir = %config.data_dir.display(), "starting");
    service.starting();
    let ports = open_http(&config).await?;
    let console = has_console(&config).then(|| config.http.clone());
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
    if let (Some(options), Some(port)) = (&console, ports.first()) {
        show_console(options, port, server.client_addr());
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
                Some(order) = given.recv() => order.carry_out(&server),
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

/// Opens the HTTP ports that the configuration names. They answer while the server still starts.
async fn open_http(config: &ServerConfig) -> Result<Vec<HttpPort>, HttpError> {
    let mut ports = Vec::new();
    for options in http_options(config) {
        let port = HttpPort::open(options).await?;
        info!(address = %port.local_addr(), "listening for HTTP");
        ports.push(port);
    }
    Ok(ports)
}

/// Whether the HTTP port shows a console. It is a client like any other, and the one of a server that
/// speaks TLS alone would need certificates of its own.
fn has_console(config: &ServerConfig) -> bool {
    let is_wanted = config.http_bind.is_some() && config.http.console;
    if is_wanted && config.client_is_secure {
        info!("no web console: clients speak TLS alone; use `zoolet console --trust-store`");
    }
    is_wanted && !config.client_is_secure
}

/// Shows the web console, as a client of this server; the others are in the ensemble's configuration.
fn show_console(config: &HttpConfig, port: &HttpPort, clients: SocketAddr) {
    let Ok(servers) = reached(clients).to_string().parse() else { return };
    let mut options = ConsoleOptions::new(servers);
    options.logins = config.console_logins;
    let http = port.local_addr();
    if config.command_url == "/commands"
        && let Ok(http) = reached(http).to_string().parse()
    {
        options.http = http;
    }
    port.show_console(Console::new(options, &http.port().to_string()));
    info!(address = %http, "web console at /console/");
}

/// Returns how an address is reached from this machine.
fn reached(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip @ (IpAddr::V4(_) | IpAddr::V6(_)) => ip,
    };
    SocketAddr::new(ip, address.port())
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
    let all = config.http_bind.iter().map(|bind| options(bind, command_url()));
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
    log: Option<Arc<LogFile>>,
    server: watch::Receiver<Option<Reports>>,
    service: Arc<Service>,
) {
    while hangups.recv().await.is_some() {
        let reports = server.borrow().clone();
        service.reload(|| reopen(log.as_deref(), reports.as_ref()));
    }
}

fn reopen(log: Option<&LogFile>, server: Option<&Reports>) {
    // The audit log itself says what has come of it: it is opened behind the lines that wait.
    let is_audited = server.is_some_and(Reports::reopen_audit_log);
    let Some(log) = log else {
        if !is_audited {
            info!("SIGHUP ignored: the server does not log to a file");
        }
        return;
    };
    let file = log.path().display();
    match log.reopen() {
        Ok(()) => info!(%file, "SIGHUP: the log file was opened again"),
        Err(error) => warn!(
            %file,
            %error,
            "SIGHUP: the log file cannot be opened again, the old one stays in use"
        ),
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
        let changes: [fn(&mut ServerConfig); 7] = [
            |config| config.http_bind = None,
            |config| config.metrics_bind = Some(HostPort::new("127.0.0.1", 7000)),
            |config| config.http.connections_max += 1,
            |config| config.http.idle_timeout_ms += 1,
            |config| config.http.command_url.push('x'),
            |config| config.http.snapshots = false,
            |config| config.http.snapshot_interval_ms += 1,
        ];
        for (at, change) in changes.into_iter().enumerate() {
            let mut changed = base.clone();
            change(&mut changed);
            assert_ne!(http_options(&changed), before, "change {at}");
        }
    }
}
