//! The keys of logins that depend on each other.

use super::super::error::ConfigError;
use super::super::sasl::SaslConfig;
use super::super::setting::Value;
use super::ZooCfgReader;
use super::properties::{Property, trimmed};

/// What clients must have proved before they are served.
const SESSION_REQUIRES: &str = "sessionRequireClientSASLAuth";
const ENFORCE: &str = "enforce.auth.enabled";
const SCHEMES: &str = "enforce.auth.schemes";

impl ZooCfgReader<'_> {
    /// Reads what is left of logins, once all simple keys are taken over.
    pub(super) fn read_auth(&mut self) -> Result<(), ConfigError> {
        self.read_super_users()?;
        if let Some(property) = self.keys.get("sasl.serverconfig")
            && self.draft.config.sasl.jaas_file.is_none()
        {
            return Err(self.wrong(property, "it needs java.security.auth.login.config"));
        }
        let on = |reader: &Self, key| reader.flag(key).map(|flag| flag == Some(true));
        // As in Apache ZooKeeper, the first one counts before the other two.
        let (session, enforce) = (on(self, SESSION_REQUIRES)?, on(self, ENFORCE)?);
        if session && let Some(property) = self.keys.get(SESSION_REQUIRES).cloned() {
            return self.require(&property, vec!["sasl".to_owned()]);
        }
        let Some(schemes) = self.keys.get(SCHEMES).cloned() else {
            let enforced = self.keys.get(ENFORCE).filter(|_| enforce);
            return enforced.map_or(Ok(()), |property| {
                Err(self.wrong(property, &format!("{SCHEMES} must name a scheme")))
            });
        };
        if !enforce {
            let why = format!("not applicable: it does nothing without {ENFORCE}=true");
            self.draft.warn(&self.at(&schemes), &schemes.key, why);
            return Ok(());
        }
        let names: Vec<String> =
            schemes.value.split(',').map(|name| trimmed(name).to_owned()).collect();
        self.require(&schemes, names)
    }

    /// A client must have an identity of one of the schemes.
    fn require(&mut self, property: &Property, schemes: Vec<String>) -> Result<(), ConfigError> {
        let setting = self.setting("auth", "required_schemes", property)?;
        self.draft.set(setting, &property.key, &Value::List(schemes), property.line)?;
        match SaslConfig::missing(&self.draft.config) {
            Some((_, why)) => Err(self.wrong(property, why)),
            None => Ok(()),
        }
    }

    /// There may be several, each with an ending of its own.
    fn read_super_users(&mut self) -> Result<(), ConfigError> {
        let is_super = |name: &str| name == "superUser" || name.starts_with("superUser.");
        let keys = self.keys.iter().filter(|(name, _)| is_super(name));
        let properties: Vec<Property> = keys.map(|(_, property)| property.clone()).collect();
        let names = properties.iter().map(|property| property.value.clone()).collect();
        let Some(last) = properties.last() else { return Ok(()) };
        let setting = self.setting("sasl", "super_users", last)?;
        self.draft.set(setting, &last.key, &Value::List(names), last.line)
    }
}
