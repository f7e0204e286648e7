//! Machines of a network that can be cut: a network namespace for each, joined by a bridge in
//! another one. Needs root, `ip` and `iptables`.
//!
//! ```text
//! zoolet-K-1   zoolet-K-2   …   namespaces of the servers: 10.213.K.1, 10.213.K.2, …
//!     │            │
//!     └─── br0 ────┴──── zlK    the bridge, in zoolet-K-hub; zlK is the tests' own end,
//!                               10.213.K.254, which is never cut
//! ```
//!
//! All of it goes when the [`Network`] is dropped. What a killed run has left behind is found by
//! the process id in the alias of its `zlK`, and swept by the next run.

use std::env;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::tools::{self, ToolError};

/// Numbers the probes of this process.
static PROBES: AtomicU32 = AtomicU32::new(0);
/// Networks that can be at a time.
const NETWORKS_MAX: u8 = 200;

/// Whether this process may make namespaces: `None`, or what is missing.
pub fn missing() -> Option<ToolError> {
    for program in ["ip", "iptables"] {
        if tools::find_program(program).is_none() {
            return Some(ToolError::Missing { what: program.to_owned() });
        }
    }
    let probe = PROBES.fetch_add(1, Ordering::Relaxed);
    let probe = format!("zoolet-probe-{}-{probe}", process::id());
    let made = ip(&["netns", "add", &probe]).and_then(|()| ip(&["netns", "del", &probe]));
    made.is_err().then(|| ToolError::Missing { what: "the right to make namespaces".to_owned() })
}

/// The place of the tests' own end among the machines, for [`Network::cut`] and [`Network::mend`].
pub const OUTSIDE: usize = 253;

/// Which way between two sides is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    Both,
    FromFirst,
    ToFirst,
}

/// A network of namespaces.
#[derive(Debug)]
pub struct Network {
    number: u8,
    machines: usize,
}

impl Network {
    /// A network of `machines` machines, which all reach each other.
    pub fn new(machines: usize) -> Result<Self, ToolError> {
        let number = {
            let _alone = alone()?;
            sweep();
            claim()?
        };
        let network = Self { number, machines };
        network.wire_up()?;
        Ok(network)
    }

    /// The address of a machine; they are counted from 0.
    pub fn address(&self, machine: usize) -> Ipv4Addr {
        let last = u8::try_from(machine + 1).unwrap_or(u8::MAX);
        Ipv4Addr::new(10, 213, self.number, last)
    }

    /// What runs a program on a machine, to be followed by the program.
    pub fn on(&self, machine: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(machine)]);
        command
    }

    /// Loses everything that `from` sends to `to`; the other way stays open.
    pub fn cut(&self, from: usize, to: usize) -> Result<(), ToolError> {
        self.change_rule("-A", (from, to), &["-j", "DROP"])
    }

    /// Undoes one [`Network::cut`] of this link; several of them may be in force.
    pub fn mend(&self, from: usize, to: usize) -> Result<(), ToolError> {
        self.change_rule("-D", (from, to), &["-j", "DROP"])
    }

    /// Loses the packets of TCP with more than `bytes` that `from` sends to `to`, as a path does whose MTU
    /// is not reported, until [`Network::heal`].
    pub fn lose_longer(&self, from: usize, to: usize, bytes: u16) -> Result<(), ToolError> {
        let lengths = format!("{}:65535", bytes.saturating_add(1));
        let rule = ["-p", "tcp", "-m", "length", "--length", &lengths, "-j", "DROP"];
        self.change_rule("-A", (from, to), &rule)
    }

    /// Loses this part, in thousandths, of the packets that `from` sends to `to`.
    pub fn lose_some(&self, from: usize, to: usize, permille: u64) -> Result<(), ToolError> {
        self.change_loss("-A", (from, to), permille)
    }

    /// Undoes one [`Network::lose_some`].
    pub fn lose_none(&self, from: usize, to: usize, permille: u64) -> Result<(), ToolError> {
        self.change_loss("-D", (from, to), permille)
    }

    fn change_loss(
        &self,
        change: &str,
        link: (usize, usize),
        permille: u64,
    ) -> Result<(), ToolError> {
        let part = format!("0.{:03}", permille.min(999));
        let rule = ["-m", "statistic", "--mode", "random", "--probability", &part, "-j", "DROP"];
        self.change_rule(change, link, &rule)
    }

    fn change_rule(
        &self,
        change: &str,
        (from, to): (usize, usize),
        rule: &[&str],
    ) -> Result<(), ToolError> {
        // The tests' own end is cut off where the machine is.
        let (at, chain, by, other) =
            if to == OUTSIDE { (from, "OUTPUT", "-d", to) } else { (to, "INPUT", "-s", from) };
        let other = self.address(other).to_string();
        let words = ["iptables", "-w", change, chain, by, &other];
        tools::run(self.on(at).args(words).args(rule))
    }

    /// Begins or ends to hand what a machine receives to the program that takes this queue, if there is
    /// one.
    pub fn queue(&self, machine: usize, queue: u16, begins: bool) -> Result<(), ToolError> {
        let change = if begins { "-A" } else { "-D" };
        // What has left the queue goes through the other rules, so those are in another table.
        let words = ["iptables", "-w", "-t", "mangle", change, "INPUT", "-j", "NFQUEUE"];
        let queue = queue.to_string();
        tools::run(self.on(machine).args(words).args(["--queue-num", &queue, "--queue-bypass"]))
    }

    /// Loses what the machines of two sides send to each other, on one way or on both.
    pub fn cut_between(&self, one: &[usize], other: &[usize], lost: Lost) -> Result<(), ToolError> {
        for here in one {
            for there in other {
                if lost != Lost::ToFirst {
                    self.cut(*here, *there)?;
                }
                if lost != Lost::FromFirst {
                    self.cut(*there, *here)?;
                }
            }
        }
        Ok(())
    }

    /// Undoes every cut.
    pub fn heal(&self) -> Result<(), ToolError> {
        for machine in 0..self.machines {
            tools::run(self.on(machine).args(["iptables", "-w", "-F"]))?;
        }
        Ok(())
    }

    fn namespace(&self, machine: usize) -> String {
        format!("zoolet-{}-{}", self.number, machine + 1)
    }

    fn wire_up(&self) -> Result<(), ToolError> {
        let hub = hub(self.number);
        let outside = outside(self.number);
        let own = IpAddr::from(Ipv4Addr::new(10, 213, self.number, 254));
        ip(&["-n", &hub, "link", "add", "br0", "type", "bridge"])?;
        ip(&["-n", &hub, "link", "set", "br0", "up"])?;
        ip(&["-n", &hub, "link", "set", "tests", "master", "br0", "up"])?;
        ip(&["addr", "add", &format!("{own}/24"), "dev", &outside])?;
        ip(&["link", "set", &outside, "up"])?;
        for machine in 0..self.machines {
            let namespace = self.namespace(machine);
            let port = format!("machine{machine}");
            let address = format!("{}/24", self.address(machine));
            ip(&["netns", "add", &namespace])?;
            ip(&["-n", &namespace, "link", "add", "eth0", "type", "veth", "peer", "name", &port])?;
            ip(&["-n", &namespace, "link", "set", &port, "netns", &hub])?;
            ip(&["-n", &hub, "link", "set", &port, "master", "br0", "up"])?;
            ip(&["-n", &namespace, "addr", "add", &address, "dev", "eth0"])?;
            ip(&["-n", &namespace, "link", "set", "eth0", "up"])?;
            ip(&["-n", &namespace, "link", "set", "lo", "up"])?;
        }
        Ok(())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        remove(self.number);
    }
}

fn hub(number: u8) -> String {
    format!("zoolet-{number}-hub")
}

fn outside(number: u8) -> String {
    format!("zl{number}")
}

/// Holds up all others, here and in other processes, who would sweep or claim: one that has found a
/// network of a killed run must not remove it when another has removed it and taken its number.
fn alone() -> Result<File, ToolError> {
    let path = env::temp_dir().join("zoolet-networks.lock");
    let locked = File::create(&path).and_then(|file| file.lock().map(|()| file));
    locked.map_err(ToolError::io("lock", &path))
}

/// Takes the first free number: two processes cannot make a link of the same name.
fn claim() -> Result<u8, ToolError> {
    let mut last = ToolError::Missing { what: "a free network".to_owned() };
    for number in 1..=NETWORKS_MAX {
        let (hub, outside) = (hub(number), outside(number));
        if let Err(error) = ip(&["netns", "add", &hub]) {
            last = error;
            continue;
        }
        let alias = process::id().to_string();
        ip(&["link", "add", &outside, "type", "veth", "peer", "name", "tests", "netns", &hub])?;
        ip(&["link", "set", &outside, "alias", &alias])?;
        return Ok(number);
    }
    Err(last)
}

/// Removes the networks of processes that are gone.
fn sweep() {
    for number in 1..=NETWORKS_MAX {
        let alias = Path::new("/sys/class/net").join(outside(number)).join("ifalias");
        let Ok(owner) = std::fs::read_to_string(&alias) else { continue };
        let owner = owner.trim();
        if !owner.is_empty() && !Path::new("/proc").join(owner).exists() {
            tools::announce(&format!("a killed run has left {}: removing it", hub(number)));
            remove(number);
        }
    }
}

/// Removes a network; its links go with the namespaces. The hub is the last: once it is
/// gone, another test can take the number.
fn remove(number: u8) {
    let mut machine = 1;
    while ip(&["netns", "del", &format!("zoolet-{number}-{machine}")]).is_ok() {
        machine += 1;
    }
    // Whatever is not there any more need not be removed.
    let _ = ip(&["link", "del", &outside(number)]);
    let _ = ip(&["netns", "del", &hub(number)]);
}

fn ip(words: &[&str]) -> Result<(), ToolError> {
    tools::run(Command::new("ip").args(words))
}
