//! What every program of a load has: a raw session, chance, and an order to stop.

use std::time::Duration;

use tokio::sync::watch;
use zoolet_jute::{
    Acl, CreateMode, CreateRequest, NullablePathRequest, PathVersionRequest, PathWatchRequest,
    Request, SetDataRequest,
};

use super::chance::Chance;
use super::data::Data;
use super::session::{
    Disturbance, Outcome, Pending, Session, SessionEvent, SessionEvents, SessionOptions,
};
use super::stop::{is_stopped, out_of_time, rest};
use crate::history::{ClientNumber, Recorder, What};

/// How a program goes about its work, whatever that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// The longest wait between two operations.
    pub(super) think: Duration,
    /// One operation in this number is followed by a disturbance; 0 for none.
    pub(super) disturb_one_in: u64,
}

/// A program with a raw session.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) client: ClientNumber,
    pub(super) recorder: Recorder,
    pub(super) session: Session,
    pub(super) events: SessionEvents,
    pub(super) chance: Chance,
    pub(super) data: Data,
    stop: watch::Receiver<bool>,
    pace: Pace,
}

impl Worker {
    pub(super) fn start(
        options: SessionOptions,
        pace: Pace,
        mut chance: Chance,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let (client, recorder) = (options.client, options.recorder.clone());
        let (session, events) = Session::start(options, chance.fork());
        let data = Data::new(client, chance.fork());
        Self { client, recorder, session, events, chance, data, stop, pace }
    }

    /// The session timeout that was granted.
    pub(super) fn timeout(&self) -> Duration {
        self.session.status().timeout
    }

    /// Whether it is to finish what is under way, and end.
    pub(super) fn is_stopped(&self) -> bool {
        is_stopped(&self.stop)
    }

    /// Sends a request and waits for its outcome, for one session timeout more once it is to stop.
    pub(super) async fn call(&self, request: Request) -> Outcome {
        if self.session.is_over() {
            // What tries again until it has an outcome does not try without a pause.
            self.rest(self.timeout()).await;
        }
        self.finish(self.session.send(request)).await
    }

    /// Waits for the outcome of a request.
    pub(super) async fn finish(&self, pending: Pending) -> Outcome {
        tokio::select! {
            biased;
            outcome = pending => outcome,
            () = out_of_time(&self.stop, self.timeout()) => Outcome::Unknown,
        }
    }

    /// Waits for a while, or until it is to stop.
    pub(super) async fn think(&mut self) {
        let span = self.chance.up_to(self.pace.think);
        self.rest(span).await;
    }

    /// Waits for so long, or until it is to stop.
    pub(super) async fn rest(&self, span: Duration) {
        rest(&self.stop, span).await;
    }

    /// The next event, if one is there.
    pub(super) fn next_event(&mut self) -> Option<SessionEvent> {
        self.events.try_recv().ok()
    }

    /// Waits for an event, for so long at most.
    pub(super) async fn wait_event(&mut self, span: Duration) -> Option<SessionEvent> {
        tokio::select! {
            biased;
            event = self.events.recv() => event,
            () = rest(&self.stop, span) => None,
        }
    }

    /// Forgets the events that are there; for work that waits for none.
    pub(super) fn drop_events(&mut self) {
        while self.events.try_recv().is_ok() {}
    }

    /// Disturbs the session now and then.
    pub(super) fn disturb(&mut self) {
        if !self.chance.one_in(self.pace.disturb_one_in) {
            return;
        }
        let disturbance = match self.chance.between(0..=10) {
            0..=2 => Disturbance::HangUp,
            3..=6 => Disturbance::Move,
            7 => Disturbance::NewProcess { keeps_zxid: true },
            8 => Disturbance::NewProcess { keeps_zxid: false },
            9 => Disturbance::Close,
            // Some of them outlive the session.
            _ => {
                let most = self.timeout() * 3 / 2;
                Disturbance::Pause(self.chance.up_to(most))
            }
        };
        self.session.disturb(disturbance);
    }

    /// Notes that the work has seen what it must not see.
    pub(super) fn complain(&self, why: String) {
        self.recorder.note(What::Complained { client: self.client, why });
    }

    /// Creates znodes that the work needs and that may be there already, parents first. Returns whether
    /// all of them are there.
    pub(super) async fn ensure(&self, paths: &[&str]) -> bool {
        for path in paths {
            let body = persistent(*path, None);
            match self.call(Request::Create(body)).await {
                Outcome::Done(..) | Outcome::Refused(zoolet_jute::ErrorCode::NodeExists) => {}
                Outcome::Refused(_) | Outcome::Unknown => return false,
            }
        }
        true
    }

    /// Ends: half of the sessions are closed, the others left to their timeouts.
    pub(super) async fn end(mut self) {
        if self.chance.one_in(2) {
            let limit = self.timeout();
            self.session.close(limit).await;
        } else {
            self.session.abandon().await;
            self.recorder.note(What::ClientDied { client: self.client });
        }
    }
}

/// The body of a create that all may read and write.
pub(super) fn open_create(
    path: impl Into<String>,
    data: Option<bytes::Bytes>,
    mode: CreateMode,
) -> CreateRequest {
    CreateRequest { path: path.into(), data, acl: Some(Acl::open()), flags: mode as i32 }
}

/// The same, of a znode that stays.
pub(super) fn persistent(path: impl Into<String>, data: Option<bytes::Bytes>) -> CreateRequest {
    open_create(path, data, CreateMode::Persistent)
}

/// The body of a read.
pub(super) fn read(path: impl Into<String>, watch: bool) -> PathWatchRequest {
    PathWatchRequest { path: path.into(), watch }
}

/// The body of a write over a version.
pub(super) fn write(path: impl Into<String>, data: bytes::Bytes, version: i32) -> SetDataRequest {
    SetDataRequest { path: path.into(), data: Some(data), version }
}

/// The body of a delete, or of a check in a multi.
pub(super) fn versioned(path: impl Into<String>, version: i32) -> PathVersionRequest {
    PathVersionRequest { path: path.into(), version }
}

/// A sync.
pub(super) fn sync(path: &str) -> Request {
    Request::Sync(NullablePathRequest { path: Some(path.to_owned()) })
}
