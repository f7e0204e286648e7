//! A row of a database that refuses writes of a holder who has lost the lock.
//!
//! The row keeps the highest token that has written it. The comparison is part of the statement, so
//! nothing can happen between the look and the write.
//!
//! `cargo run -p zoolet-client --example fence_sql_row -- 127.0.0.1:2181`

#![allow(clippy::print_stdout, reason = "an example prints what happens")]

mod fencing;

use std::error::Error;

use fencing::Holders;
use rusqlite::{Connection, params};
use zoolet_client::recipes::FencingToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let database = Connection::open_in_memory()?;
    database.execute_batch(
        "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, token INTEGER NOT NULL);
         INSERT INTO account VALUES (1, 100, 0);",
    )?;
    let holders = Holders::meet("/examples/fence-sql").await?;

    let (current, paused) = (holders.current.token(), holders.paused.token());
    assert!(write(&database, 150, current)?, "the holder writes");
    println!("token {current} has written");
    assert!(!write(&database, 90, paused)?, "a write under a lost lock is refused");
    println!("token {paused} was refused");

    let balance: i64 =
        database.query_row("SELECT balance FROM account WHERE id = 1", [], |row| row.get(0))?;
    assert_eq!(balance, 150);
    holders.current.release().await?;
    println!("fenced");
    Ok(())
}

/// Returns whether the row accepted the write.
fn write(database: &Connection, balance: i64, token: FencingToken) -> rusqlite::Result<bool> {
    let rows = database.execute(
        "UPDATE account SET balance = ?1, token = ?2 WHERE id = 1 AND token <= ?2",
        params![balance, token.get()],
    )?;
    Ok(rows == 1)
}
