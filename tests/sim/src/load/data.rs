//! Values that are written: each of them once, so that a read shows which write it has seen.

use bytes::Bytes;

use super::chance::Chance;
use crate::history::ClientNumber;

/// Values of a client.
#[derive(Debug)]
pub(super) struct Data {
    client: ClientNumber,
    chance: Chance,
    written: u64,
}

impl Data {
    pub(super) fn new(client: ClientNumber, chance: Chance) -> Self {
        Self { client, chance, written: 0 }
    }

    /// A small value, null or empty now and then, and seldom a big one.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        match self.chance.between(0..=399) {
            0..=7 => None,
            8..=15 => Some(Bytes::new()),
            16 => Some(self.padded(700 * 1024)),
            17..=19 => Some(self.padded(64 * 1024)),
            _ => Some(self.small()),
        }
    }

    /// A small value.
    pub(super) fn small(&mut self) -> Bytes {
        self.padded(0)
    }

    fn padded(&mut self, bytes_max: u64) -> Bytes {
        self.written += 1;
        // The seed of the chance makes values of two lives of one client differ.
        let mut text =
            format!("{}-{}-{:04x}", self.client.0, self.written, self.chance.number() >> 48);
        let bytes = usize::try_from(self.chance.between(0..=bytes_max)).unwrap_or(0);
        if bytes > text.len() {
            text.extend(std::iter::repeat_n('.', bytes - text.len()));
        }
        text.into()
    }
}
