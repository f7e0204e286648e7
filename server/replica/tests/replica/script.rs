//! The language of the scripts.

use std::collections::BTreeMap;
use std::fmt::Write;

use bytes::Bytes;
use zoolet_jute::{ConnectRequest, ConnectResponse, MultiResult, Reply, SessionId, Xid, Zxid};
use zoolet_replica::{Command, ConnectionId, Input, Op, Options, Output, ReplyTo};

use crate::parse::{index, outcome, parse_request, parse_role};
use crate::world::{World, handshake};

/// Runs a file of cases; answers it with the outputs that really came.
pub(crate) fn run(text: &str) -> String {
    let mut script = Script::new(1, &[]);
    let mut actual = String::new();
    for line in text.lines() {
        if line.starts_with("  ") {
            continue;
        }
        writeln!(actual, "{line}").unwrap();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[0] == "servers" {
            script = Script::new(words[1].parse().unwrap(), &words[2..]);
            continue;
        }
        for output in script.line(&words) {
            writeln!(actual, "  {output}").unwrap();
        }
    }
    actual
}

struct Script {
    world: World,
    clients: BTreeMap<String, Client>,
    manual: bool,
    lost: Vec<(usize, Vec<Command>)>,
}

struct Client {
    connection: ConnectionId,
    next_xid: i32,
    finish_handshake: Option<ConnectResponse>,
}

impl Script {
    fn new(servers: u8, words: &[&str]) -> Self {
        let adapt = |options: &mut Options| {
            for word in words {
                adapt(options, word);
            }
        };
        Self {
            world: World::new(servers, adapt),
            clients: BTreeMap::new(),
            manual: false,
            lost: Vec::new(),
        }
    }

    fn line(&mut self, words: &[&str]) -> Vec<String> {
        let mut lines = Vec::new();
        match words {
            ["manual"] => self.manual = true,
            ["auto"] => self.manual = false,
            ["commit"] => self.world.commit(),
            ["append", server] => self.world.append(index(server), usize::MAX),
            ["append", server, count] => self.world.append(index(server), count.parse().unwrap()),
            ["apply", server] => self.world.apply(index(server)),
            ["again"] => {
                let entry = self.world.log.last().unwrap().clone();
                self.world.log.push(entry);
            }
            ["lose", server] => {
                let lost = self.world.lose(index(server));
                self.lost.push((index(server), lost));
            }
            ["late"] => {
                let (server, commands) = self.lost.pop().unwrap();
                self.world.append_late(server, commands);
            }
            ["synced", server] => self.world.synced(index(server)),
            ["synclost", server] => {
                let through = self.world.servers[index(server)].synced;
                self.world.step(index(server), Input::SyncLost { through });
            }
            ["pass", ms] => self.world.pass(ms.parse().unwrap()),
            ["term", term] => self.world.term = term.parse().unwrap(),
            ["jump", ms] => self.world.now_ms += ms.parse::<u64>().unwrap(),
            ["tick"] => self.world.tick(),
            ["deliver_touches", server] => self.world.deliver_touches(index(server)),
            ["cut", server] => self.world.cut = Some(index(server)),
            ["heal"] => self.world.cut = None,
            ["role", server, role] => {
                self.world.take_role(index(server), parse_role(role));
            }
            ["lease", server, ms] => {
                let until_ms = self.world.now_ms + ms.parse::<u64>().unwrap();
                self.world.lease(index(server), until_ms);
            }
            ["removed" | "reconfigured" | "reconfiglost" | "members", server, ..] => {
                self.world.step(index(server), of_ensemble(words));
            }
            ["install", server, from] => self.world.install(index(server), index(from)),
            ["proposed", server] => {
                let proposed = &self.world.servers[index(server)].proposed;
                lines.extend(proposed.iter().map(|command| self.render_command(command)));
            }
            ["touched", server] => {
                let touched = &self.world.servers[index(server)].touched;
                lines.extend(touched.iter().map(|session| self.name_of_session(*session)));
            }
            ["report", server] => lines.extend(self.report(index(server))),
            [name, "connect", rest @ ..] => self.connect(name, rest),
            [name, "disconnect"] => {
                let connection = self.clients[*name].connection;
                self.world.disconnect(connection);
            }
            [name, request @ ..] => self.request(name, request),
            [] => {}
        }
        if !self.manual {
            self.world.commit();
            for server in 0..self.world.servers.len() {
                self.world.synced(server);
                self.world.deliver_touches(server);
            }
            self.world.commit();
        }
        lines.extend(std::mem::take(&mut self.world.out).into_iter().map(|out| self.render(out)));
        lines
    }

    /// `at SERVER`, `of OTHER` (resumes its session), `seen COUNTER`, `timeout MS`, `password BAD`,
    /// `old` (a client without the readOnly byte), `ro` (one that can live with old data).
    fn connect(&mut self, name: &str, mut words: &[&str]) {
        let mut request: ConnectRequest = handshake(4000);
        let mut server = 0;
        while let Some((key, rest)) = words.split_first() {
            words = rest;
            if *key == "ro" {
                request.read_only = Some(true);
                continue;
            }
            if *key == "old" {
                request.read_only = None;
                continue;
            }
            let (value, rest) = words.split_first().unwrap();
            words = rest;
            match *key {
                "at" => server = index(value),
                "timeout" => request.timeout_ms = value.parse().unwrap(),
                "seen" => request.last_zxid_seen = Zxid::new(1, value.parse().unwrap()),
                "password" => request.password = Some(Bytes::copy_from_slice(value.as_bytes())),
                "of" => {
                    let finish_handshake = self.clients[*value].finish_handshake.as_ref().unwrap();
                    request.session_id = finish_handshake.session_id;
                    request.password.clone_from(&finish_handshake.password);
                }
                key => panic!("connect {key}"),
            }
        }
        let client = Client { connection: ConnectionId(0), next_xid: 1, finish_handshake: None };
        self.clients.insert(name.to_owned(), client);
        let connection = self.world.connect(server, request);
        self.clients.get_mut(name).unwrap().connection = connection;
    }

    fn request(&mut self, name: &str, words: &[&str]) {
        let client = self.clients.get_mut(name).expect(name);
        let xid = Xid(client.next_xid);
        client.next_xid += 1;
        let connection = client.connection;
        self.world.request(connection, xid, parse_request(words));
    }

    fn render(&mut self, output: Output) -> String {
        match output {
            Output::Accept { connection, response } => {
                let name = self.name(connection);
                let byte = response.read_only.map_or("", |is_ro| if is_ro { " ro" } else { " rw" });
                let text = match response.timeout_ms {
                    0 => format!("{name} expired{byte}"),
                    timeout_ms => format!("{name} welcome {timeout_ms} ms{byte}"),
                };
                self.clients.get_mut(&name).unwrap().finish_handshake = Some(response);
                text
            }
            Output::Reply { to: ReplyTo { connection, xid, .. }, zxid, result } => {
                let result = match result {
                    Ok(reply) => render_reply(&reply),
                    Err(code) => code.name().to_owned(),
                };
                format!("{} {xid}: {result} {}", self.name(connection), render_zxid(zxid))
            }
            Output::Notify { connection, zxid, event } => {
                let name = self.name(connection);
                format!("{name} ! {:?} {} {}", event.event_type, event.path, render_zxid(zxid))
            }
            Output::Close { connection } => format!("{} closed", self.name(connection)),
            Output::Reconfig { number, request, identities } => {
                let joining = request.joining_servers.unwrap_or_default();
                let schemes: Vec<_> =
                    identities.iter().filter_map(|id| id.scheme.clone()).collect();
                format!("reconfig {number}: {joining:?} by {schemes:?}")
            }
            Output::Fail { why } => format!("fails: {why}"),
            Output::QuotaExceeded(exceeded) => format!("{exceeded:?}"),
            Output::Audit(event) => format!("{event:?}"),
            Output::Propose(_)
            | Output::Sync { .. }
            | Output::Touch { .. }
            | Output::AwaitRoom { .. }
            | Output::ReplyLong { .. } => {
                panic!("the world keeps these, and scripts have no long lists")
            }
        }
    }

    fn render_command(&self, command: &Command) -> String {
        let session = self.name_of_session(command.session);
        let op = match &command.op {
            Op::CreateSession { timeout_ms } => format!("create session {timeout_ms}"),
            Op::ResumeSession { timeout_ms } => format!("resume session {timeout_ms}"),
            Op::CloseSession => "close session".to_owned(),
            Op::ExpireSession { generation, .. } => {
                format!("expire session, generation {generation}")
            }
            Op::DeleteContainer { path } => format!("delete container {path}"),
            Op::SetConfig { text, .. } => format!("set config {text:?}"),
            Op::SetLevel { level, .. } => format!("set level {level}"),
            Op::Write(request) => format!("{}", request.op_code()),
            Op::WriteX509(request) => format!("{} of level 2", request.op_code()),
            Op::WriteSasl(request) => format!("{} of level 3", request.op_code()),
            #[cfg(feature = "made_up")]
            Op::MadeUp(_) => "made up".to_owned(),
        };
        let identities: Vec<String> = command
            .identities
            .iter()
            .map(|id| format!("{}:{}", id.scheme.as_deref().unwrap(), id.id.as_deref().unwrap()))
            .collect();
        format!("{}. {session} {op} [{}]", command.number, identities.join(" "))
    }

    fn report(&self, server: usize) -> Vec<String> {
        let replica = &self.world.servers[server].replica;
        let watched = replica.watched_paths(None, usize::MAX).paths;
        let mut by_session: BTreeMap<SessionId, Vec<&String>> = BTreeMap::new();
        for (path, sessions) in &watched {
            for session in sessions {
                by_session.entry(*session).or_default().push(path);
            }
        }
        let watches: usize = by_session.values().map(Vec::len).sum();
        let summary = format!(
            "WatchSummary {{ connections: {}, paths: {}, watches: {watches} }}",
            by_session.len(),
            watched.len()
        );
        let mut lines = vec![format!(
            "{:?}, serving {}, in flight {}, watch count {}, {summary}",
            replica.role(),
            replica.serving(),
            replica.in_flight(),
            replica.watch_count(),
        )];
        for known in replica.connections() {
            let session = known.session.map_or("-".to_owned(), |id| self.name_of_session(id));
            let name = self.name(known.connection);
            lines.push(format!(
                "connection {name} session {session} {} ms queued {}",
                known.timeout_ms, known.queued
            ));
        }
        let mut sessions: Vec<_> =
            (0..).map_while(|part| replica.sessions(part)).flatten().collect();
        sessions.sort_unstable_by_key(|known| known.session);
        for known in sessions {
            let session = self.name_of_session(known.session);
            lines.push(format!("session {session} {} ms {:?}", known.timeout_ms, known.expires_ms));
        }
        for (session, paths) in replica.ephemerals(None, usize::MAX) {
            let paths: Vec<_> = paths.iter().collect();
            lines.push(format!("ephemerals {} {paths:?}", self.name_of_session(session)));
        }
        for (session, paths) in by_session {
            lines.push(format!("watches {} {paths:?}", self.name_of_session(session)));
        }
        for (path, sessions) in &watched {
            let names: Vec<_> = sessions.iter().map(|id| self.name_of_session(*id)).collect();
            lines.push(format!("watched {path} {names:?}"));
        }
        lines
    }

    fn name(&self, connection: ConnectionId) -> String {
        let known = self.clients.iter().find(|(_, client)| client.connection == connection);
        known.map(|(name, _)| name.clone()).expect("every connection has a name")
    }

    /// The first client that had it.
    fn name_of_session(&self, session: SessionId) -> String {
        let had = |client: &Client| {
            client
                .finish_handshake
                .as_ref()
                .is_some_and(|finish_handshake| finish_handshake.session_id == session)
        };
        let known = self.clients.iter().find(|(_, client)| had(client));
        known.map_or("-".to_owned(), |(name, _)| name.clone())
    }
}

/// What the log tells a server of its ensemble.
fn of_ensemble(words: &[&str]) -> Input {
    match words {
        ["removed", _] => Input::Removed,
        ["reconfigured", _, number, result] => Input::Reconfigured {
            number: number.parse().unwrap(),
            result: outcome(result).map(|()| None),
        },
        ["reconfiglost", _, number] => Input::ReconfigLost { number: number.parse().unwrap() },
        ["members", _, write, text] => {
            Input::Members { text: (*text).to_owned(), write: *write == "write" }
        }
        _ => panic!("{words:?}"),
    }
}

fn adapt(options: &mut Options, word: &str) {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    match key {
        "read_only" => options.read_only_mode = true,
        "skip_acl" => options.policy.skip_acl = true,
        "super" => options.super_digest = Some(value.to_owned()),
        "identities" => options.identities_per_connection_max = value.parse().unwrap(),
        "watches" => options.watches_max = value.parse().unwrap(),
        "address_watches" => options.watches_per_address_max = value.parse().unwrap(),
        "address_sessions" => options.sessions_per_address_max = value.parse().unwrap(),
        "connection_watches" => options.watches_per_connection_max = value.parse().unwrap(),
        "sessions" => options.sessions_max = value.parse().unwrap(),
        "config" => options.config_text = Some(value.to_owned()),
        "reap" => options.containers_per_minute_max = value.parse().unwrap(),
        key => panic!("option {key}"),
    }
}

fn render_reply(reply: &Reply) -> String {
    match reply {
        Reply::Empty => "ok".to_owned(),
        Reply::Path(path) => path.clone(),
        Reply::Sync(path) => format!("synced {}", path.as_deref().unwrap_or("null")),
        Reply::PathStat(path, _) => format!("{path} with stat"),
        Reply::Stat(stat) => format!("stat version {}", stat.version),
        Reply::Data(data, stat) => {
            let text = data.as_deref().map(String::from_utf8_lossy);
            format!("data {text:?} version {}", stat.version)
        }
        Reply::Children(children) | Reply::ChildrenStat(children, _) => {
            let mut children = children.clone();
            children.sort();
            format!("{children:?}")
        }
        Reply::Count(count) => format!("count {count}"),
        Reply::AddWatch(err) => format!("watching {err}"),
        Reply::WhoAmI(all) => {
            let all: Vec<_> =
                all.iter().map(|info| format!("{}:{}", info.auth_scheme, info.user)).collect();
            format!("{all:?}")
        }
        Reply::Sasl(token) => format!("token {token:?}"),
        Reply::Multi(results) => {
            let results: Vec<_> = results.0.iter().map(render_result).collect();
            format!("{results:?}")
        }
        reply => format!("{reply:?}"),
    }
}

fn render_result(result: &MultiResult) -> String {
    let text = format!("{result:?}");
    text.split(['(', ' ', '{']).next().unwrap().to_owned()
}

fn render_zxid(zxid: Zxid) -> String {
    match zxid {
        Zxid(0) => "@0".to_owned(),
        Zxid::NONE => "@none".to_owned(),
        zxid => format!("@{}", zxid.counter()),
    }
}
