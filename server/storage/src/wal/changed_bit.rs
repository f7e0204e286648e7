//! Which bit has changed, found out by a checksum.

use crc32c::crc32c;

/// The polynomial of CRC32C, its bits in reverse order: what a change of the last bit does to a
/// checksum.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Returns the byte, and the bit of it, with whose change back the bytes fit to their checksum.
///
/// What a changed bit does to the checksum depends only on how many bits follow it, and is another
/// thing for each of up to two thousand million bits.
pub(super) fn changed_bit(bytes: &[u8], checksum: u32) -> Option<(usize, u8)> {
    let difference = crc32c(bytes) ^ checksum;
    let mut effect = POLYNOMIAL;
    for at in (0..bytes.len()).rev() {
        for bit in (0..8).rev() {
            if effect == difference {
                return Some((at, 1 << bit));
            }
            effect = (effect >> 1) ^ if effect & 1 == 1 { POLYNOMIAL } else { 0 };
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_is_found_and_two_are_not_taken_for_one() {
        let bytes: Vec<u8> = (0..=255).chain(0..100).collect();
        let checksum = crc32c(&bytes);
        assert_eq!(changed_bit(&bytes, checksum), None, "nothing has changed");
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert_eq!(changed_bit(&changed, checksum), Some((at, 1 << bit)));
                changed[(at + 77) % bytes.len()] ^= 0x10;
                assert_eq!(changed_bit(&changed, checksum), None, "byte {at}, bit {bit}");
            }
        }
    }
}
