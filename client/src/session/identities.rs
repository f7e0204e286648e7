//! The identities of a session, which every connection gets.

use std::collections::VecDeque;

use tokio::sync::oneshot;
use zoolet_jute::{AuthPacket, Reply, Zxid};

use super::SessionState;
use super::pending::Answer;
use crate::ErrorKind;

/// An identity that every connection gets.
#[derive(Debug)]
struct Identity {
    packet: AuthPacket,
    /// Waits until a server has accepted it. A connection that breaks does not disturb the wait: the
    /// next one gets the identity as well.
    waiting: Option<oneshot::Sender<Answer>>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    list: Vec<Identity>,
    /// Which were sent and not yet answered. Apache replies to them ahead of other requests.
    unanswered: VecDeque<usize>,
}

impl Identities {
    /// Adds an identity that is to be sent, unless it is known. Returns its number.
    pub(crate) fn add(&mut self, packet: AuthPacket, answer: oneshot::Sender<Answer>) -> usize {
        let known = self
            .list
            .iter()
            .position(|identity| identity.packet == packet && identity.waiting.is_none());
        let index = known.unwrap_or(self.list.len());
        if known.is_none() {
            self.list.push(Identity { packet, waiting: None });
        }
        if let Some(identity) = self.list.get_mut(index) {
            identity.waiting = Some(answer);
        }
        index
    }

    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns what to send of an identity, and expects the answer to it.
    pub(crate) fn send(&mut self, index: usize) -> Option<AuthPacket> {
        let packet = self.list.get(index)?.packet.clone();
        self.unanswered.push_back(index);
        Some(packet)
    }

    /// Handles the answer to the first one that is unanswered. Returns `None` if none is.
    pub(crate) fn answer(&mut self, zxid: Zxid, is_refused: bool) -> Option<()> {
        let index = self.unanswered.pop_front()?;
        if let Some(waiting) = self.list.get_mut(index).and_then(|one| one.waiting.take()) {
            let accepted = Ok((zxid, Reply::Empty));
            // The caller may have dropped its future.
            let _ =
                waiting.send(if is_refused { Err(ErrorKind::AuthFailed.into()) } else { accepted });
        }
        Some(())
    }

    /// Forgets what a connection that is gone has not answered.
    pub(crate) fn disconnected(&mut self) {
        self.unanswered.clear();
    }

    /// Fails what waits: the session is over.
    pub(crate) fn over(&mut self, state: SessionState) {
        for waiting in self.list.iter_mut().filter_map(|identity| identity.waiting.take()) {
            // The caller may have dropped its future.
            let _ = waiting.send(Err(state.end().into()));
        }
    }
}
