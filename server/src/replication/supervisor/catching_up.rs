//! The attempt to catch up that is under way.

use super::events::{RoleEvent, UnderWay};
use crate::replication::role::CatchUp;

/// At most one attempt.
#[derive(Default)]
pub(super) struct CatchingUp(Option<UnderWay>);

impl CatchingUp {
    /// Begins an attempt if one is wanted and none is under way. One that is not wanted any more, or was
    /// begun too early, is dropped. One that has failed is repeated at the next event.
    pub(super) fn follow(
        &mut self,
        wanted: CatchUp,
        event: RoleEvent,
        begin: impl FnOnce() -> UnderWay,
    ) {
        let is_too_early = wanted == CatchUp::Anew && !planted!("early-catch-up-counts");
        let has_ended = matches!(event, RoleEvent::CaughtUp(_));
        if wanted == CatchUp::No || is_too_early || has_ended {
            self.0 = None;
        }
        let has_failed = event == RoleEvent::CaughtUp(false);
        if wanted != CatchUp::No && self.0.is_none() && !has_failed {
            self.0 = Some(begin());
        }
    }

    /// Waits for its end; for ever if there is none.
    pub(super) async fn end(&mut self) -> RoleEvent {
        match self.0.as_mut() {
            Some(attempt) => attempt.await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    /// Begins an attempt, which ends at once.
    fn attempt(begun: &mut u32) -> impl FnOnce() -> UnderWay {
        || {
            *begun += 1;
            Box::pin(async { RoleEvent::CaughtUp(true) })
        }
    }

    #[test]
    fn an_attempt_goes_on_until_it_ends_or_was_begun_too_early() {
        let steps = [
            (CatchUp::GoOn, RoleEvent::Tick, 1),
            (CatchUp::GoOn, RoleEvent::Tick, 1),
            // The server was stopped: it had asked before.
            (CatchUp::Anew, RoleEvent::Tick, 2),
            (CatchUp::GoOn, RoleEvent::Consensus, 2),
            (CatchUp::GoOn, RoleEvent::CaughtUp(false), 2),
            (CatchUp::GoOn, RoleEvent::Tick, 3),
            (CatchUp::Anew, RoleEvent::CaughtUp(true), 4),
            (CatchUp::GoOn, RoleEvent::CaughtUp(true), 5),
        ];
        let (mut catching_up, mut begun) = (CatchingUp::default(), 0);
        for (number, (wanted, event, expected)) in (1..).zip(steps) {
            catching_up.follow(wanted, event, attempt(&mut begun));
            assert_eq!(begun, expected, "step {number}: {wanted:?} at {event:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_wanted_any_more_has_no_end() {
        let (mut catching_up, mut begun) = (CatchingUp::default(), 0);
        catching_up.follow(CatchUp::GoOn, RoleEvent::Tick, attempt(&mut begun));
        assert_eq!(catching_up.end().await, RoleEvent::CaughtUp(true));
        catching_up.follow(CatchUp::Anew, RoleEvent::Tick, attempt(&mut begun));
        catching_up.follow(CatchUp::No, RoleEvent::Tick, attempt(&mut begun));
        let ended = timeout(Duration::from_secs(1), catching_up.end()).await;
        assert!(ended.is_err(), "{ended:?}");
    }
}
