//! What a request says: its query and its body.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::StatusCode;
use hyper::body::Body;
use serde_json::Value;
use tokio::time::timeout;

use crate::failure::Failure;

/// The longest body: data of a mebibyte in JSON, of which most characters may be escaped.
const BODY_BYTES_MAX: usize = 4 << 20;

/// How long a body may take to arrive.
const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// The parameters of a query.
#[derive(Clone, Debug)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let pair = self.0.iter().find(|(key, _)| key == name)?;
        Some(&pair.1)
    }

    /// Returns a path, which has to be there and to begin with a slash.
    pub(crate) fn path(&self, name: &str) -> Result<&str, Failure> {
        let path = self.text(name);
        checked_path(path.ok_or_else(|| Failure::invalid(format!("{name} is missing")))?)
    }

    /// Returns a number up to `max`; `default` if it is not there.
    pub(crate) fn number(&self, name: &str, default: usize, max: usize) -> Result<usize, Failure> {
        let Some(text) = self.text(name) else { return Ok(default) };
        let number = text.parse::<usize>().ok().filter(|number| *number <= max);
        let wrong = || Failure::invalid(format!("{name}={text}: a number up to {max} is expected"));
        number.ok_or_else(wrong)
    }
}

/// Checks a path as servers do; the text of theirs says less.
pub(crate) fn checked_path(path: &str) -> Result<&str, Failure> {
    let wrong = |why: &str| Err(Failure::invalid(format!("invalid path {path:?}: {why}")));
    if path == "/" {
        return Ok(path);
    }
    let Some(names) = path.strip_prefix('/') else { return wrong("it does not begin with /") };
    if names.split('/').any(|name| ["", ".", ".."].contains(&name)) {
        return wrong("a name in it is empty, . or ..");
    }
    if path.contains('\0') {
        return wrong("it contains a zero character");
    }
    Ok(path)
}

/// The JSON object that a page sends.
#[derive(Clone)]
pub(crate) struct Sent(Value);

/// There may be a password in it.
impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sent(..)")
    }
}

impl Sent {
    /// Reads a body to its end.
    pub(crate) async fn read<B>(body: B) -> Result<Self, Failure>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn StdError + Send + Sync>>,
    {
        let reading = Limited::new(body, BODY_BYTES_MAX).collect();
        let late = |_| Failure::new(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time");
        let body = timeout(BODY_TIME_MAX, reading).await.map_err(late)?;
        let body = body.map_err(|error| {
            if error.is::<LengthLimitError>() {
                let why = format!("the request has more than {BODY_BYTES_MAX} bytes");
                return Failure::new(StatusCode::PAYLOAD_TOO_LARGE, why);
            }
            Failure::invalid(format!("the body is incomplete: {error}"))
        })?;
        let value = serde_json::from_slice::<Value>(&body.to_bytes());
        // The text of the error may quote a secret.
        match value {
            Ok(value) if value.is_object() => Ok(Self(value)),
            Ok(_) | Err(_) => Err(Failure::invalid("the body is not a JSON object")),
        }
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str, Failure> {
        self.optional_text(name)
            .ok_or_else(|| Failure::invalid(format!("{name}: a text is expected")))
    }

    pub(crate) fn optional_text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// Returns whether a flag is there and true.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(crate) fn path(&self) -> Result<&str, Failure> {
        checked_path(self.text("path")?)
    }

    /// Returns the version that a write expects.
    pub(crate) fn version(&self) -> Result<i32, Failure> {
        let version = self.0.get("version").and_then(Value::as_i64);
        let version = version.and_then(|version| i32::try_from(version).ok());
        version.ok_or_else(|| Failure::invalid("version: a number is expected"))
    }

    pub(crate) fn count(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    pub(crate) fn list(&self, name: &str) -> Result<&[Value], Failure> {
        let list = self.0.get(name).and_then(Value::as_array);
        list.map(Vec::as_slice)
            .ok_or_else(|| Failure::invalid(format!("{name}: a list is expected")))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[test]
    fn a_query_is_decoded_and_checked() {
        let query = Query::parse("path=%2Fa%2Fb+c&limit=7&bad=x");
        assert_eq!(query.path("path").unwrap(), "/a/b c");
        assert_eq!(query.number("limit", 1, 10).unwrap(), 7);
        assert_eq!(query.number("offset", 3, 10).unwrap(), 3);
        assert!(query.number("limit", 1, 6).is_err() && query.number("bad", 1, 6).is_err());
        for bad in ["", "a", "/a/", "//", "/a//b", "/./a", "/..", "/\0"] {
            assert!(checked_path(bad).is_err(), "{bad:?}");
        }
    }

    #[tokio::test]
    async fn a_body_is_an_object_of_a_limited_size() {
        let read = async |body: &str| Sent::read(Full::new(Bytes::from(body.to_owned()))).await;
        assert_eq!(read(r#"{"path": "/a", "version": 3}"#).await.unwrap().version().unwrap(), 3);
        for bad in ["", "[]", "{", r#""password""#] {
            let failure = read(bad).await.unwrap_err();
            assert_eq!(failure.error, "the body is not a JSON object");
        }
        let long = read(&" ".repeat(BODY_BYTES_MAX + 1)).await.unwrap_err();
        assert_eq!(long.status, StatusCode::PAYLOAD_TOO_LARGE);
        let sent = read(r#"{"password": "secret"}"#).await.unwrap();
        assert!(!format!("{sent:?}").contains("secret"));
    }
}
