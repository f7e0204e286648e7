//! Which of the unsynced effects outlive a power cut.

use std::sync::Arc;

use super::image::{SECTOR_BYTES, Sector};

/// What a power cut keeps of the effects that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// None of them.
    Nothing,
    /// All of them.
    Everything,
    /// Each with even odds, in any combination: sectors, lengths and directory entries.
    Some { seed: u64 },
    /// As `Some`, and a sector that was being written may also come back as zeros, or new at its
    /// start and old behind.
    Torn { seed: u64 },
}

impl Survival {
    pub(super) fn seed(self) -> u64 {
        match self {
            Self::Nothing | Self::Everything => 0,
            Self::Some { seed } | Self::Torn { seed } => seed,
        }
    }

    /// Whether one effect that is kept or lost as a whole survives.
    pub(super) fn keeps(self, dice: &mut Dice) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Some { .. } | Self::Torn { .. } => dice.roll(2) == 0,
        }
    }

    /// What is in a sector that was `old` (`None`: zeros) and was being overwritten with `new`;
    /// `None` when it stays as it was.
    pub(super) fn sector(
        self,
        dice: &mut Dice,
        old: Option<&Sector>,
        new: &Sector,
    ) -> Option<Sector> {
        let torn = matches!(self, Self::Torn { .. });
        match if torn { dice.roll(4) } else { 0 } {
            2 => Some(Arc::new([0; SECTOR_BYTES])),
            3 => {
                let mut mixed = old.map_or([0; SECTOR_BYTES], |old| **old);
                let split = usize::try_from(dice.roll(SECTOR_BYTES as u64)).unwrap_or(0);
                for (byte, new) in mixed.iter_mut().zip(new.iter()).take(split) {
                    *byte = *new;
                }
                Some(Arc::new(mixed))
            }
            _ => self.keeps(dice).then(|| new.clone()),
        }
    }
}

/// A small seeded generator (splitmix64), so that a crash can be repeated.
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `sides`, which is not zero.
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % sides
    }
}
