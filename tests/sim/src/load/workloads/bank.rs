//! Accounts between which money moves: the sum is the same at every moment.

use bytes::Bytes;
use zoolet_jute::{ErrorCode, MultiOp, MultiReadOp, MultiResult, Parts, Reply, Request};

use crate::load::session::Outcome;
use crate::load::worker::{Worker, persistent, read, versioned, write};

/// The parent of the accounts.
pub const BANK_ROOT: &str = "/bank";

/// The accounts.
pub const ACCOUNTS: [&str; 5] = ["/bank/0", "/bank/1", "/bank/2", "/bank/3", "/bank/4"];

/// What is on each of them in the beginning, as text.
pub const BALANCE: i64 = 100;

/// Opens the accounts, all at once, and moves money between them.
pub(in crate::load) async fn bank(worker: &mut Worker) {
    while !worker.is_stopped() {
        let reads = ACCOUNTS.map(|path| MultiReadOp::GetData(read(path, false)));
        match worker.call(Request::MultiRead(Parts(reads.into()))).await {
            Outcome::Done(_, Reply::Multi(results)) => match balances(&results.0) {
                Some(accounts) => move_money(worker, &accounts).await,
                None => open(worker, &results.0).await,
            },
            Outcome::Done(..) | Outcome::Refused(_) | Outcome::Unknown => {}
        }
        worker.drop_events();
        worker.think().await;
    }
}

/// An account as it was read.
#[derive(Clone, Copy, Debug)]
struct Account {
    balance: i64,
    version: i32,
}

fn balances(results: &[MultiResult]) -> Option<Vec<Account>> {
    let account = |result: &MultiResult| {
        let MultiResult::Data { data: Some(data), stat } = result else { return None };
        let balance = std::str::from_utf8(data).ok()?.parse().ok()?;
        Some(Account { balance, version: stat.version })
    };
    results.iter().map(account).collect()
}

async fn open(worker: &mut Worker, results: &[MultiResult]) {
    let is_missing =
        |result: &MultiResult| matches!(result, MultiResult::Error(Some(ErrorCode::NoNode)));
    if !results.iter().all(is_missing) {
        worker.complain(format!("a part of the bank is open: {results:?}"));
        return;
    }
    let accounts =
        ACCOUNTS.map(|path| MultiOp::Create(persistent(path, Some(BALANCE.to_string().into()))));
    let mut parts = vec![MultiOp::Create(persistent(BANK_ROOT, None))];
    parts.extend(accounts);
    worker.call(Request::Multi(Parts(parts))).await;
}

async fn move_money(worker: &mut Worker, accounts: &[Account]) {
    let sum: i64 = accounts.iter().map(|account| account.balance).sum();
    if sum != BALANCE * i64::try_from(ACCOUNTS.len()).unwrap_or(0) {
        worker.complain(format!("the bank's money is {sum}: {accounts:?}"));
    }
    if worker.chance.one_in(3) {
        return;
    }
    let from = worker.chance.place(ACCOUNTS.len());
    let to = (from + 1 + worker.chance.place(ACCOUNTS.len() - 1)) % ACCOUNTS.len();
    let (Some(payer), Some(payee)) = (accounts.get(from), accounts.get(to)) else { return };
    let amount = i64::try_from(worker.chance.between(1..=20)).unwrap_or(0);
    let change = |place: usize, account: &Account, by: i64| {
        let path = ACCOUNTS.get(place).copied().unwrap_or(BANK_ROOT);
        let data = Bytes::from((account.balance + by).to_string());
        MultiOp::SetData(write(path, data, account.version))
    };
    let mut parts = vec![change(from, payer, -amount), change(to, payee, amount)];
    if worker.chance.one_in(3) {
        parts.insert(0, MultiOp::Check(versioned(BANK_ROOT, 0)));
    }
    let pending = worker.session.send(Request::Multi(Parts(parts)));
    worker.disturb();
    worker.finish(pending).await;
}
