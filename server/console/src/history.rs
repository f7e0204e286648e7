//! What has happened to a path, a lock or a session, as servers remember it.

use hyper::StatusCode;
use serde_json::{Value, json};

use crate::ask::{self, Silence};
use crate::failure::Failure;
use crate::state::{Asked, State};

/// The most entries of one page, and how many a page has by default.
const PAGE_MAX: usize = 1000;
const PAGE_DEFAULT: usize = 200;

/// `history`: what a server's command `history` returns for a path, a lock or a session; or why there
/// is nothing.
pub(crate) async fn list(state: &State, asked: &Asked) -> Result<Value, Failure> {
    let limit = asked.query.number("limit", PAGE_DEFAULT, PAGE_MAX)?;
    let since_ms = asked.query.number("since_ms", 0, usize::MAX)?;
    let kinds = ["path", "lock", "session"].into_iter();
    let mut subjects = kinds.filter_map(|kind| Some((kind, asked.query.text(kind)?)));
    let (Some((kind, subject)), None) = (subjects.next(), subjects.next()) else {
        return Err(Failure::invalid("path, lock or session is expected, one of them"));
    };
    if kind == "session" {
        let digits = subject.strip_prefix("0x").filter(|it| u64::from_str_radix(it, 16).is_ok());
        digits.ok_or_else(|| Failure::invalid(format!("invalid session {subject:?}")))?;
    } else {
        crate::requests::checked_path(subject)?;
    }
    let subject_encoded = encoded(subject);
    let command = format!("history?limit={limit}&since_ms={since_ms}&{kind}={subject_encoded}");
    let identity = asked.login.as_ref().map(|login| &login.proof);
    let mut problems = Vec::new();
    for end in state.options.http_ends() {
        let http = &end.authority;
        match ask::command(&end, &command, identity).await {
            Ok(answer) if answer.get("history").is_some() => {
                return Ok(json!({ "isKept": true, "server": http, "answer": answer }));
            }
            // A command that is not there is named in the answer.
            Ok(_) => problems.push(format!("{http} keeps no history")),
            Err(Silence::Refused { why, .. }) if why.starts_with("Unknown command") => {
                problems.push(format!("{http} keeps no history: it does not have the command"));
            }
            Err(Silence::Refused { status: 401 | 403, why }) => {
                return Err(Failure::new(
                    StatusCode::FORBIDDEN,
                    format!("history of {subject}: {why}"),
                ));
            }
            Err(silence) => problems.push(format!("{http}: {silence}")),
        }
    }
    if problems.is_empty() {
        problems
            .push("no HTTP port of the servers is known: history is asked for there".to_owned());
    }
    Ok(json!({ "isKept": false, "problems": problems }))
}

/// Returns a text for a query. A slash stays as it is.
fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    text.bytes().fold(String::new(), |mut out, byte| {
        if is_plain(byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push_str(&crate::json::hex(&[byte]).to_uppercase());
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_path_ends_its_parameter() {
        assert_eq!(encoded("/a/b-1"), "/a/b-1");
        assert_eq!(encoded("/a b&c=ü\r\n#?"), "/a%20b%26c%3D%C3%BC%0D%0A%23%3F");
    }
}
