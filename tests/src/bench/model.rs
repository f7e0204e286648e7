//! How the servers would do on other machines, computed from what was measured on this one.
//!
//! On a server, everything of a write but the sync of the log is on one thread, so that one core
//! bounds it; the leader's thread is the busiest.

use std::fmt::Write;

use super::markdown::number;
use super::results::{Figure, Results};
use super::rows::Row;
use crate::builder::Kind;

/// The ensembles and machines that are computed.
const SERVERS: [u32; 3] = [3, 5, 7];
const CORES: [u32; 2] = [8, 32];
/// The loads that the coefficients are from: writes to three servers, the same to one, and reads.
const WRITES: [&str; 2] = ["3:set:16x8", "3:set:64x32"];
const ALONE: &str = "1:set:16x8";
const READS: &str = "3:get:16x8";
const MEASURED: u32 = 3;
const NETWORK_BITS_S: f64 = 1e9;

/// What one write takes, on average; CPU in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Coefficients {
    /// All of the leader, its busiest thread, and a follower, each with a third of the clients.
    leader: f64,
    leader_thread: f64,
    follower: f64,
    /// The clients' part: what a read takes, which is little but the request and the reply.
    client: f64,
    /// The leader's part for each follower.
    for_follower: f64,
    /// What the leader sends to each follower.
    peer_bytes: f64,
}

impl Coefficients {
    /// Returns `None` when a load is missing that they are computed from.
    fn of(results: &Results, writes: &str) -> Option<Self> {
        let figure = |name: &str, figure| {
            Some(results.summary(Row::find(name)?, Kind::Zoolet, figure)?.median)
        };
        let leader = figure(writes, Figure::LeaderCpu)?;
        let client = figure(READS, Figure::CpuPerOperation)?;
        let measured = figure(WRITES[0], Figure::LeaderCpu)?;
        let three = measured - client / f64::from(MEASURED);
        let one = figure(ALONE, Figure::LeaderCpu)? - client;
        Some(Self {
            leader,
            leader_thread: figure(writes, Figure::LeaderThread)?,
            follower: figure(writes, Figure::FollowerCpu)?,
            client,
            // Larger batches take less of it, as of all that the leader does.
            for_follower: (three - one).max(0.0) / f64::from(MEASURED - 1) * leader / measured,
            peer_bytes: figure(writes, Figure::PeerBytes)?,
        })
    }

    /// What changes for the leader with the number of servers: more followers, fewer clients.
    fn leader_change(&self, servers: u32) -> f64 {
        let followers = f64::from(servers) - f64::from(MEASURED);
        followers * self.for_follower + self.client_change(servers)
    }

    fn client_change(&self, servers: u32) -> f64 {
        self.client * (1.0 / f64::from(servers) - 1.0 / f64::from(MEASURED))
    }

    /// The writes at which the leader's thread has no time left.
    fn thread_limit(&self, servers: u32) -> f64 {
        1e6 / (self.leader_thread + self.leader_change(servers))
    }

    /// The writes at which the leader's network of 1 Gbit/s is full.
    fn network_limit(&self, servers: u32) -> f64 {
        NETWORK_BITS_S / (8.0 * self.peer_bytes * f64::from(servers - 1))
    }

    /// The writes at which some cores that all servers share have no time left.
    fn cores_limit(&self, servers: u32, cores: u32) -> f64 {
        let leader = self.leader + self.leader_change(servers);
        let follower = self.follower + self.client_change(servers);
        f64::from(cores) * 1e6 / (leader + f64::from(servers - 1) * follower)
    }
}

/// Returns the section, when all loads are there that it is computed from.
pub(super) fn section(results: &Results) -> Option<String> {
    let of = |name| Some((Row::find(name)?, Coefficients::of(results, name)?));
    let found: Vec<(Row, Coefficients)> = WRITES.into_iter().filter_map(of).collect();
    if found.is_empty() {
        return None;
    }
    let mut text = String::from("\n### How it scales past this machine\n\n");
    text.push_str(
        "Computed by the bench from the loads above. On each server one thread does everything for \
         a write but its sync, so that one core bounds a server, however many there are; the \
         leader's is the busiest.\n\nMeasured for each write, CPU in µs; the clients are spread \
         over three servers:\n\n\
         | load | leader | its busiest thread | a follower | client (a read) | leader, for each \
         follower | bytes to each follower |\n|---|---|---|---|---|---|---|\n",
    );
    for (row, it) in &found {
        let cells =
            [it.leader, it.leader_thread, it.follower, it.client, it.for_follower, it.peer_bytes];
        let cells = cells.map(number).join(" | ");
        let _ = writeln!(text, "| {} | {cells} |", row.title());
    }
    text.push_str(&limits(&found));
    text.push_str(&sync(results).unwrap_or_default());
    Some(text)
}

/// Returns the table of what limits the writes.
fn limits(found: &[(Row, Coefficients)]) -> String {
    let mut text = String::from(
        "\nWrites per second at which something has no time left. A machine for each server: the \
         leader's thread, or its network of 1 Gbit/s; more cores than two change neither. One \
         machine for all servers: its cores, or still the leader's thread.\n\n\
         | load | servers | leader's thread | network |",
    );
    for cores in CORES {
        let _ = write!(text, " {cores} cores for all |");
    }
    text.push_str(" breaks first, a machine each |\n|---|---|---|---|---|---|---|\n");
    for (row, it) in found {
        for servers in SERVERS {
            let (thread, network) = (it.thread_limit(servers), it.network_limit(servers));
            let cores = CORES.map(|cores| number(it.cores_limit(servers, cores).min(thread)));
            let first = if thread <= network { "the leader's thread" } else { "the network" };
            let _ = writeln!(
                text,
                "| {} | {servers} | {} | {} | {} | {first} |",
                row.title(),
                number(thread),
                number(network),
                cores.join(" | "),
            );
        }
    }
    text
}

fn sync(results: &Results) -> Option<String> {
    let p50 = results.summary(Row::find("disk:sync")?, Kind::Zoolet, Figure::P50)?.median;
    Some(format!(
        "\nA sync of this disk takes {} µs and is shared by all writes that wait for it: it bounds \
         the latency of a write, and not the rate.\n",
        number(p50)
    ))
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::example_of;
    use super::super::results::{Figures, Measurement};
    use super::super::rows::Group;
    use super::*;

    fn results() -> Results {
        let mut results = example_of(Group::Loads);
        let mut add = |name: &str, figures: Figures| {
            let row = Row::find(name).unwrap();
            let measurement = Measurement { row, system: Kind::Zoolet, round: 1, figures };
            results.runs[0].measurements.push(measurement);
        };
        add("3:get:16x8", Figures::from([(Figure::CpuPerOperation, 3.0)]));
        add("1:set:16x8", Figures::from([(Figure::LeaderCpu, 7.0)]));
        let figures = [
            (Figure::LeaderCpu, 9.0),
            (Figure::LeaderThread, 6.0),
            (Figure::FollowerCpu, 5.0),
            (Figure::PeerBytes, 250.0),
        ];
        add("3:set:16x8", Figures::from(figures));
        results
    }

    #[test]
    fn the_limits_follow_from_the_coefficients() {
        let it = Coefficients::of(&results(), "3:set:16x8").unwrap();
        // The leader without its clients has 8, a single server 4: 2 for each follower.
        assert!((it.for_follower - 2.0).abs() < 1e-9, "{it:?}");
        assert!((it.thread_limit(3) - 1e6 / 6.0).abs() < 1e-3);
        let client_change = 3.0 * (0.2 - 1.0 / 3.0);
        let thread_of_five = 6.0 + 2.0 * 2.0 + client_change;
        assert!((it.thread_limit(5) - 1e6 / thread_of_five).abs() < 1e-3);
        assert!((it.network_limit(5) - 125_000.0).abs() < 1e-3);
        assert!((it.cores_limit(3, 8) - 8e6 / 19.0).abs() < 1e-3);
    }

    #[test]
    fn the_tables_are_there_when_their_loads_are() {
        assert_eq!(section(&example_of(Group::Loads)), None);
        let text = section(&results()).unwrap();
        let row = "| 3 servers, set 16×8 | 9.00 | 6.00 | 5.00 | 3.00 | 2.00 | 250 |";
        assert!(text.lines().any(|line| line == row), "{text}");
        assert_eq!(text.matches("the network |").count(), 0, "{text}");
        assert_eq!(text.matches("the leader's thread |").count(), 3, "{text}");
    }
}
