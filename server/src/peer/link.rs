//! The calling side: one connection to one peer for one lane, opened when it is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use thiserror::Error;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use super::frame::{ANSWER, Frame, FrameError, FrameReader, UNANSWERED_ID};
use super::handshake::{HandshakeError, PeerIdentity, Target, greet};
use super::reach::Reach;
use super::secret::Secret;
use super::tls::PeerTls;
use super::{FrameLimits, Lane, RpcKind};
use crate::fatal::Fatal;
use crate::transport::{Net, Stream};

/// How much is gathered for one write, in bytes.
const WRITE_BYTES: usize = 256 * 1024;

/// How often all other tasks that are ready have their turn before a message that is not urgent is
/// written.
const NOTICE_TURNS: usize = 3;

/// The first pause after a failure to connect; it doubles up to [`LinkOptions::backoff_max`].
const BACKOFF_MIN: Duration = Duration::from_millis(20);

/// What a link needs to know.
#[derive(Clone, Debug)]
pub(crate) struct LinkOptions {
    /// The network.
    pub net: Arc<dyn Net>,
    /// Who is calling. Its founding is the one of `founding`.
    pub ours: PeerIdentity,
    /// The founding that this server belongs to, which an empty one learns at run time.
    pub founding: Arc<AtomicU64>,
    /// What both sides must know.
    pub secret: Option<Secret>,
    /// Whether TLS is below that.
    pub tls: PeerTls,
    /// The peer.
    pub target: Target,
    /// Its `host:port`, and those that it had before: they are tried in turn.
    pub addresses: Vec<String>,
    /// What the connection is for.
    pub lane: Lane,
    /// The longest frames.
    pub frames: FrameLimits,
    /// The most calls that wait to be written, and the most that wait for answers.
    pub calls_max: usize,
    /// How long connecting and the handshake may take.
    pub connect_timeout: Duration,
    /// The longest pause between two attempts to connect.
    pub backoff_max: Duration,
    /// After so long without any answer while one is due, the connection is given up, whether or
    /// not a caller still waits for it: the peer, or the way to it, may be gone without a trace, and
    /// TCP tries again ever more rarely once the way is there again.
    pub stall_timeout: Duration,
    /// How the peer is probed while an answer of it is due. Without probes, an idle connection does not
    /// show that the peer was restarted.
    pub probes: Option<Probes>,
    /// Reports a peer that cannot be reached; the links of all its lanes share it.
    pub reach: Arc<Reach>,
    /// Receives the reason if the link can no longer connect.
    pub fatal: Fatal,
}

/// How a peer is probed that may take long to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probes {
    /// The time between two probes.
    pub every: Duration,
    /// Takes the place of the stall timeout until the peer has answered one: an older one answers a
    /// connection's calls one after the other.
    pub stall_timeout_before: Duration,
}

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(crate) enum CallError {
    /// Without a connection: the peer has never seen the call.
    #[error("not connected")]
    Unreachable,
    /// The connection broke, or was given up: the peer may have seen the call.
    #[error("the connection broke")]
    Broken,
    /// No answer in time: the peer may have seen the call.
    #[error("no answer in time")]
    Timeout,
    /// Too many calls are waiting, or the body is too long: the call was not sent.
    #[error("not sent: too much is waiting, or the call is too long")]
    Full,
}

/// A way to one peer.
#[derive(Debug)]
pub(crate) struct Link {
    calls: mpsc::Sender<Outgoing>,
    frame_bytes_max: usize,
}

#[derive(Debug)]
struct Outgoing {
    kind: u8,
    body: Bytes,
    answer: Option<ReplySender>,
    urgency: Urgency,
}

/// When a message is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// At once.
    Now,
    /// Behind what the tasks that are ready write, or together with it.
    AfterOthers,
}

type ReplySender = oneshot::Sender<Result<Bytes, CallError>>;

impl Link {
    /// A link that connects at the first call. It ends when it is dropped.
    pub(crate) fn open(options: LinkOptions) -> Self {
        let (calls, queue) = mpsc::channel(options.calls_max);
        let frame_bytes_max = options.frames.of(options.lane);
        let fatal = options.fatal.clone();
        tokio::spawn(fatal.finite("link to a peer", run(options, queue)));
        Self { calls, frame_bytes_max }
    }

    /// Calls the peer. The place among the calls is fixed when this returns; awaiting the result
    /// gives the answer.
    pub(crate) fn call(
        &self,
        kind: u8,
        body: Bytes,
    ) -> impl Future<Output = Result<Bytes, CallError>> + Send + use<> {
        let (answer, waiting) = oneshot::channel();
        let queued =
            self.enqueue(Outgoing { kind, body, answer: Some(answer), urgency: Urgency::Now });
        async move {
            queued?;
            waiting.await.unwrap_or(Err(CallError::Broken))
        }
    }

    /// Sends a message that the peer does not answer. Nothing is reported if it is lost.
    pub(crate) fn notify(&self, kind: u8, body: Bytes, urgency: Urgency) {
        // A link that is full or broken fails the calls around it as well.
        let _ = self.enqueue(Outgoing { kind, body, answer: None, urgency });
    }

    /// Like [`Link::call`], with a limit to the wait.
    pub(crate) async fn call_within(
        &self,
        kind: u8,
        body: Bytes,
        deadline: Duration,
    ) -> Result<Bytes, CallError> {
        timeout(deadline, self.call(kind, body)).await.unwrap_or(Err(CallError::Timeout))
    }

    fn enqueue(&self, outgoing: Outgoing) -> Result<(), CallError> {
        // The header is small against the slack that the limit has.
        if outgoing.body.len() + 64 > self.frame_bytes_max {
            return Err(CallError::Full);
        }
        self.calls.try_send(outgoing).map_err(|_| CallError::Full)
    }
}

/// Calls that were written.
#[derive(Debug, Default)]
struct Unanswered {
    last_id: u64,
    /// By their ids; without most of those whose callers wait no longer.
    waiting: BTreeMap<u64, ReplySender>,
    /// How many replies the peer owes, whether or not their calls still wait.
    owed: u64,
    /// Since when it owes some and has given none.
    silent_since: Option<Instant>,
    /// The probes that it has not answered.
    probes: BTreeSet<u64>,
    /// It has answered a probe while it owed the answer to an earlier call.
    answers_probes: bool,
}

impl Unanswered {
    /// The id of one more call that the peer owes an answer to.
    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.owed += 1;
        self.silent_since.get_or_insert_with(Instant::now);
        self.last_id
    }
}

async fn run(options: LinkOptions, mut queue: mpsc::Receiver<Outgoing>) {
    let mut backoff = BACKOFF_MIN;
    let mut not_before: Option<Instant> = None;
    let mut addresses = options.addresses.iter().cycle();
    let mut address = addresses.next().map_or("", String::as_str);
    while let Some(first) = queue.recv().await {
        if not_before.is_some_and(|not_before| Instant::now() < not_before) {
            fail(first, CallError::Unreachable);
            continue;
        }
        match connect(&options, address).await {
            Ok(stream) => {
                tracing::debug!(peer = options.target.server, lane = %options.lane, "connected");
                (backoff, not_before) = (BACKOFF_MIN, None);
                options.reach.connected(options.target.server);
                let error = converse(&options, stream, first, &mut queue).await;
                tracing::debug!(peer = options.target.server, lane = %options.lane, %error, "link broke");
            }
            Err(error) => {
                tracing::debug!(peer = options.target.server, lane = %options.lane, %error, "no link");
                options.reach.failed(options.target.server, address, &error);
                address = addresses.next().map_or("", String::as_str);
                fail(first, CallError::Unreachable);
                not_before = Some(Instant::now() + backoff);
                backoff = (backoff * 2).min(options.backoff_max);
            }
        }
        // What was queued for the broken connection must not go over the next one: its callers
        // think in terms of an order that has a gap now.
        while let Ok(outgoing) = queue.try_recv() {
            fail(outgoing, CallError::Unreachable);
        }
    }
}

async fn connect(options: &LinkOptions, address: &str) -> Result<Box<dyn Stream>, String> {
    let connecting = async {
        let stream = options.net.connect(address).await.map_err(|error| error.to_string())?;
        let stream = options.tls.connect(stream, address).await;
        let mut stream = stream.map_err(|error| options.tls.describe(&error))?;
        let founding = options.founding.load(Ordering::Relaxed);
        let ours = PeerIdentity { founding, ..options.ours };
        let wanted = (options.target, options.lane);
        match greet(&mut *stream, ours, wanted, options.secret.as_ref()).await {
            Ok(theirs) => {
                options.reach.has_directory(theirs.directory);
                Ok(stream)
            }
            Err(error) => {
                if let HandshakeError::Directory { theirs, .. } = &error {
                    options.reach.has_directory(*theirs);
                }
                Err(options.tls.describe(&error))
            }
        }
    };
    timeout(options.connect_timeout, connecting)
        .await
        .unwrap_or_else(|_| Err("no answer in time".to_owned()))
}

/// Carries calls and answers until the connection breaks.
async fn converse(
    options: &LinkOptions,
    stream: Box<dyn Stream>,
    first: Outgoing,
    queue: &mut mpsc::Receiver<Outgoing>,
) -> FrameError {
    let (input, output) = tokio::io::split(stream);
    let unanswered = Mutex::new(Unanswered::default());
    let error = tokio::select! {
        biased;
        // What has come while this server stood still counts.
        error = read_answers(options, input, &unanswered) => error,
        error = write_calls(options, output, first, queue, &unanswered) => error.into(),
        error = watch_stall(options, &unanswered) => error.into(),
    };
    let unanswered = unanswered.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (_, waiting) in unanswered.waiting {
        // The caller may have stopped waiting.
        let _ = waiting.send(Err(CallError::Broken));
    }
    error
}

async fn write_calls(
    options: &LinkOptions,
    mut output: WriteHalf<Box<dyn Stream>>,
    first: Outgoing,
    queue: &mut mpsc::Receiver<Outgoing>,
    unanswered: &Mutex<Unanswered>,
) -> io::Error {
    let mut buffer = BytesMut::new();
    let mut next = Some(first);
    while let Some(outgoing) = next {
        let mut can_wait = outgoing.urgency == Urgency::AfterOthers;
        register(options, unanswered, outgoing, &mut buffer);
        let mut turns = 0;
        loop {
            while buffer.len() < WRITE_BYTES
                && let Ok(outgoing) = queue.try_recv()
            {
                can_wait &= outgoing.urgency == Urgency::AfterOthers;
                register(options, unanswered, outgoing, &mut buffer);
            }
            if !can_wait || turns == NOTICE_TURNS {
                break;
            }
            turns += 1;
            yield_now().await;
        }
        if let Err(error) = write(&mut output, &mut buffer).await {
            return error;
        }
        next = loop {
            let Some(Probes { every, .. }) = options.probes else { break queue.recv().await };
            match timeout(every, queue.recv()).await {
                Ok(next) => break next,
                Err(_) if !probe(unanswered, &mut buffer) => {}
                Err(_) => {
                    if let Err(error) = write(&mut output, &mut buffer).await {
                        return error;
                    }
                }
            }
        };
    }
    io::ErrorKind::NotConnected.into()
}

/// Asks a peer that owes an answer something that it can always answer, whatever has become of the
/// probes before: one that has lost its power and is back refuses the next. False if it owes none.
fn probe(unanswered: &Mutex<Unanswered>, buffer: &mut BytesMut) -> bool {
    let mut unanswered = unanswered.lock().unwrap_or_else(PoisonError::into_inner);
    let is_due = unanswered.owed > unanswered.probes.len() as u64;
    if is_due {
        let id = unanswered.next_id();
        unanswered.probes.insert(id);
        Frame { kind: RpcKind::Status.code(), id, body: Bytes::new() }.encode(buffer);
    }
    is_due
}

async fn write(output: &mut WriteHalf<Box<dyn Stream>>, buffer: &mut BytesMut) -> io::Result<()> {
    output.write_all_buf(buffer).await?;
    output.flush().await
}

fn register(
    options: &LinkOptions,
    unanswered: &Mutex<Unanswered>,
    outgoing: Outgoing,
    buffer: &mut BytesMut,
) {
    let mut unanswered = unanswered.lock().unwrap_or_else(PoisonError::into_inner);
    if unanswered.waiting.len() >= options.calls_max {
        unanswered.waiting.retain(|_, waiting| !waiting.is_closed());
    }
    let mut id = UNANSWERED_ID;
    if let Some(answer) = outgoing.answer {
        if answer.is_closed() {
            // Its caller waits no longer: what is behind it need not wait for it either.
            return;
        }
        if unanswered.waiting.len() >= options.calls_max {
            // The caller may have stopped waiting.
            let _ = answer.send(Err(CallError::Full));
            return;
        }
        id = unanswered.next_id();
        unanswered.waiting.insert(id, answer);
    }
    drop(unanswered);
    Frame { kind: outgoing.kind, id, body: outgoing.body }.encode(buffer);
}

async fn read_answers(
    options: &LinkOptions,
    input: ReadHalf<Box<dyn Stream>>,
    unanswered: &Mutex<Unanswered>,
) -> FrameError {
    let mut frames = FrameReader::new(input, options.frames.of(options.lane));
    loop {
        match frames.next().await {
            // An older peer answers what asks for no answer.
            Ok(Some(frame)) if frame.kind == ANSWER && frame.id == UNANSWERED_ID => {}
            Ok(Some(frame)) if frame.kind == ANSWER => {
                let mut unanswered = unanswered.lock().unwrap_or_else(PoisonError::into_inner);
                unanswered.owed = unanswered.owed.saturating_sub(1);
                unanswered.silent_since = (unanswered.owed > 0).then(Instant::now);
                if unanswered.probes.remove(&frame.id) {
                    let earlier = unanswered.waiting.first_key_value();
                    unanswered.answers_probes |= earlier.is_some_and(|(id, _)| *id < frame.id);
                }
                if let Some(waiting) = unanswered.waiting.remove(&frame.id) {
                    // The caller may have stopped waiting.
                    let _ = waiting.send(Ok(frame.body));
                }
            }
            Ok(Some(_)) => return FrameError::Io(io::ErrorKind::InvalidData.into()),
            Ok(None) => return FrameError::Io(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => return error,
        }
    }
}

async fn watch_stall(options: &LinkOptions, unanswered: &Mutex<Unanswered>) -> io::Error {
    loop {
        sleep(options.stall_timeout / 4).await;
        let mut unanswered = unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        unanswered.waiting.retain(|_, waiting| !waiting.is_closed());
        let stall_timeout = match options.probes {
            Some(probes) if !unanswered.answers_probes => probes.stall_timeout_before,
            Some(_) | None => options.stall_timeout,
        };
        if unanswered.silent_since.is_some_and(|at| at.elapsed() > stall_timeout) {
            return io::ErrorKind::TimedOut.into();
        }
    }
}

fn fail(outgoing: Outgoing, error: CallError) {
    if let Some(answer) = outgoing.answer {
        // The caller may have stopped waiting.
        let _ = answer.send(Err(error));
    }
}
