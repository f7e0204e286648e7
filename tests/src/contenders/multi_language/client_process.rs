//! A process of contenders behind its proxies.

use std::io;
use std::sync::mpsc::SyncSender;

use tokio::runtime::Runtime;
use zoolet_torture::proxy::{Fault, Proxy};

use super::{Harm, SESSION_TIMEOUT, Side};
use crate::contenders::process::{Event, Program};
use crate::tools;

pub(super) struct ClientProcess {
    pub(super) side: usize,
    pub(super) program: Program,
    /// One for each server, so that clients choose and change servers as ever.
    proxies: Vec<Proxy>,
    pub(super) is_done: bool,
}

impl ClientProcess {
    /// Starts a process of a side; what it does arrives at `events` under its number.
    pub(super) fn start(
        (side, of): (usize, &Side),
        number: usize,
        (runtime, targets): (&Runtime, &[String]),
        events: SyncSender<(usize, Event)>,
    ) -> io::Result<Self> {
        let proxies = targets.iter().map(|target| runtime.block_on(Proxy::start(target)));
        let proxies = proxies.collect::<io::Result<Vec<_>>>()?;
        let connect: Vec<String> = proxies.iter().map(Proxy::connect_string).collect();
        let mut command = tools::copy(&of.program);
        command.args(of.contenders.iter().map(|(recipe, path)| format!("{recipe}:{path}")));
        command.env("ZK_CONNECT", connect.join(","));
        command.env("ZK_SESSION_TIMEOUT_MS", SESSION_TIMEOUT.as_millis().to_string());
        command.env("ZK_MAY_EXPIRE", "yes");
        let program = Program::start(&mut command, number, events)?;
        Ok(Self { side, program, proxies, is_done: false })
    }

    /// Comes between the process and the servers, until it is relieved.
    pub(super) fn harm(&self, harm: Harm) -> io::Result<()> {
        match harm {
            Harm::Stopped => self.program.signal("STOP")?,
            Harm::CutOff => self.proxies.iter().for_each(Proxy::cut),
            Harm::Silenced => self.proxies.iter().for_each(Proxy::silence),
        }
        Ok(())
    }

    pub(super) fn relieve(&self, harm: Harm) -> io::Result<()> {
        match harm {
            Harm::Stopped => self.program.signal("CONT")?,
            Harm::CutOff | Harm::Silenced => self.proxies.iter().for_each(Proxy::heal),
        }
        Ok(())
    }

    /// Loses the reply of the request behind the next `after` ones on the way to each server.
    pub(super) fn lose_reply(&self, after: usize) {
        self.proxies.iter().for_each(|proxy| proxy.strike(Fault::Reply, after));
    }

    /// Loses no more replies.
    pub(super) fn calm(&self) {
        for proxy in &self.proxies {
            proxy.calm();
        }
    }

    pub(super) fn replies_lost(&self) -> usize {
        self.proxies.iter().map(|proxy| proxy.lost().0).sum()
    }
}
