//! Which path is which answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::AUTHORIZATION;
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tracing::error;
use zoolet_console::{Activity, Caller, Console};
use zoolet_server::embed::{Metric, MetricKind, MetricValue, Reports, certificate_metrics};

use crate::answer::Answer;
use crate::body::{AnswerBody, Sending};
use crate::commands::{self, Asked, Command, SnapshotGate};
use crate::lane::{Lane, PortFigures};
use crate::{health, prometheus};

/// How long a listing waits for another one to be done.
const LISTING_WAIT_MAX: Duration = Duration::from_secs(10);

/// How many answers are made at a time.
const THREADS_MAX: usize = 4;

/// What is served, and of which server.
#[derive(Debug)]
pub(crate) struct Routes {
    /// The path of the commands; without it, there are only metrics.
    command_url: Option<String>,
    reports: Arc<OnceLock<Reports>>,
    /// There is one long answer at a time, until it is sent: each is in memory as a whole.
    listing: Arc<Semaphore>,
    /// The threads that make answers. A client that leaves does not stop its own.
    threads: Arc<Semaphore>,
    snapshots: Arc<SnapshotGate>,
    console: Arc<OnceLock<Console>>,
    figures: Arc<PortFigures>,
}

/// The connection that a request comes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connection<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) activity: &'a Arc<Activity>,
    pub(crate) lane: Lane,
}

/// What a path stands for.
#[derive(Debug, PartialEq, Eq)]
enum Route {
    Metrics,
    Health,
    Ready,
    CommandList,
    Command(String),
    Unknown,
}

impl Route {
    /// Whether it is a command of an `AdminServer` that is not there, by any method.
    fn is_missing(&self) -> bool {
        let Self::Command(name) = self else { return false };
        Command::named(name).is_some_and(|command| command.missing().is_some())
    }
}

impl Routes {
    pub(crate) fn new(
        command_url: Option<String>,
        reports: Arc<OnceLock<Reports>>,
        snapshots: SnapshotGate,
    ) -> Self {
        let [listing, threads] = [1, THREADS_MAX].map(|places| Arc::new(Semaphore::new(places)));
        let (snapshots, console) = (Arc::new(snapshots), Arc::default());
        let figures = Arc::default();
        Self { command_url, reports, listing, threads, snapshots, console, figures }
    }

    /// The same with figures that the port counts.
    pub(crate) fn with_figures(self, figures: Arc<PortFigures>) -> Self {
        Self { figures, ..self }
    }

    /// The same with a console below `/console/`, once there is one.
    pub(crate) fn with_console(self, console: Arc<OnceLock<Console>>) -> Self {
        Self { console, ..self }
    }

    /// Finds what a path stands for, byte for byte: nothing is decoded, and no path is a file's.
    fn route(&self, path: &str) -> Route {
        let Some(command_url) = &self.command_url else {
            return if path == "/metrics" { Route::Metrics } else { Route::Unknown };
        };
        match path {
            "/metrics" => Route::Metrics,
            "/health" => Route::Health,
            "/ready" => Route::Ready,
            path => match path.strip_prefix(command_url.as_str()) {
                Some("" | "/") => Route::CommandList,
                Some(rest) => match rest.strip_prefix('/') {
                    Some(name) if !name.contains('/') => Route::Command(name.to_owned()),
                    Some(_) | None => Route::Unknown,
                },
                None => Route::Unknown,
            },
        }
    }

    async fn listing(&self) -> Option<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.listing).acquire_owned();
        timeout(LISTING_WAIT_MAX, place).await.ok()?.ok()
    }

    /// Makes an answer on a thread that may take its time: the lock of the server's state is waited
    /// for, and long texts are put together.
    async fn elsewhere(&self, make: impl FnOnce() -> Answer + Send + 'static) -> Answer {
        let place = Arc::clone(&self.threads).acquire_owned().await;
        let made = tokio::task::spawn_blocking(move || {
            let answer = make();
            drop(place);
            answer
        });
        match made.await {
            Ok(answer) => answer,
            Err(why) => {
                error!(%why, "an HTTP request has panicked");
                Answer::error(StatusCode::INTERNAL_SERVER_ERROR, "the request has failed")
            }
        }
    }
}

/// Answers a request. Its body, if it has one, is not read: hyper closes the connection behind the
/// answer.
pub(crate) async fn answer(
    routes: &Routes,
    request: Request<Incoming>,
    connection: Connection<'_>,
) -> Response<AnswerBody> {
    let route = routes.route(request.uri().path());
    if connection.lane == Lane::Probes && !matches!(route, Route::Health | Route::Ready) {
        routes.figures.refused.fetch_add(1, Ordering::Relaxed);
        return Answer::busy();
    }
    if let Some(console) = routes.console.get()
        && Console::has(request.uri().path())
    {
        return console.answer(request, connection.caller).await.map(AnswerBody::Console);
    }
    if ![Method::GET, Method::HEAD].contains(request.method()) && !route.is_missing() {
        let why = format!("method {} is not allowed here: use GET", request.method());
        return Answer::error(StatusCode::METHOD_NOT_ALLOWED, &why).into_response();
    }
    let reports = routes.reports.get().cloned();
    let answer = match route {
        Route::Health => health::health(reports.as_ref()),
        Route::Ready => health::ready(reports.as_ref()),
        Route::CommandList => commands::list(routes.command_url.as_deref().unwrap_or_default()),
        Route::Metrics => match reports {
            Some(reports) => {
                let figures = Arc::clone(&routes.figures);
                routes.elsewhere(move || prometheus::answer(&metrics(&reports, &figures))).await
            }
            None => Answer::error(StatusCode::SERVICE_UNAVAILABLE, health::STARTING),
        },
        Route::Command(name) => return run(routes, &name, &request, reports, connection).await,
        Route::Unknown => Answer::error(StatusCode::NOT_FOUND, "unknown path"),
    };
    answer.into_response()
}

/// Returns the metrics of a server, and those of its HTTP port.
fn metrics(reports: &Reports, figures: &PortFigures) -> Vec<Metric> {
    let mut all = reports.metrics();
    let certificates = figures
        .certificates
        .as_ref()
        .map(|certificates| certificate_metrics("http", &certificates.borrow()));
    // The series of a metric are shown together.
    let same = |metric: &Metric| certificates.iter().flatten().any(|own| own.name == metric.name);
    let place = all.iter().rposition(same).map_or(all.len(), |last| last + 1);
    all.splice(place..place, certificates.into_iter().flatten());
    let count = |figure: &AtomicU64| {
        MetricValue::Integer(i64::try_from(figure.load(Ordering::Relaxed)).unwrap_or(i64::MAX))
    };
    let crowded = "HTTP connections that came when all places were taken.";
    let refused = "HTTP requests that were refused because all places were taken.";
    for (name, help, figure) in [
        ("zoolet_http_crowded_connections", crowded, &figures.crowded),
        ("zoolet_http_refused_requests", refused, &figures.refused),
    ] {
        all.push(Metric::new(name, MetricKind::Counter, help, count(figure)));
    }
    all
}

async fn run(
    routes: &Routes,
    name: &str,
    request: &Request<Incoming>,
    reports: Option<Reports>,
    connection: Connection<'_>,
) -> Response<AnswerBody> {
    let Some(command) = Command::named(name) else {
        return commands::unknown(name).into_response();
    };
    let authorization = request.headers().get(AUTHORIZATION);
    let asked = Asked {
        query: request.uri().query().unwrap_or_default().to_owned(),
        // A header that is not text proves nothing.
        authorization: authorization.map(|value| value.to_str().unwrap_or_default().to_owned()),
        peer: connection.caller.peer.ip(),
        certificate: connection.caller.certificate.clone(),
    };
    if command == Command::Snapshot {
        if request.method() == Method::HEAD {
            return commands::head_only().into_response();
        }
        let streaming = connection.activity.streaming();
        let begun = commands::begin_snapshot(&routes.snapshots, reports, &asked, streaming).await;
        return begun.map_or_else(Answer::into_response, Sending::into_response);
    }
    list(routes, command, reports, asked).await.into_response()
}

/// Runs a command whose answer is put together before it is sent.
async fn list(routes: &Routes, command: Command, reports: Option<Reports>, asked: Asked) -> Answer {
    let place = if command.is_long() {
        let Some(permit) = routes.listing().await else {
            let why = "another long listing is being made or sent: try again later";
            return Answer::error(StatusCode::SERVICE_UNAVAILABLE, why);
        };
        Some(permit)
    } else {
        None
    };
    let make = move || Answer { place, ..commands::run(command, reports.as_ref(), &asked) };
    routes.elsewhere(make).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_paths_are_known() {
        let gate = || SnapshotGate::new(true, Duration::ZERO);
        let routes = Routes::new(Some("/commands".to_owned()), Arc::default(), gate());
        for (path, route) in [
            ("/metrics", Route::Metrics),
            ("/health", Route::Health),
            ("/ready", Route::Ready),
            ("/commands", Route::CommandList),
            ("/commands/", Route::CommandList),
            ("/commands/ruok", Route::Command("ruok".to_owned())),
            ("/commands/..", Route::Command("..".to_owned())),
            ("/", Route::Unknown),
            ("/metrics/", Route::Unknown),
            ("/Metrics", Route::Unknown),
            ("/commandsx/ruok", Route::Unknown),
            ("/commands/../metrics", Route::Unknown),
            ("/commands//ruok", Route::Unknown),
            ("//commands/ruok", Route::Unknown),
            ("/%6detrics", Route::Unknown),
        ] {
            assert_eq!(routes.route(path), route, "{path}");
        }
        let metrics = Routes::new(None, Arc::default(), gate());
        assert_eq!(metrics.route("/metrics"), Route::Metrics);
        assert_eq!(metrics.route("/commands/stat_reset"), Route::Unknown);
        assert_eq!(metrics.route("/ready"), Route::Unknown);
    }
}
