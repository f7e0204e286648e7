//! The servers of a run, and the faults that a caller who knows their processes can inject.

use std::fmt::Debug;
use std::io;

/// A kind of fault of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerFault {
    /// `kill -9`, and a start again.
    Kill,
    /// The process stands still (`SIGSTOP`) and goes on.
    Pause,
    /// The server is cut off from the other servers; its clients reach it.
    Isolate,
    /// Every sync of its disk takes long.
    SlowDisk,
}

impl ServerFault {
    /// Its name in reports.
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            Self::Kill => "server killed",
            Self::Pause => "server paused",
            Self::Isolate => "server cut off",
            Self::SlowDisk => "disk slow",
        }
    }
}

/// The servers of an ensemble, from 0. The methods block, and are called one at a time.
pub trait Servers: Debug + Send {
    /// How many there are.
    fn count(&self) -> usize;

    /// Whether this kind of fault can be done here.
    fn can(&self, fault: ServerFault) -> bool;

    /// The one that leads.
    fn leader(&mut self) -> Option<usize>;

    /// Begins a fault. For [`ServerFault::Kill`] the server is dead when this returns.
    fn strike(&mut self, server: usize, fault: ServerFault) -> io::Result<()>;

    /// Ends it; a killed server serves again when this returns.
    fn mend(&mut self, server: usize, fault: ServerFault) -> io::Result<()>;
}
