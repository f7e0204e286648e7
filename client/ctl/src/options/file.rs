//! The configuration file: named ensembles.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::credentials::{is_identity, read_text, warn_if_others_read};
use super::{TlsFiles, Variables};
use crate::args::{Identity, Secret, duration};
use crate::error::{CtlError, Exit};

/// The keys of the file itself.
const KEYS: [&str; 2] = ["default_ensemble", "ensembles"];

/// The keys of one ensemble.
const ENSEMBLE_KEYS: [&str; 10] = [
    "servers",
    "auth",
    "auth_file",
    "trust_store",
    "trust_store_password",
    "key_store",
    "key_store_password",
    "any_server_name",
    "timeout",
    "session_timeout",
];

/// What the file says; all of it is empty without a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConfigFile {
    /// Where it is, or would be.
    path: PathBuf,
    /// The ensemble to use where nothing names servers.
    pub(crate) default_ensemble: Option<String>,
    ensembles: BTreeMap<String, Ensemble>,
}

/// What the file says of one ensemble.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ensemble {
    pub(crate) servers: String,
    pub(crate) auth: Vec<Identity>,
    pub(crate) auth_file: Option<PathBuf>,
    pub(crate) tls: TlsFiles,
    pub(crate) timeout: Option<Duration>,
    pub(crate) session_timeout: Option<Duration>,
}

impl Ensemble {
    fn has_secrets(&self) -> bool {
        let tls = &self.tls;
        let has_password = tls.trust_store_password.is_some() || tls.key_store_password.is_some();
        has_password || !self.auth.is_empty()
    }
}

impl ConfigFile {
    /// Reads the file that the command line or the environment names, which has to exist, or else
    /// the one in the user's directory, if it does.
    pub(super) fn find(
        flag: Option<&Path>,
        variables: &Variables<'_>,
        json: bool,
    ) -> Result<Self, CtlError> {
        // An empty name is that of no file.
        let named = flag.map(Path::to_owned).or_else(|| {
            let named = (variables.0)("ZOOLETCTL_CONFIG");
            named.map(PathBuf::from)
        });
        let Some(path) = named.clone().or_else(|| standard_path(variables)) else {
            return Ok(Self::default());
        };
        if path.as_os_str().is_empty() || (named.is_none() && !path.exists()) {
            return Ok(Self { path, ..Self::default() });
        }
        let text = read_text(&path)?;
        let file = Reader { path: &path, text: &text }.read()?;
        if file.ensembles.values().any(Ensemble::has_secrets) {
            warn_if_others_read(&path, json);
        }
        Ok(file)
    }

    /// The ensemble of this name.
    pub(crate) fn ensemble(&self, name: &str) -> Result<&Ensemble, CtlError> {
        self.ensembles.get(name).ok_or_else(|| {
            let path = self.path.display();
            let known: Vec<&str> = self.ensembles.keys().map(String::as_str).collect();
            let why = match known.as_slice() {
                [] if self.path.as_os_str().is_empty() => "no configuration file".to_owned(),
                [] => format!("{path} names none"),
                known => format!("{path} names {}", known.join(", ")),
            };
            CtlError::new(Exit::InvalidInput, format!("unknown ensemble {name:?}: {why}"))
        })
    }
}

/// `$XDG_CONFIG_HOME/zooletctl/config.toml`, or the same in `~/.config`.
fn standard_path(variables: &Variables<'_>) -> Option<PathBuf> {
    // The specification has relative paths passed over.
    let base = variables.get("XDG_CONFIG_HOME").map(PathBuf::from).filter(|it| it.is_absolute());
    let base = base.or_else(|| env::home_dir().map(|home| home.join(".config")))?;
    Some(base.join("zooletctl/config.toml"))
}

/// A file that is read.
struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

type Entry<'a> = Spanned<DeValue<'a>>;

impl Reader<'_> {
    fn read(&self) -> Result<ConfigFile, CtlError> {
        let document = DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.error(at, &error.message().trim().replace('\n', ", "))
        })?;
        let mut file = ConfigFile { path: self.path.to_owned(), ..ConfigFile::default() };
        let mut default_at = 0;
        for (key, value) in document.get_ref() {
            match key.get_ref().as_ref() {
                "default_ensemble" => {
                    file.default_ensemble = Some(self.string(value)?);
                    default_at = value.span().start;
                }
                "ensembles" => {
                    for (name, value) in self.table(value)? {
                        let name_at = name.span().start;
                        let ensemble = self.ensemble(name_at, self.table(value)?)?;
                        file.ensembles.insert(name.get_ref().to_string(), ensemble);
                    }
                }
                unknown => return Err(self.unknown(key.span().start, unknown, &KEYS)),
            }
        }
        match &file.default_ensemble {
            Some(name) if !file.ensembles.contains_key(name) => {
                Err(self.error(default_at, &format!("there is no [ensembles.{name}]")))
            }
            _ => Ok(file),
        }
    }

    fn ensemble(&self, name_at: usize, table: &DeTable<'_>) -> Result<Ensemble, CtlError> {
        let mut ensemble = Ensemble::default();
        let tls = &mut ensemble.tls;
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "servers" => ensemble.servers = self.string(value)?,
                "auth" => ensemble.auth = self.identities(value)?,
                "auth_file" => ensemble.auth_file = Some(self.file(value)?),
                "trust_store" => tls.trust_store = Some(self.file(value)?),
                "trust_store_password" => {
                    tls.trust_store_password = Some(Secret(self.string(value)?));
                }
                "key_store" => tls.key_store = Some(self.file(value)?),
                "key_store_password" => tls.key_store_password = Some(Secret(self.string(value)?)),
                "any_server_name" => {
                    let any = value.get_ref().as_bool();
                    tls.any_server_name = any
                        .ok_or_else(|| self.error(value.span().start, "expected true or false"))?;
                }
                "timeout" => ensemble.timeout = Some(self.duration(value)?),
                "session_timeout" => ensemble.session_timeout = Some(self.duration(value)?),
                unknown => return Err(self.unknown(key.span().start, unknown, &ENSEMBLE_KEYS)),
            }
        }
        if ensemble.servers.is_empty() {
            return Err(self.error(name_at, "this ensemble has no `servers`"));
        }
        Ok(ensemble)
    }

    fn table<'v, 'd>(&self, value: &'v Entry<'d>) -> Result<&'v DeTable<'d>, CtlError> {
        let table = value.get_ref().as_table();
        table.ok_or_else(|| self.error(value.span().start, "expected a table [ensembles.NAME]"))
    }

    fn string(&self, value: &Entry<'_>) -> Result<String, CtlError> {
        let text = value.get_ref().as_str().map(str::to_owned);
        text.ok_or_else(|| self.error(value.span().start, "expected a string"))
    }

    fn duration(&self, value: &Entry<'_>) -> Result<Duration, CtlError> {
        duration(&self.string(value)?).map_err(|why| self.error(value.span().start, &why))
    }

    /// A file; a relative name starts at the directory of this one.
    fn file(&self, value: &Entry<'_>) -> Result<PathBuf, CtlError> {
        let name = self.string(value)?;
        Ok(self.path.parent().unwrap_or(Path::new("")).join(name))
    }

    /// One identity, or a list of them. An error does not show it.
    fn identities(&self, value: &Entry<'_>) -> Result<Vec<Identity>, CtlError> {
        let one = |value: &Entry<'_>| {
            let text = self.string(value)?;
            if is_identity(&text) {
                return Ok(Identity(text));
            }
            let why = "expected SCHEME:ID, such as digest:user:password";
            Err(self.error(value.span().start, why))
        };
        match value.get_ref().as_array() {
            Some(several) => several.iter().map(one).collect(),
            None => one(value).map(|identity| vec![identity]),
        }
    }

    fn unknown(&self, at: usize, key: &str, known: &[&str]) -> CtlError {
        self.error(at, &format!("unknown key {key:?}; known are {}", known.join(", ")))
    }

    fn error(&self, at: usize, why: &str) -> CtlError {
        let line = 1 + self.text.bytes().take(at).filter(|byte| *byte == b'\n').count();
        CtlError::new(Exit::InvalidInput, format!("{}:{line}: {why}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, why) in [
            ("a = 1", "f.toml:1: unknown key \"a\"; known are default_ensemble, ensembles"),
            ("\n[ensembles.x]\nserver = \"a:1\"", "f.toml:3: unknown key \"server\"; known are "),
            ("[ensembles.x]\nservers = 1", "f.toml:2: expected a string"),
            ("[ensembles.x]\n", "f.toml:1: this ensemble has no `servers`"),
            ("default_ensemble = \"y\"", "f.toml:1: there is no [ensembles.y]"),
            ("ensembles = 3", "f.toml:1: expected a table"),
            ("[ensembles]\nx = 3", "f.toml:2: expected a table"),
            ("[ensembles.x]\nservers = \"a\"\nauth = \"hidden\"", "f.toml:3: expected SCHEME:ID"),
            ("[ensembles.x]\nservers = \"a\"\ntimeout = \"soon\"", "f.toml:3: a duration"),
            ("[ensembles.x]\nservers = \"a\"\nany_server_name = 1", "f.toml:3: expected true"),
            ("[ensembles.x\n", "f.toml:1: "),
            ("\n\nauth = \"hidden", "f.toml:3: "),
        ] {
            let error = Reader { path: Path::new("f.toml"), text }.read().unwrap_err();
            assert_eq!(error.exit, Exit::InvalidInput);
            assert!(error.message.starts_with(why), "{text}: {error}");
            assert!(!error.message.contains("hidden"), "{text}: {error}");
        }
    }

    #[test]
    fn no_password_is_in_the_debug_output() {
        let text = "[ensembles.x]\nservers = \"a\"\nauth = \"digest:a:hidden\"\n\
                    key_store_password = \"hidden\"";
        let file = Reader { path: Path::new("f.toml"), text }.read().unwrap();
        assert!(!format!("{file:?}").contains("hidden"));
        assert!(file.ensemble("x").unwrap().has_secrets());
    }
}
