//! Servers whose logs have lost something.

use zoolet_replica::ServerId;

use super::{Story, accepted, refused};
use crate::SimTime;
use crate::faults::Lost;
use crate::history::Loss;

#[test]
fn a_server_that_runs_without_its_log_is_found() {
    let mut story = Story::new();
    story.connect(0, 1);
    let mut history = story.end();
    let loss = Loss {
        at: SimTime::from_ms(2000),
        server: ServerId(2),
        lost: Lost::Segments,
        ran_at: None,
        is_replaced: true,
    };
    history.losses = vec![loss];
    assert_eq!(accepted(&history).losses, 1);
    history.losses = vec![loss, Loss { ran_at: Some(SimTime::from_ms(2500)), ..loss }];
    refused(&history, "lost log");
}
