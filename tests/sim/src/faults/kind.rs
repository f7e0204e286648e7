//! The kinds of faults, as they are counted and chosen.

use super::Fault;

/// Defines the kinds of faults of a world: `Name = "name",` for each.
#[macro_export]
macro_rules! fault_kinds {
    ($($(#[$meta:meta])* $name:ident = $text:literal,)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind { $($(#[$meta])* $name,)* }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name in reports, in the ledger and on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The kind with a name.
            ///
            /// # Errors
            ///
            /// There is none: the names that there are.
            pub fn named(name: &str) -> Result<Self, String> {
                let found = Self::ALL.iter().copied().find(|kind| kind.name() == name);
                found.ok_or_else(|| {
                    let names: Vec<&str> = Self::ALL.iter().map(|kind| kind.name()).collect();
                    format!("expected one of {}", names.join(", "))
                })
            }
        }
    };
}

fault_kinds! {
    /// Programs of servers are killed.
    Kill = "kill",
    /// Programs or machines of servers end in the midst of a write or of an answer.
    EndAt = "end-at",
    /// Machines lose their power.
    Power = "power",
    /// Servers are restarted in good order.
    Restart = "restart",
    /// Servers stand still.
    Stop = "stop",
    /// Servers have little processor time.
    SlowCpu = "slow-cpu",
    /// Links between servers are cut.
    Cut = "cut",
    /// The leader is cut off.
    CutLeader = "cut-leader",
    /// Links lose, delay or narrow.
    Links = "links",
    /// Some connections between servers are slow, or lose long pieces.
    Lanes = "lanes",
    /// Connections break.
    Reset = "reset",
    /// What callers say first arrives on two connections.
    ConnectTwice = "connect-twice",
    /// Disks are slow.
    SlowDisk = "slow-disk",
    /// Disks stand still.
    Stall = "stall",
    /// Disks are full.
    Full = "full",
    /// Disks refuse.
    DiskError = "disk-error",
    /// Disks change what they store.
    BitRot = "bit-rot",
    /// Disks are lost.
    DiskLoss = "disk-loss",
    /// Clocks go too fast or too slow.
    ClockRate = "clock-rate",
    /// Clocks are further off than zoolet tolerates.
    ClockSkew = "clock-skew",
    /// Wall clocks jump.
    ClockJump = "clock-jump",
    /// Clients stand still.
    StopClient = "stop-client",
    /// Clients end.
    KillClient = "kill-client",
    /// Clients are cut off.
    CutClient = "cut-client",
    /// Servers change their feature level.
    Level = "level",
    /// Disks refuse to be read.
    ReadError = "read-error",
    /// Snapshots or logs are cut or missing.
    LostFile = "lost-file",
    /// Servers are started with the directory of another one.
    WrongDisk = "wrong-disk",
}

impl Kind {
    /// Whether it may cost a server its disk.
    pub(crate) const fn may_cost_disk(self) -> bool {
        matches!(self, Self::BitRot | Self::LostFile | Self::DiskLoss)
    }

    /// Returns whether the affected servers may log errors.
    pub(super) const fn may_complain(self) -> bool {
        matches!(
            self,
            Self::Full
                | Self::DiskError
                | Self::BitRot
                | Self::EndAt
                | Self::ReadError
                | Self::LostFile
                | Self::WrongDisk
        )
    }
}

impl Fault {
    /// Its kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Kill { .. } => Kind::Kill,
            Self::EndAt { .. } => Kind::EndAt,
            Self::PowerCut { .. } => Kind::Power,
            Self::Restart { .. } => Kind::Restart,
            Self::Stop { .. } => Kind::Stop,
            Self::SlowCpu { .. } => Kind::SlowCpu,
            Self::Cut { .. } => Kind::Cut,
            Self::CutLeader { .. } => Kind::CutLeader,
            Self::Links { .. } => Kind::Links,
            Self::Lanes { .. } => Kind::Lanes,
            Self::Reset { .. } => Kind::Reset,
            Self::ConnectTwice { .. } => Kind::ConnectTwice,
            Self::SlowDisk { .. } => Kind::SlowDisk,
            Self::Stall { .. } => Kind::Stall,
            Self::Full { .. } => Kind::Full,
            Self::DiskError { .. } => Kind::DiskError,
            Self::BitRot { .. } => Kind::BitRot,
            Self::DiskLoss { .. } => Kind::DiskLoss,
            Self::ClockRate { is_tolerated: true, .. } => Kind::ClockRate,
            Self::ClockRate { is_tolerated: false, .. } => Kind::ClockSkew,
            Self::ClockJump { .. } => Kind::ClockJump,
            Self::StopClient { .. } => Kind::StopClient,
            Self::KillClient { .. } => Kind::KillClient,
            Self::CutClient { .. } => Kind::CutClient,
            Self::Level { .. } => Kind::Level,
            Self::ReadError { .. } => Kind::ReadError,
            Self::LostFile { .. } => Kind::LostFile,
            Self::WrongDisk { .. } => Kind::WrongDisk,
        }
    }
}
