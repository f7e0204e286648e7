//! What makes the calls of a memory disk fail, and what watches them.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::{Image, MemoryDisk, Shared};

/// How a disk call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// EIO, nothing done; a sync loses what it should have written.
    Io,
    /// ENOSPC, nothing done.
    Full,
    /// A write stops halfway with ENOSPC; any other call fails with EIO.
    Short,
}

/// The power of a disk. Clones are the same one, so that others see when it fails.
#[derive(Clone, Debug, Default)]
pub struct Power(Arc<AtomicBool>);

impl Power {
    /// From now on there is none.
    pub fn switch_off(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether there is none.
    pub fn is_off(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

type Observer = Box<dyn FnMut(&Image) + Send>;

/// What is to fail on one disk.
#[derive(Default)]
pub(super) struct Faults {
    /// Whether removed files must be kept, because a power cut may bring them back.
    keep_removed: bool,
    changes: u64,
    failing_change: Option<(u64, Fault)>,
    reads: u64,
    failing_read: Option<u64>,
    capacity_bytes: Option<u64>,
    power: Power,
    /// The change in whose midst the power fails.
    last_change: Option<u64>,
    observer: Option<Observer>,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").field("changes", &self.changes).finish_non_exhaustive()
    }
}

impl MemoryDisk {
    /// An empty disk that knows what was synced.
    pub fn with_faults() -> Self {
        Self::from_image(Image::default())
    }

    /// A disk that knows what was synced, holding `image`.
    pub fn from_image(image: Image) -> Self {
        let faults = Faults { keep_removed: true, ..Faults::default() };
        let shared = Shared { image, faults, ..Shared::default() };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    /// What is on the disk now.
    pub fn image(&self) -> Image {
        self.lock_shared().image.clone()
    }

    /// Makes the `number`-th changing call from now on (counted from 1) fail: every call but
    /// opening, reading, listing and locking changes something.
    pub fn fail_change(&self, number: u64, fault: Fault) {
        let faults = &mut self.lock_shared().faults;
        faults.failing_change = Some((faults.changes + number, fault));
    }

    /// Makes the `number`-th read of file contents from now on (counted from 1) fail.
    pub fn fail_read(&self, number: u64) {
        let faults = &mut self.lock_shared().faults;
        faults.failing_read = Some(faults.reads + number);
    }

    /// Takes back what is to fail and has not.
    pub fn fail_no_more(&self) {
        let faults = &mut self.lock_shared().faults;
        (faults.failing_change, faults.failing_read) = (None, None);
    }

    /// How many changing calls there were.
    pub fn changes(&self) -> u64 {
        self.lock_shared().faults.changes
    }

    /// Gives the disk a size; writes that need more fail with ENOSPC.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.lock_shared().faults.capacity_bytes = bytes;
    }

    /// From now on every call fails, as if the server had lost its disk or its power.
    pub fn switch_off(&self) {
        self.lock_shared().faults.power.switch_off();
    }

    /// The power fails in the `number`-th changing call from now on (counted from 1): a write is
    /// done halfway, any other call not at all, and every call behind it fails.
    pub fn switch_off_at(&self, number: u64) {
        let faults = &mut self.lock_shared().faults;
        faults.last_change = Some(faults.changes + number);
    }

    /// Takes `switch_off_at` back.
    pub fn stay_on(&self) {
        self.lock_shared().faults.last_change = None;
    }

    /// Its power.
    pub fn power(&self) -> Power {
        self.lock_shared().faults.power.clone()
    }

    /// Calls `observer` with the disk after each changing call that succeeded.
    pub fn observe(&self, observer: impl FnMut(&Image) + Send + 'static) {
        self.lock_shared().faults.observer = Some(Box::new(observer));
    }
}

fn injected() -> io::Error {
    io::Error::other("injected fault")
}

impl Faults {
    pub(super) fn keep_removed(&self) -> bool {
        self.keep_removed
    }

    pub(super) fn check_power(&self) -> io::Result<()> {
        if self.is_off() { Err(io::Error::other("the disk is switched off")) } else { Ok(()) }
    }

    pub(super) fn is_off(&self) -> bool {
        self.power.is_off()
    }

    pub(super) fn check_room(&self, image: &Image, more: u64) -> io::Result<()> {
        match self.capacity_bytes {
            Some(capacity) if image.used_bytes() + more > capacity => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }

    /// Counts a changing call. An error when it must fail whatever it is; a fault when the call
    /// itself decides how it fails.
    fn next_fault(&mut self) -> io::Result<Option<Fault>> {
        self.check_power()?;
        self.changes += 1;
        if self.last_change == Some(self.changes) {
            self.power.switch_off();
            return Ok(Some(Fault::Short));
        }
        match self.failing_change {
            Some((number, Fault::Full)) if number == self.changes => {
                Err(io::ErrorKind::StorageFull.into())
            }
            Some((number, fault)) if number == self.changes => Ok(Some(fault)),
            _ => Ok(None),
        }
    }

    /// Counts a changing call that is not a write.
    pub(super) fn before_change(&mut self) -> io::Result<()> {
        if self.next_fault()?.is_some() { Err(injected()) } else { Ok(()) }
    }

    /// Counts a write of `bytes`, which makes its file longer by `more` bytes. Returns what is
    /// written of them before it fails; `None` if it does not.
    pub(super) fn before_write<'a>(
        &mut self,
        image: &Image,
        bytes: &'a [u8],
        more: u64,
    ) -> io::Result<Option<&'a [u8]>> {
        let fault = self.next_fault()?;
        self.check_room(image, more)?;
        match fault {
            None => Ok(None),
            Some(Fault::Io | Fault::Full) => Err(injected()),
            Some(Fault::Short) => Ok(Some(bytes.get(..bytes.len() / 2).unwrap_or_default())),
        }
    }

    pub(super) fn before_read(&mut self) -> io::Result<()> {
        self.check_power()?;
        self.reads += 1;
        if self.failing_read == Some(self.reads) {
            return Err(io::Error::other("injected fault of a read"));
        }
        Ok(())
    }

    /// A changing call has succeeded.
    pub(super) fn changed(&mut self, image: &Image) {
        if let Some(observer) = &mut self.observer {
            observer(image);
        }
    }
}
