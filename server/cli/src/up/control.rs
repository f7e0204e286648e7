//! The socket on which `zoolet ctl` reaches a running `zoolet up`: one line with an order for each
//! connection, one line of JSON in return. It is for the user who started `up` alone.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Parser;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::warn;

use super::UpError;
use super::files::file_error;
use crate::cli::CtlOrder;

/// The name of the socket in the directory of the ensemble.
const SOCKET: &str = "control";

/// The longest path of a socket that every system takes.
const PATH_BYTES_MAX: usize = 100;

/// The longest order, in bytes.
const ORDER_BYTES_MAX: u64 = 1024;

/// How long a caller may take to send its order.
const ORDER_LIMIT: Duration = Duration::from_secs(5);

/// Orders that wait for the one before them.
const ORDERS_MAX: usize = 16;

/// The pause after a failure to accept, for example because no file descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An order, and where its answer goes.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) order: CtlOrder,
    pub(super) answer: oneshot::Sender<Result<Value, String>>,
}

/// The words of an order, as `zoolet ctl` has them on its command line.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Words {
    #[command(subcommand)]
    order: CtlOrder,
}

/// The open socket; removed when it is dropped.
#[derive(Debug)]
pub(super) struct Control {
    path: PathBuf,
    given: mpsc::Receiver<Given>,
    accepting: JoinHandle<()>,
    /// Holds the socket where the directory's own path is too long.
    _short: Option<TempDir>,
}

impl Control {
    pub(super) fn open(directory: &Path) -> Result<Self, UpError> {
        let mut short = None;
        let mut path = directory.join(SOCKET);
        if path.as_os_str().len() > PATH_BYTES_MAX {
            let made = TempDir::with_prefix("zoolet-control-")
                .map_err(|source| file_error(&std::env::temp_dir(), source))?;
            path = short.insert(made).path().join(SOCKET);
        }
        let listener = listen(&path).map_err(|source| file_error(&path, source))?;
        let (sender, given) = mpsc::channel(ORDERS_MAX);
        let accepting = tokio::spawn(accept(listener, sender));
        Ok(Self { path, given, accepting, _short: short })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the next order.
    pub(super) async fn next(&mut self) -> Option<Given> {
        self.given.recv().await
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.accepting.abort();
        // It may be gone with its directory.
        let _ = fs::remove_file(&self.path);
    }
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    // The directory is locked, so this is what an `up` left that was killed.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

async fn accept(listener: UnixListener, orders: mpsc::Sender<Given>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve(stream, orders.clone()))),
            Err(error) => {
                warn!(%error, "cannot accept an order of zoolet ctl");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Takes one order, and writes what comes of it.
async fn serve(mut stream: UnixStream, orders: mpsc::Sender<Given>) {
    let done = match read_order(&mut stream).await {
        Ok(order) => {
            let (answer, done) = oneshot::channel();
            // An error means that the ensemble stops; then there is no answer either.
            let _ = orders.send(Given { order, answer }).await;
            done.await.unwrap_or_else(|_| Err("zoolet up is stopping".to_owned()))
        }
        Err(why) => Err(why),
    };
    let answer = done.unwrap_or_else(|why| json!({ "error": why }));
    // The caller may be gone.
    let _ = stream.write_all(format!("{answer}\n").as_bytes()).await;
}

async fn read_order(stream: &mut UnixStream) -> Result<CtlOrder, String> {
    // Between the socket's creation and the change of its rights others could connect.
    let caller = stream.peer_cred().map_err(|error| error.to_string())?.uid();
    let own = rustix::process::geteuid();
    if caller != own.as_raw() && caller != 0 {
        return Err(format!("refused: this zoolet up belongs to user {}", own.as_raw()));
    }
    let mut line = String::new();
    let mut input = BufReader::new(stream).take(ORDER_BYTES_MAX);
    match timeout(ORDER_LIMIT, input.read_line(&mut line)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err(format!("no order within {} s", ORDER_LIMIT.as_secs())),
    }
    let words = Words::try_parse_from(line.split_whitespace());
    Ok(words.map_err(|error| error.to_string())?.order)
}
