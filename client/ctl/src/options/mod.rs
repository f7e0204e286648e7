//! What holds for every command: from the command line, else from the environment, else from the
//! configuration file.

mod credentials;
mod file;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::args::{Flags, Identity, Secret};
use crate::error::{CtlError, Exit};

pub(crate) use file::{ConfigFile, Ensemble};

/// The servers where nothing names any.
const SERVERS_DEFAULT: &str = "127.0.0.1:2181";
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
const SESSION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// What to use instead of a password on the command line.
const NO_PASSWORDS: &str = "all users of the machine can see a command line; docs/zooletctl.md has \
                            the configuration file";

/// How servers are reached by TLS.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsFiles {
    pub(crate) trust_store: Option<PathBuf>,
    pub(crate) trust_store_password: Option<Secret>,
    pub(crate) key_store: Option<PathBuf>,
    pub(crate) key_store_password: Option<Secret>,
    pub(crate) any_server_name: bool,
}

/// What holds for every command.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The name of the ensemble, if the servers are those of the configuration file.
    pub(crate) ensemble: Option<String>,
    pub(crate) servers: String,
    pub(crate) auth: Vec<Identity>,
    /// Whether the identities are those of the ensemble.
    auth_is_ensembles: bool,
    pub(crate) json: bool,
    pub(crate) read_only: bool,
    pub(crate) timeout: Duration,
    pub(crate) session_timeout: Duration,
    pub(crate) tls: TlsFiles,
    file: Arc<ConfigFile>,
}

impl Options {
    /// The connect string.
    pub(crate) fn connect_string(&self) -> &str {
        &self.servers
    }

    /// Puts the options together: those of this command line in this process.
    pub(crate) fn of(flags: Flags) -> Result<Self, CtlError> {
        Self::resolve(flags, &Variables(&|name| std::env::var_os(name)))
    }

    fn resolve(flags: Flags, variables: &Variables<'_>) -> Result<Self, CtlError> {
        refuse_passwords(&flags)?;
        let file = Arc::new(ConfigFile::find(flags.config.as_deref(), variables, flags.json)?);
        let (servers, name) = choose(&flags, variables, &file)?;
        let ensemble = name.as_deref().map(|name| file.ensemble(name)).transpose()?;
        let mut options = Self {
            servers: servers
                .or_else(|| ensemble.map(|ensemble| ensemble.servers.clone()))
                .unwrap_or_else(|| SERVERS_DEFAULT.to_owned()),
            ensemble: name,
            auth: Vec::new(),
            auth_is_ensembles: true,
            json: flags.json,
            read_only: flags.read_only,
            timeout: TIMEOUT_DEFAULT,
            session_timeout: SESSION_TIMEOUT_DEFAULT,
            tls: TlsFiles::default(),
            file: Arc::clone(&file),
        };
        if let Some(ensemble) = ensemble {
            options.take(ensemble)?;
        }
        options.take_flags(flags, variables)?;
        Ok(options)
    }

    /// Returns the options for another ensemble of the configuration file: its servers get its own
    /// identities and certificates alone.
    pub(crate) fn of_ensemble(&self, name: &str) -> Result<Self, CtlError> {
        let ensemble = self.file.ensemble(name)?;
        let mut options = Self {
            ensemble: Some(name.to_owned()),
            servers: ensemble.servers.clone(),
            auth: Vec::new(),
            auth_is_ensembles: true,
            tls: TlsFiles::default(),
            ..self.clone()
        };
        options.take(ensemble)?;
        Ok(options)
    }

    /// Goes over to other servers. They get nothing of what the configuration file has for those of
    /// the ensemble: neither its identities nor its key.
    pub(crate) fn set_servers(&mut self, servers: String) {
        self.servers = servers;
        let Some(name) = self.ensemble.take() else { return };
        // It is the one that was found before.
        let Ok(ensemble) = self.file.ensemble(&name) else { return };
        if self.auth_is_ensembles {
            self.auth.clear();
        }
        let tls = &mut self.tls;
        if tls.trust_store == ensemble.tls.trust_store {
            (tls.trust_store, tls.trust_store_password) = (None, None);
        }
        if tls.key_store == ensemble.tls.key_store {
            (tls.key_store, tls.key_store_password) = (None, None);
        }
        tls.any_server_name &= !ensemble.tls.any_server_name;
    }

    fn take(&mut self, ensemble: &Ensemble) -> Result<(), CtlError> {
        self.auth.clone_from(&ensemble.auth);
        if let Some(file) = &ensemble.auth_file {
            self.auth.extend(credentials::read(file, self.json)?);
        }
        self.tls = ensemble.tls.clone();
        self.timeout = ensemble.timeout.unwrap_or(self.timeout);
        self.session_timeout = ensemble.session_timeout.unwrap_or(self.session_timeout);
        Ok(())
    }

    /// Takes what the command line says, and else the environment.
    fn take_flags(&mut self, flags: Flags, variables: &Variables<'_>) -> Result<(), CtlError> {
        if let Some(file) = &flags.auth_file {
            self.auth = credentials::read(file, self.json)?;
            self.auth_is_ensembles = false;
        } else if let Some(identities) = variables.text("ZOOLETCTL_AUTH")? {
            self.auth = credentials::parse(&identities, "ZOOLETCTL_AUTH")?;
            self.auth_is_ensembles = false;
        }
        let tls = &mut self.tls;
        let stores = [
            (
                "TRUST_STORE",
                flags.tls.trust_store,
                &mut tls.trust_store,
                &mut tls.trust_store_password,
            ),
            ("KEY_STORE", flags.tls.key_store, &mut tls.key_store, &mut tls.key_store_password),
        ];
        for (name, flag, file, password) in stores {
            let variable = format!("ZOOLETCTL_{name}");
            if let Some(other) = flag.or_else(|| variables.get(&variable).map(PathBuf::from)) {
                *file = Some(other);
                // The configuration file has that of the file which it names.
                *password = None;
            }
            if let Some(own) = variables.text(&format!("{variable}_PASSWORD"))? {
                *password = Some(Secret(own));
            }
        }
        tls.any_server_name |= flags.tls.any_server_name;
        self.timeout = flags.timeout.unwrap_or(self.timeout);
        self.session_timeout = flags.session_timeout.unwrap_or(self.session_timeout);
        Ok(())
    }
}

/// Which servers: a connect string, or the name of an ensemble. What comes first names them alone,
/// so that no ensemble's identities go to other servers than its own.
fn choose(
    flags: &Flags,
    variables: &Variables<'_>,
    file: &ConfigFile,
) -> Result<(Option<String>, Option<String>), CtlError> {
    let servers = flags.servers_short.clone().or_else(|| flags.servers.clone());
    let levels = [
        (servers, flags.ensemble.clone(), "--servers and --ensemble"),
        (
            variables.text("ZOOLETCTL_SERVERS")?,
            variables.text("ZOOLETCTL_ENSEMBLE")?,
            "ZOOLETCTL_SERVERS and ZOOLETCTL_ENSEMBLE",
        ),
    ];
    for (servers, ensemble, both) in levels {
        if servers.is_some() && ensemble.is_some() {
            let message = format!("{both} both name the servers: give one of them");
            return Err(CtlError::new(Exit::Usage, message));
        }
        if servers.is_some() || ensemble.is_some() {
            return Ok((servers, ensemble));
        }
    }
    Ok((None, file.default_ensemble.clone()))
}

fn refuse_passwords(flags: &Flags) -> Result<(), CtlError> {
    let refused = |flag: &str, instead: &str| {
        let message = format!("{flag} is refused, it shows a password: {instead}");
        Err(CtlError::new(Exit::Usage, message).hint(NO_PASSWORDS))
    };
    if !flags.auth.is_empty() {
        let instead = "put SCHEME:ID into a file for --auth-file, into ZOOLETCTL_AUTH, or into the \
                       configuration file";
        return refused("--auth", instead);
    }
    if flags.tls.trust_store_password.is_some() {
        return refused("--trust-store-password", "put it into ZOOLETCTL_TRUST_STORE_PASSWORD");
    }
    if flags.tls.key_store_password.is_some() {
        return refused("--key-store-password", "put it into ZOOLETCTL_KEY_STORE_PASSWORD");
    }
    Ok(())
}

/// The environment.
struct Variables<'a>(&'a dyn Fn(&str) -> Option<OsString>);

impl Variables<'_> {
    /// Returns what is set; an empty value is the same as none.
    fn get(&self, name: &str) -> Option<OsString> {
        (self.0)(name).filter(|value| !value.is_empty())
    }

    fn text(&self, name: &str) -> Result<Option<String>, CtlError> {
        let text = self.get(name).map(OsString::into_string).transpose();
        text.map_err(|_| CtlError::new(Exit::InvalidInput, format!("{name} is not UTF-8")))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use clap::Parser;

    use super::*;
    use crate::args::Arguments;

    const FILE: &str = "default_ensemble = \"one\"\n[ensembles.one]\nservers = \"a:1/root\"\n\
                        auth = \"digest:a:b\"\ntimeout = \"9s\"\ntrust_store = \"ca.pem\"\n\
                        [ensembles.two]\nservers = \"b:2\"\nauth = [\"digest:c:d\", \"ip:\"]\n";

    fn resolved(
        file: &Path,
        words: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Options, CtlError> {
        let arguments = Arguments::try_parse_from([&["zooletctl"], words].concat()).unwrap();
        let variables = |name: &str| {
            let named = environment.iter().find(|(known, _)| *known == name);
            let value = named.map(|(_, value)| OsString::from(value));
            value.or_else(|| (name == "ZOOLETCTL_CONFIG").then(|| file.into()))
        };
        Options::resolve(arguments.flags, &Variables(&variables))
    }

    #[test]
    fn a_flag_precedes_the_environment_which_precedes_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config.toml");
        fs::write(&file, FILE).unwrap();
        for (words, environment, servers, auth) in [
            (&[][..], &[][..], "a:1/root", &["digest:a:b"][..]),
            (&["--ensemble", "two"], &[], "b:2", &["digest:c:d", "ip:"]),
            (&[], &[("ZOOLETCTL_ENSEMBLE", "two")], "b:2", &["digest:c:d", "ip:"]),
            (&["--ensemble", "one"], &[("ZOOLETCTL_ENSEMBLE", "two")], "a:1/root", &["digest:a:b"]),
            (&["--ensemble", "one"], &[("ZOOLETCTL_SERVERS", "c:3")], "a:1/root", &["digest:a:b"]),
            // The identities of an ensemble go to its servers alone.
            (&[], &[("ZOOLETCTL_SERVERS", "c:3")], "c:3", &[]),
            (&["-s", "d:4"], &[("ZOOLETCTL_ENSEMBLE", "two")], "d:4", &[]),
            (&["ls", "--servers", "d:4", "/"], &[], "d:4", &[]),
            (&[], &[("ZOOLETCTL_AUTH", "digest:e:f\nip:")], "a:1/root", &["digest:e:f", "ip:"]),
        ] {
            let options = resolved(&file, words, environment).unwrap();
            let identities: Vec<&str> = options.auth.iter().map(|one| one.0.as_str()).collect();
            assert_eq!((options.servers.as_str(), &*identities), (servers, auth), "{words:?}");
        }
        let options = resolved(&file, &["--timeout", "1s"], &[]).unwrap();
        assert_eq!(options.timeout, Duration::from_secs(1));
        let options = resolved(&file, &[], &[]).unwrap();
        assert_eq!(options.timeout, Duration::from_secs(9));
        assert_eq!(options.tls.trust_store, Some(directory.path().join("ca.pem")));
        let other = options.of_ensemble("two").unwrap();
        assert_eq!((other.servers.as_str(), other.auth.len()), ("b:2", 2));
        assert_eq!(other.tls.trust_store, None, "that of another ensemble");

        // In the shell `connect` goes over to other servers.
        let mut options = options;
        options.set_servers("e:5".to_owned());
        assert_eq!((options.servers.as_str(), options.auth.len()), ("e:5", 0));
        assert_eq!((options.ensemble, options.tls.trust_store), (None, None));
        let own = [("ZOOLETCTL_AUTH", "ip:"), ("ZOOLETCTL_TRUST_STORE", "own.pem")];
        let mut options = resolved(&file, &[], &own).unwrap();
        options.set_servers("e:5".to_owned());
        assert_eq!(options.auth.len(), 1);
        assert_eq!(options.tls.trust_store, Some(PathBuf::from("own.pem")));
    }

    /// It was refused by the parser of the command line.
    #[test]
    fn an_empty_name_is_that_of_no_configuration_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config.toml");
        fs::write(&file, FILE).unwrap();
        for words in [["--config", ""].as_slice(), &["--config="]] {
            let options = resolved(&file, words, &[]).unwrap();
            assert_eq!((options.servers.as_str(), options.auth.len()), (SERVERS_DEFAULT, 0));
        }
    }

    #[test]
    fn contradictions_and_passwords_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config.toml");
        fs::write(&file, FILE).unwrap();
        for (words, environment, why) in [
            (&["-s", "a:1", "--ensemble", "one"][..], &[][..], "--servers and --ensemble"),
            (
                &[],
                &[("ZOOLETCTL_SERVERS", "a:1"), ("ZOOLETCTL_ENSEMBLE", "one")],
                "ZOOLETCTL_SERVERS and ZOOLETCTL_ENSEMBLE",
            ),
            (&["--ensemble", "three"], &[], "unknown ensemble \"three\""),
            (&["--auth", "digest:a:hidden"], &[], "--auth-file"),
            (&["--key-store-password", "hidden"], &[], "ZOOLETCTL_KEY_STORE_PASSWORD"),
            (&["--trust-store-password", "hidden"], &[], "ZOOLETCTL_TRUST_STORE_PASSWORD"),
            (&[], &[("ZOOLETCTL_AUTH", "hidden")], "line 1 of ZOOLETCTL_AUTH"),
            (&["--auth-file", "/no/such"], &[], "/no/such: "),
            (&["--config", "/no/such"], &[], "/no/such: "),
        ] {
            let error = resolved(&file, words, environment).unwrap_err();
            assert!(error.message.contains(why), "{why}: {error}");
            assert!(!error.to_string().contains("hidden"), "{error}");
        }
    }
}
