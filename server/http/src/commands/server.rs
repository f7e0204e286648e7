//! The server as a whole.

use serde_json::{Value, json};
use zoolet_server::embed::{Metric, MetricValue, Reports};

use super::{Object, entries};

pub(super) fn configuration(reports: &Reports) -> Object {
    let shown = reports.configuration();
    entries([
        ("client_port", shown.client_port.into()),
        ("data_dir", shown.data_dir.display().to_string().into()),
        ("data_log_dir", shown.data_log_dir.display().to_string().into()),
        ("tick_time", shown.tick_ms.into()),
        ("max_client_cnxns", shown.connections_per_address_max.into()),
        ("min_session_timeout", shown.session_timeout_ms_min.into()),
        ("max_session_timeout", shown.session_timeout_ms_max.into()),
        ("server_id", shown.server_id.into()),
        ("client_port_listen_backlog", shown.backlog.into()),
    ])
}

pub(super) fn dirs(reports: &Reports) -> Object {
    let (data, log) = reports.directory_bytes();
    entries([("datadir_size", data.into()), ("logdir_size", log.into())])
}

pub(super) fn environment(reports: &Reports) -> Object {
    let all = reports.environment().into_iter();
    all.map(|(name, value)| (name.to_owned(), value.into())).collect()
}

pub(super) fn trace_mask(reports: &Reports) -> Object {
    entries([("tracemask", reports.trace_mask().into())])
}

pub(super) fn set_trace_mask(reports: &Reports, mask: Option<&str>) -> Result<Object, String> {
    const WANTED: &str = "setTraceMask requires long traceMask argument";
    let mask = mask.ok_or(WANTED)?;
    let number = mask.parse::<i64>().map_err(|_| format!("{WANTED}, got {mask}"))?;
    reports.set_trace_mask(number.cast_unsigned());
    Ok(entries([("tracemask", number.into())]))
}

/// One digest: that of the state now.
pub(super) fn hash(reports: &Reports) -> Object {
    const DIGEST_VERSION: i32 = 2;
    let (zxid, digest) = reports.digest();
    let now = json!({ "zxid": zxid, "digest": digest, "digest_version": DIGEST_VERSION });
    entries([("digests", json!([now]))])
}

pub(super) fn initial_configuration(reports: &Reports) -> Object {
    entries([("initial_configuration", reports.initial_configuration().into())])
}

pub(super) fn is_read_only(reports: &Reports) -> Object {
    entries([("read_only", reports.read_only().into())])
}

pub(super) fn last_snapshot(reports: &Reports) -> Object {
    let (zxid, timestamp) = match reports.last_snapshot() {
        Some((zxid, timestamp)) => (format!("{zxid:x}"), timestamp),
        // Java's −1.
        None => ("ffffffffffffffff".to_owned(), -1),
    };
    entries([("zxid", zxid.into()), ("timestamp", timestamp.into())])
}

/// The figures of `mntr`, and what else has a name of `ZooKeeper`'s.
pub(super) fn monitor(reports: &Reports) -> Object {
    let mut object: Object =
        reports.monitor().into_iter().map(|(name, value)| (name, as_number(value))).collect();
    for metric in reports.metrics() {
        let name = metric.name;
        if name.starts_with("zoolet_") || name.starts_with("process_") {
            continue;
        }
        match metric.value {
            MetricValue::Integer(value) => drop(object.insert(name.to_owned(), value.into())),
            MetricValue::Number(value) => drop(object.insert(name.to_owned(), value.into())),
            MetricValue::Summary { count, sum, .. } => {
                #[allow(clippy::cast_precision_loss, reason = "a mean has fewer digits")]
                let mean = if count == 0 { 0.0 } else { sum / count as f64 };
                object.insert(format!("avg_{name}"), mean.into());
                object.insert(format!("cnt_{name}"), count.into());
                object.insert(format!("sum_{name}"), whole(sum).into());
            }
            MetricValue::Histogram { .. } | _ => {}
        }
    }
    object
}

pub(super) fn server_stats(reports: &Reports) -> Object {
    let metrics = reports.metrics();
    let of = |name: &str| value_of(&metrics, name);
    let sizes = |what: &str| {
        json!({
            "last_buffer_size": of(&format!("last_{what}")),
            "min_buffer_size": of(&format!("min_{what}")),
            "max_buffer_size": of(&format!("max_{what}")),
        })
    };
    let (data, log) = reports.directory_bytes();
    let stats = json!({
        "packets_sent": of("packets_sent"),
        "packets_received": of("packets_received"),
        "fsync_threshold_exceed_count": of("zoolet_slow_syncs"),
        "client_response_stats": sizes("client_response_size"),
        "data_dir_size": data,
        "log_dir_size": log,
        "last_processed_zxid": reports.digest().0,
        "outstanding_requests": of("outstanding_requests"),
        "server_state": reports.mode(),
        "avg_latency": of("avg_latency"),
        "max_latency": of("max_latency"),
        "min_latency": of("min_latency"),
        "num_alive_client_connections": of("num_alive_connections"),
        "uptime": of("uptime"),
    });
    let mut object = entries([
        ("version", reports.version().into()),
        ("read_only", reports.read_only().into()),
        ("server_stats", stats),
        ("client_response", sizes("client_response_size")),
        ("node_count", of("znode_count")),
    ]);
    if !of("last_proposal_size").is_null() {
        object.insert("proposal_stats".to_owned(), sizes("proposal_size"));
    }
    object
}

fn value_of(metrics: &[Metric], name: &str) -> Value {
    match metrics.iter().find(|metric| metric.name == name).map(|metric| &metric.value) {
        Some(MetricValue::Integer(value)) => (*value).into(),
        Some(MetricValue::Number(value)) => (*value).into(),
        _ => Value::Null,
    }
}

fn as_number(text: String) -> Value {
    let whole = text.parse::<i64>().map(Value::from);
    whole.or_else(|_| text.parse::<f64>().map(Value::from)).unwrap_or_else(|_| text.into())
}

#[allow(clippy::cast_possible_truncation, reason = "a sum of milliseconds")]
fn whole(number: f64) -> i64 {
    number as i64
}
