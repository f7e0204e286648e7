//! What a lock has to know about the session that holds it.

use std::time::Duration;

use crate::{Client, SessionState};

/// Waits until the session has ended, or may have.
pub(crate) async fn ended(client: &Client) {
    let mut state = client.state();
    // An error tells that the client's task is gone, and the session with it.
    let _ = state.wait_for(|state| state.is_terminal()).await;
}

/// For how long the session lives at least.
pub(crate) fn remaining(client: &Client) -> Duration {
    match *client.state().borrow() {
        SessionState::Connected | SessionState::Disconnected => {
            Duration::from_millis(client.session().timeout_ms)
        }
        SessionState::Expired | SessionState::AuthFailed | SessionState::Closed => Duration::ZERO,
    }
}

/// Waits until no server serves the session, or it has ended. Servers may give it up from then on,
/// though not at once.
pub(crate) async fn suspended(client: &Client) {
    let mut state = client.state();
    let _ = state.wait_for(|state| *state != SessionState::Connected).await;
}

/// Waits until a server serves the session, or it has ended.
pub(crate) async fn resumed(client: &Client) {
    let mut state = client.state();
    let _ = state.wait_for(|state| *state != SessionState::Disconnected).await;
}
