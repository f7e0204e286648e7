//! How much a server has of what is limited, as its own reports say it.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::sleep;
use zoolet_replica::ServerId;
use zoolet_server::embed::config::Limits;
use zoolet_server::embed::{Metric, MetricValue, Reports};

use crate::SimTime;
use crate::history::{Gauge, Recorder};

/// How often they are read.
const EVERY: Duration = Duration::from_millis(100);

/// Notes what a server has, in comparison with its limits.
#[derive(Debug)]
pub(super) struct Gauges {
    server: ServerId,
    recorder: Recorder,
    limits: Limits,
}

impl Gauges {
    pub(super) fn new(server: ServerId, recorder: Recorder, limits: Limits) -> Self {
        Self { server, recorder, limits }
    }

    /// Reads them again and again.
    pub(super) async fn read_on(&self, reports: Reports) -> Infallible {
        loop {
            self.read(&reports);
            sleep(EVERY).await;
        }
    }

    fn read(&self, reports: &Reports) {
        let limits = &self.limits;
        let connections = reports.connections();
        let open = count(connections.len());
        let fullest = connections.iter().map(|connection| connection.queued).max().unwrap_or(0);
        self.note("requests of a connection", fullest, Some(limits.connection_requests_max), true);
        self.note("connections", open, None, true);
        for metric in reports.server_metrics() {
            let Some(value) = integer(&metric) else { continue };
            match metric.name {
                "outstanding_requests" => {
                    // Each connection is granted one, however many there are.
                    let most = limits.requests_max.saturating_add(connections.len());
                    self.note("requests", value, Some(most), true);
                }
                "watch_count" => self.note("watches", value, Some(limits.watches_max), true),
                "global_sessions" => self.note("sessions", value, Some(limits.sessions_max), false),
                _ => {}
            }
        }
    }

    fn note(&self, name: &'static str, value: u64, limit: Option<usize>, is_of_clients: bool) {
        let (at, limit) = (SimTime::default(), limit.map(count));
        self.recorder.gauge(Gauge { at, server: self.server, name, value, limit, is_of_clients });
    }
}

fn count(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

fn integer(metric: &Metric) -> Option<u64> {
    if let MetricValue::Integer(value) = metric.value { u64::try_from(value).ok() } else { None }
}
