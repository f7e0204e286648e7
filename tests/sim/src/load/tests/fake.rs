//! A server that refuses everything, hangs up and forgets sessions: what is repeatable is the load.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use zoolet_client::{Connecting, Connector, Transport};
use zoolet_jute::{
    ConnectRequest, ConnectResponse, Decode as _, Encode as _, ErrorCode, OpCode, Reply,
    ReplyHeader, RequestHeader, SessionId, Xid, Zxid, frame,
};
use zoolet_replica::ServerId;

use super::check_sane;
use crate::SimTime;
use crate::history::{ClientNumber, Connection, History, Recorder, What};
use crate::load::chance::Chance;
use crate::load::session::{Disturbance, Outcome, Restore, Session, SessionOptions};
use crate::load::{ClientMachine, Load, Role};

/// Servers of which all clients are served by one script.
#[derive(Debug)]
struct Script {
    chance: Mutex<Chance>,
    sessions: AtomicI64,
    zxid: Arc<AtomicI64>,
    /// A connection ends after one frame of this number; 0 for never.
    ends_one_in: u64,
    /// A resume of this number finds no session; 0 for none.
    expires_one_in: u64,
}

impl Script {
    fn new(seed: u64, ends_one_in: u64, expires_one_in: u64) -> Arc<Self> {
        Arc::new(Self {
            chance: Mutex::new(Chance::new(seed, 9)),
            sessions: AtomicI64::new(1),
            zxid: Arc::default(),
            ends_one_in,
            expires_one_in,
        })
    }

    fn one_in(&self, times: u64) -> bool {
        self.chance.lock().unwrap().one_in(times)
    }

    async fn serve(self: Arc<Self>, mut stream: DuplexStream) -> std::io::Result<()> {
        let (mut incoming, mut is_greeted) = (BytesMut::new(), false);
        loop {
            while let Some(mut payload) = frame::split(&mut incoming, usize::MAX).unwrap() {
                sleep(Duration::from_millis(1)).await;
                let mut out = BytesMut::new();
                if is_greeted {
                    if self.one_in(self.ends_one_in) {
                        return Ok(());
                    }
                    let header = RequestHeader::decode(&mut payload, "header").unwrap();
                    self.answer(header, &mut out);
                } else {
                    let request = ConnectRequest::decode(&mut payload, "connect").unwrap();
                    frame::put(&mut out, |out| self.greet(&request).encode(out));
                    is_greeted = true;
                }
                stream.write_all(&out).await?;
            }
            if stream.read_buf(&mut incoming).await? == 0 {
                return Ok(());
            }
        }
    }

    fn greet(&self, request: &ConnectRequest) -> ConnectResponse {
        let is_resume = request.session_id != SessionId::NONE;
        if is_resume && self.one_in(self.expires_one_in) {
            return ConnectResponse::expired(request.read_only);
        }
        let session_id = if is_resume {
            request.session_id
        } else {
            SessionId(self.sessions.fetch_add(1, Ordering::Relaxed))
        };
        ConnectResponse {
            protocol_version: 0,
            timeout_ms: request.timeout_ms,
            session_id,
            password: request.password.clone(),
            read_only: request.read_only,
        }
    }

    fn answer(&self, header: RequestHeader, out: &mut BytesMut) {
        let zxid = Zxid(self.zxid.fetch_add(1, Ordering::Relaxed) + 1);
        let op = OpCode::from_i32(header.op).unwrap();
        let is_fine = [OpCode::Ping, OpCode::CloseSession, OpCode::Auth, OpCode::SetWatches2];
        let err = (!is_fine.contains(&op)).then_some(ErrorCode::NoNode);
        let reply = ReplyHeader { xid: header.xid, zxid, err };
        frame::put(out, |out| Reply::Empty.encode_with(reply, out));
    }
}

#[derive(Debug)]
struct FakeConnector(Arc<Script>);

impl Connector for FakeConnector {
    fn connect<'a>(&'a self, _: &'a str) -> Connecting<'a> {
        Box::pin(async move {
            let (here, there) = duplex(64 * 1024);
            tokio::spawn(Arc::clone(&self.0).serve(there));
            Ok(Box::new(here) as Box<dyn Transport>)
        })
    }
}

fn machine(client: u32, script: &Arc<Script>, recorder: &Recorder, seed: u64) -> ClientMachine {
    ClientMachine {
        client: ClientNumber(client),
        connector: Arc::new(FakeConnector(Arc::clone(script))),
        servers: vec![(ServerId(1), "one:1".to_owned()), (ServerId(2), "two:1".to_owned())],
        recorder: recorder.clone(),
        seed,
    }
}

/// Keeps the history's clock.
async fn keep_time(recorder: Recorder) {
    let begun_at = Instant::now();
    loop {
        sleep(Duration::from_millis(1)).await;
        recorder.set_now(SimTime::default() + begun_at.elapsed());
    }
}

async fn run(seed: u64) -> History {
    let recorder = Recorder::default();
    let script = Script::new(seed, 200, 5);
    let mut load = Load::draw(seed);
    // A client of zoolet chooses among what is ready by tokio's chance, which a world has to seed.
    for role in &mut load.roles {
        if let Role::Recipe(_) = role {
            *role = Role::Curator;
        }
    }
    let (mut clients, mut stops) = (JoinSet::new(), Vec::new());
    for client in 0..load.clients() {
        let machine = machine(client, &script, &recorder, seed * 100 + u64::from(client));
        // One channel wakes its receivers in an order of tokio's chance.
        let (sender, stop) = watch::channel(false);
        stops.push(sender);
        clients.spawn(load.clone().run(machine, stop));
    }
    let mut clock = JoinSet::new();
    clock.spawn(keep_time(recorder.clone()));
    sleep(Duration::from_secs(20)).await;
    for stop in &stops {
        stop.send_replace(true);
    }
    let ended = tokio::time::timeout(Duration::from_mins(1), clients.join_all()).await;
    assert!(ended.is_ok(), "the load goes on after its stop");
    recorder.take()
}

#[test]
fn a_seed_gives_the_same_history_each_time() {
    let history = |seed| {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(run(seed))
    };
    for seed in 0..6 {
        let first = history(seed);
        let (calls, returns) = check_sane(&first);
        assert!(calls > 100 && returns > calls / 2, "seed {seed}: {calls} calls");
        let second = history(seed);
        for (one, other) in first.records.iter().zip(&second.records) {
            assert_eq!(one, other, "seed {seed}");
        }
        assert_eq!(first.records.len(), second.records.len(), "seed {seed}");
    }
}

/// The connections that have begun and not ended.
fn open_connections(history: &History) -> BTreeSet<Connection> {
    let mut open = BTreeSet::new();
    for record in &history.records {
        if let What::Connected { connection, .. } = &record.what {
            open.insert(*connection);
        }
        if let What::Disconnected { connection } = &record.what {
            open.remove(connection);
        }
    }
    open
}

#[tokio::test(start_paused = true)]
async fn a_program_that_is_dropped_leaves_no_connection_behind() {
    for seed in 0..10 {
        let (script, recorder) = (Script::new(seed, 100, 5), Recorder::default());
        let (_stop_sender, stop) = watch::channel(false);
        let load = Load::draw(seed);
        let mut clients = JoinSet::new();
        for client in 0..load.clients() {
            let machine = machine(client, &script, &recorder, seed);
            clients.spawn(load.clone().run(machine, stop.clone()));
        }
        sleep(Duration::from_millis(1000 + 37 * seed)).await;
        assert!(!open_connections(&recorder.history()).is_empty(), "seed {seed}");
        clients.shutdown().await;
        sleep(Duration::from_millis(10)).await;
        let history = recorder.history();
        check_sane(&history);
        assert_eq!(open_connections(&history), BTreeSet::new(), "seed {seed}");
        sleep(Duration::from_secs(10)).await;
        let later = recorder.history();
        assert_eq!(of_raw_sessions(&load, &later), of_raw_sessions(&load, &history), "seed {seed}");
        // zoolet's own client closes its session in the background.
        check_sane(&later);
        assert_eq!(open_connections(&later), BTreeSet::new(), "seed {seed}");
    }
}

/// How many records there are of connections that no client of zoolet's library has made.
fn of_raw_sessions(load: &Load, history: &History) -> usize {
    let mut raw = BTreeSet::new();
    #[allow(clippy::wildcard_enum_match_arm, reason = "the others follow from a call")]
    let of_raw = history.records.iter().filter(|record| match &record.what {
        What::Connected { client, connection, .. } => {
            let is_ours = matches!(load.role(*client), Role::Recipe(_) | Role::Structure(_));
            !is_ours && raw.insert(*connection)
        }
        What::Disconnected { connection } | What::Called { connection, .. } => {
            raw.contains(connection)
        }
        _ => false,
    });
    of_raw.count()
}

fn session(script: &Arc<Script>, recorder: &Recorder) -> Session {
    let machine = machine(0, script, recorder, 1);
    let options = SessionOptions {
        client: machine.client,
        connector: machine.connector,
        servers: machine.servers,
        recorder: machine.recorder,
        timeout: Duration::from_secs(3),
        in_flight_max: 8,
        restore: Restore::Together,
        eager_one_in: 0,
        has_read_only: true,
    };
    Session::start(options, Chance::new(1, 1)).0
}

fn handshakes(history: &History) -> Vec<(SessionId, SessionId, Zxid)> {
    let of = |what: &What| {
        let What::Connected { asked, session, last_seen, .. } = what else { return None };
        Some((*asked, *session, *last_seen))
    };
    history.records.iter().filter_map(|record| of(&record.what)).collect()
}

fn xids(history: &History) -> Vec<Xid> {
    let of = |what: &What| {
        let What::Called { xid, .. } = what else { return None };
        Some(*xid)
    };
    history.records.iter().filter_map(|record| of(&record.what)).collect()
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_pings_at_a_third_of_its_timeout() {
    let (script, recorder) = (Script::new(1, 0, 0), Recorder::default());
    let session = session(&script, &recorder);
    sleep(Duration::from_millis(10_500)).await;
    assert_eq!(xids(&recorder.history()), [Xid::PING; 10]);
    let status = session.status();
    assert!(status.is_connected && status.safe_until > Some(Instant::now()));
    assert!(session.close(Duration::from_secs(1)).await);
    let history = recorder.take();
    assert_eq!(xids(&history).last(), Some(&Xid(1)));
    assert!(matches!(history.records.last().unwrap().what, What::Disconnected { .. }));
    check_sane(&history);
}

#[tokio::test(start_paused = true)]
async fn another_process_resumes_with_the_password_and_counts_from_one() {
    let (script, recorder) = (Script::new(1, 0, 0), Recorder::default());
    let session = session(&script, &recorder);
    for disturbance in [
        Disturbance::HangUp,
        Disturbance::NewProcess { keeps_zxid: true },
        Disturbance::NewProcess { keeps_zxid: false },
        Disturbance::Move,
    ] {
        let outcome = session.call(zoolet_jute::Request::WhoAmI).await;
        assert_eq!(outcome, Outcome::Refused(ErrorCode::NoNode));
        session.disturb(disturbance);
    }
    session.call(zoolet_jute::Request::WhoAmI).await;
    session.abandon().await;
    let history = recorder.take();
    check_sane(&history);
    let (none, one) = (SessionId::NONE, SessionId(1));
    let zxids = [0, 1, 2, 0, 4].map(Zxid);
    let asked = [none, one, one, one, one];
    let expected: Vec<_> =
        asked.into_iter().zip(zxids).map(|(asked, zxid)| (asked, one, zxid)).collect();
    assert_eq!(handshakes(&history), expected);
    assert_eq!(xids(&history), [1, 2, 1, 1, 2].map(Xid));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_has_expired_is_begun_anew() {
    let (script, recorder) = (Script::new(1, 0, 1), Recorder::default());
    let session = session(&script, &recorder);
    session.call(zoolet_jute::Request::WhoAmI).await;
    session.disturb(Disturbance::HangUp);
    session.call(zoolet_jute::Request::WhoAmI).await;
    assert_eq!(session.status().session, SessionId(2));
    let history = recorder.take();
    check_sane(&history);
    let (none, one, two) = (SessionId::NONE, SessionId(1), SessionId(2));
    let expected = [(none, one, Zxid(0)), (one, none, Zxid(1)), (none, two, Zxid(0))];
    assert_eq!(handshakes(&history), expected);
}

#[tokio::test(start_paused = true)]
async fn a_reply_out_of_turn_is_a_complaint() {
    #[derive(Debug)]
    struct Liar;
    impl Connector for Liar {
        fn connect<'a>(&'a self, _: &'a str) -> Connecting<'a> {
            Box::pin(async {
                let (here, mut there) = duplex(64 * 1024);
                let mut out = BytesMut::new();
                let greeting = ConnectResponse {
                    protocol_version: 0,
                    timeout_ms: 3000,
                    session_id: SessionId(1),
                    password: None,
                    read_only: Some(false),
                };
                frame::put(&mut out, |out| greeting.encode(out));
                let header = ReplyHeader { xid: Xid(77), zxid: Zxid(1), err: None };
                frame::put(&mut out, |out| Reply::Empty.encode_with(header, out));
                there.write_all(&out).await?;
                tokio::spawn(async move {
                    sleep(Duration::from_secs(5)).await;
                    drop(there);
                });
                Ok(Box::new(here) as Box<dyn Transport>)
            })
        }
    }
    let recorder = Recorder::default();
    let mut options = machine(0, &Script::new(1, 0, 0), &recorder, 1);
    options.connector = Arc::new(Liar);
    let load = Load { roles: vec![Role::Bank], ..Load::draw(1) };
    let (stop_sender, stop) = watch::channel(false);
    let mut client = JoinSet::new();
    client.spawn(load.run(options, stop));
    sleep(Duration::from_millis(50)).await;
    stop_sender.send_replace(true);
    let is_complaint = |what: &What| matches!(what, What::Complained { .. });
    assert!(recorder.take().records.iter().any(|record| is_complaint(&record.what)));
}
