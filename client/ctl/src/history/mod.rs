//! `history`: what has happened to a znode, a session or a lock, by the HTTP port of a server.

mod print;

use std::collections::BTreeSet;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::StatusCode;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use self::print::{entry_text, gap_text, turn_text};
use crate::args::{History, Options};
use crate::error::{CtlError, Exit};
use crate::http::{Endpoint, SILENCE_MAX, first_reached, identity_of};
use crate::interrupt::Interrupt;
use crate::output::Output;

/// How often a server is asked for what is new.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);

/// How far a history may be behind what has happened: half a second (docs/history.md), and some more.
const HISTORY_LAG_MAX: Duration = Duration::from_millis(700);

/// The port that is asked when none is named: the one of Apache ZooKeeper's `AdminServer`.
const HTTP_PORT: u16 = 8080;

/// Carries out `history`, which SIGINT and SIGTERM interrupt.
pub(crate) async fn run(arguments: &History, options: &Options) -> Result<(), CtlError> {
    let interrupt = Interrupt::receive(options.json)?;
    tokio::select! {
        done = show(arguments, options) => done,
        // With --follow it has no other end.
        error = interrupt.comes() => Err(CtlError { message: String::new(), ..error }),
    }
}

async fn show(arguments: &History, options: &Options) -> Result<(), CtlError> {
    let output = Output { json: options.json };
    let endpoints = match &arguments.http {
        Some(addresses) => Endpoint::parse_all(addresses, "history")?,
        None => Endpoint::parse_all(&default_addresses(options.connect_string()), "history")?,
    };
    let parameters = parameters(arguments);
    let ask = |endpoint| fetch(endpoint, &parameters, arguments, options);
    let (endpoint, mut found) = first_reached(&endpoints, ask).await?;
    if !arguments.follow && list(&found, "history").is_empty() && list(&found, "turns").is_empty() {
        // It may have happened just now.
        sleep(HISTORY_LAG_MAX).await;
        found = fetch(endpoint, &parameters, arguments, options).await.unwrap_or(found);
    }
    print(&found, arguments, output)?;
    if !arguments.follow {
        return Ok(());
    }
    let mut last = found.get("last").and_then(Value::as_u64).unwrap_or(0);
    let mut has_more = false;
    loop {
        if !has_more {
            sleep(FOLLOW_INTERVAL).await;
        }
        // Numbers are those of one server: another one cannot go on.
        let next = format!("{parameters}&after={last}");
        let found = fetch(endpoint, &next, arguments, options).await?;
        last = found.get("last").and_then(Value::as_u64).unwrap_or(last);
        has_more = found.get("truncated").and_then(Value::as_bool) == Some(true);
        for entry in list(&found, "history") {
            output.result(|| entry_text(entry), || entry.clone())?;
        }
    }
}

/// The hosts of a connect string with the usual port.
fn default_addresses(connect_string: &str) -> String {
    let servers = connect_string.split('/').next().unwrap_or_default();
    let host = |server: &str| {
        let bare = server.trim();
        let has_port = bare.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
        has_port.map_or(bare, |(host, _)| host).to_owned()
    };
    let hosts: BTreeSet<String> = servers.split(',').map(host).collect();
    let addresses: Vec<_> = hosts.iter().map(|host| format!("{host}:{HTTP_PORT}")).collect();
    addresses.join(",")
}

/// The parameters of the command, as the server reads them.
fn parameters(arguments: &History) -> String {
    let mut parameters = form_urlencoded::Serializer::new(String::new());
    let texts = [
        ("path", &arguments.path),
        ("below", &arguments.below),
        ("session", &arguments.session),
        ("lock", &arguments.lock),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            parameters.append_pair(name, text);
        }
    }
    if let Some(since) = arguments.since {
        parameters.append_pair("since", &format!("{}ms", since.as_millis()));
    }
    if arguments.data {
        parameters.append_pair("data", "true");
    }
    parameters.append_pair("limit", &arguments.limit.to_string());
    parameters.finish()
}

async fn fetch(
    endpoint: &Endpoint,
    parameters: &str,
    arguments: &History,
    options: &Options,
) -> Result<Value, CtlError> {
    // What needs no identity is asked for without one.
    let identity = identity_of(options).filter(|_| arguments.data);
    let command = format!("history?{parameters}");
    let answer = endpoint.get(&command, identity.as_ref(), options).await?;
    if answer.status() != StatusCode::OK {
        return Err(endpoint.refusal(answer, "the answer is not a history").await);
    }
    let cut = |why: &dyn std::fmt::Display| {
        let message = format!("{}: the answer was cut: {why}", endpoint.authority);
        CtlError::new(Exit::Connection, message)
    };
    let body = timeout(SILENCE_MAX, answer.into_body().collect()).await;
    let body = body.map_err(|_| cut(&"the server has stopped sending"))?;
    let body = body.map_err(|error| cut(&error))?.to_bytes();
    let found: Value = serde_json::from_slice(&body).map_err(|error| cut(&error))?;
    if found.get("history").is_none() {
        let why =
            found.get("error").and_then(Value::as_str).unwrap_or("it has no command `history`");
        let message = format!("{}: no history: {why}", endpoint.authority);
        let error = CtlError::new(Exit::Unsupported, message);
        return Err(error.hint("only servers of zoolet keep one"));
    }
    Ok(found)
}

fn print(found: &Value, arguments: &History, output: Output) -> Result<(), CtlError> {
    if output.json && !arguments.follow {
        return output.result(String::new, || found.clone());
    }
    let turns = list(found, "turns");
    let is_lock = arguments.lock.is_some();
    if is_lock && !output.json {
        for turn in turns {
            output.result(|| turn_text(turn), || turn.clone())?;
        }
        for gap in list(found, "unrecorded") {
            output.result(|| gap_text(gap), || gap.clone())?;
        }
    } else {
        for entry in list(found, "history") {
            output.result(|| entry_text(entry), || entry.clone())?;
        }
    }
    if found.get("truncated").and_then(Value::as_bool) == Some(true) {
        output.note("there is more: --limit shows it, up to 10000 lines");
    }
    let begin_ms = found.pointer("/begin/time_ms").and_then(Value::as_i64);
    if let Some(path) = arguments.lock.as_deref().filter(|_| turns.is_empty() && !output.json) {
        output.note(&print::no_turns_text(path, begin_ms));
    } else if list(found, "history").is_empty() && turns.is_empty() && !arguments.follow {
        output.note(&print::nothing_text(begin_ms));
    }
    Ok(())
}

fn list<'a>(found: &'a Value, name: &str) -> &'a [Value] {
    found.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_address_the_hosts_of_the_servers_are_asked() {
        assert_eq!(default_addresses("a:2181,b:2182,a:2183/root"), "a:8080,b:8080");
        assert_eq!(default_addresses("[::1]:2181"), "[::1]:8080");
        assert_eq!(default_addresses("host"), "host:8080");
    }
}
