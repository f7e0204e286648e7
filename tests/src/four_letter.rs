//! Four-letter words, as an operator would send them with `nc`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// How long one question may take.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// How often a server that is starting is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Sends one four-letter word and reads the whole answer.
pub fn ask(server: SocketAddr, word: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&server, ANSWER_MAX)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// The mode that a serving server gives for `srvr`: `leader`, `follower`, `observer` or
/// `standalone`; `None` when it does not serve, or reads alone.
pub fn mode(server: SocketAddr) -> Option<String> {
    let answer = ask(server, "srvr").ok()?;
    let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: "))?;
    (mode != "read-only").then(|| mode.to_owned())
}

/// Waits until the server serves; `false` when it still does not after `limit`.
#[allow(clippy::disallowed_methods, reason = "the harness waits for a real process")]
pub fn wait_until_serving(server: SocketAddr, limit: Duration) -> bool {
    let start = Instant::now();
    while start.elapsed() < limit {
        if mode(server).is_some() {
            return true;
        }
        thread::sleep(ASK_AGAIN);
    }
    false
}
