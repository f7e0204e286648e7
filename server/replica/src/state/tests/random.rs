//! Random commands: the digest, snapshots and transactions hold whatever comes.

use super::*;
use crate::Term;

/// What the leader adds to command `number`.
fn stamp(term: u64, number: u64) -> Stamp {
    Stamp { term: Term(term), now_ms: i64::try_from(number).expect("small") }
}

/// A small generator with a seed, the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).expect("small")].clone()
    }

    fn version(&mut self) -> i32 {
        self.pick(&[-1, -1, -1, 0, 1, 2, -2])
    }

    fn path(&mut self) -> String {
        let names = ["a", "b", "c", "zookeeper", "quota", "zookeeper_limits", "zookeeper_stats"];
        let quota = self.pick(&["", "", "", "/zookeeper/quota", "/zookeeper/quota/a"]);
        let mut path = quota.to_owned();
        for _ in 0..=self.below(3) {
            path.push('/');
            path.push_str(self.pick(&names));
        }
        if self.below(40) == 0 {
            path.push_str(self.pick(&["/", "//x", "\0", "/."]));
        }
        path
    }

    fn data(&mut self) -> Option<Bytes> {
        let text = ["", "x", "count=1,bytes=2", "count=;bytes=z", "countHardLimit=2", "\u{1}"];
        (self.below(5) > 0).then(|| Bytes::from(self.pick(&text)))
    }

    fn acl(&mut self) -> Option<Vec<Acl>> {
        let ids = [("world", "anyone"), ("digest", "u:h"), ("auth", ""), ("ip", "10.0.0.0/8")];
        let (scheme, id) = self.pick(&ids);
        match self.below(8) {
            0 => None,
            1 | 2 => Some(vec![Acl { perms: self.pick(&[31, 1, 7]), id: Id::new(scheme, id) }]),
            _ => Some(Acl::open()),
        }
    }

    fn part(&mut self) -> MultiOp {
        let flags = i32::try_from(self.below(8)).expect("small");
        let (path, version) = (self.path(), self.version());
        let (data, acl) = (self.data(), self.acl());
        let create = CreateRequest { path: path.clone(), data: data.clone(), acl, flags };
        match self.below(12) {
            0..=3 => MultiOp::Create(create),
            4 => MultiOp::CreateContainer(create),
            5 => {
                let CreateRequest { path, data, acl, flags } = create;
                MultiOp::CreateTtl(CreateTtlRequest { path, data, acl, flags, ttl_ms: 3 })
            }
            6 | 7 => MultiOp::SetData(SetDataRequest { path, data, version }),
            8 => MultiOp::Check(PathVersionRequest { path, version }),
            _ => MultiOp::Delete(PathVersionRequest { path, version }),
        }
    }

    fn write(&mut self) -> Request {
        match self.below(10) {
            0 | 1 => {
                let parts = self.below(6);
                Request::Multi(Parts((0..parts).map(|_| self.part()).collect()))
            }
            2 => {
                let (path, acl, version) = (self.path(), self.acl(), self.version());
                Request::SetAcl(SetAclRequest { path, acl, version })
            }
            _ => match self.part() {
                MultiOp::Create(body) => Request::Create(body),
                MultiOp::Create2(body) => Request::Create2(body),
                MultiOp::CreateContainer(body) => Request::CreateContainer(body),
                MultiOp::CreateTtl(body) => Request::CreateTtl(body),
                MultiOp::Delete(body) | MultiOp::Check(body) => Request::Delete(body),
                MultiOp::SetData(body) => Request::SetData(body),
            },
        }
    }

    fn command(&mut self, number: u64) -> Command {
        let op = match self.below(40) {
            0 => Op::CreateSession { timeout_ms: 100 },
            1 => Op::ResumeSession { timeout_ms: 200 },
            2 => self.pick(&[Op::CloseSession, Op::ExpireSession { generation: 0, term: Term(1) }]),
            3 => Op::DeleteContainer { path: self.path() },
            4 => Op::SetConfig { term: Term(1), text: self.path(), is_first: self.below(2) == 1 },
            _ => Op::Write(self.write()),
        };
        let identities =
            [Id::new("ip", "10.0.0.1"), Id::new("digest", "u:h"), Id::new("super", "")];
        let known = usize::try_from(self.below(4)).expect("small");
        let attachment = if op.attaches() { 1 } else { self.pick(&[1, 1, 1, 1, 1, 1, 1, 2]) };
        let bit = |random: &mut Self| random.below(2) == 1;
        Command {
            number: ProposalNumber(number),
            session: SessionId(self.pick(&[1, 2, 3])),
            attachment: ProposalNumber(attachment),
            cxid: Xid(0),
            policy: Policy {
                skip_acl: self.below(8) > 0,
                enforce_quota: bit(self),
                extended_types: bit(self),
                reconfig: bit(self),
            },
            identities: identities[..known].into(),
            op,
        }
    }
}

/// A znode as clients see it.
type Seen = (String, Stat, Option<Bytes>, Arc<[Acl]>);

/// What a client or another server could see of a state.
fn seen(state: &State) -> Vec<Seen> {
    let mut seen = Vec::new();
    state.tree.walk(znode::ZnodeId::ROOT, |id, _| {
        let acl = Arc::clone(state.tree.acl(id));
        seen.push((state.tree.path_of(id), state.tree.stat(id), state.tree.data(id), acl));
    });
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    seen
}

#[test]
fn the_digest_holds_through_a_hundred_thousand_commands() {
    let mut random = Random(0x5eed_0001);
    let mut state = State::new();
    let mut succeeded = 0;
    for number in 1..=100_000 {
        let command = random.command(number);
        let is_write = matches!(&command.op, Op::Write(_));
        let before = (number % 50 == 0 && is_write).then(|| seen(&state));
        let applied = state.apply(stamp(number / 1000, number), ORIGIN, command);
        succeeded += u32::from(applied.result.is_ok());
        if number % 50 == 0 {
            state.check();
        }
        if let Some(before) = before
            && applied.changes.is_empty()
            && !matches!(applied.result, Ok(Reply::Stat(_)))
        {
            assert_eq!(seen(&state), before, "command {number} was refused");
        }
    }
    assert!(succeeded > 20_000, "only {succeeded} commands did something");
}

#[test]
fn a_snapshot_and_the_rest_of_the_log_give_the_whole_logs_state() {
    for seed in 1..=8 {
        let mut random = Random(0x5eed_1000 + seed);
        let mut whole = State::new();
        let mut copies: Vec<State> = Vec::new();
        for number in 1..=4000 {
            let command = random.command(number);
            let applied = whole.apply(stamp(1, number), ORIGIN, command.clone());
            for copy in &mut copies {
                let again = copy.apply(stamp(1, number), ORIGIN, command.clone());
                assert_eq!(again, applied, "seed {seed}");
                assert_eq!(copy.digest(), whole.digest(), "seed {seed}, command {number}");
            }
            if number % 1000 == 0 {
                copies.push(snapshot::copy(&whole));
            }
        }
        for copy in &copies {
            assert_eq!(seen(copy), seen(&whole), "seed {seed}");
            copy.check();
        }
    }
}

#[test]
fn no_bytes_make_a_restore_panic() {
    let mut random = Random(0x5eed_2000);
    let mut state = State::new();
    for number in 1..=300 {
        state.apply(stamp(1, number), ORIGIN, random.command(number));
    }
    let bytes = snapshot::bytes_of(&state);
    for _ in 0..3000 {
        let mut damaged = bytes.clone();
        for _ in 0..=random.below(6) {
            let at = usize::try_from(random.below(damaged.len() as u64)).expect("small");
            damaged[at] = u8::try_from(random.below(256)).expect("a byte");
        }
        if let Ok(restored) = snapshot::restore(&damaged, 1 << 12) {
            assert_eq!(restored.digest(), state.digest());
        }
    }
}

#[test]
fn no_committed_bytes_make_an_apply_panic() {
    let mut random = Random(0x5eed_3000);
    let mut state = State::new();
    let mut applied = 0;
    for number in 1..=20_000 {
        let batch = crate::Batch {
            origin: ORIGIN,
            now_ms: i64::try_from(number).expect("small"),
            commands: vec![random.command(number)],
        };
        let mut bytes = batch.encode().to_vec();
        for _ in 0..random.below(3) {
            let at = usize::try_from(random.below(bytes.len() as u64)).expect("small");
            bytes[at] = u8::try_from(random.below(256)).expect("a byte");
        }
        let Ok(batch) = crate::Batch::decode(Bytes::from(bytes)) else { continue };
        state.admit(batch.origin, ProposalNumber(number), 1);
        for command in batch.commands {
            state.apply(
                Stamp { term: Term(random.below(3)), now_ms: batch.now_ms },
                batch.origin,
                command,
            );
            applied += 1;
        }
    }
    state.check();
    assert!(applied > 5000, "only {applied} decoded");
    snapshot::copy(&state);
}
