//! The text of the prompt, with the state of the session in it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use zoolet_client::SessionState;

use crate::format::name_text;

/// What the prompt is made from. The editor reads it each time that it draws the prompt, so that it
/// follows the session while a line is typed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Situation(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    /// The servers by their name in the configuration file, or as the connect string has them.
    servers: String,
    /// The root of all paths.
    root: String,
    state: Option<watch::Receiver<SessionState>>,
}

impl Situation {
    /// A session of its own begins with these servers.
    pub(super) fn set(
        &self,
        ensemble: Option<&str>,
        connect_string: &str,
        state: Option<watch::Receiver<SessionState>>,
    ) {
        let (hosts, root) =
            connect_string.split_at(connect_string.find('/').unwrap_or(connect_string.len()));
        let root = if root.is_empty() { "/" } else { root };
        let servers = name_text(ensemble.unwrap_or(hosts));
        let inner = Inner { servers, root: name_text(root), state };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = inner;
    }

    /// The session is over.
    pub(super) fn end(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).state = None;
    }

    /// The word for the state of the session.
    pub(super) fn state(&self) -> &'static str {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.state.as_ref().map_or("closed", |state| word(*state.borrow()))
    }

    /// The prompt as it is now. Blanks at its end make up for the different lengths of the states:
    /// the editor counts on a prompt whose width stays.
    pub(super) fn prompt(&self) -> String {
        let state = self.state();
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let padding = STATE_LENGTH_MAX.saturating_sub(state.len());
        format!("[zk: {} ({state}) {}] {:padding$}", inner.servers, inner.root, "")
    }
}

/// The length of the longest of the words.
const STATE_LENGTH_MAX: usize = "connecting".len();

fn word(state: SessionState) -> &'static str {
    match state {
        SessionState::Connected => "connected",
        SessionState::ReadOnly => "read-only",
        SessionState::Disconnected | SessionState::Lost => "connecting",
        SessionState::Expired => "expired",
        SessionState::AuthFailed => "refused",
        SessionState::Closed | _ => "closed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_follows_the_session_and_keeps_its_width() {
        let situation = Situation::default();
        let (sender, state) = watch::channel(SessionState::Connected);
        situation.set(None, "a:1,b:2/root", Some(state.clone()));
        assert_eq!(situation.prompt(), "[zk: a:1,b:2 (connected) /root]  ");
        let width = situation.prompt().len();
        for (state, word) in [
            (SessionState::Disconnected, "(connecting)"),
            (SessionState::Lost, "(connecting)"),
            (SessionState::Expired, "(expired)"),
            (SessionState::ReadOnly, "(read-only)"),
            (SessionState::AuthFailed, "(refused)"),
            (SessionState::Closed, "(closed)"),
        ] {
            sender.send(state).unwrap();
            let prompt = situation.prompt();
            assert!(prompt.contains(word) && prompt.len() == width, "{prompt:?}");
        }
        situation.end();
        assert!(situation.prompt().starts_with("[zk: a:1,b:2 (closed) /root] "));
        situation.set(Some("test"), "a:1", Some(state));
        assert!(situation.prompt().starts_with("[zk: test (closed) /] "));
    }
}
