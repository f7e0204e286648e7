//! Logging in and out.

use std::sync::Arc;

use hyper::header::HeaderValue;
use hyper::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tracing::info;
use zoolet_client::Client;
use zoolet_tls::VerifiedCertificate;

use crate::answer::Answer;
use crate::console::Caller;
use crate::failure::Failure;
use crate::logins::{Credentials, Login, Proof};
use crate::requests::Sent;
use crate::shared_client::answer;
use crate::state::{Asked, State};

/// Returns whom the console takes a request for, and which servers it shows.
pub(crate) fn shown(state: &State, asked: &Asked, caller: &Caller) -> Value {
    let certificate = state.options.certificates.as_ref().and(caller.certificate.as_deref());
    json!({
        "identities": asked.login.as_ref().map(|login| &login.identities),
        "servers": state.options.servers.addresses(),
        "chroot": state.options.servers.chroot(),
        "logins": state.options.logins,
        // The name that a login by certificate would have.
        "certificate": certificate.and_then(|shown| name_of(shown).ok()),
        "http": state.options.http_ends().count(),
    })
}

/// Makes a session with the credentials of a user, or with the certificate that the browser has shown.
/// What they are worth, ACLs decide.
pub(crate) async fn begin(
    state: &State,
    (headers, caller): (&HeaderMap, &Caller),
    sent: &Sent,
) -> Result<Answer, Failure> {
    if !state.options.logins {
        return Err(Failure::invalid("this console is read-only: it takes no logins"));
    }
    let wanted = Wanted::of(caller, sent)?;
    // The login of before ends, so that its place is free.
    end_of(state, headers, caller).await?;
    let turn = state.login_turn.lock().await;
    if !state.logins.has_room() {
        return Err(Failure::unavailable("all logins are in use: try again later"));
    }
    let login = match wanted {
        Wanted::Digest { user, password } => by_digest(state, user, password).await?,
        Wanted::Certificate { certificate, name } => {
            by_certificate(state, caller, &certificate, &name).await?
        }
    };
    let value = json!({ "identities": login.identities });
    let cookie = state.logins.add(login, caller.is_secure)?;
    drop(turn);
    Ok(Answer::json(&value).with_cookie(Some(cookie)))
}

/// What a user wants to log in with.
enum Wanted<'a> {
    Digest { user: &'a str, password: &'a str },
    Certificate { certificate: Arc<VerifiedCertificate>, name: String },
}

impl<'a> Wanted<'a> {
    fn of(caller: &Caller, sent: &'a Sent) -> Result<Self, Failure> {
        if sent.is_set("certificate") {
            let refuse = |why: String| Failure::new(StatusCode::FORBIDDEN, why);
            let certificate = caller.certificate.clone().ok_or_else(|| {
                refuse(if caller.is_secure {
                    "the browser has shown no certificate: it needs one of a trusted authority, and \
                     the port has to ask for it (tls.http_auth = \"want\", admin.ssl.clientAuth=want)"
                        .to_owned()
                } else {
                    "a certificate is shown over TLS alone, and this connection is plain HTTP".to_owned()
                })
            })?;
            let name = name_of(&certificate).map_err(refuse)?;
            return Ok(Self::Certificate { certificate, name });
        }
        let (user, password) = (sent.text("user")?, sent.text("password")?);
        if user.is_empty() || user.contains(':') {
            return Err(Failure::invalid("a user has a name, without a colon"));
        }
        Ok(Self::Digest { user, password })
    }
}

/// `ZooKeeper` takes every user and password.
async fn by_digest(state: &State, user: &str, password: &str) -> Result<Login, Failure> {
    let client = state.ensemble.connect().await?;
    let credentials = format!("{user}:{password}");
    answer(client.add_auth("digest", credentials.as_bytes())).await?;
    let identities = identities_of(&client).await;
    let identities = identities.unwrap_or_else(|| vec![format!("digest:{user}")]);
    info!(user = %user.escape_default(), "console login");
    Ok(Login { client, identities, proof: Proof::Digest(Credentials(credentials)) })
}

async fn by_certificate(
    state: &State,
    caller: &Caller,
    certificate: &Arc<VerifiedCertificate>,
    name: &str,
) -> Result<Login, Failure> {
    let Some(logins) = &state.options.certificates else {
        let why = "this console takes no logins by certificate: the servers see its own, not the \
                   browser's (docs/console.md)";
        return Err(Failure::new(StatusCode::NOT_IMPLEMENTED, why));
    };
    let servers = logins.servers(certificate, caller.peer);
    let client = state.ensemble.connect_by(servers).await?;
    let identities = identities_of(&client).await;
    let identities = identities.unwrap_or_else(|| vec![format!("x509:{name}")]);
    info!(certificate = %name.escape_default(), peer = %caller.peer, "console login");
    let http = logins.http(certificate, caller.peer);
    Ok(Login { client, identities, proof: Proof::Certificate(Arc::clone(certificate), http) })
}

/// Returns the identities of a session; servers before 3.7 do not say them.
async fn identities_of(client: &Client) -> Option<Vec<String>> {
    let all = answer(client.who_am_i()).await.ok()?;
    Some(all.into_iter().map(|it| format!("{}:{}", it.auth_scheme, it.user)).collect())
}

fn name_of(certificate: &VerifiedCertificate) -> Result<String, String> {
    match certificate.subject_name() {
        Ok(name) if name.is_empty() => {
            Err("the subject of the browser's certificate has no name, so it proves no identity"
                .to_owned())
        }
        Ok(name) => Ok(name),
        Err(why) => Err(format!("the browser's certificate: {why}")),
    }
}

/// Ends a login and its session.
pub(crate) async fn end(
    state: &State,
    headers: &HeaderMap,
    caller: &Caller,
) -> Result<Answer, Failure> {
    let cookie = end_of(state, headers, caller).await?;
    Ok(Answer::json(&json!({})).with_cookie(Some(cookie)))
}

async fn end_of(
    state: &State,
    headers: &HeaderMap,
    caller: &Caller,
) -> Result<HeaderValue, Failure> {
    let (cookie, client) = state.logins.end(headers, caller.is_secure)?;
    if let Some(client) = client {
        // Otherwise it ends by its timeout.
        let _ = answer(client.close()).await;
    }
    Ok(cookie)
}
