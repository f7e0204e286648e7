//! The network as the programs of one machine see it: for a server its `Net`, for a client its
//! `Connector`.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use zoolet_client::{Connecting, Connector, Transport};
use zoolet_server::internals::{BoxFuture, Listener, Net, Stream};

use super::{Call, Listening, MachineId, Network, SimStream};

/// The first port that the system gives a caller.
const FIRST_PORT: u16 = 32_768;

/// What a program on a machine sees of the network.
#[derive(Clone, Debug)]
pub(crate) struct MachineNet {
    pub(super) machine: MachineId,
    pub(super) network: Network,
}

impl MachineNet {
    fn begin_call(&self, to: SocketAddr) -> u64 {
        self.network.with(|state| {
            let presence = state.machines.entry(self.machine).or_default();
            presence.last_port = presence.last_port.checked_add(1).unwrap_or(FIRST_PORT);
            let port = presence.last_port.max(FIRST_PORT);
            presence.last_port = port;
            let number = state.number();
            let call = Call { from: self.machine, outcome: None, waker: None };
            state.calls.insert(number, call);
            state.call(number, (self.machine, (self.machine.ip(), port).into()), to, 1);
            number
        })
    }

    async fn call(&self, address: &str) -> io::Result<SimStream> {
        let to: SocketAddr = address.parse().map_err(|_| {
            io::Error::new(io::ErrorKind::NotFound, format!("no machine has the name {address}"))
        })?;
        let pending = Pending { network: &self.network, call: self.begin_call(to) };
        pending.outcome().await
    }
}

/// A call without an outcome. Dropped, it is given up.
struct Pending<'a> {
    network: &'a Network,
    call: u64,
}

impl Pending<'_> {
    fn outcome(&self) -> impl Future<Output = io::Result<SimStream>> {
        poll_fn(|context| self.poll(context))
    }

    fn poll(&self, context: &Context<'_>) -> Poll<io::Result<SimStream>> {
        self.network.with(|state| {
            let Some(call) = state.calls.get_mut(&self.call) else {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            };
            if let Some(outcome) = call.outcome.take() {
                state.calls.remove(&self.call);
                return Poll::Ready(outcome.map(|stream| stream.bind(self.network)));
            }
            call.waker = Some(context.waker().clone());
            Poll::Pending
        })
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let given_up = self.network.with(|state| state.calls.remove(&self.call));
        // A stream that has come in the meantime is closed.
        if let Some(Ok(stream)) = given_up.and_then(|call| call.outcome) {
            drop(stream.bind(self.network));
        }
    }
}

impl Net for MachineNet {
    fn listen<'a>(
        &'a self,
        address: &'a str,
        backlog: u32,
    ) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let wrong = |_| io::Error::from(io::ErrorKind::AddrNotAvailable);
            let address: SocketAddr = address.parse().map_err(wrong)?;
            let listening = Listening {
                machine: self.machine,
                queue: VecDeque::new(),
                backlog: usize::try_from(backlog).unwrap_or(usize::MAX),
                waker: None,
            };
            self.network.with(|state| {
                if state.listeners.contains_key(&address) {
                    return Err(io::Error::from(io::ErrorKind::AddrInUse));
                }
                state.listeners.insert(address, listening);
                Ok(())
            })?;
            let network = self.network.clone();
            Ok(Box::new(SimListener { address, network }) as Box<dyn Listener>)
        })
    }

    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move { Ok(Box::new(self.call(address).await?) as Box<dyn Stream>) })
    }
}

impl Connector for MachineNet {
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a> {
        Box::pin(async move { Ok(Box::new(self.call(address).await?) as Box<dyn Transport>) })
    }
}

#[derive(Debug)]
struct SimListener {
    address: SocketAddr,
    network: Network,
}

impl SimListener {
    fn poll(&self, context: &Context<'_>) -> Poll<io::Result<(Box<dyn Stream>, SocketAddr)>> {
        self.network.with(|state| {
            let Some(listening) = state.listeners.get_mut(&self.address) else {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            };
            if let Some((stream, caller)) = listening.queue.pop_front() {
                let stream: Box<dyn Stream> = Box::new(stream.bind(&self.network));
                return Poll::Ready(Ok((stream, caller)));
            }
            listening.waker = Some(context.waker().clone());
            Poll::Pending
        })
    }
}

impl Listener for SimListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn Stream>, SocketAddr)>> {
        Box::pin(poll_fn(|context| self.poll(context)))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let waiting = self.network.with(|state| state.listeners.remove(&self.address));
        // The system breaks connections that no one has accepted.
        for (stream, _) in waiting.into_iter().flat_map(|listening| listening.queue) {
            drop(stream.bind(&self.network));
        }
    }
}
