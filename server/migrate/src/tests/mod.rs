//! Data that is made here: what is read back, and what damage does. The data of real servers is in
//! `tests/tests/migrate.rs` of the repository.

mod damage;
mod made;
mod quotas;
mod replays;
