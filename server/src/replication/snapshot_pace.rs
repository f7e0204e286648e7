//! How much is written between two snapshots.

/// How much is written between two snapshots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SnapshotPace {
    /// Commands between two snapshots, at least.
    pub(crate) commands: u64,
    /// Bytes of log that make a snapshot due whatever else holds; 0 for none.
    pub(crate) log_bytes_max: u64,
    /// Bytes of log between two snapshots, at least, as a part of the bytes of the last snapshot.
    pub(crate) log_percent: u64,
}

impl SnapshotPace {
    /// Whether `commands` and `bytes` of log behind a snapshot of `snapshot_bytes` are enough for
    /// another.
    pub(super) fn is_reached(self, commands: u64, bytes: u64, snapshot_bytes: u64) -> bool {
        let part = u128::from(snapshot_bytes) * u128::from(self.log_percent) / 100;
        let has_grown = commands >= self.commands && u128::from(bytes) >= part;
        let is_long = self.log_bytes_max > 0 && bytes >= self.log_bytes_max;
        has_grown || is_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: SnapshotPace =
        SnapshotPace { commands: 1000, log_bytes_max: 1 << 30, log_percent: 50 };

    #[test]
    fn a_small_state_is_written_after_some_commands() {
        assert!(!PACE.is_reached(999, 200_000, 0));
        assert!(PACE.is_reached(1000, 200_000, 0), "there was none before");
        assert!(PACE.is_reached(1000, 200_000, 400_000));
    }

    /// With 10,000,000 znodes one snapshot after the other was written, and each write copied a
    /// part of the tree for it.
    #[test]
    fn a_large_state_is_written_when_the_log_has_grown_with_it() {
        let snapshot = 1_600_000_000;
        assert!(!PACE.is_reached(1000, 200_000, snapshot));
        assert!(!PACE.is_reached(4_000_000, 799_999_999, snapshot));
        assert!(PACE.is_reached(4_000_000, 800_000_000, snapshot));
        let by_commands = SnapshotPace { log_percent: 0, ..PACE };
        assert!(by_commands.is_reached(1000, 200_000, snapshot), "the size does not count");
    }

    #[test]
    fn a_long_log_is_always_enough() {
        assert!(PACE.is_reached(10, 1 << 30, 1 << 40));
        let unbounded = SnapshotPace { log_bytes_max: 0, ..PACE };
        assert!(!unbounded.is_reached(10, 1 << 30, 1 << 40));
        let greedy = SnapshotPace { log_percent: u64::MAX, ..unbounded };
        assert!(!greedy.is_reached(u64::MAX, u64::MAX, u64::MAX), "nothing overflows");
    }
}
