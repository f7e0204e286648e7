//! The command `snapshot`: the whole state, sent while it is made.
//!
//! The state of one moment is kept until it is sent, and what is changed meanwhile is in memory
//! twice. So there is one at a time, and a client that does not read, or hardly, is cut off
//! (`Streaming`): the thread that makes the pieces waits for it and ends with its connection.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};
use zoolet_console::Streaming;
use zoolet_server::embed::{Backup, NoBackup, Reports};

use super::{Asked, Command, NOT_SERVING, Object, permit, refusal};
use crate::answer::Answer;
use crate::body::{Piece, Sending};

/// Pieces that wait for the client, each of 256 KiB at most.
const PIECES_WAITING_MAX: usize = 4;

/// The longest wait for a command that is half applied, and the pause between two looks.
const APPLYING_MAX: Duration = Duration::from_secs(10);
const APPLYING_PAUSE: Duration = Duration::from_millis(1);

const DISABLED: &str =
    "Snapshot command is disabled: set http.snapshots (admin.snapshot.enabled) to true";
const NOT_STREAMED: &str = "not available: a snapshot is always sent (streaming=true); servers take their own by themselves";
const ANOTHER: &str = "another snapshot is being sent";

/// When snapshots may be sent.
#[derive(Debug)]
pub(crate) struct SnapshotGate {
    is_enabled: bool,
    /// The shortest time behind one that was sent to its end.
    interval: Duration,
    sent_at: Mutex<Option<Instant>>,
    place: Arc<Semaphore>,
}

impl SnapshotGate {
    pub(crate) fn new(is_enabled: bool, interval: Duration) -> Self {
        let place = Arc::new(Semaphore::new(1));
        Self { is_enabled, interval, sent_at: Mutex::default(), place }
    }

    /// Returns the place of a snapshot that may be sent now.
    fn enter(&self) -> Result<OwnedSemaphorePermit, (StatusCode, String)> {
        if !self.is_enabled {
            return Err((StatusCode::SERVICE_UNAVAILABLE, DISABLED.to_owned()));
        }
        let place = Arc::clone(&self.place).try_acquire_owned();
        let place = place.map_err(|_| (StatusCode::TOO_MANY_REQUESTS, ANOTHER.to_owned()))?;
        let sent_at = *self.sent_at.lock().unwrap_or_else(PoisonError::into_inner);
        let left = sent_at.map(|at| self.interval.saturating_sub(at.elapsed())).unwrap_or_default();
        if left.is_zero() {
            return Ok(place);
        }
        let left_s = left.as_secs() + 1;
        let why = format!("Rate limit exceeded: the next snapshot is sent in {left_s} s");
        Err((StatusCode::TOO_MANY_REQUESTS, why))
    }

    fn sent(&self) {
        *self.sent_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

/// Begins to send a snapshot, or says why not.
pub(crate) async fn begin(
    gate: &Arc<SnapshotGate>,
    reports: Option<Reports>,
    asked: &Asked,
    streaming: Streaming,
) -> Result<Sending, Answer> {
    let refuse = |status, why: &str| refusal(Command::Snapshot, status, why);
    let Some(reports) = reports.filter(Reports::serving) else {
        return Err(refuse(StatusCode::OK, NOT_SERVING));
    };
    permit(&reports, asked).map_err(|(status, why)| refuse(status, why))?;
    if asked.parameter("streaming").is_some_and(|streaming| streaming != "true") {
        return Err(refuse(StatusCode::NOT_IMPLEMENTED, NOT_STREAMED));
    }
    let place = gate.enter().map_err(|(status, why)| refuse(status, &why))?;
    let backup = take(&reports).await;
    let backup = backup.map_err(|why| refuse(StatusCode::SERVICE_UNAVAILABLE, &why))?;
    let (zxid, peer) = (backup.zxid(), asked.peer);
    let (sender, pieces) = mpsc::channel(PIECES_WAITING_MAX);
    let gate = Arc::clone(gate);
    info!(%peer, zxid = format_args!("{zxid:#x}"), "a snapshot is sent");
    tokio::task::spawn_blocking(move || {
        let is_sent = send(backup, &sender);
        drop((place, streaming));
        if is_sent {
            gate.sent();
        } else {
            warn!(%peer, "a snapshot was not sent to its end: its client left or hardly read");
        }
    });
    Ok(Sending { zxid, pieces })
}

async fn take(reports: &Reports) -> Result<Backup, String> {
    let taken = async {
        loop {
            match reports.backup() {
                Err(NoBackup::Applying) => sleep(APPLYING_PAUSE).await,
                taken => return taken.map_err(|error| error.to_string()),
            }
        }
    };
    timeout(APPLYING_MAX, taken).await.unwrap_or_else(|_| {
        Err("the server applies commands without a pause: try again".to_owned())
    })
}

/// Hands the pieces over as fast as they are taken. Returns whether all were.
fn send(backup: Backup, sender: &mpsc::Sender<Piece>) -> bool {
    let mut pieces = backup.map(Piece::Bytes).chain([Piece::End]);
    pieces.all(|piece| sender.blocking_send(piece).is_ok())
}

/// Answers before the snapshot begins.
pub(crate) fn head_only() -> Answer {
    let why = "a snapshot is there for GET alone";
    super::answer(StatusCode::METHOD_NOT_ALLOWED, "snapshot", Object::new(), Some(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_snapshot_is_sent_at_a_time_and_the_next_after_the_interval() {
        let gate = SnapshotGate::new(true, Duration::from_mins(5));
        let refused = || gate.enter().unwrap_err();
        let place = gate.enter().unwrap();
        assert_eq!(refused(), (StatusCode::TOO_MANY_REQUESTS, ANOTHER.to_owned()));
        // What was cut does not count.
        drop(place);
        drop(gate.enter().unwrap());
        gate.sent();
        sleep(Duration::from_secs(290)).await;
        let (status, why) = refused();
        assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
        assert!(why.contains("in 11 s"), "{why}");
        sleep(Duration::from_secs(10)).await;
        drop(gate.enter().unwrap());
    }

    #[test]
    fn snapshots_can_be_switched_off() {
        let gate = SnapshotGate::new(false, Duration::ZERO);
        let (status, why) = gate.enter().unwrap_err();
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(why.contains("http.snapshots"), "{why}");
    }
}
