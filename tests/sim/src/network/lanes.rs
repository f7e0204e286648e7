//! Faults of some connections between two servers: of one lane, or of long pieces.

use std::collections::BTreeMap;
use std::time::Duration;

use super::pipe::PipeId;
use super::{Arrival, MachineId, Network, State};
use crate::SimTime;

/// The bytes that open a connection to a peer port, and the offset of the lane's number.
const PEER_MAGIC: &[u8] = b"zoopeer\n";
const LANE_AT: usize = 60;

/// A fault of connections between two servers, in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneFault {
    /// The lane by its number on the wire; `None` for all.
    pub lane: Option<u8>,
    /// Longer pieces are lost each time that they are sent, and hold up what follows on their
    /// connection; 0 for none.
    pub piece_bytes_max: usize,
    /// How many bytes a connection carries in a millisecond; 0 for any number.
    pub bytes_per_ms: u64,
}

/// The fault of a link, and the connections that it has struck.
#[derive(Debug)]
pub(super) struct FaultyLanes {
    fault: LaneFault,
    /// The pieces that are held up.
    held: BTreeMap<PipeId, Vec<Arrival>>,
    /// Slow connections are busy until then.
    busy_until: BTreeMap<PipeId, SimTime>,
}

impl FaultyLanes {
    /// Returns how much longer something takes on a connection of this lane. Keeps what does not
    /// arrive.
    fn pass(
        &mut self,
        now: SimTime,
        lane: Option<u8>,
        arrival: Arrival,
    ) -> Option<(Arrival, Duration)> {
        let is_struck = self.fault.lane.is_none_or(|struck| lane == Some(struck));
        let Some(pipe) = arrival.pipe().filter(|_| is_struck) else {
            return Some((arrival, Duration::ZERO));
        };
        let bytes = if let Arrival::Bytes(_, bytes) = &arrival { bytes.len() } else { 0 };
        let max = self.fault.piece_bytes_max;
        let is_held = self.held.contains_key(&pipe) || max > 0 && bytes > max;
        // A reset is taken out of its turn.
        if is_held && !matches!(arrival, Arrival::Reset(_)) {
            self.held.entry(pipe).or_default().push(arrival);
            return None;
        }
        let us = (bytes as u64).saturating_mul(1000).checked_div(self.fault.bytes_per_ms);
        let Some(us) = us else { return Some((arrival, Duration::ZERO)) };
        let busy_until = self.busy_until.entry(pipe).or_default();
        *busy_until = (*busy_until).max(now) + Duration::from_micros(us);
        Some((arrival, *busy_until - now))
    }
}

/// Returns the number of the lane that a connection has whose first piece this is.
pub(super) fn lane_of(first_piece: &[u8]) -> Option<u8> {
    first_piece.starts_with(PEER_MAGIC).then(|| first_piece.get(LANE_AT).copied()).flatten()
}

impl Network {
    /// Has some connections of a link fail, of one direction.
    pub fn set_lane_fault(&self, from: MachineId, to: MachineId, fault: LaneFault) {
        self.mend_lanes(from, to);
        let lanes = FaultyLanes { fault, held: BTreeMap::new(), busy_until: BTreeMap::new() };
        self.lock().link(from, to).lanes = Some(lanes);
    }

    /// Heals the connections of a link: delayed data arrives, and slow connections are fast again.
    pub fn mend_lanes(&self, from: MachineId, to: MachineId) {
        let mut state = self.lock();
        let Some(lanes) = state.link(from, to).lanes.take() else { return };
        let is_slow = |arrival: &Arrival| {
            arrival.pipe().is_some_and(|pipe| lanes.busy_until.contains_key(&pipe))
        };
        let late: Vec<(SimTime, u64)> = state
            .arrivals
            .iter()
            .filter(|(_, arrival)| is_slow(arrival))
            .map(|(key, _)| *key)
            .collect();
        let now = state.now;
        for pipe in lanes.busy_until.keys() {
            if let Some(pipe) = state.pipes.get_mut(pipe) {
                pipe.last_arrival = now;
            }
        }
        let mut again: Vec<Arrival> = Vec::new();
        again.extend(late.iter().filter_map(|key| state.arrivals.remove(key)));
        again.extend(lanes.held.into_values().flatten());
        for arrival in again {
            state.carry(from, to, arrival);
        }
    }
}

impl State {
    /// Passes something through the faulty connections of a link, if there are any.
    pub(super) fn pass_lanes(
        &mut self,
        (from, to): (MachineId, MachineId),
        arrival: Arrival,
    ) -> Option<(Arrival, Duration)> {
        let lane = arrival.pipe().and_then(|pipe| self.lane(pipe));
        let now = self.now;
        match &mut self.link(from, to).lanes {
            Some(lanes) => lanes.pass(now, lane, arrival),
            None => Some((arrival, Duration::ZERO)),
        }
    }

    /// Returns the lane of a connection, which its caller has written.
    fn lane(&self, pipe: PipeId) -> Option<u8> {
        let pipe = self.pipes.get(&pipe)?;
        pipe.lane.or_else(|| self.pipes.get(&pipe.other)?.lane)
    }
}

#[cfg(test)]
mod tests {
    use zoolet_server::internals::{Lane, PeerIdentity, opening_of};

    use super::*;

    #[test]
    fn the_lane_of_a_connection_is_read_from_what_its_caller_sends_first() {
        let ours = PeerIdentity { cluster: u64::MAX, founding: 2, server: 3, directory: 4 };
        for lane in Lane::ALL {
            let opening = opening_of(ours, u64::MAX, lane);
            assert_eq!(lane_of(&opening), Some(lane as u8));
        }
        assert_eq!(lane_of(b"zoopeer\n"), None);
        assert_eq!(lane_of(&[1; 100]), None);
    }
}
