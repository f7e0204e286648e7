//! The first epoch of an ensemble that is founded with the data of another one.
//!
//! The lost servers may have held elections that this data does not know. Clients may hold zxids of
//! those terms, as fencing tokens and as the newest zxid seen, so the new ensemble begins far above
//! the newest term in the data.

use thiserror::Error;

/// The number of epochs to skip. Each epoch is an election in which a majority has taken part, since
/// a pre-vote precedes every increase of the term. The gap covers eight years of one election per
/// minute, and the range of epochs has room for 511 recoveries.
const EPOCH_GAP: u32 = 1 << 22;

/// The largest epoch to begin above: the next one is the largest in a zxid, which is never negative.
const EPOCH_MAX: u32 = i32::MAX as u32 - 1;

/// Why an ensemble cannot begin above an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EpochError {
    /// It was chosen, and zxids of it may exist.
    #[error(
        "--epoch {chosen} is not above {known}, the newest epoch in this data: zxids would repeat; \
         without --epoch, the new ensemble begins above {}", .known.saturating_add(EPOCH_GAP.into())
    )]
    Used { chosen: u32, known: u64 },
    /// No zxid has a larger one.
    #[error("--epoch {0} is too large: it is at most {EPOCH_MAX}")]
    TooLarge(u32),
    /// The data is too near to the end of all epochs.
    #[error(
        "the newest epoch in this data is {0}, and fewer than {EPOCH_GAP} are left below the largest, \
         {EPOCH_MAX}: choose one that no server can have used, with the option --epoch of `zoolet \
         recover`, `restore` or `import`"
    )]
    NoneLeft(u64),
}

/// Returns the epoch above which zxids begin: the chosen one, or by default the newest one in the
/// data, `known`, plus the gap.
pub(super) fn first_epoch(known: u64, chosen: Option<u32>) -> Result<u32, EpochError> {
    match chosen {
        Some(chosen) if u64::from(chosen) <= known => Err(EpochError::Used { chosen, known }),
        Some(chosen) if chosen > EPOCH_MAX => Err(EpochError::TooLarge(chosen)),
        Some(chosen) => Ok(chosen),
        None => {
            let epoch = u32::try_from(known).ok().and_then(|known| known.checked_add(EPOCH_GAP));
            epoch.filter(|epoch| *epoch <= EPOCH_MAX).ok_or(EpochError::NoneLeft(known))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_above_all_that_a_server_can_have_used() {
        assert_eq!(first_epoch(0, None), Ok(EPOCH_GAP));
        assert_eq!(first_epoch(7, None), Ok(EPOCH_GAP + 7));
        assert_eq!(first_epoch(7, Some(8)), Ok(8));
        let last = u64::from(EPOCH_MAX);
        assert_eq!(first_epoch(last - u64::from(EPOCH_GAP), None), Ok(EPOCH_MAX));
        assert_eq!(first_epoch(last - 1, Some(EPOCH_MAX)), Ok(EPOCH_MAX));
    }

    #[test]
    fn an_epoch_that_may_be_used_or_does_not_exist_is_refused() {
        for chosen in [0, 6, 7] {
            assert_eq!(first_epoch(7, Some(chosen)), Err(EpochError::Used { chosen, known: 7 }));
        }
        let error = first_epoch(7, Some(EPOCH_MAX + 1));
        assert_eq!(error, Err(EpochError::TooLarge(EPOCH_MAX + 1)));
        let near = u64::from(EPOCH_MAX - EPOCH_GAP) + 1;
        for known in [near, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(first_epoch(known, None), Err(EpochError::NoneLeft(known)));
        }
        let text = EpochError::Used { chosen: 3, known: 7 }.to_string();
        assert!(text.contains("--epoch 3 is not above 7") && text.contains("4194311"), "{text}");
    }
}
