//! Three configured servers, each with an HTTP port, that an operator starts and stops.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output};
use std::time::Duration;

use zoolet_client::{Client, ClientOptions};
use zoolet_tests::ports::PortLease;
use zoolet_tests::process::ServerProcess;
use zoolet_tests::servers::SUPER_DIGEST;
use zoolet_tests::{four_letter, http, wait, zoolet, zooletctl};

/// How long something may take that happens by itself, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) const SUPER: &str = "digest:super:test";

/// What clients see of a znode: data, ACL and Stat.
pub(crate) type Seen = (Vec<u8>, String, String);

pub(crate) struct Ensemble {
    directory: tempfile::TempDir,
    lease: PortLease,
    running: BTreeMap<usize, ServerProcess>,
    /// Variables in the environment of each server that is started.
    environment: Vec<(&'static str, OsString)>,
}

impl Ensemble {
    /// The servers are numbered from 1. None runs yet.
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// The same, with further tables of `cluster.toml`.
    pub(crate) fn with(tables: &str) -> Self {
        let (directory, lease) = (tempfile::tempdir().unwrap(), PortLease::take(9).unwrap());
        let (running, environment) = (BTreeMap::new(), Vec::new());
        let ensemble = Self { directory, lease, running, environment };
        let server = |(at, ports): (usize, &[u16])| {
            format!(
                "[[server]]\nid = {}\nclient = \"127.0.0.1:{}\"\npeer = \"127.0.0.1:{}\"\n\
                 http = \"127.0.0.1:{}\"\ndata_dir = \"{}\"\n",
                at + 1,
                ports[0],
                ports[1],
                ports[2],
                ensemble.data(at + 1).display()
            )
        };
        let servers: String = ensemble.lease.ports().chunks(3).enumerate().map(server).collect();
        let text = format!(
            "{servers}[four_letter]\nwords = [\"*\"]\n[auth]\nsuper_digest = \"{SUPER_DIGEST}\"\n\
             [http]\nsnapshot_interval_ms = 0\n{tables}"
        );
        for id in 1..=3 {
            fs::create_dir(ensemble.disk(id)).unwrap();
            fs::write(ensemble.config(id), &text).unwrap();
        }
        ensemble
    }

    /// Sets a variable in the environment of the servers that are started from now on.
    pub(crate) fn set_variable(&mut self, name: &'static str, value: OsString) {
        self.environment.push((name, value));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Each server has a `cluster.toml` of its own, as on machines of their own.
    pub(crate) fn config(&self, id: usize) -> PathBuf {
        self.path(&format!("cluster-{id}.toml"))
    }

    /// Replaces a text in the `cluster.toml` of a server.
    pub(crate) fn edit(&self, id: usize, old: &str, new: &str) {
        let text = fs::read_to_string(self.config(id)).unwrap();
        assert!(text.contains(old), "no {old:?} in {text}");
        fs::write(self.config(id), text.replace(old, new)).unwrap();
    }

    /// Where the disk of a server is, or can be mounted.
    pub(crate) fn disk(&self, id: usize) -> PathBuf {
        self.path(&format!("disk-{id}"))
    }

    pub(crate) fn data(&self, id: usize) -> PathBuf {
        self.disk(id).join("data")
    }

    fn address(&self, id: usize, which: usize) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.lease.ports()[(id - 1) * 3 + which]))
    }

    pub(crate) fn http(&self, id: usize) -> SocketAddr {
        self.address(id, 2)
    }

    pub(crate) fn client(&self, id: usize) -> SocketAddr {
        self.address(id, 0)
    }

    /// The connect string of some servers.
    pub(crate) fn connect_string(&self, ids: &[usize]) -> String {
        let addresses: Vec<String> = ids.iter().map(|&id| self.client(id).to_string()).collect();
        addresses.join(",")
    }

    pub(crate) fn start(&mut self, id: usize, more: &[&str]) {
        let file = File::options().create(true).append(true).open(self.log(id)).unwrap();
        let mut command = Command::new(zoolet::binary().unwrap());
        command.arg("serve").arg("--config").arg(self.config(id));
        command.args(["--id", &id.to_string()]).args(more);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        // For what a server looks up beside its configuration.
        command.current_dir(self.disk(id));
        command.stdout(file.try_clone().unwrap()).stderr(file);
        self.running.insert(id, ServerProcess::spawn(&mut command).unwrap());
    }

    pub(crate) fn kill(&mut self, id: usize) {
        self.running.remove(&id).unwrap().kill().unwrap();
    }

    /// Stops a server as a service manager does. It ends well.
    pub(crate) fn stop(&mut self, id: usize) {
        self.running[&id].signal("TERM").unwrap();
        let ended = self.until_ended(id);
        assert!(ended.success(), "server {id}: {ended}: {}", self.output(id));
    }

    /// The exit status of a server that has ended by itself.
    pub(crate) fn ended(&mut self, id: usize) -> Option<ExitStatus> {
        let ended = self.running.get_mut(&id).unwrap().exited().unwrap();
        if ended.is_some() {
            self.running.remove(&id);
        }
        ended
    }

    /// Waits until a server has ended by itself.
    pub(crate) fn until_ended(&mut self, id: usize) -> ExitStatus {
        let ended = wait::until(PATIENCE, || self.ended(id));
        ended.unwrap_or_else(|| panic!("server {id} goes on: {}", self.output(id)))
    }

    /// What the disk of a server loses.
    pub(crate) fn empty(&self, id: usize) {
        fs::remove_dir_all(self.data(id)).unwrap();
    }

    fn log(&self, id: usize) -> PathBuf {
        self.path(&format!("log-{id}"))
    }

    pub(crate) fn output(&self, id: usize) -> String {
        fs::read_to_string(self.log(id)).unwrap()
    }

    /// Waits until a server has logged this text.
    pub(crate) fn until_logged(&self, id: usize, text: &str) {
        let is_there = || self.output(id).contains(text).then_some(());
        let found = wait::until(PATIENCE, is_there);
        assert!(found.is_some(), "server {id} does not log {text:?}: {}", self.output(id));
    }

    /// The status that the HTTP port of a server gives for a path, and the body.
    pub(crate) fn ask(&self, id: usize, path: &str) -> (u16, String) {
        let answer = http::get(self.http(id), path).unwrap();
        (answer.status, answer.body)
    }

    /// A metric of a server that is a whole number.
    pub(crate) fn metric(&self, id: usize, name: &str) -> u64 {
        let (_, metrics) = self.ask(id, "/metrics");
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
    }

    /// The log index of the newest snapshot of a server; zero without one.
    pub(crate) fn snapshot_index(&self, id: usize) -> u64 {
        self.metric(id, "zoolet_raft_snapshot_index")
    }

    /// The leader, as soon as a server says that it leads.
    pub(crate) fn leader(&self) -> usize {
        let leads = |id: &usize| four_letter::mode(self.client(*id)).as_deref() == Some("leader");
        wait::until(PATIENCE, || (1..=3).find(leads)).expect("no server leads")
    }

    pub(crate) fn serves(&self, id: usize) -> bool {
        four_letter::mode(self.client(id)).is_some()
    }

    pub(crate) fn until_serving(&self, ids: &[usize]) {
        for &id in ids {
            let serves = wait::until(PATIENCE, || self.serves(id).then_some(()));
            assert!(serves.is_some(), "server {id}: {}", self.output(id));
        }
    }

    /// Starts all, and waits until they serve.
    pub(crate) fn started() -> Self {
        let mut ensemble = Self::new();
        ensemble.start_all();
        ensemble
    }

    /// Starts all servers, and waits until they serve.
    pub(crate) fn start_all(&mut self) {
        for id in 1..=3 {
            self.start(id, &[]);
        }
        self.until_serving(&[1, 2, 3]);
    }

    /// `zoolet VERB … --config … --id ID`.
    pub(crate) fn zoolet(&self, words: &[&str], id: usize) -> Output {
        let mut command = Command::new(zoolet::binary().unwrap());
        command.args(words).arg("--config").arg(self.config(id));
        command.args(["--id", &id.to_string()]).output().unwrap()
    }

    /// `zooletctl --servers … WORDS` of some servers, as the superuser.
    pub(crate) fn zooletctl(&self, ids: &[usize], words: &[&str]) -> Output {
        let mut command = zooletctl::command().unwrap();
        command.args(["--servers", &self.connect_string(ids)]).env("ZOOLETCTL_AUTH", SUPER);
        command.args(words).output().unwrap()
    }

    /// A client of one server, as the superuser.
    pub(crate) async fn superuser(&self, id: usize) -> Client {
        let options = ClientOptions::new().session_timeout(Duration::from_secs(20));
        let client = options.connect(&self.client(id).to_string()).await.unwrap();
        client.add_auth("digest", b"super:test").await.unwrap();
        client
    }
}

/// `zooletctl snapshot save` from a server's HTTP port, with an identity.
pub(crate) fn save(from: &str, file: &Path, identity: Option<&str>, words: &[&str]) -> Output {
    let mut command = zooletctl::command().unwrap();
    command.envs(identity.map(|identity| ("ZOOLETCTL_AUTH", identity)));
    command.args(["snapshot", "save", from]).arg(file).args(words).output().unwrap()
}

/// What a command printed. It went well.
#[track_caller]
pub(crate) fn well(output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    out.into_owned()
}

/// A command that failed, and said this.
#[track_caller]
pub(crate) fn badly(output: &Output, why: &str) {
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && err.contains(why), "not {why}: {err}");
}

/// What a command printed that ended with this exit code.
#[track_caller]
pub(crate) fn badly_with(output: &Output, code: i32) -> String {
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        output.status.code(),
        Some(code),
        "{out}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    out
}

/// The tree without the list of servers, as clients see it.
pub(crate) async fn tree(client: &Client) -> BTreeMap<String, Seen> {
    let (mut seen, mut next) = (BTreeMap::new(), vec!["/".to_owned()]);
    client.sync("/").await.unwrap();
    while let Some(path) = next.pop() {
        let (children, _) = client.children(&path).await.unwrap();
        let above = path.trim_end_matches('/');
        next.extend(children.iter().map(|name| format!("{above}/{name}")));
        let (data, stat) = client.get(&path).await.unwrap();
        let (acl, _) = client.acl(&path).await.unwrap();
        if path != "/zookeeper/config" {
            seen.insert(path, (data.to_vec(), format!("{acl:?}"), format!("{stat:?}")));
        }
    }
    seen
}
