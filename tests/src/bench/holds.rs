//! The longest hold of the server's lock, by its own count since its start.

use super::error::BenchError;
use super::progress::Recorder;
use super::results::{Figure, Figures};
use super::rows::{Case, Row};
use crate::builder::Kind;
use crate::four_letter;
use crate::servers::Servers;

const KEY: &str = "zk_max_lock_hold_us";

/// Records the longest hold of each of zoolet's servers, each as a round; Apache counts none.
pub(super) fn record(
    case: Case,
    count: usize,
    servers: &Servers,
    recorder: &mut Recorder,
) -> Result<(), BenchError> {
    if servers.kind() == Kind::Apache {
        return Ok(());
    }
    for index in 0..count {
        let address = servers.client_address(index)?;
        let reply = four_letter::ask(address, "mntr")
            .map_err(|error| BenchError::of(servers.kind(), format!("mntr: {error}")))?;
        let longest = value(&reply, KEY)
            .ok_or_else(|| BenchError::of(servers.kind(), format!("mntr shows no {KEY}")))?;
        let figures = Figures::from([(Figure::LongestHold, longest)]);
        recorder.add_next(Row::Case(case), servers.kind(), figures);
    }
    Ok(())
}

/// Returns a number of `mntr`.
fn value(reply: &str, key: &str) -> Option<f64> {
    let mut lines = reply.lines().filter_map(|line| line.split_once('\t'));
    lines.find(|(name, _)| *name == key)?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_its_whole_name() {
        let reply = "zk_version\t3.9\nzk_max_lock_hold_us_all\t9\nzk_max_lock_hold_us\t1234\n";
        assert_eq!(value(reply, KEY), Some(1_234.0));
        assert_eq!(value(reply, "zk_max_lock"), None);
    }
}
