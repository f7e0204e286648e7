//! What keeps a raw session alive: it connects, serves, pings, moves and begins anew.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use zoolet_jute::{
    ConnectRequest, ConnectResponse, OpCode, PASSWORD_BYTES, Request, SessionId, Xid, Zxid,
};
use zoolet_replica::ServerId;

use super::chance::Chance;
use super::exchange::{Answered, Incoming, Outcome};
use super::session::{Command, Disturbance, SessionEvent, SessionOptions, SessionStatus};
use super::watches::Memory;
use super::wire::Wire;

/// The longest wait between two attempts to connect.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The shortest time that is given to a server for a connection or a handshake.
const ANSWER_MIN: Duration = Duration::from_millis(200);

/// The shortest timeout that is believed: pings go out at a third of it.
const TIMEOUT_MIN: Duration = Duration::from_millis(30);

/// How long an old connection is read after a new one has taken the session over.
const LINGER_MAX: Duration = Duration::from_millis(300);

/// What follows when a connection is not served any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Reconnect,
    Move,
    End,
}

/// The channels to the session's owner.
pub(super) type Channels = (
    mpsc::UnboundedReceiver<Command>,
    mpsc::UnboundedSender<SessionEvent>,
    watch::Sender<SessionStatus>,
);

/// The session's background task.
#[derive(Debug)]
pub(super) struct Driver {
    options: SessionOptions,
    chance: Chance,
    commands: mpsc::UnboundedReceiver<Command>,
    events: mpsc::UnboundedSender<SessionEvent>,
    status: watch::Sender<SessionStatus>,
    session: SessionId,
    password: Bytes,
    granted: Duration,
    last_zxid: Zxid,
    xid: i32,
    memory: Memory,
    /// The place of the server that served last.
    server: Option<usize>,
    failures: u32,
    /// Whether the next connection takes the watches of the last one over.
    keeps_watches: bool,
    is_closing: bool,
    /// Whether a session that is closed is followed by another one.
    begins_anew: bool,
}

impl Driver {
    pub(super) fn new(options: SessionOptions, chance: Chance, channels: Channels) -> Self {
        let (commands, events, status) = channels;
        Self {
            granted: options.timeout,
            options,
            chance,
            commands,
            events,
            status,
            session: SessionId::NONE,
            password: Bytes::from_static(&[0; PASSWORD_BYTES]),
            last_zxid: Zxid(0),
            xid: 0,
            memory: Memory::default(),
            server: None,
            failures: 0,
            keeps_watches: false,
            is_closing: false,
            begins_anew: false,
        }
    }

    /// Keeps the session until it is closed or its owner is gone.
    pub(super) async fn run(mut self) {
        let mut moved = None;
        loop {
            let Some(mut wire) = (match moved.take() {
                Some(wire) => Some(wire),
                None => self.connect().await,
            }) else {
                if self.is_closing {
                    return self.end();
                }
                self.pause().await;
                continue;
            };
            let next = self.serve(&mut wire).await;
            if next == Next::Move {
                moved = self.connect().await;
                if moved.is_some() {
                    self.linger(&mut wire).await;
                }
            }
            drop(wire);
            if next == Next::End && std::mem::take(&mut self.begins_anew) {
                self.is_closing = false;
                self.expire();
            } else if next == Next::End {
                return self.end();
            }
            if moved.is_none() {
                self.become_disconnected();
                self.pause().await;
            }
        }
    }

    fn end(self) {
        self.status.send_modify(|status| {
            status.is_over = true;
            status.is_connected = false;
        });
    }

    /// Waits a little longer after each failure.
    async fn pause(&mut self) {
        self.failures = self.failures.saturating_add(1);
        let most = Duration::from_millis(10 << self.failures.min(10)).min(PAUSE_MAX);
        let wait = self.chance.up_to(most).max(Duration::from_millis(1));
        sleep(wait).await;
    }

    fn become_disconnected(&mut self) {
        self.status.send_modify(|status| status.is_connected = false);
        let _ = self.events.send(SessionEvent::Disconnected);
    }

    /// Any server but the last one, if there is another.
    fn choose_server(&mut self) -> Option<(ServerId, String)> {
        let count = self.options.servers.len();
        let place = match self.server {
            Some(last) if count > 1 => (last + 1 + self.chance.place(count - 1)) % count,
            _ => self.chance.place(count),
        };
        self.server = Some(place);
        self.options.servers.get(place).cloned()
    }

    /// Makes a connection that serves the session, or a new one. `None` if that has failed, or if
    /// the session has expired.
    async fn connect(&mut self) -> Option<Wire> {
        let (server, address) = self.choose_server()?;
        let limit = (self.granted / 3).max(ANSWER_MIN);
        let transport =
            timeout(limit, self.options.connector.connect(&address)).await.ok()?.ok()?;
        let mut wire = Wire::new(&self.options.recorder, self.options.client, transport);
        let request = self.connect_request();
        let sent_at = Instant::now();
        wire.put_handshake(&request);
        let is_eager = self.chance.one_in(self.options.eager_one_in);
        if is_eager {
            self.greet(&mut wire);
            self.send_some(&mut wire);
        }
        let handshake = wire.handshake(server, &request);
        let response = timeout(limit * 2, handshake).await.ok()?.ok()?;
        if response.session_id == SessionId::NONE {
            self.expire();
            return None;
        }
        self.become_connected(&request, response, sent_at);
        if !is_eager {
            self.greet(&mut wire);
        }
        Some(wire)
    }

    fn connect_request(&self) -> ConnectRequest {
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.last_zxid,
            timeout_ms: i32::try_from(self.options.timeout.as_millis()).unwrap_or(i32::MAX),
            session_id: self.session,
            password: Some(self.password.clone()),
            read_only: self.options.has_read_only.then_some(false),
        }
    }

    fn become_connected(
        &mut self,
        request: &ConnectRequest,
        response: ConnectResponse,
        sent_at: Instant,
    ) {
        self.failures = 0;
        self.session = response.session_id;
        self.password = response.password.unwrap_or_default();
        let granted = Duration::from_millis(u64::try_from(response.timeout_ms).unwrap_or(0));
        self.granted = granted.max(TIMEOUT_MIN);
        let is_resumed = request.session_id == self.session;
        let keeps_watches = std::mem::replace(&mut self.keeps_watches, true) && is_resumed;
        let session = self.session;
        let safe_until = Some(sent_at + self.granted * 2 / 3);
        let status = SessionStatus {
            session,
            is_connected: true,
            safe_until,
            timeout: self.granted,
            is_over: false,
        };
        self.status.send_replace(status);
        let _ = self.events.send(SessionEvent::Connected { session, keeps_watches });
    }

    /// The session is gone: the next one knows nothing of it but the program's identities.
    fn expire(&mut self) {
        self.session = SessionId::NONE;
        self.password = Bytes::from_static(&[0; PASSWORD_BYTES]);
        self.granted = self.options.timeout;
        self.last_zxid = Zxid(0);
        self.xid = 0;
        self.memory.forget_watches();
        self.keeps_watches = false;
        self.status.send_modify(|status| {
            status.session = SessionId::NONE;
            status.safe_until = None;
        });
    }

    /// Sends identities and watches anew.
    fn greet(&mut self, wire: &mut Wire) {
        for request in self.memory.restore(self.options.restore, self.last_zxid) {
            self.put(wire, request, None);
        }
    }

    /// Sends a few requests of those that wait, before the answer to the handshake.
    fn send_some(&mut self, wire: &mut Wire) {
        for _ in 0..self.chance.between(0..=3) {
            match self.commands.try_recv() {
                // A disturbance of a connection that is not there yet has no effect.
                Ok(Command::Disturb(_)) => {}
                Ok(Command::Call(request, answer)) => self.put(wire, request, Some(answer)),
                Err(_) => return,
            }
        }
    }

    fn put(&mut self, wire: &mut Wire, request: Request, answer: Option<oneshot::Sender<Outcome>>) {
        #[allow(clippy::wildcard_enum_match_arm, reason = "the others are numbered")]
        let xid = match request.op_code() {
            OpCode::Ping => Xid::PING,
            OpCode::Auth => Xid::AUTH,
            OpCode::SetWatches | OpCode::SetWatches2 => Xid::SET_WATCHES,
            op => {
                self.is_closing |= op == OpCode::CloseSession;
                self.xid = self.xid.checked_add(1).unwrap_or(1);
                Xid(self.xid)
            }
        };
        wire.put(xid, request, answer);
    }

    /// Serves a connection until it ends or is given up.
    async fn serve(&mut self, wire: &mut Wire) -> Next {
        loop {
            let has_room = wire.in_flight() < self.options.in_flight_max && !self.is_closing;
            let ping_at = wire.pinged_at + self.granted / 3;
            let silent_at = wire.received_at + self.granted * 2 / 3;
            tokio::select! {
                biased;
                received = wire.receive() => {
                    let Ok(incoming) = received else { return self.lost() };
                    if self.take_in(incoming) {
                        return Next::End;
                    }
                }
                command = self.commands.recv(), if has_room => match command {
                    None => return Next::End,
                    Some(Command::Call(request, answer)) => self.put(wire, request, Some(answer)),
                    Some(Command::Disturb(disturbance)) => {
                        if let Some(next) = self.disturb(disturbance, wire).await {
                            return next;
                        }
                    }
                },
                () = sleep_until(silent_at) => return self.lost(),
                () = sleep_until(ping_at) => self.put(wire, Request::Ping, None),
            }
        }
    }

    /// A client that closes its session does not come back for the reply.
    fn lost(&self) -> Next {
        if self.is_closing { Next::End } else { Next::Reconnect }
    }

    /// Returns whether the session was closed.
    fn take_in(&mut self, incoming: Incoming) -> bool {
        match incoming {
            Incoming::Event(event) => {
                self.memory.fire(&event);
                let _ = self.events.send(SessionEvent::Watch(event));
                false
            }
            Incoming::Reply(answered) => {
                let is_end = answered.op == OpCode::CloseSession && answered.result.is_ok();
                if let Some(effect) = answered.effect.clone() {
                    self.memory.apply(effect, &answered.result);
                }
                if answered.zxid > self.last_zxid {
                    self.last_zxid = answered.zxid;
                }
                if answered.op == OpCode::Ping && answered.result.is_ok() {
                    let safe_until = Some(answered.sent_at + self.granted * 2 / 3);
                    self.status.send_modify(|status| status.safe_until = safe_until);
                }
                pass_on(answered);
                is_end
            }
        }
    }

    async fn disturb(&mut self, disturbance: Disturbance, wire: &mut Wire) -> Option<Next> {
        match disturbance {
            Disturbance::HangUp => Some(Next::Reconnect),
            Disturbance::Move => Some(Next::Move),
            Disturbance::NewProcess { keeps_zxid } => {
                self.xid = 0;
                self.memory = Memory::default();
                self.keeps_watches = false;
                if !keeps_zxid {
                    self.last_zxid = Zxid(0);
                }
                Some(Next::Reconnect)
            }
            Disturbance::Close => {
                self.begins_anew = true;
                self.put(wire, Request::CloseSession, None);
                None
            }
            Disturbance::Pause(span) => {
                sleep(span).await;
                // What has arrived meanwhile is read before the silence counts.
                wire.received_at = Instant::now();
                None
            }
        }
    }

    /// Reads what an old connection still brings. Its watches are gone with it.
    async fn linger(&mut self, wire: &mut Wire) {
        let until = Instant::now() + self.chance.up_to(LINGER_MAX);
        loop {
            tokio::select! {
                biased;
                received = wire.receive() => match received {
                    Ok(Incoming::Event(event)) => {
                        let _ = self.events.send(SessionEvent::Watch(event));
                    }
                    Ok(Incoming::Reply(answered)) => pass_on(answered),
                    Err(_) => return,
                },
                () = sleep_until(until) => return,
            }
        }
    }
}

/// Hands a reply to its caller, who may be gone.
fn pass_on(answered: Answered) {
    let Answered { zxid, result, answer, .. } = answered;
    if let Some(answer) = answer {
        let _ = answer.send(match result {
            Ok(reply) => Outcome::Done(zxid, reply),
            Err(code) => Outcome::Refused(code),
        });
    }
}
