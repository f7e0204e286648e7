//! No call of a memory disk fails: what `faults.rs` is without the feature `faults`.

#![allow(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    reason = "the signatures are those of `faults.rs`"
)]

use std::io;

use super::Image;

#[derive(Debug, Default)]
pub(super) struct Faults;

impl Faults {
    pub(super) fn keep_removed(&self) -> bool {
        false
    }

    pub(super) fn check_power(&self) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn is_off(&self) -> bool {
        false
    }

    pub(super) fn check_room(&self, _: &Image, _: u64) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn before_change(&mut self) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn before_write<'a>(
        &mut self,
        _: &Image,
        _: &'a [u8],
        _: u64,
    ) -> io::Result<Option<&'a [u8]>> {
        Ok(None)
    }

    pub(super) fn before_read(&mut self) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn changed(&mut self, _: &Image) {}
}
