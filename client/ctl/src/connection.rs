//! A session with the servers, each of whose requests has to be answered in time.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zoolet_client::{Client, ClientOptions, Error, ErrorKind};
use zoolet_survey::reader::{ReadError, Reader};

use crate::args::Options;
use crate::error::{CtlError, Exit};
use crate::interrupt::{ANSWER_MAX, CLOSE_MAX, Interrupt};
use crate::output::note;
use crate::status::{self, Reasons};

/// How long connecting may take before the reasons are looked for. With the look, less than three
/// seconds pass until a person sees them.
const PATIENCE: Duration = Duration::from_millis(800);

/// A connected client, how long it may take to answer, and what ends the command that uses it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) limit: Duration,
    pub(crate) interrupt: Interrupt,
}

impl Connection {
    /// Connects to the servers and gives them the identities of the options.
    pub(crate) async fn open(options: &Options) -> Result<Self, CtlError> {
        Self::open_to(options, options.connect_string()).await
    }

    /// The same for another connect string.
    pub(crate) async fn open_to(options: &Options, servers: &str) -> Result<Self, CtlError> {
        let mut client = ClientOptions::new()
            .session_timeout(options.session_timeout)
            .connect_timeout(options.timeout)
            .read_only(options.read_only);
        let tls = options.tls.connector()?;
        if let Some(tls) = &tls {
            client = client.connector(tls.clone());
        }
        let looking = status::explain(servers, &options.tls, tls.as_ref());
        let client = connected(client.connect(servers), looking, servers, options).await?;
        let connection = Self { client, limit: options.timeout, interrupt: Interrupt::never() };
        for identity in &options.auth {
            let (scheme, id) = identity.0.split_once(':').expect("it was checked as it was read");
            connection.add_auth(scheme, id).await?;
        }
        Ok(connection)
    }

    /// Adds an identity.
    pub(crate) async fn add_auth(&self, scheme: &str, id: &str) -> Result<(), CtlError> {
        self.ask(scheme, self.client.add_auth(scheme, id.as_bytes())).await
    }

    /// Waits for the answer to a request that concerns this path.
    pub(crate) async fn ask<T>(
        &self,
        path: &str,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, CtlError> {
        self.answer(path, request).await?.map_err(|error| CtlError::of(&error, path))
    }

    /// Returns what reads for a survey of the ensemble, each answer in time as well.
    pub(crate) fn reader(&self) -> Reader {
        Reader::new(self.client.clone(), self.limit)
    }

    /// The same for a transaction: a failure comes with the number of the part that is its cause.
    pub(crate) async fn ask_part<T>(
        &self,
        path: &str,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, (Option<usize>, CtlError)> {
        let answer = self.answer(path, request).await.map_err(|error| (None, error))?;
        answer.map_err(|error| (error.part(), CtlError::of_call(&error)))
    }

    /// Fails if a signal has come. Work on many znodes calls it before each request: a call is sent when
    /// it is made.
    pub(crate) fn go_on(&self) -> Result<(), CtlError> {
        let interrupted = self.interrupt.has_come();
        interrupted.map_or(Ok(()), Err)
    }

    /// Waits for an answer, for a shorter time once a signal has come.
    async fn answer<T>(&self, path: &str, request: impl Future<Output = T>) -> Result<T, CtlError> {
        let mut answer = pin!(timeout(self.limit, request));
        let interrupted = tokio::select! {
            biased;
            answer = &mut answer => return answer.map_err(|_| unanswered(path, self.limit)),
            interrupted = self.interrupt.comes() => interrupted,
        };
        if let Ok(answer) = timeout(ANSWER_MAX, answer).await {
            return answer.map_err(|_| unanswered(path, self.limit));
        }
        let message = format!("{}, and {path} was not answered yet", interrupted.message);
        Err(CtlError { message, is_transient: true, ..interrupted })
    }

    /// Ends the session. One that cannot be ended in time is left to expire.
    pub(crate) async fn close(self) {
        let limit = self.interrupt.has_come().map_or(self.limit, |_| CLOSE_MAX.min(self.limit));
        // The work is done by now, and an unused session goes by itself.
        let _ = timeout(limit, self.client.close()).await;
    }
}

impl From<ReadError> for CtlError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Failed { path, error } => Self::of(&error, &path),
            ReadError::Late { path, limit } => unanswered(&path, limit),
        }
    }
}

fn unanswered(path: &str, limit: Duration) -> CtlError {
    CtlError::unanswered(format!(
        "{path}: the server did not answer within {} ms",
        limit.as_millis()
    ))
    .hint("the operation may have happened or not; --timeout waits longer")
}

/// Waits for a session, and says on stderr what keeps it waiting. It ends early if waiting cannot
/// help.
async fn connected(
    connecting: impl Future<Output = Result<Client, Error>>,
    looking: impl Future<Output = Option<Reasons>>,
    servers: &str,
    options: &Options,
) -> Result<Client, CtlError> {
    let mut connecting = pin!(connecting);
    let looking = async {
        sleep(PATIENCE).await;
        looking.await
    };
    let found = tokio::select! {
        connected = &mut connecting => return connected.map_err(|error| failed(servers, &error)),
        found = looking => found,
    };
    let Some(found) = found else {
        return connecting.await.map_err(|error| failed(servers, &error));
    };
    let Reasons { summary, details, remedy, is_final } = found;
    if is_final {
        let message = format!("{servers}: no session: {summary}");
        return Err(CtlError { details, hint: remedy, ..CtlError::new(Exit::Connection, message) });
    }
    if !options.json {
        let remedy = remedy.map(|remedy| format!("\n  {remedy}")).unwrap_or_default();
        note(&format!("{servers}: waiting for a server: {summary}{details}{remedy}"));
    }
    connecting.await.map_err(|error| {
        let is_timeout = matches!(error.kind(), ErrorKind::Timeout(_));
        let error = failed(servers, &error);
        if !is_timeout {
            return error;
        }
        let limit_ms = options.timeout.as_millis();
        let message = format!("{servers}: no session within {limit_ms} ms: {summary}");
        CtlError { message, details, hint: remedy.or(error.hint), ..error }
    })
}

fn failed(servers: &str, error: &Error) -> CtlError {
    let error = CtlError::of_call(error);
    if servers.is_empty() {
        return error.hint("name servers with --servers, such as host:2181");
    }
    CtlError { message: format!("{servers}: {}", error.message), ..error }
}
