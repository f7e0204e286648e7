//! Which path is which page or answer.

use std::error::Error as StdError;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Body;
use hyper::header::LOCATION;
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use zoolet_tls::VerifiedCertificate;

use crate::answer::{Answer, ConsoleBody};
use crate::failure::Failure;
use crate::options::ConsoleOptions;
use crate::requests::{Query, Sent};
use crate::state::{Asked, State};
use crate::{events, guard, history, locks, login, pages, sampler, sessions, tree};

/// How often logins and sessions are looked at that are not in use.
const SWEEP_PAUSE: Duration = Duration::from_mins(1);

/// The prefix of every path, and of those of the API.
const PREFIX: &str = "/console";
const API: &str = "/console/api/";

/// A console; clones are the same one. Its tasks end with the last of them.
#[derive(Clone, Debug)]
pub struct Console {
    state: Arc<State>,
    _tasks: Arc<Tasks>,
}

/// Where a request comes from.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The address of the browser, or of the proxy in front of it.
    pub peer: SocketAddr,
    /// The address that the connection was made to.
    pub local: SocketAddr,
    /// Whether the connection speaks TLS.
    pub is_secure: bool,
    /// The certificate that it has shown.
    pub certificate: Option<Arc<VerifiedCertificate>>,
}

#[derive(Debug)]
struct Tasks([JoinHandle<()>; 2]);

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

impl Console {
    /// Makes a console, on the runtime of the caller. `name` is a part of its cookie's name: of two
    /// consoles on one host, each has another.
    pub fn new(options: ConsoleOptions, name: &str) -> Self {
        let state = Arc::new(State::new(options, name));
        let sampling = tokio::spawn(sampler::run(Arc::downgrade(&state)));
        let kept = Arc::downgrade(&state);
        let sweeping = tokio::spawn(async move {
            loop {
                sleep(SWEEP_PAUSE).await;
                let Some(state) = kept.upgrade() else { return };
                state.logins.sweep();
                state.shared.sweep().await;
            }
        });
        Self { state, _tasks: Arc::new(Tasks([sampling, sweeping])) }
    }

    /// Returns whether a path is the console's.
    pub fn has(path: &str) -> bool {
        path.strip_prefix(PREFIX).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Answers a request.
    pub async fn answer<B>(&self, request: Request<B>, caller: &Caller) -> Response<ConsoleBody>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        if let Err(failure) = self.check_host(&head, caller) {
            return Answer::from(failure).into_response();
        }
        let path = head.uri.path();
        if path == PREFIX || path == "/" {
            return redirect();
        }
        let answered = match path.strip_prefix(API) {
            Some(name) => self.api(name, &head, body, caller).await,
            None => page(&head),
        };
        answered.unwrap_or_else(Answer::from).into_response()
    }

    fn check_host(&self, head: &Parts, caller: &Caller) -> Result<(), Failure> {
        let name = self.state.options.tls_name.as_deref();
        guard::check_host(&head.headers, (caller.local, caller.is_secure), name)
    }

    async fn api<B>(
        &self,
        name: &str,
        head: &Parts,
        body: B,
        caller: &Caller,
    ) -> Result<Answer, Failure>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let shown = (caller.is_secure, caller.certificate.as_deref());
        let login = self.state.logins.find(&head.headers, shown);
        let asked = Asked { query, login };
        match head.method {
            Method::GET | Method::HEAD => self.read(name, &asked, caller).await,
            Method::POST => {
                guard::check_origin(&head.headers, caller.is_secure)?;
                let place = self.state.body_place().await?;
                let sent = Sent::read(body).await?;
                let answer = match name {
                    "login" => login::begin(&self.state, (&head.headers, caller), &sent).await,
                    "logout" => login::end(&self.state, &head.headers, caller).await,
                    _ => change(&self.state, name, &asked, &sent).await,
                };
                drop(place);
                answer
            }
            _ => Err(not_allowed(&head.method)),
        }
    }

    async fn read(&self, name: &str, asked: &Asked, caller: &Caller) -> Result<Answer, Failure> {
        let state = &self.state;
        match name {
            "session" => return Ok(Answer::json(&login::shown(state, asked, caller))),
            "events" => return events::begin(state, asked).await,
            "ensemble" => return Ok(Answer::json_text(state.shown.now().await)),
            _ => {}
        }
        let place = state.long_place().await?;
        let value = match name {
            "children" => tree::children(state, asked).await,
            "znode" => tree::znode(state, asked).await,
            "search" => tree::search(state, asked).await,
            "subtree" => tree::subtree(state, asked).await,
            "sessions" => sessions::list(state, asked).await,
            "locks" => locks::list(state, asked).await,
            "history" => history::list(state, asked).await,
            _ => Err(unknown()),
        };
        Ok(Answer::json_in(&value?, place))
    }
}

/// Changes something, by the session of the login.
async fn change(state: &State, name: &str, asked: &Asked, sent: &Sent) -> Result<Answer, Failure> {
    let login = asked.login()?;
    let value: Value = match name {
        "set" => tree::set_data(login, sent).await?,
        "create" => tree::create(login, sent).await?,
        "delete" => tree::delete(login, sent).await?,
        "acl" => tree::set_acl(login, sent).await?,
        "close" => sessions::close(state, login, sent).await?,
        _ => return Err(unknown()),
    };
    Ok(Answer::json(&value))
}

fn page(head: &Parts) -> Result<Answer, Failure> {
    if ![Method::GET, Method::HEAD].contains(&head.method) {
        return Err(not_allowed(&head.method));
    }
    pages::find(head.uri.path()).ok_or_else(unknown)
}

fn redirect() -> Response<ConsoleBody> {
    let mut response = Answer::json(&json!({})).into_response();
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(LOCATION, pages::FIRST);
    response
}

fn unknown() -> Failure {
    Failure::new(StatusCode::NOT_FOUND, "unknown path")
}

fn not_allowed(method: &Method) -> Failure {
    let why = format!("method {method} is not allowed here");
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, why)
}
