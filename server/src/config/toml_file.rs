//! The reader of `cluster.toml`.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use zoolet_replica::ServerId;

use super::address::HostPort;
use super::draft::{At, Draft, Loaded};
use super::error::{ConfigError, Warning};
use super::files::Source;
use super::hint::did_you_mean;
use super::member::{Member, MemberRole, parse_server_id};
use super::model::ServerConfig;
use super::setting::Value;
use super::settings::{SECTIONS, all, find};

/// The keys of one `[[server]]`.
const SERVER_KEYS: [&str; 10] = [
    "id",
    "peer",
    "election_port",
    "client",
    "secure_client",
    "role",
    "data_dir",
    "data_log_dir",
    "http",
    "metrics",
];

/// Reads the configuration of one server.
pub(super) fn read_one(source: &Source, id: Option<ServerId>) -> Result<Loaded, ConfigError> {
    let parsed = parse(source)?;
    match (id, parsed.servers.as_slice()) {
        (Some(id), _) => parsed.configure(id),
        (None, [only]) => parsed.configure(only.id),
        (None, several) => {
            let ids: Vec<String> = several.iter().map(|server| server.id.to_string()).collect();
            let why = format!(
                "the file lists servers {}: --id must say which of them this is",
                ids.join(", ")
            );
            Err(source.error(0, why))
        }
    }
}

/// Reads the configurations of all servers.
pub(super) fn read_all(source: &Source) -> Result<(Vec<ServerConfig>, Vec<Warning>), ConfigError> {
    let parsed = parse(source)?;
    let mut configs = Vec::new();
    let mut warnings = Vec::new();
    for server in &parsed.servers {
        let (config, own) = parsed.configure(server.id)?;
        configs.push(config);
        // Warnings are about the file, so every server repeats them.
        warnings = own;
    }
    configs.sort_by_key(|config| config.server_id);
    Ok((configs, warnings))
}

/// A file that has been read, before it is known which server this is.
struct Parsed {
    draft: Draft,
    servers: Vec<ServerSection>,
}

/// One `[[server]]`, besides what all servers know of it.
struct ServerSection {
    id: ServerId,
    line: usize,
    peer: Option<HostPort>,
    client: HostPort,
    client_is_secure: bool,
    secure_client: Option<HostPort>,
    data_dir: PathBuf,
    data_log_dir: Option<PathBuf>,
    http: Option<HostPort>,
    metrics: Option<HostPort>,
}

impl Parsed {
    fn configure(&self, id: ServerId) -> Result<Loaded, ConfigError> {
        let mut draft = self.draft.clone();
        draft.config.server_id = id;
        draft.config.standalone = self.servers.len() == 1;
        if let Some(server) = self.servers.iter().find(|server| server.id == id) {
            let config = &mut draft.config;
            config.data_dir.clone_from(&server.data_dir);
            let data_log_dir = server.data_log_dir.as_ref().unwrap_or(&server.data_dir);
            config.data_log_dir.clone_from(data_log_dir);
            config.client_bind = server.client.clone();
            config.http_bind.clone_from(&server.http);
            config.metrics_bind.clone_from(&server.metrics);
            config.client_is_secure = server.client_is_secure;
            config.secure_client_bind.clone_from(&server.secure_client);
            config.peer_bind = server.peer.clone().filter(|_| !config.standalone);
        }
        draft.finish()
    }
}

fn parse(source: &Source) -> Result<Parsed, ConfigError> {
    let document = DeTable::parse(&source.text).map_err(|error| {
        let line = error.span().map_or(0, |span| source.line_of(span.start));
        source.error(line, error.message().trim().replace('\n', ", "))
    })?;
    let mut parsed = Parsed { draft: Draft::new(&source.file), servers: Vec::new() };
    for (key, value) in document.get_ref() {
        let (name, line) = (key.get_ref().as_ref(), source.line_of(key.span().start));
        if name == "server" {
            read_servers(source, value, &mut parsed)?;
        } else if SECTIONS.iter().any(|(section, _)| *section == name) {
            let table = value.get_ref().as_table();
            let table =
                table.ok_or_else(|| source.error(line, format!("expected a table [{name}]")))?;
            read_section(source, name, table, &mut parsed.draft)?;
        } else {
            let known = SECTIONS.into_iter().map(|(section, _)| section).chain(["server"]);
            let hint = did_you_mean(name, known.clone());
            let known: Vec<&str> = known.collect();
            let why = format!("unknown key `{name}`{hint}; known are {}", known.join(", "));
            return Err(source.error(line, why));
        }
    }
    if parsed.servers.is_empty() {
        return Err(source.error(0, "no server: expected at least one [[server]]"));
    }
    check_servers(source, &parsed.servers)?;
    Ok(parsed)
}

fn read_section(
    source: &Source,
    section: &str,
    table: &DeTable<'_>,
    draft: &mut Draft,
) -> Result<(), ConfigError> {
    for (key, value) in table {
        let (name, line) = (key.get_ref().as_ref(), source.line_of(key.span().start));
        let Some(setting) = find(section, name) else {
            let known = all().filter(|s| s.section == section).map(|s| s.key);
            let hint = did_you_mean(name, known.clone());
            let known: Vec<&str> = known.collect();
            let why = format!(
                "unknown key `{name}` in [{section}]{hint}; known are {}",
                known.join(", ")
            );
            return Err(source.error(line, why));
        };
        let line = source.line_of(value.span().start);
        let value = to_value(value.get_ref()).ok_or_else(|| {
            source.error(line, format!("{name}: expected {}", setting.expected()))
        })?;
        draft.set(setting, name, &value, line)?;
    }
    Ok(())
}

/// A value of one of the kinds that settings have.
fn to_value(value: &DeValue<'_>) -> Option<Value> {
    if let Some(number) = value.as_integer() {
        return i128::from_str_radix(number.as_str(), number.radix()).ok().map(Value::Integer);
    }
    if let Some(flag) = value.as_bool() {
        return Some(Value::Boolean(flag));
    }
    if let Some(array) = value.as_array() {
        let texts = array.iter().map(|item| item.get_ref().as_str().map(str::to_owned));
        return texts.collect::<Option<_>>().map(Value::List);
    }
    value.as_str().map(|text| Value::Text(text.to_owned()))
}

fn read_servers(
    source: &Source,
    value: &Spanned<DeValue<'_>>,
    parsed: &mut Parsed,
) -> Result<(), ConfigError> {
    let line = source.line_of(value.span().start);
    let wrong = || source.error(line, "expected a table [[server]] for each server");
    let array = value.get_ref().as_array().ok_or_else(wrong)?;
    for item in array {
        let line = source.line_of(item.span().start);
        let table = item.get_ref().as_table().ok_or_else(wrong)?;
        let table = ServerTable { source, table, line };
        let (server, member) = table.read()?;
        parsed.draft.add_member(server.id, member, At::new(&source.file, server.line))?;
        parsed.servers.push(server);
    }
    Ok(())
}

/// The keys and values of one `[[server]]`.
struct ServerTable<'a> {
    source: &'a Source,
    table: &'a DeTable<'a>,
    line: usize,
}

impl ServerTable<'_> {
    fn read(&self) -> Result<(ServerSection, Member), ConfigError> {
        self.check_keys()?;
        let id = self.required("id", "a server id, 0 to 255", |value| {
            let id = value.as_integer().filter(|id| id.radix() == 10)?;
            parse_server_id(id.as_str()).ok()
        })?;
        let peer = self.optional("peer", "\"host:port\"", address)?;
        let plain = self.optional("client", "\"host:port\"", address)?;
        let mut secure_client = self.optional("secure_client", "\"host:port\"", address)?;
        let client_is_secure = plain.is_none();
        let client = plain.or_else(|| secure_client.take()).ok_or_else(|| {
            let why = "[[server]] without client: expected \"host:port\" there or in secure_client";
            self.source.error(self.line, why)
        })?;
        let role = self
            .optional("role", "\"participant\" or \"observer\"", |value| {
                value.as_str()?.parse::<MemberRole>().ok()
            })?
            .unwrap_or(MemberRole::Participant);
        // A directory is where the file is: both can be copied or moved together.
        let base = self.source.file.parent().unwrap_or(Path::new(""));
        let path = |value: &DeValue<'_>| path(value).map(|path| base.join(path));
        let data_dir = self.required("data_dir", "a directory", path)?;
        let data_log_dir = self.optional("data_log_dir", "a directory", path)?;
        let http = self.optional("http", "\"host:port\"", address)?;
        let metrics = self.optional("metrics", "\"host:port\"", address)?;
        let mut member = Member::alone(client.clone());
        member.role = role;
        if let Some(peer) = &peer {
            member.peer = peer.clone();
            member.election_port = self.election_port(peer.port)?;
        }
        let server = ServerSection {
            id,
            line: self.line,
            peer,
            client,
            client_is_secure,
            secure_client,
            data_dir,
            data_log_dir,
            http,
            metrics,
        };
        Ok((server, member))
    }

    fn check_keys(&self) -> Result<(), ConfigError> {
        let Some(key) =
            self.table.keys().find(|key| !SERVER_KEYS.contains(&key.get_ref().as_ref()))
        else {
            return Ok(());
        };
        let name = key.get_ref();
        let hint = did_you_mean(name, SERVER_KEYS.into_iter());
        let known = SERVER_KEYS.join(", ");
        let why = format!("unknown key `{name}` in [[server]]{hint}; known are {known}");
        Err(self.source.error(self.source.line_of(key.span().start), why))
    }

    /// The given one, or the peer port's customary neighbor.
    fn election_port(&self, peer_port: u16) -> Result<u16, ConfigError> {
        let given = self.optional("election_port", "a port, 1 to 65535", |value| {
            value.as_integer()?.as_str().parse::<u16>().ok().filter(|port| *port > 0)
        })?;
        match given {
            Some(port) if port == peer_port => {
                Err(self.source.error(self.line, format!("peer and election_port are both {port}")))
            }
            Some(port) => Ok(port),
            None => Ok(neighbor(peer_port)),
        }
    }

    fn required<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl Fn(&DeValue<'_>) -> Option<T>,
    ) -> Result<T, ConfigError> {
        self.optional(key, expected, read)?.ok_or_else(|| {
            self.source.error(self.line, format!("[[server]] without {key}: expected {expected}"))
        })
    }

    fn optional<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl Fn(&DeValue<'_>) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.table.get(key) else {
            return Ok(None);
        };
        let line = self.source.line_of(value.span().start);
        match read(value.get_ref()) {
            Some(read) => Ok(Some(read)),
            None => Err(self.source.error(line, format!("{key}: expected {expected}"))),
        }
    }
}

/// The election port that goes with a peer port by custom: 2888 has 3888.
pub(super) fn neighbor(peer_port: u16) -> u16 {
    peer_port.checked_add(1000).unwrap_or(peer_port.saturating_sub(1000))
}

fn address(value: &DeValue<'_>) -> Option<HostPort> {
    value.as_str()?.parse().ok()
}

fn path(value: &DeValue<'_>) -> Option<PathBuf> {
    value.as_str().filter(|text| !text.is_empty()).map(PathBuf::from)
}

/// What the servers of one file must not have in common, and must all have.
fn check_servers(source: &Source, servers: &[ServerSection]) -> Result<(), ConfigError> {
    if servers.len() < 2 {
        return Ok(());
    }
    for (at, server) in servers.iter().enumerate() {
        if server.peer.is_none() {
            let why = format!("server {} has no peer: expected \"host:port\"", server.id);
            return Err(source.error(server.line, why));
        }
        for earlier in servers.iter().take(at) {
            let same_host = |a: &Option<HostPort>, b: &Option<HostPort>| {
                a.as_ref().map(|a| &a.host) == b.as_ref().map(|b| &b.host)
            };
            if !same_host(&server.peer, &earlier.peer) {
                continue;
            }
            if server.data_dir == earlier.data_dir {
                let why = format!(
                    "servers {} and {} have the same host and data_dir {}",
                    earlier.id,
                    server.id,
                    server.data_dir.display()
                );
                return Err(source.error(server.line, why));
            }
            if server.client == earlier.client {
                let why = format!(
                    "servers {} and {} have the same host and client address {}",
                    earlier.id, server.id, server.client
                );
                return Err(source.error(server.line, why));
            }
        }
    }
    Ok(())
}
