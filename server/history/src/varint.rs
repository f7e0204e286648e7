//! Numbers of variable length: seven bits in each byte, the lowest first.

/// The bytes of the longest number.
const BYTES_MAX: usize = 10;

/// Appends a number.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low_bits(value) | 0x80);
        value >>= 7;
    }
    out.push(low_bits(value));
}

/// Appends a number that may be negative; small ones of either sign are short.
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, (value << 1 ^ value >> 63).cast_unsigned());
}

fn low_bits(value: u64) -> u8 {
    u8::try_from(value & 0x7f).unwrap_or(0)
}

/// Takes a number off the front; `None` if there is no whole one.
pub(crate) fn take(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for (place, byte) in input.iter().copied().take(BYTES_MAX).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            *input = input.get(place + 1..)?;
            return Some(value);
        }
    }
    None
}

/// Takes a number that may be negative.
pub(crate) fn take_signed(input: &mut &[u8]) -> Option<i64> {
    let value = take(input)?;
    Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_half_ones_do_not() {
        for value in [0, 1, -1, 63, 64, -65, i64::MAX, i64::MIN, 1 << 40] {
            let mut bytes = Vec::new();
            put_signed(&mut bytes, value);
            let mut input = bytes.as_slice();
            assert_eq!(take_signed(&mut input), Some(value));
            assert!(input.is_empty());
            let mut half = &bytes[..bytes.len() - 1];
            assert_eq!(take_signed(&mut half), None, "{value}");
        }
        let mut endless = [0xff_u8; 20].as_slice();
        assert_eq!(take(&mut endless), None);
    }
}
