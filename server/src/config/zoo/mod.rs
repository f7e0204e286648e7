//! The reader of Apache ZooKeeper's `zoo.cfg` (protocol, section 15).
//!
//! What Apache ZooKeeper takes from a system property is taken from the file here, with or
//! without the prefix `zookeeper.`: there are no JVM flags.

mod auth;
mod granting;
mod http;
mod keys;
mod not_applicable;
mod properties;
mod quorum;
mod refused;
mod rule;
#[cfg(test)]
mod tests;
mod tls;
mod tls_keys;

use std::collections::BTreeMap;
use std::path::PathBuf;

use zoolet_replica::ServerId;

use super::address::{HostPort, parse_host, parse_port};
use super::draft::{At, Draft, Loaded};
use super::error::ConfigError;
use super::files::{Files, Source};
use super::hint::did_you_mean;
use super::member::{Member, MemberRole, STANDALONE_ID, parse_server_id};
use super::model::Words;
use super::setting::{Setting, Value};
use super::settings;
use granting::PREFIX;
use keys::{Low, Rule};
use properties::{Property, trimmed};

/// Reads the configuration of one server.
pub(super) fn read(
    source: &Source,
    id: Option<ServerId>,
    files: &dyn Files,
) -> Result<Loaded, ConfigError> {
    let mut reader = ZooCfgReader::open(source, files)?;
    reader.apply_keys()?;
    reader.read_directories()?;
    reader.read_members()?;
    reader.choose_server(id)?;
    reader.choose_client_address()?;
    reader.read_http()?;
    reader.read_tls()?;
    reader.check_tls()?;
    reader.read_auth()?;
    reader.check_peer_type()?;
    reader.answer_isro();
    let (config, mut warnings) = reader.draft.finish()?;
    warnings.sort_by_key(|warning| warning.line);
    Ok((config, warnings))
}

/// The file as it is taken in.
struct ZooCfgReader<'a> {
    source: &'a Source,
    files: &'a dyn Files,
    draft: Draft,
    /// All keys but those of the member list, without their prefix.
    keys: BTreeMap<String, Property>,
    /// The lines `server.`, `group.` and `weight.` of the file, in its order.
    quorum: Vec<Property>,
}

/// What a number outside of its setting's range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutOfRange {
    Wrong,
    Clamped,
}

impl<'a> ZooCfgReader<'a> {
    /// Reads the properties. As in Java, the last one of a name counts; with the prefix and without
    /// it, the one without it, which Apache ZooKeeper reads alone.
    fn open(source: &'a Source, files: &'a dyn Files) -> Result<Self, ConfigError> {
        let draft = Draft::new(&source.file);
        let (keys, quorum) = (BTreeMap::new(), Vec::new());
        let mut reader = Self { source, files, draft, keys, quorum };
        for property in properties::parse(source)? {
            let name = property.key.strip_prefix(PREFIX).unwrap_or(&property.key).to_owned();
            if quorum::is_quorum_key(&name) {
                reader.quorum.push(property);
                continue;
            }
            reader.take(name, property);
        }
        Ok(reader)
    }

    fn take(&mut self, name: String, property: Property) {
        let Some(earlier) = self.keys.get(&name) else {
            self.keys.insert(name, property);
            return;
        };
        let is_plain = |property: &Property| !property.key.starts_with(PREFIX);
        let counts = is_plain(&property) || !is_plain(earlier);
        let which = if counts { "this" } else { "that" };
        let why = format!("it is also in line {}; {which} one counts", earlier.line);
        self.draft.warn(&At::new(&self.source.file, property.line), &property.key, why);
        if counts {
            self.keys.insert(name, property);
        }
    }

    /// Deals with every key that has nothing to do with others.
    fn apply_keys(&mut self) -> Result<(), ConfigError> {
        let mut properties: Vec<(String, Property)> =
            self.keys.iter().map(|(name, property)| (name.clone(), property.clone())).collect();
        properties.sort_by_key(|(_, property)| property.line);
        for (name, property) in properties {
            self.apply_key(&name, &property)?;
            if let Some(why) = granting::grants_more(&name, &property) {
                self.draft.warn(&self.at(&property), &property.key, why);
            }
        }
        Ok(())
    }

    fn apply_key(&mut self, name: &str, property: &Property) -> Result<(), ConfigError> {
        let Some(rule) = keys::find(name) else {
            let hint = did_you_mean(name, keys::all().map(|key| key.name));
            let why = format!("unknown key `{}`{hint}", property.key);
            return Err(self.source.error(property.line, why));
        };
        match rule {
            Rule::Own => Ok(()),
            Rule::Number { setting, scale, low } => {
                self.set_number(setting, property, (scale, low), OutOfRange::Wrong)
            }
            Rule::Clamped { setting, scale, low } => {
                self.set_number(setting, property, (scale, low), OutOfRange::Clamped)
            }
            Rule::TrueFalse { setting } => {
                let flag = parse_flag(property, ["true", "false"]);
                self.set_flag(setting, property, flag)
            }
            Rule::Yes { setting } => self.set_flag(setting, property, parse_yes(&property.value)),
            Rule::Text { setting } => self.set_text(setting, property),
            Rule::Inert { shape, same, why } => {
                self.check_shape(property, shape)?;
                if !same.iter().any(|same| same.eq_ignore_ascii_case(&property.value)) {
                    let why = format!("not applicable: {why}");
                    self.draft.warn(&self.at(property), &property.key, why);
                }
                Ok(())
            }
            Rule::Refused { shape, same, why } => {
                self.check_shape(property, shape)?;
                if same.iter().any(|same| same.eq_ignore_ascii_case(&property.value)) {
                    return Ok(());
                }
                Err(self.wrong(property, why))
            }
        }
    }

    fn check_shape(&self, property: &Property, shape: keys::Shape) -> Result<(), ConfigError> {
        match shape.mismatch(&property.value) {
            Some(expected) => Err(self.expected(property, expected)),
            None => Ok(()),
        }
    }

    fn set_number(
        &mut self,
        (section, key): (&str, &str),
        property: &Property,
        (scale, low): (i128, Low),
        out_of_range: OutOfRange,
    ) -> Result<(), ConfigError> {
        let number = parse_number(&property.value)
            .ok_or_else(|| self.expected(property, "a whole number"))?;
        let number = match low {
            Low::Zero => number.max(0),
            Low::Unset if number <= 0 => return Ok(()),
            Low::Raised(min) if number < min => {
                let why = format!("{number} is too low: {min} is used");
                self.draft.warn(&self.at(property), &property.key, why);
                min
            }
            Low::Wrong | Low::Unset | Low::Raised(_) => number,
        };
        let setting = self.setting(section, key, property)?;
        let (min, max) = (i128::from(setting.range.0), i128::from(setting.range.1));
        let scaled = number.saturating_mul(scale);
        let used = scaled.clamp(min, max);
        if used != scaled {
            if out_of_range == OutOfRange::Wrong {
                let (min, max) = (min / scale, max / scale);
                return Err(self.expected(property, &format!("{min} to {max}")));
            }
            let too = if scaled < min { "low" } else { "high" };
            let why = format!("{number} is too {too} here: {} is used", used / scale);
            self.draft.warn(&self.at(property), &property.key, why);
        }
        self.draft.set(setting, &property.key, &Value::Integer(used), property.line)
    }

    fn set_flag(
        &mut self,
        (section, key): (&str, &str),
        property: &Property,
        flag: Result<bool, String>,
    ) -> Result<(), ConfigError> {
        let flag = flag.map_err(|expected| self.expected(property, &expected))?;
        let setting = self.setting(section, key, property)?;
        self.draft.set(setting, &property.key, &Value::Boolean(flag), property.line)
    }

    fn set_text(
        &mut self,
        (section, key): (&str, &str),
        property: &Property,
    ) -> Result<(), ConfigError> {
        let setting = self.setting(section, key, property)?;
        let value = if setting.is_list() {
            let words = property.value.split(',').map(trimmed).filter(|word| !word.is_empty());
            Value::List(words.map(str::to_owned).collect())
        } else {
            Value::Text(property.value.clone())
        };
        self.draft.set(setting, &property.key, &value, property.line)
    }

    /// The setting that a rule names. A test makes sure that there is one for every rule.
    fn setting(
        &self,
        section: &str,
        key: &str,
        property: &Property,
    ) -> Result<&'static Setting, ConfigError> {
        settings::find(section, key)
            .ok_or_else(|| self.wrong(property, &format!("unknown setting {section}.{key}")))
    }

    fn read_directories(&mut self) -> Result<(), ConfigError> {
        let Some(data_dir) = self.directory("dataDir")? else {
            return Err(self.source.error(0, "dataDir is not set"));
        };
        let data_log_dir = self.directory("dataLogDir")?.unwrap_or_else(|| data_dir.clone());
        self.draft.config.data_dir = data_dir;
        self.draft.config.data_log_dir = data_log_dir;
        Ok(())
    }

    fn directory(&self, name: &str) -> Result<Option<PathBuf>, ConfigError> {
        match self.keys.get(name) {
            Some(property) if property.value.is_empty() => {
                Err(self.expected(property, "a directory"))
            }
            Some(property) => Ok(Some(PathBuf::from(&property.value))),
            None => Ok(None),
        }
    }

    /// Finds out which member this server is: by `id`, by the file `myid`, or because there is
    /// only one.
    fn choose_server(&mut self, id: Option<ServerId>) -> Result<(), ConfigError> {
        let listed = self.draft.has_members();
        let standalone_enabled = self.flag("standaloneEnabled")?.unwrap_or(true);
        if !listed && !standalone_enabled {
            let why = "standaloneEnabled=false needs at least one server line";
            return Err(self.source.error(self.line("standaloneEnabled"), why));
        }
        let only = match self.draft.config.members.keys().next() {
            Some(only) if listed && self.draft.config.members.len() == 1 => Some(*only),
            _ => None,
        };
        let config = &mut self.draft.config;
        config.ensemble.standalone_enabled = standalone_enabled;
        config.standalone = !listed || (only.is_some() && standalone_enabled);
        let standalone = config.standalone;
        let chosen = match (id, only) {
            (Some(id), _) => {
                self.warn_of_other_myid(id);
                id
            }
            (None, Some(only)) if standalone => only,
            (None, _) => match self.read_myid() {
                Some(myid) => myid?,
                None if !listed => STANDALONE_ID,
                None => return Err(self.no_myid()),
            },
        };
        self.draft.config.server_id = chosen;
        Ok(())
    }

    fn myid_path(&self) -> PathBuf {
        self.draft.config.data_dir.join("myid")
    }

    /// The content of `myid`, or `None` when the file does not exist.
    fn read_myid(&self) -> Option<Result<ServerId, ConfigError>> {
        let path = self.myid_path();
        let bytes = match self.files.read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => {
                let why = format!("the file cannot be read: {error}");
                return Some(Err(ConfigError::new(&path, 0, why)));
            }
        };
        let parsed = Source::decode(&path, bytes).and_then(|source| {
            let first = source.text.lines().next().unwrap_or_default().trim();
            parse_server_id(first).map_err(|why| source.error(1, why))
        });
        Some(parsed)
    }

    fn no_myid(&self) -> ConfigError {
        let path = self.myid_path();
        let ids: Vec<String> = self.draft.config.members.keys().map(ToString::to_string).collect();
        let why = format!(
            "the file is missing: it must hold the id of this server, one of {} (or give --id)",
            ids.join(", ")
        );
        ConfigError::new(&path, 0, why)
    }

    fn warn_of_other_myid(&mut self, id: ServerId) {
        if let Some(Ok(myid)) = self.read_myid()
            && myid != id
        {
            let at = At::new(&self.myid_path(), 1);
            self.draft.warn(&at, "myid", format!("it says {myid}; --id {id} counts"));
        }
    }

    /// The address comes from `clientPort` or from this server's line; from both only if they
    /// agree.
    fn choose_client_address(&mut self) -> Result<(), ConfigError> {
        let mut fixed = self.static_client_address()?;
        let mut secure = self.secure_client_address()?;
        // Without server lines there is the member of the default configuration.
        let members = self.draft.has_members().then_some(&self.draft.config);
        let listed = members.and_then(|config| config.member()?.client.as_ref());
        if fixed.is_none() && listed.is_none() && secure.is_some() {
            self.draft.config.client_is_secure = true;
            fixed = secure.take();
        }
        self.draft.config.secure_client_bind = secure;
        if !self.draft.has_members() {
            let client = fixed.ok_or_else(|| self.source.error(0, "clientPort is not set"))?;
            let config = &mut self.draft.config;
            let member = Member::alone(client.clone());
            config.members = BTreeMap::from([(config.server_id, member)]);
            config.client_bind = client;
            return Ok(());
        }
        let Some(member) = self.draft.config.member().cloned() else {
            // A server that is not listed gets its own, clearer error when everything is checked.
            return Ok(());
        };
        self.draft.config.client_bind = self.agreed_client_address(fixed, member.client)?;
        if !self.draft.config.standalone {
            let mut peer = member.peer;
            if self.flag("quorumListenOnAllIPs")?.unwrap_or(false) {
                "0.0.0.0".clone_into(&mut peer.host);
            }
            self.draft.config.peer_bind = Some(peer);
        }
        Ok(())
    }

    fn agreed_client_address(
        &self,
        fixed: Option<HostPort>,
        listed: Option<HostPort>,
    ) -> Result<HostPort, ConfigError> {
        match (fixed, listed) {
            (Some(fixed), Some(listed))
                if fixed != listed && !(fixed.is_wildcard() && fixed.port == listed.port) =>
            {
                let why = format!("clientPort: {fixed} here, {listed} in the server line");
                Err(self.source.error(self.line("clientPort"), why))
            }
            (_, Some(listed)) => Ok(listed),
            (Some(fixed), None) => Ok(fixed),
            (None, None) => {
                let why = "clientPort is not set, and this server's line has none either";
                Err(self.source.error(0, why))
            }
        }
    }

    fn static_client_address(&self) -> Result<Option<HostPort>, ConfigError> {
        let host = match self.keys.get("clientPortAddress") {
            Some(property) => Some(
                parse_host(&property.value).map_err(|why: String| self.wrong(property, &why))?,
            ),
            None => None,
        };
        match (self.keys.get("clientPort"), host) {
            (Some(property), host) => {
                let port = parse_port(&property.value).map_err(|why| self.wrong(property, &why))?;
                Ok(Some(HostPort::new(host.unwrap_or("0.0.0.0"), port)))
            }
            (None, Some(_)) => {
                let why = "clientPortAddress is set and clientPort is not";
                Err(self.source.error(self.line("clientPortAddress"), why))
            }
            (None, None) => Ok(None),
        }
    }

    /// The server list has the last word on roles; `peerType` can only agree.
    fn check_peer_type(&mut self) -> Result<(), ConfigError> {
        let Some(property) = self.keys.get("peerType").cloned() else {
            return Ok(());
        };
        let given: MemberRole =
            property.value.parse().map_err(|why: String| self.wrong(&property, &why))?;
        if !self.draft.has_members() && given == MemberRole::Observer {
            return Err(self.wrong(&property, "a server without others cannot be an observer"));
        }
        let listed = self.draft.config.role();
        if given != listed {
            let why = format!("the server list says {}, and that counts", listed.name());
            self.draft.warn(&self.at(&property), &property.key, why);
        }
        Ok(())
    }

    /// ZooKeeper answers `isro` without being asked to when there is a read-only mode, and
    /// clients of such an ensemble poll it.
    fn answer_isro(&mut self) {
        let enabled = self.keys.get("readonlymode.enabled");
        if enabled.is_some_and(|property| property.value.eq_ignore_ascii_case("true"))
            && let Words::Only(words) = &mut self.draft.config.four_letter.words
        {
            words.insert("isro".to_owned());
        }
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, ConfigError> {
        let property = self.keys.get(name);
        let flag = property.map(|property| {
            parse_flag(property, ["true", "false"])
                .map_err(|expected| self.expected(property, &expected))
        });
        flag.transpose()
    }

    fn line(&self, name: &str) -> usize {
        self.keys.get(name).map_or(0, |property| property.line)
    }

    fn at(&self, property: &Property) -> At {
        At::new(&self.source.file, property.line)
    }

    fn wrong(&self, property: &Property, why: &str) -> ConfigError {
        self.source.error(property.line, format!("{}: {why}", property.key))
    }

    fn expected(&self, property: &Property, expected: &str) -> ConfigError {
        let Property { key, value, line, .. } = property;
        self.source.error(*line, format!("{key} = {value}: expected {expected}"))
    }
}

/// Reads one of two words, in any case; the error is what was expected.
fn parse_flag(property: &Property, [on, off]: [&str; 2]) -> Result<bool, String> {
    if property.value.eq_ignore_ascii_case(on) {
        Ok(true)
    } else if property.value.eq_ignore_ascii_case(off) {
        Ok(false)
    } else {
        Err(format!("{on} or {off}"))
    }
}

/// Reads `yes`, which grants something and which Apache ZooKeeper takes in lower case alone, or `no`.
fn parse_yes(value: &str) -> Result<bool, String> {
    match value {
        "yes" => Ok(true),
        value if value.eq_ignore_ascii_case("no") => Ok(false),
        _ => Err("yes or no, in lower case".to_owned()),
    }
}

/// Reads a decimal number, or a hexadecimal one as system properties can have it.
fn parse_number(text: &str) -> Option<i128> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) if !digits.starts_with(['+', '-']) => i128::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None => text.parse().ok(),
    }
}
