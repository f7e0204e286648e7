//! The lines that processes and referee exchange.

use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use zoolet_torture::reported::{Entry, Grant};
use zoolet_torture::{Mode, Violation};

use super::client_process::ClientProcess;
use super::{Contention, Fault, SETTLED_MAX, TURNS, now};
use crate::contenders::Contender;
use crate::contenders::contest::ContestError;
use crate::contenders::process::Event;
use crate::servers::Servers;

impl Contention<'_> {
    /// Starts a process of a side.
    pub(super) fn bring(&mut self, side: usize) -> Result<(), ContestError> {
        let Some(of) = self.sides.get(side) else { return Ok(()) };
        let number = self.next_process;
        self.next_process += 1;
        let way = (&self.runtime, self.targets.as_slice());
        let client = ClientProcess::start((side, of), number, way, self.sender.clone())?;
        self.clients.insert(number, client);
        for contender in 0..of.contenders.len() {
            self.turns.insert((side, contender), 0);
        }
        Ok(())
    }

    /// Handles the lines of the next while.
    pub(super) fn listen_for(
        &mut self,
        long: Duration,
        servers: &mut Servers,
    ) -> Result<(), ContestError> {
        let end = now() + long;
        while self.step_until(end, servers)? {}
        Ok(())
    }

    /// Handles lines until every contender has had its turns.
    pub(super) fn settle(
        &mut self,
        servers: &mut Servers,
        what: &'static str,
    ) -> Result<(), ContestError> {
        self.turns.values_mut().for_each(|turns| *turns = 0);
        self.until(servers, what, |contention| {
            contention.turns.values().all(|turns| *turns >= TURNS)
        })
    }

    /// Handles lines until something is reached.
    pub(super) fn until(
        &mut self,
        servers: &mut Servers,
        what: &'static str,
        reached: impl Fn(&Self) -> bool,
    ) -> Result<(), ContestError> {
        let deadline = now() + SETTLED_MAX;
        while !reached(self) {
            if !self.step_until(deadline, servers)? {
                return Err(self.too_long(what));
            }
        }
        Ok(())
    }

    fn too_long(&mut self, what: &'static str) -> ContestError {
        let missing: Vec<_> = self.turns.iter().filter(|(_, turns)| **turns < TURNS).collect();
        let state =
            format!("missing turns {missing:?}, struck {:?}, {:?}", self.struck, self.locks);
        let errors = self.clients.values_mut().map(|client| client.program.errors());
        let errors: String = errors.collect();
        ContestError::TooLong(SETTLED_MAX, what, format!("{state}\n{errors}"))
    }

    /// Waits for the next thing that a process does; `false` when the time is over.
    fn step_until(&mut self, end: Instant, servers: &mut Servers) -> Result<bool, ContestError> {
        match self.events.recv_timeout(end.saturating_duration_since(now())) {
            Ok((process, Event::Said(line))) => {
                self.handle_line(process, &line, servers)?;
                Ok(true)
            }
            Ok((process, Event::Ended)) => match self.clients.get_mut(&process) {
                Some(client) if !client.is_done => {
                    let name = self.sides.get(client.side).map_or("", |side| side.name);
                    Err(ContestError::Ended(name, client.program.errors()))
                }
                Some(_) | None => Ok(true),
            },
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Ok(false),
        }
    }

    fn handle_line(
        &mut self,
        process: usize,
        line: &str,
        servers: &mut Servers,
    ) -> Result<(), ContestError> {
        // The dead are not listened to.
        let Some(client) = self.clients.get_mut(&process) else { return Ok(()) };
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |place: usize| {
            let word = words.get(place).and_then(|word| word.parse::<i64>().ok());
            word.ok_or_else(|| ContestError::Unexpected(line.to_owned()))
        };
        match *words.as_slice() {
            ["READY"] => return Ok(client.program.send("GO")?),
            ["DONE"] => {
                client.is_done = true;
                return Ok(());
            }
            _ => {}
        }
        let who = Contender { process, number: usize::try_from(number(1)?).unwrap_or(usize::MAX) };
        match *words.as_slice() {
            ["HELD", _, "exclusive", _] => {
                if self.held(who, number(3)?, servers)? {
                    Ok(())
                } else {
                    self.answer(who)
                }
            }
            ["WRITE", _, _] => {
                self.wrote(who, number(2)?)?;
                self.answer(who)
            }
            ["FREE", _] => {
                self.free(who)?;
                self.answer(who)
            }
            _ => Err(ContestError::Unexpected(line.to_owned())),
        }
    }

    fn answer(&mut self, who: Contender) -> Result<(), ContestError> {
        let Some(client) = self.clients.get_mut(&who.process) else { return Ok(()) };
        Ok(client.program.send(&format!("OK {}", who.number))?)
    }

    /// A contender holds a lock. Returns whether a fault hit it, so that it has to wait for its reply.
    fn held(
        &mut self,
        who: Contender,
        token: i64,
        servers: &mut Servers,
    ) -> Result<bool, ContestError> {
        let (side, path) = self.place(who)?;
        let grant = Grant { contender: who, mode: Mode::Exclusive, token: Some(token) };
        let lock = self.locks.get_mut(path).ok_or_else(|| no_lock(path))?;
        let entry = lock.enter(grant.clone(), &self.doubts, now());
        let entry = entry.map_err(|violation| self.broken(violation))?;
        // What is guarded learns the token before another holder can write.
        self.wrote(who, token)?;
        if entry == Entry::Late {
            return Ok(false);
        }
        let claim = self.record.claim((side, who.number), token);
        self.claims.insert(who, claim);
        self.doubts.lives(&who);
        if let Entry::TakenOver(former, after) = entry {
            self.record.taken_over(after);
            self.release_struck(&former)?;
        }
        if let Some(server) = self.doomed.take() {
            servers.kill(server)?;
        }
        if self.wanted.get(path).is_some_and(|(wanted, _)| *wanted == side)
            && let Some((_, fault)) = self.wanted.remove(path)
        {
            self.strike(grant, side, fault)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Strikes a holder.
    fn strike(
        &mut self,
        grant: Grant<Contender>,
        side: usize,
        fault: Fault,
    ) -> Result<(), ContestError> {
        let process = grant.contender.process;
        if let Fault::Long(harm) = fault {
            if let Some(client) = self.clients.get(&process) {
                client.harm(harm)?;
            }
        } else if let Some(mut client) = self.clients.remove(&process) {
            client.program.kill()?;
            for (_, claim) in self.claims.extract_if(.., |who, _| who.process == process) {
                self.record.ended(claim, false);
            }
            self.bring(side)?;
        }
        self.begin_doubts(process, side);
        self.count(fault, side, 1);
        self.struck.push((grant, fault));
        Ok(())
    }

    /// Another has the lock of a holder: if it was struck, it goes on now.
    fn release_struck(&mut self, former: &Grant<Contender>) -> Result<(), ContestError> {
        let Some((_, fault)) = self.struck.iter().find(|(grant, _)| grant == former) else {
            return Ok(());
        };
        if let Fault::Long(harm) = *fault {
            self.relieve(former.contender.process, harm)?;
            return self.answer(former.contender);
        }
        self.struck.retain(|(grant, _)| grant != former);
        Ok(())
    }

    /// Writes, and holds what becomes of it against what the lock allows.
    fn wrote(&mut self, who: Contender, token: i64) -> Result<(), ContestError> {
        let (side, path) = self.place(who)?;
        let accepted = self.record.write((side, who.number), token);
        let lock = self.locks.get(path).ok_or_else(|| no_lock(path))?;
        let judged = lock.wrote(&who, token, accepted, &self.doubts);
        judged.map_err(|violation| self.broken(violation))?;
        if !accepted {
            let is_its = |grant: &Grant<_>| grant.contender == who && grant.token == Some(token);
            self.struck.retain(|(struck, _)| !is_its(struck));
        }
        Ok(())
    }

    fn free(&mut self, who: Contender) -> Result<(), ContestError> {
        let (side, path) = self.place(who)?;
        let lock = self.locks.get_mut(path).ok_or_else(|| no_lock(path))?;
        let held = lock.leave(&who, &self.doubts);
        let held = held.map_err(|violation| self.broken(violation))?;
        if let Some(claim) = self.claims.remove(&who) {
            self.record.ended(claim, held);
        }
        if held && let Some(turns) = self.turns.get_mut(&(side, who.number)) {
            *turns += 1;
        }
        Ok(())
    }

    /// A promise that was broken, and which program is which.
    fn broken(&self, violation: Violation) -> ContestError {
        let programs = self.clients.iter().map(|(number, client)| {
            (*number, self.sides.get(client.side).map_or("", |side| side.name))
        });
        ContestError::BrokenAmong(violation, format!("{:?}", programs.collect::<Vec<_>>()))
    }

    /// Which side a contender belongs to, and what it contends for.
    fn place(&self, who: Contender) -> Result<(usize, &'static str), ContestError> {
        let side = self.clients.get(&who.process).map(|client| client.side);
        let path = side.and_then(|side| self.sides.get(side)?.contenders.get(who.number));
        match (side, path) {
            (Some(side), Some((_, path))) => Ok((side, *path)),
            _ => Err(ContestError::Unexpected(format!("a line of {who:?}"))),
        }
    }

    /// Has every contender end its turn, and every process exit with code 0.
    pub(super) fn finish(&mut self, servers: &mut Servers) -> Result<(), ContestError> {
        for client in self.clients.values_mut() {
            client.program.send("STOP")?;
        }
        self.until(servers, "the end of the programs", |contention| {
            contention.clients.values().all(|client| client.is_done)
        })?;
        for client in self.clients.values_mut() {
            let status = client.program.wait()?;
            if !status.success() {
                return Err(ContestError::Exit(status));
            }
        }
        Ok(())
    }
}

fn no_lock(path: &str) -> ContestError {
    ContestError::Unexpected(format!("unknown lock {path}"))
}
