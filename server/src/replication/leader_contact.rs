//! When messages of a leader came.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// The times of messages of a leader.
#[derive(Debug, Default)]
pub(super) struct LeaderContact(Mutex<Times>);

#[derive(Debug, Default)]
struct Times {
    last: Option<Instant>,
    /// The longest time between two messages since this was looked at.
    longest_silence: Duration,
}

/// How long a leader was silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Silence {
    /// The time since its last message.
    pub lasts: Duration,
    /// The longest time without a message since this was looked at, the present one included. It is
    /// noticed so even if this server was stopped and a message was the first thing that it did when
    /// it went on.
    pub longest: Duration,
}

impl LeaderContact {
    /// Notes a message that has just come.
    pub(super) fn renew(&self) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if let Some(last) = times.last.replace(now)
            && !planted!("silence-that-is-over-is-forgotten")
        {
            times.longest_silence = times.longest_silence.max(now - last);
        }
    }

    /// Returns how long the leader was silent, and forgets times of silence that are over; `None` if
    /// there was no message yet. For the one who acts on it.
    ///
    /// A silence that goes on is returned each time that this is called, and once more, with its whole
    /// length, behind the message that ends it. So who acts on it does so at most once too often, and never
    /// too early: what it begins while the silence lasts does not prove that it is up to date.
    pub(super) fn take_silence(&self) -> Option<Silence> {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lasts = times.last?.elapsed();
        let longest = std::mem::take(&mut times.longest_silence).max(lasts);
        Some(Silence { lasts, longest })
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    /// A server was stopped for 12.7 s. The leader's next message came before anything asked for the
    /// time since the last one, so it took itself for up to date.
    #[tokio::test(start_paused = true)]
    async fn a_silence_that_is_over_is_noticed_once() {
        let contact = LeaderContact::default();
        assert_eq!(contact.take_silence(), None);
        contact.renew();
        let [stopped, short] = [Duration::from_millis(12_700), Duration::from_millis(30)];
        for pause in [stopped, short] {
            advance(pause).await;
            contact.renew();
        }
        advance(short).await;
        assert_eq!(contact.take_silence(), Some(Silence { lasts: short, longest: stopped }));
        assert_eq!(contact.take_silence(), Some(Silence { lasts: short, longest: short }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silence_that_was_noticed_is_noticed_once_more_at_its_end() {
        let contact = LeaderContact::default();
        contact.renew();
        let [noticed, rest, short] = [2_000, 500, 30].map(Duration::from_millis);
        advance(noticed).await;
        assert_eq!(contact.take_silence(), Some(Silence { lasts: noticed, longest: noticed }));
        advance(rest).await;
        contact.renew();
        advance(short).await;
        assert_eq!(contact.take_silence(), Some(Silence { lasts: short, longest: noticed + rest }));
        assert_eq!(contact.take_silence(), Some(Silence { lasts: short, longest: short }));
    }
}
