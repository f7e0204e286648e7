//! The first epoch of an ensemble that is founded with the data of another one.
//!
//! The lost servers may have held elections that this data does not know, and earlier foundings with
//! the same data may have used epochs above it. Clients may hold zxids of those terms, as fencing
//! tokens and as the newest zxid seen. So the epoch rises with the wall clock: four epochs per second
//! are more than elections use, so every epoch that was used earlier is below the clock's.
//! Data that is far ahead of the clock shows that the clock cannot be trusted, and the new ensemble
//! begins far above the newest term in the data.

use std::time::Duration;

use thiserror::Error;

/// The wall clock at epoch 0: 2026-01-01, in milliseconds since 1970. The last epoch is that of
/// January 2043.
const CLOCK_START_MS: i64 = 1_767_225_600_000;

/// The time of one epoch.
const EPOCH_MS: i64 = 250;

/// By how much the clock's epoch must exceed the data's: in the first seconds after a founding there
/// can be several elections per second.
const CLOCK_MARGIN: u64 = 16;

/// How far an epoch may be ahead of the clock so that the founding waits for the clock: 10 s.
const AHEAD_MAX: u32 = 40;

/// The number of epochs to skip at least if the clock gives no usable epoch. Each epoch is an election
/// in which a majority has taken part, since a pre-vote precedes every increase of the term. The gap
/// covers eight years of one election per minute.
const EPOCH_GAP: u32 = 1 << 22;

/// The largest epoch to begin above: the next one is the largest in a zxid, which is never negative,
/// also for Java clients.
const EPOCH_MAX: u32 = i32::MAX as u32 - 1;

/// Why an ensemble cannot begin above an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EpochError {
    /// It was chosen, and zxids of it may exist.
    #[error(
        "--epoch {chosen} is not above {known}, the newest epoch in this data: zxids would repeat; \
         without --epoch, a larger epoch is derived from the clock and the data"
    )]
    Used { chosen: u32, known: u64 },
    /// No zxid has a larger one.
    #[error("--epoch {0} is too large: it is at most {EPOCH_MAX}")]
    TooLarge(u32),
    /// The data is too near to the end of all epochs.
    #[error(
        "the newest epoch in this data is {0}, too near to the largest, {EPOCH_MAX}: choose one that \
         no server can have used with the option --epoch of `zoolet recover`, `restore` or `import`"
    )]
    NoneLeft(u64),
}

/// Returns the epoch above which zxids begin: the chosen one, or by default the clock's. If `known`,
/// the newest epoch in the data, is a little ahead of the clock, the epoch is just above `known`, and
/// the caller waits for the clock (`time_until_past`). If it is far ahead, the epoch is at least the gap
/// above `known`, and still rises with the clock for 12 days (the gap). `wall_ms` is the wall clock.
pub(super) fn first_epoch(
    known: u64,
    chosen: Option<u32>,
    wall_ms: i64,
) -> Result<u32, EpochError> {
    match chosen {
        Some(chosen) if u64::from(chosen) <= known => Err(EpochError::Used { chosen, known }),
        Some(chosen) if chosen > EPOCH_MAX => Err(EpochError::TooLarge(chosen)),
        Some(chosen) => Ok(chosen),
        None => {
            let by_clock = clock_epoch(wall_ms);
            let by_data = known
                .saturating_add(EPOCH_GAP.into())
                .saturating_add(by_clock.unwrap_or(0) % u64::from(EPOCH_GAP));
            let above_known = known.saturating_add(CLOCK_MARGIN + 1);
            let by_clock = by_clock
                .filter(|clock| above_known <= clock.saturating_add(AHEAD_MAX.into()))
                .map(|clock| clock.max(above_known))
                // A clock far in the future must not use up all epochs.
                .filter(|epoch| *epoch <= u64::from(EPOCH_MAX));
            let epoch = u32::try_from(by_clock.unwrap_or(by_data)).ok();
            let epoch = epoch.filter(|epoch| *epoch <= EPOCH_MAX);
            epoch.ok_or(EpochError::NoneLeft(known))
        }
    }
}

/// Returns how long it takes until the epoch of the clock is above `epoch`, so that the next founding
/// begins above it; `None` if it is far ahead of the clock.
pub(crate) fn time_until_past(epoch: u32, wall_ms: i64) -> Option<Duration> {
    let past_ms = CLOCK_START_MS + (i64::from(epoch) + 1) * EPOCH_MS;
    let left_ms = past_ms.saturating_sub(wall_ms).max(0);
    let max_ms = (i64::from(AHEAD_MAX) + 1) * EPOCH_MS;
    (left_ms <= max_ms).then(|| Duration::from_millis(left_ms.unsigned_abs()))
}

/// Returns the epoch of the wall clock; `None` before the first.
fn clock_epoch(wall_ms: i64) -> Option<u64> {
    u64::try_from(wall_ms.checked_sub(CLOCK_START_MS)?.div_euclid(EPOCH_MS)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the wall clock at an epoch.
    fn at(epoch: i64) -> i64 {
        CLOCK_START_MS + epoch * EPOCH_MS
    }

    #[test]
    fn an_epoch_is_above_all_that_a_server_can_have_used() {
        let known = 100_u32;
        for wrong in [i64::MIN, 0, at(-1), at(0), at(i64::from(EPOCH_MAX) + 1), i64::MAX] {
            let epoch = first_epoch(known.into(), None, wrong).unwrap();
            let expected = known + EPOCH_GAP..known + 2 * EPOCH_GAP;
            assert!(expected.contains(&epoch), "{wrong}: {epoch}");
        }
        assert_eq!(first_epoch(7, Some(8), 0), Ok(8));
        let last = u64::from(EPOCH_MAX);
        assert_eq!(first_epoch(last - u64::from(EPOCH_GAP), None, 0), Ok(EPOCH_MAX));
        assert_eq!(first_epoch(last - 1, Some(EPOCH_MAX), 0), Ok(EPOCH_MAX));
        assert_eq!(first_epoch(0, None, at(i64::from(EPOCH_MAX))), Ok(EPOCH_MAX));
    }

    /// Restoring a backup twice led to the same epochs twice, and a second recovery within seconds to
    /// epochs that were far ahead of the clock.
    #[test]
    fn an_epoch_rises_with_every_founding_whatever_the_data_knows() {
        let (mut wall_ms, mut newest) = (at(28_800_000), 0);
        // Data of the founding before, which has held some elections, and older data.
        for (since_ms, elections) in
            [(0, None), (0, Some(1)), (0, Some(9)), (7, None), (1000, Some(0)), (3_600_000, None)]
        {
            wall_ms += since_ms;
            let known = elections.map_or(3, |elections| newest + elections);
            let epoch = first_epoch(known.into(), None, wall_ms).unwrap();
            assert!(epoch > newest.max(known), "{epoch} after {newest}");
            let wait = time_until_past(epoch, wall_ms).unwrap();
            assert!(wait < Duration::from_secs(11), "{wait:?}");
            wall_ms += i64::try_from(wait.as_millis()).unwrap();
            assert!(clock_epoch(wall_ms) > Some(epoch.into()));
            newest = epoch;
        }
        let now = 28_800_000_u32;
        assert_eq!(time_until_past(now, at(i64::from(now) + 1)), Some(Duration::ZERO));
        assert_eq!(time_until_past(now + AHEAD_MAX + 1, at(now.into())), None);
        // Data that is ahead of the clock.
        let ahead = u64::from(now) + 100_000;
        let epochs =
            [0, 1, 2, 3600].map(|second| first_epoch(ahead, None, at(i64::from(now) + second)));
        assert!(
            epochs.iter().all(|epoch| u64::from(epoch.unwrap()) >= ahead + u64::from(EPOCH_GAP))
        );
        assert!(epochs.is_sorted_by(|one, next| one.unwrap() < next.unwrap()), "{epochs:?}");
    }

    #[test]
    fn an_epoch_that_may_be_used_or_does_not_exist_is_refused() {
        for chosen in [0, 6, 7] {
            let error = first_epoch(7, Some(chosen), at(99));
            assert_eq!(error, Err(EpochError::Used { chosen, known: 7 }));
        }
        let error = first_epoch(7, Some(EPOCH_MAX + 1), at(99));
        assert_eq!(error, Err(EpochError::TooLarge(EPOCH_MAX + 1)));
        let near = u64::from(EPOCH_MAX - EPOCH_GAP) + 1;
        for known in [near, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(first_epoch(known, None, at(99)), Err(EpochError::NoneLeft(known)));
        }
        let text = EpochError::Used { chosen: 3, known: 7 }.to_string();
        assert!(text.contains("--epoch 3 is not above 7"), "{text}");
    }
}
