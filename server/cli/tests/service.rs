//! What `zoolet serve` reports to the service manager that started it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// How long a message may take that comes by itself, on a busy machine.
const SOON: Duration = Duration::from_secs(30);

/// How long a server is watched that must not become ready, and must send signs of life.
const WATCHED: Duration = Duration::from_secs(2);

const WATCHDOG_US: &str = "600000";

/// A server, with this test as its service manager.
struct Service {
    process: Child,
    messages: UnixDatagram,
    _directory: TempDir,
}

impl Service {
    /// Starts the first one of these servers.
    fn start(servers: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().display();
        let server = |id: usize| {
            let [client, peer] = [(); 2].map(|()| free_port());
            format!(
                "[[server]]\nid = {id}\nclient = \"127.0.0.1:{client}\"\n\
                 peer = \"127.0.0.1:{peer}\"\ndata_dir = \"{path}/{id}\"\n"
            )
        };
        let config = directory.path().join("cluster.toml");
        fs::write(&config, (1..=servers).map(server).collect::<String>()).unwrap();
        let socket = directory.path().join("notify");
        let messages = UnixDatagram::bind(&socket).unwrap();
        let process = Command::new(env!("CARGO_BIN_EXE_zoolet"))
            .args(["serve", "--id", "1", "--config"])
            .arg(config)
            .arg("--log-file")
            .arg(directory.path().join("log"))
            .env("NOTIFY_SOCKET", socket)
            .env("WATCHDOG_USEC", WATCHDOG_US)
            .env_remove("WATCHDOG_PID")
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { process, messages, _directory: directory }
    }

    /// Returns the lines of the next message, or none if there is none for so long.
    fn next(&self, limit: Duration) -> Option<Vec<String>> {
        self.messages.set_read_timeout(Some(limit)).unwrap();
        let mut message = [0; 4096];
        let length = self.messages.recv(&mut message).ok()?;
        let text = String::from_utf8_lossy(message.get(..length).unwrap()).into_owned();
        Some(text.lines().map(str::to_owned).collect())
    }

    /// Waits for a message with this line, and returns the whole message.
    fn until(&self, line: &str) -> Vec<String> {
        loop {
            let Some(message) = self.next(SOON) else { panic!("no message with {line}") };
            if message.iter().any(|it| it == line) {
                return message;
            }
        }
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.process.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_service_manager_learns_of_start_reload_and_stop() {
    let mut service = Service::start(1);
    assert_eq!(service.next(SOON).unwrap(), ["STATUS=starting"]);
    assert_eq!(service.until("READY=1"), ["READY=1"]);
    assert_eq!(service.next(SOON).unwrap(), ["STATUS=serving, standalone"]);
    for _ in 0..3 {
        service.until("WATCHDOG=1");
    }
    service.signal("HUP");
    let reloading = service.until("RELOADING=1");
    let time = reloading.iter().find_map(|it| it.strip_prefix("MONOTONIC_USEC=")).unwrap();
    assert!(time.parse::<u64>().unwrap() > 0);
    service.until("READY=1");
    service.signal("TERM");
    assert_eq!(service.until("STOPPING=1"), ["STOPPING=1", "STATUS=stopping: SIGTERM"]);
    assert!(service.process.wait().unwrap().success());
}

#[test]
fn a_server_without_a_majority_is_not_ready_and_a_reload_does_not_make_it_so() {
    let service = Service::start(3);
    service.until("STATUS=waiting for a leader");
    service.signal("HUP");
    assert_eq!(service.next(WATCHED), None, "nothing changes");
}

/// systemd ends a service whose signs of life stay away.
#[test]
fn a_process_that_is_stopped_sends_no_sign_of_life() {
    let service = Service::start(1);
    service.until("WATCHDOG=1");
    service.signal("STOP");
    while service.next(WATCHED).is_some() {}
    service.signal("CONT");
    service.until("WATCHDOG=1");
}
