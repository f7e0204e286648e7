//! What a lock has to know about the session that holds it.

use crate::{Client, SessionState};

/// Waits until no server serves the session, or it has ended. Servers may give it up from then on,
/// though not at once.
pub(crate) async fn suspended(client: &Client) {
    let mut state = client.state();
    let _ = state.wait_for(|state| *state != SessionState::Connected).await;
}

/// Waits until a server of the ensemble serves the session, or it has ended.
pub(crate) async fn resumed(client: &Client) {
    let mut state = client.state();
    let is_known = |state: &SessionState| *state == SessionState::Connected || state.is_terminal();
    let _ = state.wait_for(is_known).await;
}
