//! Whether a batch that cannot be read is whole but for one bit.

use bytes::Bytes;
use crc32c::crc32c;

use super::batch_reader::{decode_records, read, read_body, read_header};
use super::format::{BATCH_HEADER_BYTES, BatchHeader, EMPTY_SECTOR, SECTOR_BYTES};
use super::segment::Segment;
use crate::StorageError;

/// The polynomial of CRC32C, its bits in reverse order: what a change of the last bit does to a
/// checksum.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// More zeros at the end of a sector's bytes may be what was there before the batch was written.
const ZEROS_MAX: usize = 15;

/// Returns in which byte of the file one bit has changed, if all else of a batch that cannot be read
/// is as it was written. A batch without records is not looked for: nothing is lost with it.
///
/// The checksums alone do not prove it: of all that a write can leave that was cut short, a few look
/// the same, one in 500 with a record of 1 MiB. But such a write lacks whole sectors or their ends,
/// so a batch in which the end of a sector may be missing is not taken for whole.
pub(super) fn find_changed_bit(
    segment: &Segment,
    segment_bytes: u64,
    offset: u64,
    number: u64,
) -> Result<Option<u64>, StorageError> {
    let Some(flipped) = find_flipped_bit(segment, segment_bytes, offset, number)? else {
        return Ok(None);
    };
    let mut found = vec![0; BATCH_HEADER_BYTES + flipped.body_bytes];
    read(&*segment.file, &segment.path, &mut found, offset)?;
    // The last bit that was set in its sector, and is not, is also what such a write can lack.
    let sector_end = (flipped.at + 1).next_multiple_of(SECTOR_BYTES).min(found.len());
    let rest = found.get(flipped.at..sector_end).unwrap_or_default();
    let is_last = EMPTY_SECTOR.starts_with(rest);
    let is_whole = flipped.records > 0 && !is_last && !found.chunks(SECTOR_BYTES).any(may_lack_end);
    Ok(is_whole.then_some(offset + flipped.at as u64))
}

/// Whether a sector's bytes end in more zeros than these: a write may not have come so far.
fn may_lack_end(bytes: &[u8]) -> bool {
    let end = bytes.len().saturating_sub(ZEROS_MAX + 1);
    bytes.get(end..).is_some_and(|end| EMPTY_SECTOR.starts_with(end))
}

/// A bit with whose change a batch is whole.
struct FlippedBit {
    /// Its byte, from the start of the batch.
    at: usize,
    body_bytes: usize,
    records: u32,
}

fn find_flipped_bit(
    segment: &Segment,
    segment_bytes: u64,
    offset: u64,
    number: u64,
) -> Result<Option<FlippedBit>, StorageError> {
    let salt = segment.header.salt;
    let Some(mut start) = read_header(segment, segment_bytes, offset)? else { return Ok(None) };
    if let Some((batch, _)) = BatchHeader::decode(salt, &start) {
        let Some(mut body) = read_body(segment, segment_bytes, offset, &batch)? else {
            return Ok(None);
        };
        let body_bytes = body.len();
        let Some((at, mask)) = changed_bit(&body, batch.body_checksum) else { return Ok(None) };
        flip(&mut body, at, mask);
        let is_whole = decode_records(Bytes::from(body), batch.records).is_some();
        let (at, records) = (BATCH_HEADER_BYTES + at, batch.records);
        return Ok(is_whole.then_some(FlippedBit { at, body_bytes, records }));
    }
    for bit in 0..8 * BATCH_HEADER_BYTES {
        let (at, mask) = (bit / 8, 1 << (bit % 8));
        flip(&mut start, at, mask);
        let batch = BatchHeader::decode(salt, &start).map(|(batch, _)| batch);
        flip(&mut start, at, mask);
        if let Some(batch) = batch.filter(|batch| batch.number == number)
            && let Some(body) = read_body(segment, segment_bytes, offset, &batch)?
            && crc32c(&body) == batch.body_checksum
        {
            let (body_bytes, records) = (body.len(), batch.records);
            return Ok(Some(FlippedBit { at, body_bytes, records }));
        }
    }
    Ok(None)
}

fn flip(bytes: &mut [u8], at: usize, mask: u8) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= mask;
    }
}

/// Returns the byte, and the bit of it, with whose change back the bytes fit to their checksum.
///
/// What a changed bit does to the checksum depends only on how many bits follow it, and is another
/// thing for each of up to two thousand million bits.
fn changed_bit(bytes: &[u8], checksum: u32) -> Option<(usize, u8)> {
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
