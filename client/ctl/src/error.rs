//! What the program says and with which number it ends when something goes wrong.

#![allow(clippy::wildcard_enum_match_arm, reason = "the kinds that are not named need no more")]

use std::fmt;
use std::io;
use std::process::ExitCode;

use rustix::process::Signal;
use serde_json::{Value, json};
use zoolet_client::{Error, ErrorCode, ErrorKind};

use crate::format::{lines_text, name_text};

/// How the program ends. The numbers up to 128 are etcdctl's; `docs/zooletctl.md` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The server refused the operation, or it could not be carried out.
    Failed,
    /// No server could be reached, or the session ended.
    Connection,
    /// Another program does it.
    NotDone,
    /// Two subtrees could not be compared.
    NotCompared,
    /// A value that makes no sense, such as a relative path.
    InvalidInput,
    /// The server does not support the operation.
    Unsupported,
    /// A question was not answered with yes.
    Interrupted,
    /// A local file or stream could not be read or written.
    Io,
    /// Sessions wait for each other.
    Deadlock,
    /// A lock was not got in time, as `timeout` says it.
    NotInTime,
    /// A lock or leadership was lost while it was held.
    Lost,
    /// The command that was to run cannot be executed.
    CannotExecute,
    /// The command that was to run does not exist.
    NotFound,
    /// The command line is wrong.
    Usage,
    /// The reader of the output is gone, as after SIGPIPE.
    BrokenPipe,
    /// The exit code of a command that was run, or 128 and the number of a signal.
    Of(u8),
}

impl Exit {
    /// The number.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Connection | Self::NotDone | Self::NotCompared => 2,
            Self::InvalidInput => 3,
            Self::Unsupported => 4,
            Self::Interrupted => 5,
            Self::Io => 6,
            Self::Deadlock => 7,
            Self::NotInTime => 124,
            Self::Lost => 125,
            Self::CannotExecute => 126,
            Self::NotFound => 127,
            Self::Usage => 128,
            Self::BrokenPipe => 141,
            Self::Of(number) => number,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.number().into()
    }
}

/// A failure: its exit code, what is wrong, and what to do about it.
#[derive(Debug)]
pub(crate) struct CtlError {
    pub(crate) exit: Exit,
    /// Empty when there is nothing to say.
    pub(crate) message: String,
    /// Lines behind the message, each with the end of the line in front of it.
    pub(crate) details: String,
    pub(crate) hint: Option<&'static str>,
    /// The server's code, if it was the server that refused.
    pub(crate) code: Option<ErrorCode>,
    /// Whether the request was not answered, or not carried out for now.
    pub(crate) is_transient: bool,
}

impl CtlError {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        let (message, details) = (message.into(), String::new());
        Self { exit, message, details, hint: None, code: None, is_transient: false }
    }

    /// Work that a signal has ended.
    pub(crate) fn interrupted(signal: Signal) -> Self {
        let name = match signal {
            Signal::INT => "SIGINT",
            Signal::TERM => "SIGTERM",
            _ => "a signal",
        };
        Self { message: format!("interrupted by {name}"), ..Self::ended_by(signal) }
    }

    /// The same without a word: what goes on until a signal comes has not failed.
    pub(crate) fn ended_by(signal: Signal) -> Self {
        let number = u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX);
        Self::new(Exit::Of(number), "")
    }

    /// A request that was not answered in time.
    pub(crate) fn unanswered(message: impl Into<String>) -> Self {
        Self { is_transient: true, ..Self::new(Exit::Connection, message) }
    }

    /// Whether a signal has ended the work.
    pub(crate) fn is_interrupt(&self) -> bool {
        matches!(self.exit, Exit::Of(_))
    }

    pub(crate) fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    /// A failed call that concerned this path; if that is empty, the one that the failure names.
    pub(crate) fn of(error: &Error, path: &str) -> Self {
        let path = if path.is_empty() { error.path().unwrap_or_default() } else { path };
        let (exit, message, hint) = match error.code() {
            Some(code) => refusal(code, path),
            None => failure(error),
        };
        let (details, is_transient) = (String::new(), error.is_transient());
        Self { exit, message, details, hint, code: error.code(), is_transient }
    }

    /// A failed call that concerned the path that it names, if any.
    pub(crate) fn of_call(error: &Error) -> Self {
        Self::of(error, "")
    }

    /// The failure as `--json` prints it on stderr.
    pub(crate) fn to_json(&self) -> Value {
        let message = format!("{}{}", self.message, self.details);
        let mut body = json!({ "message": message, "exit": self.exit.number() });
        if let (Some(body), Some(code)) = (body.as_object_mut(), self.code) {
            body.insert("code".into(), json!(code as i32));
            body.insert("name".into(), json!(code.name()));
        }
        if let (Some(body), Some(hint)) = (body.as_object_mut(), self.hint) {
            body.insert("hint".into(), json!(hint));
        }
        json!({ "error": body })
    }
}

impl fmt::Display for CtlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names in it are others' choice, and the text is for a terminal.
        write!(f, "{}{}", name_text(&self.message), lines_text(&self.details))?;
        match self.hint {
            Some(hint) => write!(f, "\n  {hint}"),
            None => Ok(()),
        }
    }
}

impl From<io::Error> for CtlError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(Exit::BrokenPipe, ""),
            _ => Self::new(Exit::Io, error.to_string()),
        }
    }
}

/// What is said where the root of the tree does not exist.
pub(crate) const NO_ROOT: &str =
    "the path behind the servers in the connect string is the root here, and does not exist";

type Explained = (Exit, String, Option<&'static str>);

/// What clap says of a command line: the first line, and what comes behind it.
pub(crate) fn usage(text: &str) -> CtlError {
    let text = text.trim_end().trim_start_matches("error: ");
    let (message, rest) = text.split_once('\n').unwrap_or((text, ""));
    let details = if rest.is_empty() { String::new() } else { format!("\n{rest}") };
    CtlError { details, ..CtlError::new(Exit::Usage, message) }
}

/// Returns what a server's refusal means at this path.
fn refusal(code: ErrorCode, path: &str) -> Explained {
    let (exit, what, hint) = match code {
        ErrorCode::NoNode => {
            let hint = (path == "/").then_some(NO_ROOT);
            (Exit::Failed, "znode does not exist", hint)
        }
        ErrorCode::NodeExists => (Exit::Failed, "znode exists already", None),
        ErrorCode::NotEmpty => {
            let hint = "`deleteall` deletes a znode with everything below it";
            (Exit::Failed, "znode has children", Some(hint))
        }
        ErrorCode::BadVersion => {
            let hint = "another client has written it meanwhile: read its Stat again";
            (Exit::Failed, "znode has another version", Some(hint))
        }
        ErrorCode::NoAuth => {
            let hint = "give an identity with --auth-file, ZOOLETCTL_AUTH or `addauth`";
            (Exit::Failed, "the ACL does not permit it", Some(hint))
        }
        ErrorCode::InvalidAcl => {
            let hint = "an ACL is a list of SCHEME:ID:PERMISSIONS, such as world:anyone:cdrwa; \
                        `auth` needs an identity";
            (Exit::InvalidInput, "the server refuses this ACL", Some(hint))
        }
        ErrorCode::NoChildrenForEphemerals => {
            (Exit::Failed, "an ephemeral znode has no children", None)
        }
        ErrorCode::BadArguments => (Exit::InvalidInput, "the server refuses the arguments", None),
        ErrorCode::QuotaExceeded => {
            (Exit::Failed, "a quota would be exceeded", Some("`listquota` shows the quotas"))
        }
        ErrorCode::NotReadOnly => (Exit::Failed, "the server is read-only at the moment", None),
        ErrorCode::NoWatcher => (Exit::Failed, "no such watch", None),
        ErrorCode::Unimplemented => {
            (Exit::Unsupported, "the server does not support this operation", None)
        }
        ErrorCode::ReconfigDisabled => {
            (Exit::Unsupported, "reconfiguration is off: set reconfigEnabled=true", None)
        }
        ErrorCode::SessionClosedRequireSaslAuth => {
            let hint = "zooletctl has no SASL: --key-store, or digest:USER:PASSWORD in --auth-file or \
                        ZOOLETCTL_AUTH, will do if the servers' enforce.auth.schemes lists x509 or \
                        digest";
            (Exit::Failed, "the server demands a login by SASL", Some(hint))
        }
        ErrorCode::SessionExpired => (Exit::Connection, "the session has expired", None),
        other => (Exit::Failed, other.name(), None),
    };
    let message = if path.is_empty() { what.to_owned() } else { format!("{path}: {what}") };
    (exit, message, hint)
}

/// What a call that no server refused has failed of.
fn failure(error: &Error) -> Explained {
    let hint = match error.kind() {
        ErrorKind::Timeout(_) => {
            Some("check that the servers run and that --servers names them; --timeout waits longer")
        }
        _ if error.may_have_happened() => {
            Some("the operation may have happened or not: look before you do it again")
        }
        _ => None,
    };
    let exit = match error.kind() {
        // The connect string or a path is wrong. Otherwise a server has sent what makes no sense.
        ErrorKind::Protocol(_) if !error.may_have_happened() => Exit::InvalidInput,
        ErrorKind::Protocol(_) | ErrorKind::ReplyTooLong { .. } => Exit::Failed,
        ErrorKind::RequestTooLong { .. } => Exit::InvalidInput,
        ErrorKind::LockLost => Exit::Lost,
        _ => Exit::Connection,
    };
    (exit, error.to_string(), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name chosen by another client reached the terminal as it was.
    #[test]
    fn names_are_escaped_in_the_text_and_not_in_json() {
        let error = CtlError::of(&ErrorCode::NoNode.into(), "/a\u{202e}b\u{1b}[2J\n");
        assert_eq!(error.to_string(), "/a\\u{202e}b\\u{1b}[2J\\n: znode does not exist");
        let json = error.to_json();
        let message = json["error"]["message"].as_str();
        assert_eq!(message, Some("/a\u{202e}b\u{1b}[2J\n: znode does not exist"));
        let details = "\n  a:1: refused".to_owned();
        let error = CtlError { details, ..CtlError::new(Exit::Connection, "none") }.hint("wait");
        assert_eq!(error.to_string(), "none\n  a:1: refused\n  wait");
    }
}
