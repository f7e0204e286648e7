//! One session of the load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};
use zoolet_client::{Acl, Client, CreateMode, Error, ErrorCode, Zxid};
use zoolet_jute::{
    CreateRequest, MultiOp, MultiResult, Parts, PathVersionRequest, PathWatchRequest, Reply,
    Request, SetDataRequest,
};

use super::session_history::{Event, Op, Outcome, SessionHistory};
use super::{Failure, connect, promised};

/// The most appends that are sent before the first is answered.
const BURST_MAX: usize = 8;

/// A session that writes, and that knows after every answer what must be there. What it owns:
///
/// - `log`, whose sequential children hold the numbers of the writes that appended them;
/// - `counter`, whose data is the number of the last write and whose version counts them;
/// - `flag`, which comes and goes;
/// - `alive`, which is ephemeral and must never go.
#[derive(Debug)]
pub struct Writer {
    client: Client,
    history: Arc<Mutex<SessionHistory>>,
    rng: fastrand::Rng,
    began: Instant,
    /// The mean pause between two writes.
    pause: Duration,
    root: String,
    number: u64,
    last_zxid: Zxid,
    version: i32,
    counted: u64,
    has_flag: bool,
}

impl Writer {
    /// Opens the session and creates its znodes below `root`, whose parent exists.
    pub async fn open(
        servers: &str,
        root: String,
        rng: fastrand::Rng,
        pause: Duration,
    ) -> Result<Self, Failure> {
        let client = connect(servers).await?;
        client.create(&root, b"", CreateMode::Persistent).await?;
        client.create(&format!("{root}/log"), b"", CreateMode::Persistent).await?;
        client.create(&format!("{root}/counter"), b"0", CreateMode::Persistent).await?;
        let alive = format!("{root}/alive");
        let (_, stat) = client.create(&alive, b"", CreateMode::Ephemeral).await?;
        let history = SessionHistory {
            root: root.clone(),
            session: client.session(),
            alive_since: stat.czxid,
            events: Vec::new(),
            reads: 0,
        };
        Ok(Self {
            client,
            history: Arc::new(Mutex::new(history)),
            rng,
            began: Instant::now(),
            pause,
            root,
            number: 0,
            last_zxid: stat.czxid,
            version: 0,
            counted: 0,
            has_flag: false,
        })
    }

    /// What is recorded, for those who look while the writer writes.
    pub fn history(&self) -> Arc<Mutex<SessionHistory>> {
        Arc::clone(&self.history)
    }

    /// Writes until `stop` is set. The session stays open as long as the returned client lives.
    pub async fn run(mut self, stop: Arc<AtomicBool>) -> Result<Client, Failure> {
        while !stop.load(Ordering::Relaxed) {
            match self.rng.u8(..100) {
                0..35 => self.append().await?,
                35..60 => self.set().await?,
                60..80 => self.both().await?,
                80..90 => self.flip().await?,
                _ => self.read().await?,
            }
            sleep(self.pause.mul_f64(2.0 * self.rng.f64())).await;
        }
        let session = self.lock().session.id;
        let is_same = self.client.session().id == session;
        promised(is_same, || format!("{}: session {session} was replaced", self.root))?;
        Ok(self.client)
    }

    fn lock(&self) -> MutexGuard<'_, SessionHistory> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Several at once: a session's requests are executed in the order it sent them.
    async fn append(&mut self) -> Result<(), Failure> {
        let invoked = self.began.elapsed();
        let count = self.rng.usize(1..=BURST_MAX);
        let numbers: Vec<u64> = (0..count).map(|_| self.next_number()).collect();
        let calls = numbers.iter().map(|number| {
            self.client.call(Request::Create2(create(
                format!("{}/log/e-", self.root),
                *number,
                CreateMode::PersistentSequential,
            )))
        });
        let answers = join_all(calls).await;
        for (number, answer) in numbers.into_iter().zip(answers) {
            let outcome = match self.judge(Op::Append, number, answer)? {
                None => Outcome::Unknown,
                Some((zxid, Reply::PathStat(path, stat))) if stat.czxid == zxid => {
                    Outcome::Acknowledged { zxid, path: Some(path) }
                }
                Some(other) => return self.broken(Op::Append, number, &other),
            };
            self.record(number, Op::Append, invoked, outcome);
        }
        Ok(())
    }

    async fn set(&mut self) -> Result<(), Failure> {
        let (number, invoked) = (self.next_number(), self.began.elapsed());
        let request = Request::SetData(self.counter_request(number));
        let answer = self.client.call(request).await;
        let outcome = match self.judge(Op::Set, number, answer)? {
            None => self.look_at_counter(number).await?,
            Some((zxid, Reply::Stat(stat)))
                if stat.version == self.version + 1 && stat.mzxid == zxid =>
            {
                self.count(number);
                Outcome::Acknowledged { zxid, path: None }
            }
            Some(other) => return self.broken(Op::Set, number, &other),
        };
        self.record(number, Op::Set, invoked, outcome);
        Ok(())
    }

    async fn both(&mut self) -> Result<(), Failure> {
        let (number, invoked) = (self.next_number(), self.began.elapsed());
        let entry =
            create(format!("{}/log/e-", self.root), number, CreateMode::PersistentSequential);
        let counter = self.counter_request(number);
        let check = PathVersionRequest { path: counter.path.clone(), version: counter.version };
        let request = Request::Multi(Parts(vec![
            MultiOp::Check(check),
            MultiOp::Create2(entry),
            MultiOp::SetData(counter),
        ]));
        let answer = self.client.call(request).await;
        let outcome = match self.judge(Op::Both, number, answer)? {
            None => self.look_at_counter(number).await?,
            Some((zxid, Reply::Multi(Parts(results)))) => match results.as_slice() {
                [
                    MultiResult::Check,
                    MultiResult::Create2 { path, .. },
                    MultiResult::SetData(stat),
                ] if stat.version == self.version + 1 && stat.mzxid == zxid => {
                    self.count(number);
                    Outcome::Acknowledged { zxid, path: Some(path.clone()) }
                }
                other => return self.broken(Op::Both, number, &other),
            },
            Some(other) => return self.broken(Op::Both, number, &other),
        };
        self.record(number, Op::Both, invoked, outcome);
        Ok(())
    }

    async fn flip(&mut self) -> Result<(), Failure> {
        let (number, invoked) = (self.next_number(), self.began.elapsed());
        let path = format!("{}/flag", self.root);
        let request = if self.has_flag {
            Request::Delete(PathVersionRequest { path: path.clone(), version: 0 })
        } else {
            Request::Create2(create(path.clone(), number, CreateMode::Persistent))
        };
        let answer = self.client.call(request).await;
        let outcome = if let Some((zxid, _)) = self.judge(Op::Flip, number, answer)? {
            self.has_flag = !self.has_flag;
            Outcome::Acknowledged { zxid, path: None }
        } else {
            let look = Request::Exists(PathWatchRequest { path, watch: false });
            let has_flag = match self.until_answered(look).await? {
                Ok(_) => true,
                Err(ErrorCode::NoNode) => false,
                Err(other) => return self.broken(Op::Flip, number, &other),
            };
            if std::mem::replace(&mut self.has_flag, has_flag) == has_flag {
                Outcome::HadNone
            } else {
                Outcome::TookEffect
            }
        };
        self.record(number, Op::Flip, invoked, outcome);
        Ok(())
    }

    /// A session sees its own writes, whichever server it has come to.
    async fn read(&mut self) -> Result<(), Failure> {
        let (data, stat) = match self.client.get(&format!("{}/counter", self.root)).await {
            Ok(answer) => answer,
            Err(error) if error.ends_session() || !error.may_have_happened() => {
                return Err(Failure::Broken(format!("{}: a read: {error}", self.root)));
            }
            Err(_) => return Ok(()),
        };
        let is_ours = stat.version == self.version && data == self.counted.to_string();
        promised(is_ours, || {
            format!(
                "{}: counter is {data:?} of version {} behind {} of version {}",
                self.root, stat.version, self.counted, self.version
            )
        })?;
        self.lock().reads += 1;
        Ok(())
    }

    /// After a lost reply: has `counter` been written? Behind a sync the answer is final, because
    /// what the session's earlier connection has sent is now executed or refused.
    async fn look_at_counter(&mut self, number: u64) -> Result<Outcome, Failure> {
        let path = format!("{}/counter", self.root);
        let look = Request::GetData(PathWatchRequest { path: path.clone(), watch: false });
        let (data, stat) = match self.until_answered(look).await? {
            Ok(Reply::Data(data, stat)) => (data.unwrap_or_default(), stat),
            other => return self.broken(Op::Set, number, &other),
        };
        if stat.version == self.version && data == self.counted.to_string() {
            return Ok(Outcome::HadNone);
        }
        let is_ours = stat.version == self.version + 1 && data == number.to_string();
        promised(is_ours, || {
            format!(
                "{path}: {data:?} of version {} after the lost reply of write {number} on {} of \
                 version {}",
                stat.version, self.counted, self.version
            )
        })?;
        self.count(number);
        Ok(Outcome::TookEffect)
    }

    /// Syncs and reads as often as it takes to get an answer.
    async fn until_answered(&self, read: Request) -> Result<Result<Reply, ErrorCode>, Failure> {
        loop {
            let answer = match self.client.sync(&self.root).await {
                Ok(_) => self.client.call(read.clone()).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok((_, reply)) => return Ok(Ok(reply)),
                Err(error) if error.ends_session() => return Err(error.into()),
                Err(error) if error.may_have_happened() => {}
                Err(error) => return error.code().map(Err).ok_or(Failure::Client(error)),
            }
        }
    }

    /// `None` if the reply was lost. An error of the server is a broken promise: no other
    /// session writes here, so every write must succeed.
    fn judge(
        &mut self,
        op: Op,
        number: u64,
        answer: Result<(Zxid, Reply), Error>,
    ) -> Result<Option<(Zxid, Reply)>, Failure> {
        match answer {
            Ok((zxid, reply)) => {
                promised(zxid > self.last_zxid, || {
                    let (root, last) = (&self.root, self.last_zxid);
                    format!("{root}: {op:?} {number} was acknowledged at {zxid}, after {last}")
                })?;
                self.last_zxid = zxid;
                Ok(Some((zxid, reply)))
            }
            Err(error) if error.may_have_happened() && !error.ends_session() => Ok(None),
            Err(error) => self.broken(op, number, &error),
        }
    }

    fn broken<T>(&self, op: Op, number: u64, answer: &impl std::fmt::Debug) -> Result<T, Failure> {
        Err(Failure::Broken(format!(
            "{}, session {}: {op:?} {number} on version {} was answered {answer:?}",
            self.root,
            self.client.session().id,
            self.version
        )))
    }

    fn record(&self, number: u64, op: Op, invoked: Duration, outcome: Outcome) {
        let answered = self.began.elapsed();
        self.lock().events.push(Event { number, op, invoked, answered, outcome });
    }

    fn count(&mut self, number: u64) {
        self.version += 1;
        self.counted = number;
    }

    fn counter_request(&self, number: u64) -> SetDataRequest {
        SetDataRequest {
            path: format!("{}/counter", self.root),
            data: Some(Bytes::from(number.to_string())),
            version: self.version,
        }
    }
}

fn create(path: String, number: u64, mode: CreateMode) -> CreateRequest {
    CreateRequest {
        path,
        data: Some(Bytes::from(number.to_string())),
        acl: Some(Acl::open()),
        flags: mode as i32,
    }
}
