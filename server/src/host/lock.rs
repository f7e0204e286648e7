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
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    /// With a plain mutex the other thread waits until the loop is done.
    #[test]
    fn a_thread_that_comes_back_at_once_lets_another_one_in_between() {
        let lock = Arc::new(TurnLock::new(0_u64));
        let started = Arc::new(AtomicBool::new(false));
        let busy = {
            let (lock, started) = (Arc::clone(&lock), Arc::clone(&started));
            thread::spawn(move || {
                let mut holds = 0_u64;
                loop {
                    let seen = lock.lock();
                    started.store(true, Ordering::SeqCst);
                    // Long enough for the other thread to go to sleep over its wait.
                    for _ in 0..200_000 {
                        std::hint::spin_loop();
                    }
                    if *seen == 20 || holds == 2000 {
                        return holds;
                    }
                    holds += 1;
                }
            })
        };
        while !started.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        for _ in 0..20 {
            *lock.lock() += 1;
        }
        let holds = busy.join().unwrap();
        assert!(holds < 2000, "the other thread never got the lock 20 times");
    }
}
