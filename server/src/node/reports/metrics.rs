//! The metrics of a server: `ZooKeeper`'s names for what `ZooKeeper` measures too, and `zoolet_` in
//! front of its own.
//!
//! What is counted is a plain integer, mostly under the host's lock; here it is read. Every metric is
//! described in `docs/monitoring.md`, which a test compares with what a server shows.

use zoolet_replica::Role;
use zoolet_tls::{CertificatesInForce, StoredKind};

use super::{Readiness, Reports};
use crate::histogram::Distribution;
use crate::host::ServerReport;
use crate::limits::LimitReading;
use crate::net::EnsembleFigures;
use crate::node::meters::Meters;
use crate::process;

/// A metric and its value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What is done with it.
    pub kind: MetricKind,
    /// One sentence.
    pub help: &'static str,
    /// Names and values of its labels.
    pub labels: Vec<(&'static str, String)>,
    /// Its value.
    pub value: MetricValue,
}

impl Metric {
    /// Makes a metric without labels, for a program that adds its own metrics to a server's.
    pub fn new(
        name: &'static str,
        kind: MetricKind,
        help: &'static str,
        value: MetricValue,
    ) -> Self {
        Self { name, kind, help, labels: Vec::new(), value }
    }
}

/// What is done with a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// It goes up and down.
    Gauge,
    /// It goes up, and from zero at a start and at `srst`.
    Counter,
    /// It is a number of values, their sum and their quantiles, with the same zero.
    Summary,
    /// It is a number of values, their sum and how many do not exceed each of some bounds, with the
    /// same zero. Those of several servers can be added.
    Histogram,
}

/// The value of a metric.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MetricValue {
    /// A whole number.
    Integer(i64),
    /// Another number.
    Number(f64),
    /// How values are distributed.
    Summary {
        /// The number of values.
        count: u64,
        /// Their sum.
        sum: f64,
        /// The values that a half, nine of ten and 99 of 100 do not exceed; none if they are not
        /// measured.
        quantiles: Option<[f64; 3]>,
    },
    /// How values are distributed over bounds that are the same on every server.
    Histogram {
        /// The number of values.
        count: u64,
        /// Their sum.
        sum: f64,
        /// Bounds, which rise, and how many values do not exceed each of them.
        at_most: Vec<(f64, u64)>,
    },
}

/// The bounds of a histogram, of which each is twice the one before it: 1 ms to 9 minutes.
const BOUNDS: usize = 20;

/// The exponent of the first bound, of values that were measured in microseconds: 64 µs to 34 s.
const FIRST_OF_US: usize = 6;

/// What the metrics are made of.
struct Sources<'a> {
    report: ServerReport,
    ensemble: Option<EnsembleFigures>,
    reports: &'a Reports,
    is_leader: bool,
}

/// Returns the metrics that a server has now, and those of its process.
pub(super) fn list(reports: &Reports) -> Vec<Metric> {
    let mut list = MetricList(of_server(reports));
    add_process(&mut list);
    list.0
}

/// Returns the metrics that a server has now.
pub(super) fn of_server(reports: &Reports) -> Vec<Metric> {
    let report = reports.port.host().report();
    let ensemble = reports.port.server_info().ensemble.as_ref().map(|known| known.figures());
    let sources = Sources { report, ensemble, reports, is_leader: report.role == Role::Leader };
    let mut list = MetricList::default();
    sources.add_state(&mut list);
    sources.add_traffic(&mut list);
    sources.add_connections(&mut list);
    sources.add_watch_events(&mut list);
    sources.add_times(&mut list);
    sources.add_histograms(&mut list);
    sources.add_locks(&mut list);
    sources.add_ensemble(&mut list);
    sources.add_own(&mut list);
    sources.add_limits(&mut list);
    list.0
}

impl Sources<'_> {
    fn add_state(&self, list: &mut MetricList) {
        let report = &self.report;
        list.gauge("znode_count", "Znodes, the root counted twice.", report.znodes);
        list.gauge("ephemerals_count", "Ephemeral znodes.", report.ephemerals);
        list.gauge("approximate_data_size", "Bytes of data of all znodes.", report.data_bytes);
        list.gauge("global_sessions", "Sessions of the ensemble.", report.sessions);
        list.gauge("local_sessions", "Always 0: the whole ensemble knows every session.", 0_u64);
        list.gauge("watch_count", "Watches of this server's clients.", report.watches);
        let uptime_ms = self.reports.port.uptime().as_millis();
        list.gauge("uptime", "Milliseconds since the client port was opened.", uptime_ms);
    }

    fn add_traffic(&self, list: &mut MetricList) {
        let (report, figures) = (&self.report, &self.report.figures);
        list.gauge("packets_received", "Frames from clients.", figures.received);
        list.gauge("packets_sent", "Frames to clients.", figures.sent);
        list.counter("bytes_received_count", "Bytes of requests.", figures.received_bytes);
        list.gauge("outstanding_requests", "Requests without a reply.", report.outstanding);
        list.counter("throttled_ops", "Requests refused for their wait.", figures.throttled);
        let latency = figures.latency;
        list.gauge("min_latency", "Milliseconds of the shortest request.", latency.min_ms());
        list.number("avg_latency", "Mean milliseconds of a request.", latency.average_ms());
        list.gauge("max_latency", "Milliseconds of the longest request.", latency.max_ms());
        let bytes = figures.reply_bytes.map_or([-1; 3], |bytes| {
            [bytes.last, bytes.min, bytes.max].map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX))
        });
        let [last, min, max] = bytes;
        list.gauge("last_client_response_size", "Bytes of the last reply; -1 without one.", last);
        list.gauge("min_client_response_size", "Bytes of the shortest reply; or -1.", min);
        list.gauge("max_client_response_size", "Bytes of the longest reply; or -1.", max);
    }

    fn add_connections(&self, list: &mut MetricList) {
        let (figures, counts) = (&self.report.figures, self.reports.port.counts());
        list.gauge("num_alive_connections", "Client connections.", counts.open);
        let help = "Connections turned away because of a limit.";
        list.counter("connection_rejected", help, counts.refused);
        let help = "Connections closed because their handshake came late.";
        list.counter("sessionless_connections_expired", help, counts.late);
        let help = "Connections of clients that have agreed on TLS.";
        list.counter("tls_connection_count", help, counts.secure);
        let help = "Connections of clients that have not agreed on TLS yet.";
        list.gauge("outstanding_tls_handshake", help, counts.tls_handshakes);
        let help = "Connections to a port with TLS turned away for too many handshakes.";
        list.counter("tls_handshake_exceeded", help, counts.tls_exceeded);
        let help = "Connections that gave way to others before their handshake was done.";
        list.counter("zoolet_handshakes_gave_way", help, counts.gave_way);
        let help = "Handshakes of clients.";
        list.counter("connection_request_count", help, figures.connect_requests);
        let help = "Connections that have ended behind their handshake.";
        list.counter("connection_drop_count", help, figures.connections_ended);
        let help = "Requests in the log to resume a session.";
        list.counter("revalidate_count", help, figures.resumed);
        let help = "Sessions that this server, as leader, has found without a sign of life.";
        list.counter("stale_sessions_expired", help, figures.sessions_expired);
    }

    fn add_watch_events(&self, list: &mut MetricList) {
        let events = &self.report.figures.watch_events;
        let help = "Watch events for created znodes.";
        list.count_only("node_created_watch_count", help, events.created);
        let help = "Watch events for deleted znodes.";
        list.count_only("node_deleted_watch_count", help, events.deleted);
        let help = "Watch events for changed data.";
        list.count_only("node_changed_watch_count", help, events.changed);
        let help = "Watch events for changed children.";
        list.count_only("node_children_watch_count", help, events.children);
    }

    fn add_times(&self, list: &mut MetricList) {
        let (meters, status): (&Meters, _) = (&self.reports.meters, self.reports.status.status());
        list.summary("readlatency", "Milliseconds of a read.", &self.report.read_ms, 1.0);
        let help = "Milliseconds of an update, until its reply.";
        list.summary("updatelatency", help, &self.report.update_ms, 1.0);
        let help = "Milliseconds of a sync of a file.";
        list.summary("fsynctime", help, &meters.sync_us(), 1000.0);
        let help = "Milliseconds of writing a snapshot.";
        list.summary("snapshottime", help, &status.snapshot_ms, 1.0);
        let help = "Milliseconds without a leader, each time.";
        list.summary("election_time", help, &meters.looking_ms(), 1.0);
        list.counter("looking_count", "Times without a leader.", meters.looked());
        let help = "Writes of this server's clients in each batch.";
        list.summary("sync_processor_batch_size", help, &status.batches, 1.0);
        let help = "Batches of writes that this server has made.";
        list.counter("proposal_count", help, status.batches.count);
        let help = "Entries of the log that were applied.";
        list.counter("commit_count", help, self.report.figures.entries);
        let help = "Milliseconds from the leader's log to this server's state, for each batch.";
        list.summary("propagation_latency", help, &self.report.propagation_ms, 1.0);
        let start = meters.start();
        let help = "Milliseconds of reading the newest snapshot at the start.";
        list.once("startup_snap_load_time", help, start.load_ms);
        let help = "Entries of the log behind the newest snapshot at the start.";
        list.once("startup_txns_loaded", help, start.entries);
        let help = "Milliseconds of the start, until clients could connect.";
        list.once("dbinittime", help, start.all_ms);
    }

    /// Adds what summaries have too, in a form that can be added over servers and over times.
    fn add_histograms(&self, list: &mut MetricList) {
        let (meters, status): (&Meters, _) = (&self.reports.meters, self.reports.status.status());
        list.histogram("zoolet_read_time", "Milliseconds of a read.", &self.report.read_ms);
        let help = "Milliseconds of an update, until its reply.";
        list.histogram("zoolet_update_time", help, &self.report.update_ms);
        let help = "Milliseconds of a sync of a file.";
        list.histogram_of_us("zoolet_fsync_time", help, &meters.sync_us());
        let help = "Writes of this server's clients in each batch.";
        list.histogram("zoolet_batch_size", help, &status.batches);
        let help = "Milliseconds without a leader, each time.";
        list.histogram("zoolet_election_time", help, &meters.looking_ms());
        let help = "Milliseconds of writing a snapshot.";
        list.histogram("zoolet_snapshot_time", help, &status.snapshot_ms);
    }

    fn add_locks(&self, list: &mut MetricList) {
        let locks = self.report.locks;
        list.gauge("zoolet_locks_held", "Locks and leaderships with a holder.", locks.held);
        let help = "Locks and leaderships that somebody waits for.";
        list.gauge("zoolet_locks_contended", help, locks.contended);
        let help = "Places that wait for a lock or a leadership.";
        list.gauge("zoolet_locks_waiters", help, locks.waiters);
        let help = "Milliseconds for which a lock was held.";
        list.histogram("zoolet_locks_hold_time", help, &self.report.lock_hold_ms);
        let help = "Milliseconds of a wait for a lock, zero without one.";
        list.histogram("zoolet_locks_wait_time", help, &self.report.lock_wait_ms);
        let help = "Locks that were lost because the holder's session expired.";
        list.counter("zoolet_locks_expired", help, self.report.locks_expired);
        let help = "Locks that went from a holder to those who waited.";
        list.counter("zoolet_locks_handed_over", help, self.report.locks_handed_over);
    }

    fn add_ensemble(&self, list: &mut MetricList) {
        let Some(figures) = &self.ensemble else { return };
        list.gauge("quorum_size", "Servers with a vote.", figures.voters);
        if self.is_leader {
            list.gauge("learners", "Servers that this one leads.", figures.learners);
            let help = "Voters among them that have the whole log.";
            list.gauge("synced_followers", help, figures.synced_followers);
            let help = "Observers among them that have the whole log.";
            list.gauge("synced_observers", help, figures.synced_observers);
            let help = "Milliseconds for which this server has led.";
            list.gauge("leader_uptime", help, figures.leader_uptime_ms);
            let [last, min, max] = figures.proposal_sizes;
            list.gauge("last_proposal_size", "Bytes of the last entry; -1 without one.", last);
            list.gauge("min_proposal_size", "Bytes of the smallest entry; or -1.", min);
            list.gauge("max_proposal_size", "Bytes of the largest entry; or -1.", max);
        }
        let help = "Snapshots that other servers have taken from this one.";
        list.counter("snap_count", help, figures.snapshots_sent);
        list.gauge("zoolet_raft_term", "Raft's election number.", figures.term);
        let help = "Log index of the last entry that was applied.";
        list.gauge("zoolet_raft_applied_index", help, figures.applied);
        let help = "Log index of the last entry.";
        list.gauge("zoolet_raft_last_log_index", help, figures.last_log);
        let help = "Log index of the newest snapshot.";
        list.gauge("zoolet_raft_snapshot_index", help, figures.snapshot);
        let help = "1 if the server has stopped serving: no majority has its state.";
        list.counter("digest_mismatches_count", help, u64::from(figures.diverged));
        let help = "Voters whose state differs from this server's.";
        list.gauge("zoolet_state_differing_servers", help, figures.differing);
        let help = "Log index of the last entry behind which a majority had this server's state.";
        list.gauge("zoolet_state_agreed_index", help, figures.agreed);
        let help =
            "Milliseconds since the moment up to which the state is known to be complete; or -1.";
        list.gauge("zoolet_state_age_ms", help, figures.state_age_ms);
        let help = "Times that the server stopped serving because its state was too old.";
        list.counter("zoolet_state_age_stops", help, figures.age_stops);
        let help =
            "Times that it stepped down as leader because its entries were not acknowledged.";
        list.counter("zoolet_leader_step_downs", help, figures.step_downs);
    }

    fn add_own(&self, list: &mut MetricList) {
        let readiness = self.reports.readiness();
        let has_failed = matches!(readiness, Readiness::Failed(_));
        let help = "1 if the server can no longer work.";
        list.counter("unrecoverable_error_count", help, u64::from(has_failed));
        let help = "1 if the server serves reads and writes.";
        list.gauge("zoolet_ready", help, u64::from(readiness == Readiness::Ready));
        let help = "1 if the server leads, or is standalone.";
        list.gauge("zoolet_leads", help, u64::from(self.is_leader));
        let help =
            "The longest time for which the lock around the state was held, in microseconds.";
        list.gauge("zoolet_lock_hold_us_max", help, self.report.figures.hold_us_max);
        let help = "Syncs of files that took longer than log.slow_sync_ms.";
        list.counter("zoolet_slow_syncs", help, self.reports.meters.slow_syncs());
        let audit = self.reports.meters.audit();
        let help = "Lines of the audit log that were written.";
        list.counter("zoolet_audit_lines", help, audit.written());
        let help = "Events that the audit log has lost, because the disk failed or was too slow.";
        list.counter("zoolet_audit_lost", help, audit.lost());
        let history = self.reports.meters.history();
        let help = "Events that the history has taken.";
        list.counter("zoolet_history_events", help, history.recorded());
        let help =
            "Events that the history has lost: too much was changed at once, or the disk failed.";
        list.counter("zoolet_history_lost", help, history.lost());
        let help = "Panics over the history's files, which began anew then.";
        list.counter("zoolet_history_panics", help, history.panics());
        let help = "Whether the history cannot be written, so that nothing is recorded.";
        list.gauge("zoolet_history_failing", help, u64::from(history.is_failing()));
        let help = "Bytes of the history's files, when they were looked at last.";
        list.gauge("zoolet_history_bytes", help, history.bytes());
        for (port, certificates) in self.reports.meters.certificates() {
            list.0.extend(certificate_metrics(port, &certificates.borrow()));
        }
        list.add(Metric {
            name: "zoolet_build_info",
            kind: MetricKind::Gauge,
            help: "Always 1; the release of the server is in a label.",
            labels: vec![("version", env!("CARGO_PKG_VERSION").to_owned())],
            value: MetricValue::Integer(1),
        });
    }

    /// Adds metrics with a series for each limit, and for each reason of an error.
    fn add_limits(&self, list: &mut MetricList) {
        let limits = self.reports.port.limits();
        let help = "How much of a limit is in use.";
        for limit in limits.iter().filter(|limit| limit.used.is_some()) {
            list.limit("zoolet_limit_used", MetricKind::Gauge, help, (limit, limit.used));
        }
        for limit in &limits {
            let help = "The maximum of a limit; 0 for none.";
            list.limit("zoolet_limit_max", MetricKind::Gauge, help, (limit, Some(limit.max)));
        }
        for limit in &limits {
            let help = "Refusals by a limit.";
            let value = (limit, Some(limit.refused));
            list.limit("zoolet_limit_refused_total", MetricKind::Counter, help, value);
        }
        for (reason, count) in self.reports.port.errors() {
            list.add(Metric {
                name: "zoolet_connection_errors_total",
                kind: MetricKind::Counter,
                help: "Client connections that ended with an error.",
                labels: vec![("reason", reason.to_owned())],
                value: integer(count),
            });
        }
    }
}

/// Returns how long the certificates of a port are valid.
pub fn certificate_metrics(port: &'static str, certificates: &CertificatesInForce) -> Vec<Metric> {
    let metric = |(kind, left_s): (StoredKind, i64)| Metric {
        name: "zoolet_tls_certificate_expires_seconds",
        kind: MetricKind::Gauge,
        help: "Seconds until the first certificate of a kind expires, below zero if it has.",
        labels: vec![("port", port.to_owned()), ("kind", kind.name().to_owned())],
        value: MetricValue::Integer(left_s),
    };
    certificates.seconds_left().into_iter().map(metric).collect()
}

fn add_process(list: &mut MetricList) {
    let help =
        "Lines of the log that were lost: its reader stalled or was gone, or the disk failed.";
    list.counter("zoolet_log_lines_lost", help, process::lost_log_lines());
    let (open, max) = process::file_descriptors();
    for (name, help, value) in [
        ("open_file_descriptor_count", "Open files of the process.", open),
        ("max_file_descriptor_count", "The most files that it may open.", max),
        ("process_open_fds", "Open files of the process.", open),
        ("process_max_fds", "The most files that it may open.", max),
    ] {
        if let Some(value) = value {
            list.gauge(name, help, value);
        }
    }
    let usage = process::usage();
    if let Some(bytes) = usage.resident_bytes {
        list.gauge("process_resident_memory_bytes", "Bytes of memory in use.", bytes);
    }
    if let Some(cpu_s) = usage.cpu_s {
        let value = MetricValue::Number(cpu_s);
        let help = "Seconds of processor time.";
        list.push("process_cpu_seconds_total", MetricKind::Counter, help, value);
    }
}

#[derive(Default)]
struct MetricList(Vec<Metric>);

impl MetricList {
    fn add(&mut self, metric: Metric) {
        self.0.push(metric);
    }

    fn push(
        &mut self,
        name: &'static str,
        kind: MetricKind,
        help: &'static str,
        value: MetricValue,
    ) {
        self.add(Metric::new(name, kind, help, value));
    }

    fn limit(
        &mut self,
        name: &'static str,
        kind: MetricKind,
        help: &'static str,
        (limit, value): (&LimitReading, Option<u64>),
    ) {
        let (labels, value) = (vec![("limit", limit.name.to_owned())], integer(value.unwrap_or(0)));
        self.add(Metric { name, kind, help, labels, value });
    }

    fn gauge(&mut self, name: &'static str, help: &'static str, value: impl TryInto<i64>) {
        self.push(name, MetricKind::Gauge, help, integer(value));
    }

    fn number(&mut self, name: &'static str, help: &'static str, value: f64) {
        self.push(name, MetricKind::Gauge, help, MetricValue::Number(value));
    }

    fn counter(&mut self, name: &'static str, help: &'static str, value: impl TryInto<i64>) {
        self.push(name, MetricKind::Counter, help, integer(value));
    }

    /// Adds values that were measured in another unit, of which `unit` make one.
    #[allow(clippy::cast_precision_loss, reason = "a quantile is an eighth off anyway")]
    fn summary(&mut self, name: &'static str, help: &'static str, of: &Distribution, unit: f64) {
        let value = MetricValue::Summary {
            count: of.count,
            sum: of.sum as f64 / unit,
            quantiles: Some([of.p50, of.p90, of.p99].map(|value| value as f64 / unit)),
        };
        self.push(name, MetricKind::Summary, help, value);
    }

    /// Adds values that are shown as they were measured.
    fn histogram(&mut self, name: &'static str, help: &'static str, of: &Distribution) {
        self.push(name, MetricKind::Histogram, help, bounded(of, (0, 1.0)));
    }

    /// Adds microseconds, as milliseconds.
    fn histogram_of_us(&mut self, name: &'static str, help: &'static str, of: &Distribution) {
        self.push(name, MetricKind::Histogram, help, bounded(of, (FIRST_OF_US, 1000.0)));
    }

    /// Adds a summary of values that are all 1.
    #[allow(clippy::cast_precision_loss, reason = "above 2⁵³ the last digits do not matter")]
    fn count_only(&mut self, name: &'static str, help: &'static str, count: u64) {
        let value = MetricValue::Summary { count, sum: count as f64, quantiles: None };
        self.push(name, MetricKind::Summary, help, value);
    }

    /// Adds a summary of one value.
    #[allow(clippy::cast_precision_loss, reason = "a start does not take 2⁵³ ms")]
    fn once(&mut self, name: &'static str, help: &'static str, value: u64) {
        let sum = value as f64;
        let value = MetricValue::Summary { count: 1, sum, quantiles: Some([sum; 3]) };
        self.push(name, MetricKind::Summary, help, value);
    }
}

/// Makes a histogram of values of which `unit` make one, with bounds from a power of two upwards.
#[allow(clippy::cast_precision_loss, reason = "above 2⁵³ the last digits do not matter")]
fn bounded(of: &Distribution, (first, unit): (usize, f64)) -> MetricValue {
    let counts = of.at_most.iter().enumerate().skip(first).take(BOUNDS);
    let at_most = counts.map(|(power, count)| ((1_u64 << power) as f64 / unit, *count)).collect();
    MetricValue::Histogram { count: of.count, sum: of.sum as f64 / unit, at_most }
}

fn integer(value: impl TryInto<i64>) -> MetricValue {
    MetricValue::Integer(value.try_into().unwrap_or(i64::MAX))
}
