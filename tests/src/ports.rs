//! Loopback ports for servers that need their port before they start.
//!
//! A port that the system hands out and that is closed again may go to another program before the
//! server binds it, and again while a killed server is down. So ports come from below the range of
//! outgoing connections, and a lock file per port keeps other test processes away for as long as
//! the [`PortLease`] lives.
//!
//! Whether a port is free is found out with a socket that never listens. Another thread may fork a
//! child at that moment, which has a copy of every socket until it runs its program: a copy of a
//! listening one would keep the port taken after the lease was given out.

use std::env;
use std::fs::{self, File};
use std::io;
use std::process;

use thiserror::Error;
use zoolet_server::embed::ReservedPort;

/// The first port that may be leased.
const PORT_MIN: u16 = 11_000;
/// The last one: Linux takes the ports of outgoing connections from 32,768 upwards.
const PORT_MAX: u16 = 32_000;
/// How often ports in a row are looked for.
const ROWS_TRIED: usize = 200;

/// Why no ports could be leased.
#[derive(Debug, Error)]
pub enum PortError {
    #[error("port locks in the temporary directory: {0}")]
    Locks(#[from] io::Error),
    #[error("no free port between {PORT_MIN} and {PORT_MAX}")]
    Exhausted,
}

/// Free ports, kept from other leases until it is dropped.
#[derive(Debug)]
pub struct PortLease {
    ports: Vec<u16>,
    _locks: Vec<File>,
}

impl PortLease {
    /// Leases `count` ports without listeners.
    pub fn take(count: usize) -> Result<Self, PortError> {
        let directory = env::temp_dir().join("zoolet-ports");
        fs::create_dir_all(&directory)?;
        let mut ports = Vec::with_capacity(count);
        let mut locks = Vec::with_capacity(count);
        let span = u32::from(PORT_MAX - PORT_MIN);
        // Processes start at different places, so that they rarely try the same ports.
        let start = process::id().wrapping_mul(97) % span;
        for step in 0..span {
            if ports.len() == count {
                break;
            }
            let offset = u16::try_from((start + step) % span).unwrap_or(0);
            let port = PORT_MIN + offset;
            let lock = File::create(directory.join(format!("{port}.lock")))?;
            if lock.try_lock().is_ok() && is_free(port) {
                ports.push(port);
                locks.push(lock);
            }
        }
        if ports.len() < count {
            return Err(PortError::Exhausted);
        }
        Ok(Self { ports, _locks: locks })
    }

    /// Leases `count` ports that follow each other; returns the first one as well.
    pub fn take_in_a_row(count: u16) -> Result<(Self, u16), PortError> {
        // Leases that do not do are held, so that the next one is of other ports.
        let mut unfit = Vec::new();
        for _ in 0..ROWS_TRIED {
            let lease = Self::take(usize::from(count))?;
            if let Some(first) = lease.ports.first().copied()
                && lease.ports.iter().copied().eq(first..first + count)
            {
                return Ok((lease, first));
            }
            unfit.push(lease);
        }
        Err(PortError::Exhausted)
    }

    /// The leased ports, in the order they were found.
    pub fn ports(&self) -> &[u16] {
        &self.ports
    }
}

/// Whether no socket listens on the port, at any address of this machine.
fn is_free(port: u16) -> bool {
    ReservedPort::take("0.0.0.0", port).is_ok()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};
    use std::process::Command;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    /// Programs that are started while ports are leased.
    const PROGRAMS: usize = 50;

    /// A test bound its own leased port and got `AddrInUse`, once in many runs on a busy machine:
    /// another test's thread had forked a child while the port was probed, and the child had a
    /// copy of the probe's socket until it ran its program.
    #[test]
    fn a_leased_port_is_free_while_other_threads_start_programs() {
        // A child that looks for its program in many directories keeps its copies for long.
        let path = "/zoolet-absent:".repeat(2_000);
        let started = AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                while started.fetch_add(1, Ordering::Relaxed) < PROGRAMS {
                    let child = Command::new("zoolet-absent").env("PATH", &path).spawn();
                    assert!(child.is_err());
                }
            });
            while started.load(Ordering::Relaxed) < PROGRAMS {
                let lease = PortLease::take(4).unwrap();
                for port in lease.ports() {
                    TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).unwrap();
                }
            }
        });
    }
}
