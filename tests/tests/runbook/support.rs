//! Three configured servers, each with an HTTP port, that an operator starts and stops.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use zoolet_client::{Client, ClientOptions};
use zoolet_tests::four_letter;
use zoolet_tests::ports::PortLease;
use zoolet_tests::process::ServerProcess;
use zoolet_tests::servers::SUPER_DIGEST;
use zoolet_tests::{wait, zoolet, zooletctl};

/// How long something may take that happens by itself, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) const SUPER: &str = "digest:super:test";

/// What clients see of a znode: data, ACL and Stat.
pub(crate) type Seen = (Vec<u8>, String, String);

pub(crate) struct Ensemble {
    directory: tempfile::TempDir,
    lease: PortLease,
    running: BTreeMap<usize, ServerProcess>,
}

impl Ensemble {
    /// The servers are numbered from 1. None runs yet.
    pub(crate) fn new() -> Self {
        let (directory, lease) = (tempfile::tempdir().unwrap(), PortLease::take(9).unwrap());
        let ensemble = Self { directory, lease, running: BTreeMap::new() };
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
             [http]\nsnapshot_interval_ms = 0\n"
        );
        fs::write(ensemble.config(), text).unwrap();
        ensemble
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path("cluster.toml")
    }

    pub(crate) fn data(&self, id: usize) -> PathBuf {
        self.path(&format!("data-{id}"))
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

    pub(crate) fn start(&mut self, id: usize, more: &[&str]) {
        let file = File::options().create(true).append(true).open(self.log(id)).unwrap();
        let mut command = Command::new(zoolet::binary().unwrap());
        command.arg("serve").arg("--config").arg(self.config());
        command.args(["--id", &id.to_string()]).args(more);
        command.stdout(file.try_clone().unwrap()).stderr(file);
        self.running.insert(id, ServerProcess::spawn(&mut command).unwrap());
    }

    pub(crate) fn kill(&mut self, id: usize) {
        self.running.remove(&id).unwrap().kill().unwrap();
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
        for id in 1..=3 {
            ensemble.start(id, &[]);
        }
        ensemble.until_serving(&[1, 2, 3]);
        ensemble
    }

    /// `zoolet VERB … --config … --id ID`.
    pub(crate) fn zoolet(&self, words: &[&str], id: usize) -> Output {
        let mut command = Command::new(zoolet::binary().unwrap());
        command.args(words).arg("--config").arg(self.config());
        command.args(["--id", &id.to_string()]).output().unwrap()
    }

    /// A client of one server, as the superuser.
    pub(crate) async fn superuser(&self, id: usize) -> Client {
        let options = ClientOptions::new().session_timeout(Duration::from_secs(20));
        let client = options.connect(&self.client(id).to_string()).await.unwrap();
        client.add_auth("digest", b"super:test").await.unwrap();
        client
    }
}

/// `zooletctl snapshot save` from a server's HTTP port.
pub(crate) fn save(from: &str, file: &Path, auth: &[&str]) -> Output {
    let mut command = Command::new(zooletctl::binary().unwrap());
    command.args(["snapshot", "save", from]).arg(file).args(auth).output().unwrap()
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
