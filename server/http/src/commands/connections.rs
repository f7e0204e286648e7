//! The connections of clients.

use serde_json::Value;
use zoolet_server::embed::{ConnectionReport, Reports};

use super::{Object, entries, server};

pub(super) fn connections(reports: &Reports) -> Object {
    of(reports, whole)
}

/// The statistics, and the connections in short.
pub(super) fn stats(reports: &Reports) -> Object {
    let mut object = server::server_stats(reports);
    object.extend(of(reports, |connection| Value::Object(brief(connection))));
    object
}

fn of(reports: &Reports, shown: impl Fn(&ConnectionReport) -> Value) -> Object {
    let (secure, plain): (Vec<_>, Vec<_>) =
        reports.connections().into_iter().partition(|connection| connection.is_secure);
    let list = |connections: &[ConnectionReport]| -> Value {
        connections.iter().map(&shown).collect::<Vec<_>>().into()
    };
    entries([("connections", list(&plain)), ("secure_connections", list(&secure))])
}

fn brief(connection: &ConnectionReport) -> Object {
    entries([
        ("remote_socket_address", connection.peer.to_string().into()),
        ("interest_ops", i32::from(connection.session.is_some()).into()),
        ("outstanding_requests", connection.queued.into()),
        ("packets_received", connection.received.into()),
        ("packets_sent", connection.sent.into()),
    ])
}

fn whole(connection: &ConnectionReport) -> Value {
    let (session, timeout_ms) = connection.session.unwrap_or_default();
    let mut object = brief(connection);
    object.extend(entries([
        ("session_id", session.into()),
        ("last_operation", connection.last_operation.into()),
        ("established", connection.since_ms.into()),
        ("session_timeout", timeout_ms.into()),
        ("last_cxid", connection.last_cxid.unwrap_or(-1).into()),
        ("last_zxid", connection.last_zxid.into()),
        ("last_response_time", connection.last_response_ms.into()),
        ("last_latency", connection.last_latency_ms.into()),
        ("min_latency", connection.min_latency_ms.into()),
        ("avg_latency", truncated(connection.avg_latency_ms).into()),
        ("max_latency", connection.max_latency_ms.into()),
    ]));
    Value::Object(object)
}

#[allow(clippy::cast_possible_truncation, reason = "milliseconds are few")]
fn truncated(number: f64) -> i64 {
    number as i64
}
