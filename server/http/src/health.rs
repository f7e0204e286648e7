//! Whether the server works, and whether it serves: for supervisors and load balancers.

use hyper::StatusCode;
use serde_json::{Map, Value};
use zoolet_server::embed::{Readiness, Reports};

use crate::answer::Answer;

/// What is said before there is a server.
pub(crate) const STARTING: &str = "the server is starting";

/// 200 as long as the process can go on, 503 when it cannot.
pub(crate) fn health(reports: Option<&Reports>) -> Answer {
    match reports.map(Reports::failure) {
        None => status(StatusCode::OK, "starting", None),
        Some(None) => status(StatusCode::OK, "ok", None),
        Some(Some(why)) => status(StatusCode::SERVICE_UNAVAILABLE, "failed", Some(&why)),
    }
}

/// 200 while reads and writes are served.
pub(crate) fn ready(reports: Option<&Reports>) -> Answer {
    let Some(reports) = reports else {
        return status(StatusCode::SERVICE_UNAVAILABLE, "not ready", Some(STARTING));
    };
    let not_ready = |why: &str| status(StatusCode::SERVICE_UNAVAILABLE, "not ready", Some(why));
    match reports.readiness() {
        Readiness::Ready => {
            let mut object = object("ready", None);
            object.insert("mode".to_owned(), Value::from(reports.mode()));
            Answer::json(StatusCode::OK, object)
        }
        Readiness::NotReady(why) => not_ready(why),
        Readiness::Failed(why) => not_ready(&why),
        _ => not_ready("unknown"),
    }
}

fn status(code: StatusCode, status: &str, reason: Option<&str>) -> Answer {
    Answer::json(code, object(status, reason))
}

fn object(status: &str, reason: Option<&str>) -> Map<String, Value> {
    let mut object = Map::from_iter([("status".to_owned(), Value::from(status))]);
    if let Some(reason) = reason {
        object.insert("reason".to_owned(), Value::from(reason));
    }
    object
}
