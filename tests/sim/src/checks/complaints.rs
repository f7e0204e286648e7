//! What clients have complained of by themselves.

use super::{Counts, Run, Violation};
use crate::history::What;

/// Every complaint is a violation.
pub(super) fn check(run: &Run<'_>, _: &mut Counts) -> Vec<Violation> {
    let mut found = Vec::new();
    for record in &run.history.records {
        if let What::Complained { client, why } = &record.what {
            let what = format!("client {}: {why}", client.0);
            found.push(Violation { promise: "complaint", at: record.at, what });
        }
    }
    found
}
