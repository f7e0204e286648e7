//! What the parts of a console share, and what each request says to them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use zoolet_client::Client;

use crate::failure::Failure;
use crate::logins::{Login, Logins};
use crate::options::ConsoleOptions;
use crate::requests::Query;
use crate::shared_client::{Ensemble, SharedClient};
use crate::shown::Shown;
use crate::timeline::Timeline;

/// How many long answers are made and sent at a time, and how many bodies are read.
const LONG_ANSWERS_MAX: usize = 4;
const BODIES_MAX: usize = 4;

/// How long a request waits for one of these places.
const PLACE_WAIT_MAX: Duration = Duration::from_secs(10);

/// How many streams of events there are at a time.
const STREAMS_MAX: usize = 32;

/// What the parts of a console share.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) options: ConsoleOptions,
    pub(crate) ensemble: Ensemble,
    pub(crate) shared: SharedClient,
    pub(crate) logins: Logins,
    pub(crate) shown: Shown,
    /// One login is made at a time: that is how fast passwords can be tried.
    pub(crate) login_turn: tokio::sync::Mutex<()>,
    pub(crate) streams: Arc<Semaphore>,
    timeline: Mutex<Timeline>,
    long: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

impl State {
    pub(crate) fn new(options: ConsoleOptions, name: &str) -> Self {
        let ensemble = Ensemble::new(&options.servers, options.connector.clone());
        let (max, idle) = (options.logins_max, options.login_idle);
        let places = |places: usize| Arc::new(Semaphore::new(places));
        Self {
            shared: SharedClient::new(ensemble.clone()),
            logins: Logins::new(max, idle, name, options.tls_name.is_some()),
            shown: Shown::default(),
            login_turn: tokio::sync::Mutex::default(),
            streams: places(STREAMS_MAX),
            timeline: Mutex::default(),
            long: places(LONG_ANSWERS_MAX),
            bodies: places(BODIES_MAX),
            ensemble,
            options,
        }
    }

    pub(crate) fn timeline(&self) -> MutexGuard<'_, Timeline> {
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the session of a request: of its login, or else the shared one.
    pub(crate) async fn client(&self, asked: &Asked) -> Result<Client, Failure> {
        match &asked.login {
            Some(login) => Ok(login.client.clone()),
            None => self.shared.get().await,
        }
    }

    /// Waits for a place to make a long answer.
    pub(crate) async fn long_place(&self) -> Result<OwnedSemaphorePermit, Failure> {
        Self::place(&self.long).await
    }

    /// Waits for a place to read a body.
    pub(crate) async fn body_place(&self) -> Result<OwnedSemaphorePermit, Failure> {
        Self::place(&self.bodies).await
    }

    async fn place(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Failure> {
        let place = timeout(PLACE_WAIT_MAX, Arc::clone(places).acquire_owned()).await;
        let busy = || Failure::unavailable("the console is busy: try again later");
        place.ok().and_then(Result::ok).ok_or_else(busy)
    }
}

/// What a request says besides its path and body.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) query: Query,
    pub(crate) login: Option<Login>,
}

impl Asked {
    /// Returns the login, without which nothing is changed.
    pub(crate) fn login(&self) -> Result<&Login, Failure> {
        let needed =
            || Failure::new(StatusCode::UNAUTHORIZED, "changes need a login: log in first");
        self.login.as_ref().ok_or_else(needed)
    }
}
