//! A lock whose holders take turns.
//!
//! What takes long is done in several short holds. With the standard library's mutex alone, a
//! thread that takes the lock again at once would nearly always get it before a thread that was
//! waiting and has to wake up first. Here a thread that waits holds the place next in line, and a
//! thread that comes back must wait for that place.

use std::sync::{Mutex, MutexGuard};

/// A value behind a lock.
#[derive(Debug)]
pub(super) struct TurnLock<T> {
    /// Held while waiting for `value`, and only then.
    next: Mutex<()>,
    value: Mutex<T>,
}

impl<T> TurnLock<T> {
    pub(super) fn new(value: T) -> Self {
        Self { next: Mutex::new(()), value: Mutex::new(value) }
    }

    /// Waits for the lock.
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        let next = self.next.lock().expect("nothing panics while it waits for a lock");
        let value = self.value.lock().expect("a panic in a step ends the process");
        drop(next);
        value
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// How long one look at the place next in line is away from the one before, and how many there
    /// are at most.
    const PAUSE: Duration = Duration::from_millis(20);
    const LOOKS_MAX: usize = 500;

    /// With a plain mutex a thread that comes back at once gets it again and again before the other
    /// one has woken up, if there is a core for each of them.
    #[test]
    fn a_thread_that_waits_has_the_place_next_in_line() {
        let lock = Arc::new(TurnLock::new(0));
        let held = lock.lock();
        let (taken, is_taken) = channel();
        let waiting = {
            let lock = Arc::clone(&lock);
            thread::spawn(move || {
                *lock.lock() += 1;
                taken.send(()).unwrap();
            })
        };
        let is_next = || {
            assert!(is_taken.recv_timeout(PAUSE).is_err(), "the lock is held");
            lock.next.try_lock().is_err()
        };
        assert!((0..LOOKS_MAX).any(|_| is_next()), "it waits without a place");
        assert!(is_next(), "it has lost its place");
        drop(held);
        waiting.join().unwrap();
        // The place is free again.
        assert_eq!(*lock.lock(), 1);
    }
}
