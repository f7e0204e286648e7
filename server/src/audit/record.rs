//! A line of the audit log. Keys and operations are those of Apache `ZooKeeper`'s; `time`, `server`,
//! `identities`, `cxid`, `zxid`, `error` and `lost` are zoolet's own.

use std::borrow::Cow;
use std::io;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;
use zoolet_jute::{Acl, CreateMode, ErrorCode, Id, SessionId, perms};
use zoolet_replica::{AuditEvent, AuditedChange};

use crate::log_text::{LOG_TEXT_BYTES_MAX, cut};

/// What has become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Success,
    Failure,
    /// It is under way.
    Invoked,
}

/// One line.
#[derive(Debug, Serialize)]
pub(super) struct Record<'a> {
    time: String,
    server: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ip: Option<&'a str>,
    operation: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    znode: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    znode_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acl: Option<String>,
    result: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zxid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cxid: Option<i32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    identities: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<u64>,
}

/// The time in milliseconds since 1970, the server, and who does what it does by itself.
type By<'a> = (i64, u8, &'a str);

impl<'a> Record<'a> {
    /// Returns the line of one change of an event.
    pub(super) fn of(event: &'a AuditEvent, change: &'a AuditedChange, by: By<'_>) -> Self {
        let outcome = if event.error.is_some() { Outcome::Failure } else { Outcome::Success };
        let names: Vec<&str> = event.identities.iter().map(user_name).collect();
        let user = if names.is_empty() { by.2.to_owned() } else { owned(names.join(",")) };
        let is_asked_for = !event.identities.is_empty();
        let session = event.session;
        Self {
            session: (session != SessionId::NONE).then(|| format!("{:#x}", session.0)),
            user,
            ip: event.identities.iter().find(|id| scheme(id) == "ip").map(name),
            znode: change.path.as_deref().map(cut),
            znode_type: change.mode.map(type_name),
            acl: change.acl.as_deref().map(acl_text).map(owned),
            error: event.error.map(ErrorCode::name),
            zxid: event.zxid.map(|zxid| format!("{:#x}", zxid.0)),
            cxid: is_asked_for.then_some(event.cxid.0),
            identities: identities(&event.identities),
            ..Self::of_server(change.operation.name(), outcome, by)
        }
    }

    /// Returns the line of something that happens to the server.
    pub(super) fn of_server(operation: &'a str, result: Outcome, by: By<'_>) -> Self {
        let (wall_ms, server, user) = by;
        Self {
            time: time_text(wall_ms),
            server,
            session: None,
            user: user.to_owned(),
            ip: None,
            operation,
            znode: None,
            znode_type: None,
            acl: None,
            result,
            error: None,
            zxid: None,
            cxid: None,
            identities: Vec::new(),
            lost: None,
        }
    }

    /// Returns the line that says how many events are missing in front of it.
    pub(super) fn of_lost(count: u64, by: By<'_>) -> Self {
        Self { lost: Some(count), ..Self::of_server("auditLog", Outcome::Failure, by) }
    }

    /// Appends the line; false if it cannot be written as JSON, and nothing is appended.
    pub(super) fn put(&self, lines: &mut Vec<u8>) -> bool {
        let before = lines.len();
        let mut serializer = Serializer::with_formatter(&mut *lines, PlainText);
        if self.serialize(&mut serializer).is_err() {
            lines.truncate(before);
            return false;
        }
        lines.push(b'\n');
        true
    }
}

/// Returns the memory that an event takes while it waits, about.
pub(super) fn memory_bytes(event: &AuditEvent) -> usize {
    const EVENT: usize = 200;
    let of_ids = |ids: &[Id]| -> usize { ids.iter().map(Id::encoded_bytes).sum() };
    let of_change = |change: &AuditedChange| {
        let acl = change.acl.iter().flatten().map(|entry| entry.id.encoded_bytes() + 4);
        100 + change.path.as_ref().map_or(0, String::len) + acl.sum::<usize>()
    };
    EVENT + of_ids(&event.identities) + event.changes.iter().map(of_change).sum::<usize>()
}

fn time_text(wall_ms: i64) -> String {
    let since_1970 = Duration::from_millis(u64::try_from(wall_ms).unwrap_or(0));
    let time = SystemTime::UNIX_EPOCH.checked_add(since_1970).unwrap_or(SystemTime::UNIX_EPOCH);
    humantime::format_rfc3339_millis(time).to_string()
}

fn scheme(id: &Id) -> &str {
    id.scheme.as_deref().unwrap_or_default()
}

/// Returns an identity without what proves it: the digest scheme has a hash behind the user.
fn name(id: &Id) -> &str {
    let all = id.id.as_deref().unwrap_or_default();
    if scheme(id) != "digest" {
        return all;
    }
    all.split_once(':').map_or(all, |(user, _)| user)
}

/// Returns what Apache `ZooKeeper` calls the user of an identity.
fn user_name(id: &Id) -> &str {
    let name = name(id);
    if name.is_empty() { scheme(id) } else { name }
}

/// Returns a text that is cut if it is too long.
fn owned(text: String) -> String {
    if text.len() <= LOG_TEXT_BYTES_MAX { text } else { cut(&text).into_owned() }
}

/// Returns as many identities as have room, and then the number of all.
fn identities(ids: &[Id]) -> Vec<String> {
    let mut bytes = 0;
    let mut shown: Vec<_> = ids.iter().map(|id| owned(identity(id))).collect();
    let fit = shown.iter().take_while(|text| {
        bytes += text.len();
        bytes <= LOG_TEXT_BYTES_MAX
    });
    let count = fit.count();
    if count < shown.len() {
        shown.truncate(count);
        shown.push(format!("…[{} identities]", ids.len()));
    }
    shown
}

fn identity(id: &Id) -> String {
    format!("{}:{}", scheme(id), name(id))
}

/// Returns an access list as Apache `ZooKeeper` writes it there, without hashes.
fn acl_text(acl: &[Acl]) -> String {
    let entries = acl.iter().map(|entry| {
        let bits = [
            (perms::CREATE, 'c'),
            (perms::DELETE, 'd'),
            (perms::READ, 'r'),
            (perms::WRITE, 'w'),
            (perms::ADMIN, 'a'),
        ];
        let letters = bits.iter().filter(|(bit, _)| entry.perms & bit != 0);
        let letters: String = letters.map(|(_, letter)| letter).collect();
        format!("{}:{letters}", identity(&entry.id))
    });
    entries.collect::<Vec<_>>().join(",")
}

const fn type_name(mode: CreateMode) -> &'static str {
    match mode {
        CreateMode::Persistent => "persistent",
        CreateMode::Ephemeral => "ephemeral",
        CreateMode::PersistentSequential => "persistent_sequential",
        CreateMode::EphemeralSequential => "ephemeral_sequential",
        CreateMode::Container => "container",
        CreateMode::PersistentWithTtl => "persistent_with_ttl",
        CreateMode::PersistentSequentialWithTtl => "persistent_sequential_with_ttl",
    }
}

/// Escapes, beside what JSON demands, every character that a terminal or a viewer may act on: other
/// control characters, separators of lines, and marks that turn the direction of a text.
struct PlainText;

impl Formatter for PlainText {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(acts_on_viewers) {
            let (plain, tail) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let mut characters = tail.chars();
            for unit in
                characters.next().iter().flat_map(|it| it.encode_utf16(&mut [0; 2]).to_vec())
            {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = characters.as_str();
        }
        writer.write_all(rest.as_bytes())
    }
}

fn acts_on_viewers(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || ('\u{202a}'..='\u{202e}').contains(&character)
        || ('\u{2066}'..='\u{2069}').contains(&character)
}
