//! A configuration while it is being read: what both formats have in common.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use zoolet_replica::ServerId;

use super::address::HostPort;
use super::error::{ConfigError, Warning};
use super::member::{Member, MemberRole, SERVER_ID_MAX};
use super::model::ServerConfig;
use super::sasl::SaslConfig;
use super::setting::{Setting, Value};
use super::tls::TlsConfig;

/// What a reader hands back.
pub(super) type Loaded = (ServerConfig, Vec<Warning>);

const PEER_FRAME: &str = "limits.peer_frame_bytes_max";
const REQUEST_BYTES: &str = "limits.request_bytes_max";
const OUTBOX: &str = "limits.outbox_bytes_max";

/// The identities that one command carries at most.
const IDENTITIES_BYTES: usize = 64 * 1024;

/// A string that is not UTF-8 grows when it is read: each of its bytes becomes a U+FFFD.
const STRING_GROWTH: usize = 3;

/// Room for what stands around a client's data, in a log entry or in a reply.
const HEADER_BYTES: usize = 4096;

/// The server whose sessions' ids look like times to live.
const TTL_MARK: ServerId = ServerId(SERVER_ID_MAX + 1);

/// A line of a file, to report something at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct At {
    pub(super) file: PathBuf,
    pub(super) line: usize,
}

impl At {
    pub(super) fn new(file: &Path, line: usize) -> Self {
        Self { file: file.to_path_buf(), line }
    }

    pub(super) fn error(&self, why: impl Into<String>) -> ConfigError {
        ConfigError::new(&self.file, self.line, why)
    }
}

/// The configuration so far, and where its parts came from.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) config: ServerConfig,
    pub(super) warnings: Vec<Warning>,
    /// The main file; errors without a line of their own name it.
    file: PathBuf,
    /// Where each setting was set, by its `section.key`.
    settings: BTreeMap<String, usize>,
    /// Where each member was listed.
    members: BTreeMap<ServerId, At>,
}

impl Draft {
    pub(super) fn new(file: &Path) -> Self {
        Self {
            config: ServerConfig::default(),
            warnings: Vec::new(),
            file: file.to_path_buf(),
            settings: BTreeMap::new(),
            members: BTreeMap::new(),
        }
    }

    pub(super) fn error(&self, line: usize, why: impl Into<String>) -> ConfigError {
        ConfigError::new(&self.file, line, why)
    }

    pub(super) fn warn(&mut self, at: &At, key: &str, why: impl Into<String>) {
        let At { file, line } = at.clone();
        self.warnings.push(Warning { file, line, key: key.to_owned(), why: why.into() });
    }

    /// Sets one setting; `key` is its name as this file spells it.
    pub(super) fn set(
        &mut self,
        setting: &Setting,
        key: &str,
        value: &Value,
        line: usize,
    ) -> Result<(), ConfigError> {
        setting
            .set(&mut self.config, value)
            .map_err(|why| self.error(line, format!("{key} = {why}")))?;
        self.settings.insert(setting.name(), line);
        self.resolve_files();
        Ok(())
    }

    /// A relative path starts at the directory of the file that it is in.
    fn resolve_files(&mut self) {
        let directory = self.file.parent().unwrap_or(Path::new(""));
        for file in self.config.files_mut().filter(|file| file.is_relative()) {
            let joined = directory.join(&*file);
            *file = std::path::absolute(&joined).unwrap_or(joined);
        }
    }

    /// Adds a member. The first one takes the place of the default configuration's.
    pub(super) fn add_member(
        &mut self,
        id: ServerId,
        member: Member,
        at: At,
    ) -> Result<(), ConfigError> {
        if let Some(earlier) = self.members.get(&id) {
            return Err(at.error(format!("server {id} is already in line {}", earlier.line)));
        }
        if self.members.is_empty() {
            self.config.members.clear();
        }
        self.members.insert(id, at);
        self.config.members.insert(id, member);
        Ok(())
    }

    pub(super) fn has_members(&self) -> bool {
        !self.members.is_empty()
    }

    /// The line of the first of these settings that the file has.
    fn line_of(&self, names: &[&str]) -> usize {
        names.iter().find_map(|name| self.settings.get(*name)).copied().unwrap_or(0)
    }

    /// Fills in what follows from other settings, and checks what only the whole can show.
    pub(super) fn finish(mut self) -> Result<Loaded, ConfigError> {
        self.finish_session()?;
        self.finish_room();
        self.check_elections()?;
        self.check_room()?;
        self.check_members()?;
        self.check_this_server()?;
        self.check_tls()?;
        if let Some((setting, why)) = SaslConfig::missing(&self.config) {
            return Err(self.error(self.line_of(&[setting]), format!("{setting}: {why}")));
        }
        self.warn_of_even_voters();
        Ok((self.config, self.warnings))
    }

    /// The clamp of protocol section 7.3 follows the tick unless it is set.
    fn finish_session(&mut self) -> Result<(), ConfigError> {
        let (min, max) = ("session.timeout_ms_min", "session.timeout_ms_max");
        let tick_time_ms = self.config.ensemble.tick_time_ms;
        let session = &mut self.config.session;
        if !self.settings.contains_key(min) {
            session.timeout_ms_min = tick_time_ms.saturating_mul(2);
        }
        if !self.settings.contains_key(max) {
            session.timeout_ms_max = tick_time_ms.saturating_mul(20);
        }
        let (shortest, longest) = (session.timeout_ms_min, session.timeout_ms_max);
        if shortest > longest {
            let why = format!(
                "the shortest session timeout, {shortest} ms, is longer than the longest, \
                 {longest} ms"
            );
            return Err(self.error(self.line_of(&[min, max]), why));
        }
        Ok(())
    }

    /// Limits that must have room for one another grow together, unless they are set.
    fn finish_room(&mut self) {
        let room = self.entry_room();
        let limits = &mut self.config.limits;
        if !self.settings.contains_key(PEER_FRAME) {
            limits.peer_frame_bytes_max = limits.peer_frame_bytes_max.max(room);
        }
        if !self.settings.contains_key(REQUEST_BYTES) {
            limits.request_bytes_max = limits.request_bytes_max.max(limits.frame_bytes_max);
        }
        if !self.settings.contains_key(OUTBOX) {
            let reply = limits.frame_bytes_max.saturating_add(HEADER_BYTES);
            limits.outbox_bytes_max = limits.outbox_bytes_max.max(reply);
        }
    }

    /// One log entry can hold a full batch, or one command of a client's longest frame, with the
    /// identities of the client.
    fn entry_room(&self) -> usize {
        let command = self.config.limits.frame_bytes_max.saturating_mul(STRING_GROWTH);
        let longest = command.max(self.config.log.entry_bytes_max);
        longest.saturating_add(HEADER_BYTES + IDENTITIES_BYTES)
    }

    fn check_elections(&self) -> Result<(), ConfigError> {
        let (min, max) = ("ensemble.election_timeout_ms_min", "ensemble.election_timeout_ms_max");
        let ensemble = &self.config.ensemble;
        let (heartbeat, shortest, longest) = (
            ensemble.heartbeat_ms,
            ensemble.election_timeout_ms_min,
            ensemble.election_timeout_ms_max,
        );
        if shortest <= heartbeat {
            let why = format!(
                "election_timeout_ms_min = {shortest}: expected more than heartbeat_ms = {heartbeat}"
            );
            return Err(self.error(self.line_of(&[min, "ensemble.heartbeat_ms"]), why));
        }
        if longest <= shortest {
            let why = format!(
                "election_timeout_ms_max = {longest}: expected more than \
                 election_timeout_ms_min = {shortest}"
            );
            return Err(self.error(self.line_of(&[max, min]), why));
        }
        Ok(())
    }

    fn check_room(&self) -> Result<(), ConfigError> {
        let (limits, room) = (&self.config.limits, self.entry_room());
        if limits.peer_frame_bytes_max < room {
            let why = format!(
                "peer_frame_bytes_max = {}: expected at least {room}, so that the longest log \
                 entry fits, with frame_bytes_max = {} and entry_bytes_max = {}",
                limits.peer_frame_bytes_max,
                limits.frame_bytes_max,
                self.config.log.entry_bytes_max
            );
            return Err(self.error(self.line_of(&[PEER_FRAME]), why));
        }
        if limits.request_bytes_max < limits.frame_bytes_max {
            let why = format!(
                "request_bytes_max = {}: expected at least frame_bytes_max = {}",
                limits.request_bytes_max, limits.frame_bytes_max
            );
            return Err(self.error(self.line_of(&[REQUEST_BYTES]), why));
        }
        Ok(())
    }

    fn check_members(&self) -> Result<(), ConfigError> {
        let members = &self.config.members;
        if !members.values().any(|member| member.role == MemberRole::Participant) {
            let why = "every server is an observer: at least one participant is needed";
            let first = members.keys().next().copied().unwrap_or(self.config.server_id);
            return Err(self.member_error(first, why));
        }
        if members.len() < 2 {
            return Ok(());
        }
        let mut seen = BTreeMap::new();
        for (id, member) in members {
            if member.peer.is_wildcard() {
                continue;
            }
            if let Some(other) = seen.insert((&member.peer.host, member.peer.port), id) {
                let why = format!("servers {other} and {id} have the same address {}", member.peer);
                return Err(self.member_error(*id, why));
            }
        }
        Ok(())
    }

    fn check_this_server(&self) -> Result<(), ConfigError> {
        let config = &self.config;
        let id = config.server_id;
        if config.member().is_none() {
            let known: Vec<String> = config.members.keys().map(ToString::to_string).collect();
            let why = format!(
                "this server's id is {id}, and the file lists only server {}",
                known.join(", ")
            );
            return Err(self.error(0, why));
        }
        if config.znodes.ttl_enabled && config.members.contains_key(&TTL_MARK) {
            let why = "server 255 and times to live exclude each other: the ids of its sessions \
                       mark znodes with one";
            return Err(self.member_error(TTL_MARK, why));
        }
        for (other, member) in &config.members {
            if *other != id && member.peer.is_wildcard() {
                let why = format!(
                    "server {other} is at {}: that is every address of its own machine, and \
                     server {id} cannot reach it there",
                    member.peer
                );
                return Err(self.member_error(*other, why));
            }
        }
        self.check_ports()
    }

    /// Whether no port is used twice; `check_tls` compares the two of clients.
    fn check_ports(&self) -> Result<(), ConfigError> {
        let config = &self.config;
        let overlap = |a: &HostPort, b: &HostPort| {
            a.port == b.port && (a.host == b.host || a.is_wildcard() || b.is_wildcard())
        };
        let mut taken = vec![("clients", &config.client_bind)];
        taken.extend(config.secure_client_bind.iter().map(|bind| ("clients with TLS", bind)));
        // The system may choose the ports of HTTP.
        let chosen = |bind: &&HostPort| bind.port != 0;
        let others = [
            ("servers", config.peer_bind.as_ref()),
            ("HTTP", config.http_bind.as_ref().filter(chosen)),
            ("metrics", config.metrics_bind.as_ref().filter(chosen)),
        ];
        for (what, bind) in others {
            let Some(bind) = bind else { continue };
            if let Some((other, _)) = taken.iter().find(|(_, taken)| overlap(bind, taken)) {
                let why = format!("{other} and {what} cannot both use port {}", bind.port);
                return Err(self.member_error(config.server_id, why));
            }
            taken.push((what, bind));
        }
        Ok(())
    }

    fn check_tls(&self) -> Result<(), ConfigError> {
        let config = &self.config;
        if let Some(secure) = &config.secure_client_bind
            && secure.port == config.client_bind.port
        {
            let why = format!("clients with and without TLS cannot both use port {}", secure.port);
            return Err(self.error(0, why));
        }
        match TlsConfig::missing(config) {
            Some((key, why)) => {
                let on: &[&str] = match key {
                    key if key.starts_with("peer") => &["tls.peer_enabled"],
                    key if key.starts_with("http") => {
                        &["tls.http_auth", "tls.http_enabled", "tls.http_port_unification"]
                    }
                    _ => &["tls.client_auth"],
                };
                Err(self.error(self.line_of(on), why))
            }
            None => Ok(()),
        }
    }

    fn member_error(&self, id: ServerId, why: impl Into<String>) -> ConfigError {
        match self.members.get(&id) {
            Some(at) => at.error(why),
            None => self.error(0, why),
        }
    }

    fn warn_of_even_voters(&mut self) {
        let voters =
            self.config.members.values().filter(|m| m.role == MemberRole::Participant).count();
        if voters == 0 || !voters.is_multiple_of(2) {
            return;
        }
        let fewer = voters - 1;
        let survives = fewer / 2;
        let losses = if survives == 1 { "loss" } else { "losses" };
        let why = format!(
            "{voters} voters survive {survives} {losses}, as {fewer} would: a majority of {voters} \
             is {}, so the last server adds no safety, only one more that can fail",
            voters / 2 + 1
        );
        let at = self.members.values().next().cloned().unwrap_or(At::new(&self.file, 0));
        self.warn(&at, "server", why);
    }
}
