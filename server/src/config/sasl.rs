//! Logins by SASL: who can log in, and what becomes of a login that fails.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use zoolet_tls::Password;

use super::error::{ConfigError, Warning};
use super::files::Source;
use super::model::ServerConfig;
use crate::sasl::{Users, users_of_section};

/// The section of a JAAS file that servers read.
const SECTION: &str = "Server";

/// What other users of the machine must not have: to read the file.
const READ_BY_OTHERS: u32 = 0o044;

/// Logins of clients by SASL with DIGEST-MD5 (`docs/sasl.md`). Without a file, there are none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SaslConfig {
    /// A JAAS file of Apache `ZooKeeper` with users and their passwords.
    pub jaas_file: Option<PathBuf>,
    /// Its section; `Server` without it.
    pub jaas_section: Option<String>,
    /// A file with lines of `name:password`.
    pub users_file: Option<PathBuf>,
    /// The password of the user `super`, in place of that in the files.
    pub super_password: Option<Password>,
    /// The users that may do everything.
    pub super_users: Vec<String>,
    /// Whether a client whose login has failed is served without an identity.
    pub failed_logins_served: bool,
}

impl SaslConfig {
    /// Whether clients can log in.
    pub(super) fn has_users(&self) -> bool {
        self.jaas_file.is_some() || self.users_file.is_some()
    }

    /// The files that it names.
    pub(super) fn files(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        [&mut self.jaas_file, &mut self.users_file].into_iter().flatten()
    }

    /// Reads the users that can log in, once, before the server starts; `None` if there are no
    /// logins.
    pub(crate) fn read_users(&self) -> Result<Option<(Users, Vec<Warning>)>, ConfigError> {
        if !self.has_users() {
            return Ok(None);
        }
        let (mut users, mut warnings) = (Users::default(), Vec::new());
        if let Some(path) = &self.jaas_file {
            let source = read(path, &mut warnings)?;
            let section = self.jaas_section.as_deref().unwrap_or(SECTION);
            users_of_section(&source.text, section, &mut users)
                .map_err(|error| source.error(error.line, error.why))?;
        }
        if let Some(path) = &self.users_file {
            let source = read(path, &mut warnings)?;
            users.add_lines(&source.text).map_err(|(line, why)| source.error(line, why))?;
        }
        if let Some(password) = &self.super_password
            && !users.set_super_password(password)
        {
            let file = self.jaas_file.as_ref().or(self.users_file.as_ref());
            let file = file.map_or(Path::new(""), PathBuf::as_path);
            let why = "user super is missing: the configuration sets its password";
            return Err(ConfigError::new(file, 0, why));
        }
        Ok(Some((users, warnings)))
    }

    /// Reads the files with users as a start does, and returns how many can log in, and what is to be
    /// warned of; `None` if there are no logins. It blocks: it is for programs that look after a
    /// configuration.
    pub fn check(&self) -> Result<Option<(usize, Vec<Warning>)>, ConfigError> {
        Ok(self.read_users()?.map(|(users, warnings)| (users.len(), warnings)))
    }

    /// What is missing; the name is the setting in `cluster.toml`.
    pub(super) fn missing(config: &ServerConfig) -> Option<(&'static str, &'static str)> {
        let required = |scheme: &str| config.auth.required_schemes.iter().any(|has| has == scheme);
        let sasl = &config.sasl;
        let no_file = "no client can log in: it needs jaas_file or users_file in [sasl], or \
                       java.security.auth.login.config in a zoo.cfg";
        if required("sasl") && !sasl.has_users() {
            Some(("auth.required_schemes", no_file))
        } else if required("x509") && !config.speaks_tls() {
            Some(("auth.required_schemes", "no client can have an identity of x509 without TLS"))
        } else if required("digest") && !config.auth.digest_enabled {
            Some(("auth.required_schemes", "the scheme digest is switched off"))
        } else if sasl.jaas_section.is_some() && sasl.jaas_file.is_none() {
            Some(("sasl.jaas_section", "it needs jaas_file"))
        } else {
            None
        }
    }
}

/// Reads a file with passwords.
fn read(path: &Path, warnings: &mut Vec<Warning>) -> Result<Source, ConfigError> {
    let failed = |error| ConfigError::new(path, 0, format!("the file cannot be read: {error}"));
    let mode = fs::metadata(path).map_err(failed)?.permissions().mode();
    if mode & READ_BY_OTHERS != 0 {
        let (file, key) = (path.to_path_buf(), "sasl".to_owned());
        let why = "others may read the passwords: use chmod 600".to_owned();
        warnings.push(Warning { file, line: 0, key, why });
    }
    // One byte more than is allowed shows that the file is too long.
    let (mut bytes, bytes_max) = (Vec::new(), Source::BYTES_MAX as u64 + 1);
    let file = File::open(path).map_err(failed)?;
    file.take(bytes_max).read_to_end(&mut bytes).map_err(failed)?;
    Source::decode(path, bytes)
}
