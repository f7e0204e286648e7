//! One direction between two machines.

use std::time::Duration;

use super::Arrival;
use super::lanes::FaultyLanes;
use crate::SimTime;
use crate::chance::Chance;

/// How a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conditions {
    /// How long something takes, in microseconds, at least and at most.
    pub latency_us: (u64, u64),
    /// How many pieces in a thousand are lost, and sent again.
    pub lost_permille: u64,
    /// How many bytes it carries in a millisecond; 0 for any number.
    pub bytes_per_ms: u64,
}

impl Conditions {
    /// A link within a data center.
    pub const GOOD: Self = Self { latency_us: (150, 900), lost_permille: 0, bytes_per_ms: 0 };
}

/// The first wait of TCP before it sends again.
pub(super) const RETRANSMIT_MS: u64 = 200;
/// How often in a row something is lost at most.
const LOSSES_MAX: u32 = 5;

#[derive(Debug)]
pub(super) struct Link {
    pub(super) conditions: Conditions,
    /// How many connects in a thousand arrive twice.
    pub(super) twice_permille: u64,
    pub(super) is_cut: bool,
    /// What was sent while it is cut.
    pub(super) held: Vec<Arrival>,
    /// Those of its connections that fail.
    pub(super) lanes: Option<FaultyLanes>,
    /// A slow link is busy until then.
    busy_until: SimTime,
}

impl Default for Link {
    fn default() -> Self {
        let (conditions, held) = (Conditions::GOOD, Vec::new());
        let busy_until = SimTime::default();
        Self { conditions, twice_permille: 0, is_cut: false, held, lanes: None, busy_until }
    }
}

impl Link {
    /// How long some bytes take from now on, and whether they were lost at first.
    pub(super) fn span(
        &mut self,
        now: SimTime,
        bytes: usize,
        chance: &mut Chance,
    ) -> (Duration, bool) {
        let Conditions { latency_us, lost_permille, bytes_per_ms } = self.conditions;
        let mut span = chance.span_us(latency_us);
        let mut losses = 0;
        while losses < LOSSES_MAX && lost_permille > 0 && chance.permille(lost_permille) {
            span += Duration::from_millis(RETRANSMIT_MS << losses);
            losses += 1;
        }
        if let Some(us) = (bytes as u64).saturating_mul(1000).checked_div(bytes_per_ms) {
            let free_at = self.busy_until.max(now) + Duration::from_micros(us);
            self.busy_until = free_at;
            span += free_at - now;
        }
        (span, losses > 0)
    }
}
