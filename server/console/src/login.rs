//! Logging in and out.

use hyper::HeaderMap;
use serde_json::{Value, json};
use tracing::info;

use crate::answer::Answer;
use crate::failure::Failure;
use crate::logins::{Credentials, Login};
use crate::requests::Sent;
use crate::shared_client::answer;
use crate::state::{Asked, State};

/// Returns whom the console takes a request for, and which servers it shows.
pub(crate) fn shown(state: &State, asked: &Asked) -> Value {
    json!({
        "identities": asked.login.as_ref().map(|login| &login.identities),
        "servers": state.options.servers.addresses(),
        "chroot": state.options.servers.chroot(),
        "logins": state.options.logins,
        "http": state.options.http.known().count(),
    })
}

/// Makes a session with the credentials of a user. `ZooKeeper` takes every user and password: what
/// they are worth, ACLs decide.
pub(crate) async fn begin(
    state: &State,
    headers: &HeaderMap,
    sent: &Sent,
) -> Result<Answer, Failure> {
    if !state.options.logins {
        return Err(Failure::invalid("this console is read-only: it takes no logins"));
    }
    let (user, password) = (sent.text("user")?, sent.text("password")?);
    if user.is_empty() || user.contains(':') {
        return Err(Failure::invalid("a user has a name, without a colon"));
    }
    // The login of before ends, so that its place is free.
    end_of(state, headers).await?;
    let turn = state.login_turn.lock().await;
    if !state.logins.has_room() {
        return Err(Failure::unavailable("all logins are in use: try again later"));
    }
    let client = state.ensemble.connect().await?;
    let credentials = format!("{user}:{password}");
    answer(client.add_auth("digest", credentials.as_bytes())).await?;
    // Servers before 3.7 do not say it.
    let known = answer(client.who_am_i()).await;
    let identities = known.map_or_else(
        |_| vec![format!("digest:{user}")],
        |all| all.into_iter().map(|it| format!("{}:{}", it.auth_scheme, it.user)).collect(),
    );
    info!(user = %user.escape_default(), "console login");
    let login = Login { client, identities, credentials: Credentials(credentials) };
    let value = json!({ "identities": login.identities });
    let cookie = state.logins.add(login)?;
    drop(turn);
    Ok(Answer::json(&value).with_cookie(Some(cookie)))
}

/// Ends a login and its session.
pub(crate) async fn end(state: &State, headers: &HeaderMap) -> Result<Answer, Failure> {
    let cookie = end_of(state, headers).await?;
    Ok(Answer::json(&json!({})).with_cookie(Some(cookie)))
}

async fn end_of(state: &State, headers: &HeaderMap) -> Result<hyper::header::HeaderValue, Failure> {
    let (cookie, client) = state.logins.end(headers)?;
    if let Some(client) = client {
        // Otherwise it ends by its timeout.
        let _ = answer(client.close()).await;
    }
    Ok(cookie)
}
