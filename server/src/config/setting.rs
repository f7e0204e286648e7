//! One setting: how a value gets into its field, and how it is shown.

use std::collections::BTreeSet;
use std::path::PathBuf;

use zoolet_replica::DigestAlgorithm;
use zoolet_tls::{ClientAuth, Password, Protocol, StoreType, TlsSettings};

use super::model::{ServerConfig, Words};

/// One setting of `cluster.toml`.
pub(super) struct Setting {
    /// The table of `cluster.toml` that it belongs to.
    pub(super) section: &'static str,
    pub(super) key: &'static str,
    /// The unit of a number, the form of a text.
    pub(super) unit: &'static str,
    /// The smallest and the largest number accepted.
    pub(super) range: (u64, u64),
    pub(super) about: &'static str,
    /// Whether the default follows other settings.
    pub(super) derived: bool,
    pub(super) field: fn(&mut ServerConfig) -> Field<'_>,
}

/// The field that a setting fills.
pub(super) enum Field<'a> {
    U32(&'a mut u32),
    U64(&'a mut u64),
    Usize(&'a mut usize),
    OptionalU64(&'a mut Option<u64>),
    Flag(&'a mut bool),
    Digest(&'a mut Option<String>),
    Algorithm(&'a mut DigestAlgorithm),
    Words(&'a mut Words),
    File(&'a mut Option<PathBuf>),
    UrlPath(&'a mut String),
    Text(&'a mut Option<String>),
    Password(&'a mut Option<Password>),
    StoreType(&'a mut Option<StoreType>),
    ClientAuth(&'a mut ClientAuth),
    Protocols(&'a mut Vec<Protocol>),
    CipherSuites(&'a mut Vec<String>),
    Schemes(&'a mut Vec<String>),
    Names(&'a mut Vec<String>),
}

/// A value as a file gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Integer(i128),
    Boolean(bool),
    Text(String),
    List(Vec<String>),
}

impl Value {
    /// The value as an error message repeats it.
    fn shown(&self) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            Self::Boolean(flag) => flag.to_string(),
            Self::Text(text) => format!("{text:?}"),
            Self::List(list) => format!("{list:?}"),
        }
    }
}

impl Setting {
    /// `section.key`, the name by which the readers remember where it was set.
    pub(super) fn name(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }

    /// Puts a value into its field, or says what is expected instead.
    pub(super) fn set(&self, config: &mut ServerConfig, value: &Value) -> Result<(), String> {
        let accepted = match ((self.field)(config), value) {
            (Field::U32(field), Value::Integer(number)) => self.fill(field, *number),
            (Field::U64(field), Value::Integer(number)) => self.fill(field, *number),
            (Field::Usize(field), Value::Integer(number)) => self.fill(field, *number),
            (Field::OptionalU64(field), Value::Integer(number)) => {
                self.fill(field.insert(0), *number)
            }
            (Field::Flag(field), Value::Boolean(flag)) => {
                *field = *flag;
                true
            }
            (Field::Digest(field), Value::Text(text)) => {
                *field = Some(text.clone());
                is_digest(text)
            }
            (Field::Algorithm(field), Value::Text(text)) => fill_algorithm(field, text),
            (Field::Words(field), Value::List(words)) => fill_words(field, words),
            (Field::File(field), Value::Text(text)) => {
                *field = Some(PathBuf::from(text));
                !text.is_empty()
            }
            (Field::UrlPath(field), Value::Text(text)) => {
                field.clone_from(text);
                is_url_path(text)
            }
            (Field::Text(field), Value::Text(text)) => {
                *field = Some(text.clone());
                !text.is_empty()
            }
            (Field::Password(field), Value::Text(text)) => {
                *field = Some(Password::new(text.as_str()));
                true
            }
            // A wrong one is not repeated, in case it is what was meant.
            (Field::Password(_), _) => return Err(format!("expected {}", self.expected())),
            (Field::StoreType(field), Value::Text(text)) => {
                *field = Some(text.parse().map_err(|why| format!("{text}: {why}"))?);
                true
            }
            (Field::ClientAuth(field), Value::Text(text)) => {
                text.parse().map(|auth| *field = auth).is_ok()
            }
            (Field::Protocols(field), Value::List(names)) => {
                let protocols = names.iter().map(|name| name.parse());
                *field = protocols.collect::<Result<_, String>>()?;
                true
            }
            (Field::CipherSuites(field), Value::List(names)) => {
                TlsSettings::check_cipher_suites(names)?;
                field.clone_from(names);
                true
            }
            (Field::Schemes(field), Value::List(schemes)) => {
                field.clone_from(schemes);
                schemes.iter().all(|scheme| SCHEMES.contains(&scheme.as_str()))
            }
            (Field::Names(field), Value::List(names)) => {
                field.clone_from(names);
                names.iter().all(|name| !name.is_empty())
            }
            _ => false,
        };
        if accepted {
            Ok(())
        } else {
            Err(format!("{}: expected {}", value.shown(), self.expected()))
        }
    }

    fn fill<T: TryFrom<i128>>(&self, field: &mut T, number: i128) -> bool {
        let (min, max) = self.range;
        let inside = i128::from(min) <= number && number <= i128::from(max);
        match T::try_from(number) {
            Ok(number) if inside => {
                *field = number;
                true
            }
            _ => false,
        }
    }

    /// Another value than the one that is there.
    #[cfg(test)]
    pub(super) fn change(&self, config: &mut ServerConfig) {
        let (min, max) = self.range;
        let other = |number: u64| if number < max { number + 1 } else { min };
        match (self.field)(config) {
            Field::U32(field) => *field = u32::try_from(other((*field).into())).unwrap(),
            Field::U64(field) => *field = other(*field),
            Field::Usize(field) => *field = usize::try_from(other(*field as u64)).unwrap(),
            Field::OptionalU64(field) => *field = Some(other(field.unwrap_or(min))),
            Field::Flag(field) => *field = !*field,
            Field::Digest(field) => *field = Some("super:other".to_owned()),
            Field::Algorithm(field) => *field = DigestAlgorithm::Sha512,
            Field::Words(field) => *field = Words::All,
            Field::File(field) => *field = Some(PathBuf::from("/other")),
            Field::UrlPath(field) => "/other".clone_into(field),
            Field::Text(field) => *field = Some("other".to_owned()),
            Field::Password(field) => *field = Some(Password::new("other")),
            Field::StoreType(field) => *field = Some(StoreType::Jks),
            Field::ClientAuth(field) => *field = ClientAuth::Want,
            Field::Protocols(field) => *field = vec![Protocol::Tls13],
            Field::CipherSuites(field) => *field = vec!["TLS_AES_128_GCM_SHA256".to_owned()],
            Field::Schemes(field) => *field = vec!["ip".to_owned()],
            Field::Names(field) => *field = vec!["other".to_owned()],
        }
    }

    /// Takes a secret away.
    pub(super) fn hide(&self, config: &mut ServerConfig) {
        if let Field::Digest(field) = (self.field)(config) {
            *field = None;
        } else if let Field::Password(field) = (self.field)(config) {
            *field = None;
        }
    }

    /// What the setting accepts, for comments and error messages.
    pub(super) fn expected(&self) -> String {
        match self.range {
            (_, 0) => self.unit.to_owned(),
            (min, max) => format!("{min} to {max} {}", self.unit),
        }
    }

    /// The value as TOML, or `None` when there is none.
    pub(super) fn to_toml(&self, config: &ServerConfig) -> Option<String> {
        Some(match (self.field)(&mut config.clone()) {
            Field::U32(field) => field.to_string(),
            Field::U64(field) => field.to_string(),
            Field::Usize(field) => field.to_string(),
            Field::OptionalU64(field) => return field.map(|number| number.to_string()),
            Field::Flag(field) => field.to_string(),
            Field::Digest(field) | Field::Text(field) => {
                return field.as_deref().map(quote);
            }
            Field::Algorithm(field) => quote(field.name()),
            Field::UrlPath(field) => quote(field),
            Field::File(field) => {
                return field.as_deref().map(|file| quote(&file.to_string_lossy()));
            }
            Field::Password(field) => return field.as_ref().map(|secret| quote(secret.text())),
            Field::StoreType(field) => return field.map(|store_type| quote(store_type.name())),
            Field::ClientAuth(field) => quote(field.name()),
            Field::Protocols(field) => to_list(field.iter().map(|protocol| protocol.name())),
            Field::CipherSuites(field) | Field::Schemes(field) | Field::Names(field) => {
                to_list(field.iter().map(String::as_str))
            }
            Field::Words(Words::All) => "[\"*\"]".to_owned(),
            Field::Words(Words::Only(words)) => to_list(words.iter().map(String::as_str)),
        })
    }

    /// What to show where there is no value: what it looks like, and nothing that could be taken
    /// over by mistake.
    pub(super) fn example(&self) -> &'static str {
        match (self.field)(&mut ServerConfig::default()) {
            Field::Digest(_) => "\"user:hash\"",
            Field::OptionalU64(_) => "NUMBER",
            Field::File(_) => "\"FILE\"",
            Field::Text(_) => "\"NAME\"",
            Field::Password(_) => "\"PASSWORD\"",
            Field::StoreType(_) => "\"TYPE\"",
            Field::U32(_)
            | Field::U64(_)
            | Field::Usize(_)
            | Field::Flag(_)
            | Field::Algorithm(_)
            | Field::UrlPath(_)
            | Field::ClientAuth(_)
            | Field::Protocols(_)
            | Field::CipherSuites(_)
            | Field::Schemes(_)
            | Field::Names(_)
            | Field::Words(_) => "",
        }
    }

    /// Whether the field wants a list, which `zoo.cfg` writes with commas.
    pub(super) fn is_list(&self) -> bool {
        matches!(
            (self.field)(&mut ServerConfig::default()),
            Field::Words(_)
                | Field::Protocols(_)
                | Field::CipherSuites(_)
                | Field::Schemes(_)
                | Field::Names(_)
        )
    }
}

fn to_list<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let texts: Vec<String> = texts.map(quote).collect();
    format!("[{}]", texts.join(", "))
}

/// `user:hash`, both parts there. More is not checked: what hash fits the algorithm is known
/// only to who made it.
fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(user, hash)| !user.is_empty() && !hash.is_empty())
}

/// `/name`, or several such parts; not a path that the HTTP port has for something else.
fn is_url_path(text: &str) -> bool {
    const BYTES_MAX: usize = 200;
    const TAKEN: [&str; 3] = ["/metrics", "/health", "/ready"];
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_part = |part: &str| part.chars().all(is_plain) && !["", ".", ".."].contains(&part);
    let parts = text.strip_prefix('/').filter(|_| text.len() <= BYTES_MAX);
    parts.is_some_and(|parts| parts.split('/').all(is_part)) && !TAKEN.contains(&text)
}

/// Java takes SHA1 and SHA-1 for the same, in any case.
fn fill_algorithm(field: &mut DigestAlgorithm, text: &str) -> bool {
    let plain = |name: &str| name.replace('-', "").to_uppercase();
    let mut known = DigestAlgorithm::ALL.into_iter();
    known.find(|known| plain(known.name()) == plain(text)).map(|known| *field = known).is_some()
}

/// The schemes of which a client can have an identity.
const SCHEMES: [&str; 4] = ["digest", "ip", "sasl", "x509"];

/// The four-letter words that ZooKeeper has.
const WORDS: [&str; 19] = [
    "conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr", "ruok", "srst",
    "srvr", "stat", "stmk", "wchc", "wchp", "wchs", "*",
];

fn fill_words(field: &mut Words, words: &[String]) -> bool {
    let all = words.iter().any(|word| word == "*");
    let only: BTreeSet<String> = words.iter().cloned().collect();
    *field = if all { Words::All } else { Words::Only(only) };
    words.iter().all(|word| WORDS.contains(&word.as_str()))
}

/// A text as TOML writes it.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.extend(format!("\\u{:04X}", u32::from(c)).chars()),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
