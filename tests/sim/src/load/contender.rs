//! What all contenders for locks note, and how they hold.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use zoolet_jute::SessionId;

use super::chance::Chance;
use super::resource::GuardedResources;
use super::stop::{out_of_time, rest, stopped};
use crate::history::{ClientNumber, LockStep, Recorder, What};

/// A contender for one lock.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    pub(super) client: ClientNumber,
    pub(super) recorder: Recorder,
    pub(super) resources: GuardedResources,
    pub(super) lock: String,
    /// Whether the lock has one holder at a time, so that a resource can compare tokens.
    pub(super) is_exclusive: bool,
    /// The session timeout: how long a lock is waited for and given back, once it is to stop.
    pub(super) timeout: Duration,
    pub(super) stop: watch::Receiver<bool>,
}

impl Contender {
    pub(super) fn note(&self, step: LockStep) {
        self.recorder.note(What::Lock { client: self.client, lock: self.lock.clone(), step });
    }

    pub(super) fn waits(&self, mode: &str) {
        self.note(LockStep::Waits { mode: mode.to_owned() });
    }

    pub(super) fn granted(&self, token: i64, znode: &str, session: SessionId) {
        self.note(LockStep::Granted { token, znode: znode.to_owned(), session });
    }

    /// Waits for a lock, for so long at most, or until the program is to stop; notes it if it gives up.
    pub(super) async fn acquire<T, E>(
        &self,
        limit: Duration,
        lock: impl Future<Output = Result<T, E>>,
    ) -> Result<Option<T>, E> {
        let taken = tokio::select! {
            biased;
            taken = lock => taken.map(Some),
            () = rest(&self.stop, limit) => Ok(None),
        };
        if !matches!(taken, Ok(Some(_))) {
            self.note(LockStep::GaveUp);
        }
        taken
    }

    /// Works under the lock for so long, or until it is lost, or until the program is to stop. Returns
    /// whether it was lost.
    pub(super) async fn hold(
        &self,
        token: i64,
        span: Duration,
        lost: impl Future<Output = ()>,
    ) -> bool {
        tokio::select! {
            biased;
            () = lost => {
                self.note(LockStep::Lost { token });
                self.write_late(token);
                true
            }
            () = self.work(token, span) => false,
            () = stopped(&self.stop) => false,
        }
    }

    /// Waits for something that has an end while the session lives, and not for long once the program is to
    /// stop: what is left of the lock then ends with the session.
    pub(super) async fn finish<T>(&self, something: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            it = something => Some(it),
            () = out_of_time(&self.stop, self.timeout) => None,
        }
    }

    /// Gives the lock back, unless it was lost. `release` returns whether it was held until then.
    pub(super) async fn release<E>(
        &self,
        token: i64,
        was_lost: bool,
        release: impl Future<Output = Result<bool, E>>,
    ) -> Result<(), E> {
        if !was_lost {
            self.note(LockStep::Releases { token });
        }
        let Some(was_held) = self.finish(release).await else { return Ok(()) };
        let was_held = was_held?;
        match (was_lost, was_held) {
            (true, _) => {}
            (false, true) => self.note(LockStep::Released { token }),
            (false, false) => self.note(LockStep::Lost { token }),
        }
        Ok(())
    }

    /// Writes to the resource in the beginning, in the end and in between.
    pub(super) async fn work(&self, token: i64, span: Duration) {
        const WRITES: u32 = 4;
        let begun_at = Instant::now();
        for part in 0..=WRITES {
            sleep_until(begun_at + span * part / WRITES).await;
            self.write(token);
        }
    }

    fn write(&self, token: i64) {
        if self.is_exclusive {
            let accepted = self.resources.write(&self.lock, token);
            self.note(LockStep::Wrote { token, accepted });
        }
    }

    /// A write that was under way when the lock was lost comes to the resource later: at once, or when
    /// others may have had the lock long since.
    pub(super) fn write_late(&self, token: i64) {
        let eighths = u32::try_from(token.rem_euclid(16)).unwrap_or(0);
        let (delay, late) = (self.timeout * eighths / 8, self.clone());
        tokio::spawn(async move {
            sleep(delay).await;
            late.write(token);
        });
    }
}

/// For how long a lock is held: mostly for a moment, at times longer than a session lives.
pub(super) fn draw_hold(chance: &mut Chance, timeout: Duration) -> Duration {
    match chance.between(0..=9) {
        0..=5 => chance.up_to(timeout / 20),
        6..=8 => chance.up_to(timeout / 2),
        _ => chance.up_to(timeout * 3),
    }
}
