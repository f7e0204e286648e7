//! A clock that does not begin at zero; `scripts/leading.txt` has how long servers serve.

use zoolet_replica::state::State;
use zoolet_replica::{Boot, Input, Now, Options, Replica, Role, ServerId};

/// A server that has just started serves on when it loses its leader for a moment.
#[test]
fn what_is_before_the_start_does_not_count() {
    let mut options = Options::new(ServerId(1), Boot(1));
    options.leader_loss_limit_ms = 3000;
    let mut replica = Replica::new(options, State::new());
    let mut out = Vec::new();
    let inputs = [
        (60_000, Input::Lease { until_ms: 60_100 }),
        (60_000, Input::Role { role: Role::Follower, term: None }),
        (60_100, Input::Role { role: Role::Looking, term: None }),
    ];
    for (mono_ms, input) in inputs {
        replica.step(Now { mono_ms, wall_ms: 0 }, input, &mut out);
    }
    assert!(replica.serving());
    let now = Now { mono_ms: 63_101, wall_ms: 0 };
    replica.step(now, Input::Tick, &mut out);
    assert!(!replica.serving());
}
