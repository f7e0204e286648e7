//! The hash under the state's digest, by which servers find out that they have drifted apart.
//!
//! It must be the same on every server and in every start, and cheap to keep up to date. No one is
//! kept from forging it: it detects accidents, not attacks.

/// The version of the digest's definition: of the hash, and of what goes into it in which order. A
/// build that computes another digest of the same state must have another version, or its servers
/// would take those of other builds for diverged ones.
pub const DIGEST_VERSION: u8 = 1;

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const FACTOR: u64 = 0xd6e8_feb8_6659_fd93;

/// A running hash over words and bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hasher(u64);

impl Hasher {
    /// A hash that starts from `seed`: different kinds of things start from different ones.
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed ^ SEED)
    }

    pub(super) const fn word(self, word: u64) -> Self {
        Self(fold(self.0 ^ word, FACTOR).rotate_left(23) ^ SEED)
    }

    #[allow(clippy::cast_sign_loss, reason = "only the bits count")]
    pub(super) const fn signed(self, word: i64) -> Self {
        self.word(word as u64)
    }

    pub(super) fn bytes(self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<8>();
        let hash = words.iter().fold(self, |hash, word| hash.word(u64::from_be_bytes(*word)));
        let tail = rest.iter().fold(0, |tail, &byte| tail << 8 | u64::from(byte));
        hash.word(tail).word(bytes.len() as u64)
    }

    pub(super) const fn finish(self) -> u64 {
        fold(self.0 ^ FACTOR, SEED)
    }
}

/// Multiplies to 128 bits and lays the halves over each other, so every bit reaches every other.
#[allow(clippy::cast_possible_truncation, reason = "the halves of the product")]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}
