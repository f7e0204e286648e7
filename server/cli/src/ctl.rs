//! `zoolet ctl`: orders to a running `zoolet up`, over its socket.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;

use crate::cli::{CtlArgs, CtlOrder};

/// Why an order was not carried out.
#[derive(Debug, Error)]
pub(crate) enum CtlError {
    /// No `zoolet up` runs on the directory.
    #[error("no zoolet up is running on {}: {source}", directory.display())]
    NotRunning { directory: PathBuf, source: io::Error },
    /// It cannot be reached.
    #[error("cannot reach the zoolet up at {}: {source}", socket.display())]
    Unreachable { socket: PathBuf, source: io::Error },
    /// It ended before it answered.
    #[error("zoolet up has ended before it answered")]
    NoAnswer,
    /// It refuses.
    #[error("{0}")]
    Refused(String),
    /// The answer cannot be printed.
    #[error("cannot print the answer: {0}")]
    Print(io::Error),
}

/// Sends an order, and waits until it is carried out.
pub(crate) fn ctl(args: &CtlArgs) -> Result<(), CtlError> {
    let socket = socket(args)?;
    let answer = ask(&socket, &line_of(args.order))
        .map_err(|source| CtlError::Unreachable { socket, source })?;
    let answer: Value = serde_json::from_str(&answer).map_err(|_| CtlError::NoAnswer)?;
    if let Some(why) = answer.get("error").and_then(Value::as_str) {
        return Err(CtlError::Refused(why.to_owned()));
    }
    if args.order == CtlOrder::Status {
        writeln!(io::stdout(), "{answer}").map_err(CtlError::Print)?;
    }
    Ok(())
}

/// Returns the order as `up` reads it: the words of the command line.
fn line_of(order: CtlOrder) -> String {
    match order {
        CtlOrder::Status => "status".to_owned(),
        CtlOrder::Stop { server } => format!("stop {server}"),
        CtlOrder::Kill { server } => format!("kill {server}"),
        CtlOrder::Start { server } => format!("start {server}"),
        CtlOrder::Pause { server } => format!("pause {server}"),
        CtlOrder::Resume { server } => format!("resume {server}"),
        CtlOrder::Cut { server, clients: false } => format!("cut {server}"),
        CtlOrder::Cut { server, clients: true } => format!("cut {server} --clients"),
        CtlOrder::Heal { server } => format!("heal {server}"),
        CtlOrder::Expire { session } => format!("expire {session}"),
    }
}

fn socket(args: &CtlArgs) -> Result<PathBuf, CtlError> {
    if let Some(socket) = &args.control {
        return Ok(socket.clone());
    }
    let directory = args.data_dir.clone().unwrap_or_default();
    named_in(&directory).map_err(|source| CtlError::NotRunning { directory, source })
}

fn named_in(directory: &Path) -> io::Result<PathBuf> {
    let state: Value = serde_json::from_slice(&fs::read(directory.join("up.json"))?)?;
    let socket = state.get("control").and_then(Value::as_str);
    socket.map(PathBuf::from).ok_or_else(|| io::Error::other("up.json names no control socket"))
}

fn ask(socket: &Path, order: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(format!("{order}\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
