//! A client on the side that stops: it sends one write after the cut, and must be hung up on.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep};
use zoolet_client::{Client, CreateMode, ErrorCode, Zxid};
use zoolet_jute::{Acl, CreateRequest, Request, SessionId, Xid};

use super::{Failure, promised};
use crate::raw::{Incoming, RawConnection};

/// Where all witnesses have their znodes.
pub const ROOT: &str = "/witnesses";
/// The session of a witness, which sends no pings.
const SESSION_MS: i32 = 3000;
/// How long a server may take to open the session, on a busy machine.
const OPEN_MAX: Duration = Duration::from_mins(1);
/// How long a majority may take to end the session of a witness, its timeout included.
const EXPIRY_MAX: Duration = Duration::from_mins(1);

/// A session on one server, with an ephemeral znode.
#[derive(Debug)]
pub struct Witness {
    connection: RawConnection,
    address: SocketAddr,
    name: String,
}

/// A witness that has sent its write.
#[derive(Debug)]
pub struct Waiting(JoinHandle<Result<Witness, Failure>>);

impl Witness {
    /// Opens the session and creates the ephemeral znode. On a busy machine the server may just be
    /// without a leader; then it is asked again.
    pub async fn open(address: SocketAddr, name: String) -> Result<Self, Failure> {
        let opened = spawn_blocking(move || {
            let start = Instant::now();
            for attempt in 0.. {
                if let Some(witness) = Self::try_open(address, format!("{name}-{attempt}")) {
                    return Ok(witness);
                }
                promised(start.elapsed() < OPEN_MAX, || format!("{address} does not serve"))?;
            }
            Err(Failure::Broken("no attempt is left".into()))
        });
        opened.await.map_err(|error| Failure::Broken(error.to_string()))?
    }

    fn try_open(address: SocketAddr, name: String) -> Option<Self> {
        let mut connection = RawConnection::open(address, SESSION_MS).ok()?;
        let request = create(format!("{ROOT}/{name}"), CreateMode::Ephemeral);
        let (_, answer) = connection.call(Xid(1), &request).ok()?;
        is_acknowledged(&answer).then_some(Self { connection, address, name })
    }

    /// Sends a write through the server, which has lost its majority, and waits for the end of the
    /// connection in the background. An answer is a broken promise.
    pub fn write(mut self) -> Waiting {
        Waiting(spawn_blocking(move || {
            let request = create(self.late_path(), CreateMode::Persistent);
            self.connection.send(Xid(2), &request)?;
            let (_, answer) = self.connection.until_reply()?;
            promised(answer == Incoming::Closed, || {
                format!("{} has no majority and answered a write: {answer:?}", self.address)
            })?;
            Ok(self)
        }))
    }

    /// Waits until the ensemble has ended the session; then its ephemeral znode is gone.
    pub async fn until_expired(&self, reader: &Client) -> Result<(), Failure> {
        let path = format!("{ROOT}/{}", self.name);
        let start = Instant::now();
        loop {
            // A reader whose server was cut off finds another one.
            if reader.sync(ROOT).await.is_ok() && matches!(reader.exists(&path).await, Ok(None)) {
                return Ok(());
            }
            promised(start.elapsed() < EXPIRY_MAX, || format!("a dead session keeps {path}"))?;
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// The session, which the majority has ended, is not known to the server that had it either;
    /// and what it sent after the cut came too late.
    pub async fn has_ended(self, reader: &Client) -> Result<(), Failure> {
        let (late_path, address) = (self.late_path(), self.address);
        let answer = spawn_blocking(move || {
            let request = self.connection.resume_request(Zxid(0));
            RawConnection::handshake(address, &request).map(|resumed| resumed.session)
        });
        let session = answer.await.map_err(|error| Failure::Broken(error.to_string()))??;
        promised(session.session_id == SessionId::NONE, || {
            format!("{address} resumed a session that the majority has ended: {session:?}")
        })?;
        reader.sync(ROOT).await?;
        let found = reader.exists(&late_path).await?;
        promised(found.is_none(), || {
            format!("{late_path} was written by a session that had ended: {found:?}")
        })
    }

    fn late_path(&self) -> String {
        format!("{ROOT}/late-{}", self.name)
    }
}

impl Waiting {
    /// The witness, once its server has hung up.
    pub async fn until_closed(self, limit: Duration) -> Result<Witness, Failure> {
        let ended = tokio::time::timeout(limit, self.0).await.map_err(|_| {
            Failure::Broken("a server without a majority keeps its connections".into())
        })?;
        ended.map_err(|error| Failure::Broken(error.to_string()))?
    }
}

/// The parent of all witnesses.
pub async fn prepare(client: &Client) -> Result<(), Failure> {
    match client.create(ROOT, b"", CreateMode::Persistent).await {
        Ok(_) => Ok(()),
        Err(error) if error.code() == Some(ErrorCode::NodeExists) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// No witness is left; those of ensembles that stood still have ended after the cut.
pub async fn none_left(client: &Client) -> Result<(), Failure> {
    let start = Instant::now();
    loop {
        client.sync(ROOT).await?;
        let (mut left, _) = client.children(ROOT).await?;
        left.retain(|name| !name.starts_with("late-"));
        if left.is_empty() {
            return Ok(());
        }
        promised(start.elapsed() < EXPIRY_MAX, || format!("dead sessions keep {left:?}"))?;
        sleep(Duration::from_millis(50)).await;
    }
}

fn is_acknowledged(answer: &Incoming) -> bool {
    matches!(answer, Incoming::Reply(header, _) if header.err.is_none())
}

fn create(path: String, mode: CreateMode) -> Request {
    Request::Create2(CreateRequest { path, data: None, acl: Some(Acl::open()), flags: mode as i32 })
}
