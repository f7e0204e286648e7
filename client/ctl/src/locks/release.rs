//! `locks --release`: takes a lock away from its holder.

use std::io::{IsTerminal, stdin};

use serde_json::json;
use zoolet_client::{ErrorCode, SessionId, Version};
use zoolet_survey::clock::now_ms;
use zoolet_survey::locks::{Family, Kind, Lock, Member, Role};

use super::clients::Clients;
use super::keys::Keys;
use super::print::{age_text, data_shown};
use super::scan;
use crate::args::{Locks, Options};
use crate::connection::Connection;
use crate::context::Context;
use crate::error::{CtlError, Exit};
use crate::format::{name_text, time_text};
use crate::output::{note, prompt};
use crate::path;

/// `locks --release LOCK [--session ID | --znode ZNODE] [--yes]`.
pub(super) async fn run(
    lock: &str,
    arguments: &Locks,
    options: &Options,
    context: &Context,
) -> Result<(), CtlError> {
    path::check(lock)?;
    if !arguments.yes && !stdin().is_terminal() {
        let message =
            "--release asks for confirmation, and this is run without a terminal: add --yes";
        return Err(CtlError::new(Exit::Usage, message));
    }
    let mut locks = scan(lock, true, &context.connection).await?;
    locks.retain(|found| found.path == lock);
    let (found, member) = choose(lock, &locks, arguments)?;
    let clients = Clients::of(&locks, options).await?;
    if !arguments.yes {
        note(&description(found, member, &clients));
        prompt("delete its znode? [y/N] ");
        let answer = Keys::read().line().await;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            return Err(CtlError::new(Exit::Interrupted, "nothing was deleted"));
        }
    }
    delete(member, &context.connection).await?;
    let own = context.connection.client.session().id;
    let text = || {
        let (lock, znode, session) =
            (name_text(lock), name_text(&member.path), who(member, &clients));
        format!(
            "{lock}: deleted {znode} of {session}\n\
             audit logs have it as a delete by session {own}"
        )
    };
    context.output.result(text, || {
        json!({
            "lock": lock,
            "path": member.path,
            "held": member.holds,
            "session": id_of(member),
            "address": clients.address(member.session()),
            "deleted_by": own.to_string(),
        })
    })
}

/// The place that is meant: the one that was named, or the only one that holds.
fn choose<'a>(
    path: &str,
    locks: &'a [Lock],
    arguments: &Locks,
) -> Result<(&'a Lock, &'a Member), CtlError> {
    let is_meant = |member: &Member| match (&arguments.znode, arguments.session) {
        (Some(name), _) => member.path == *name || member.path == path::join(path, name),
        (None, Some(session)) => member.session() == session,
        (None, None) => member.holds,
    };
    let places =
        locks.iter().flat_map(|lock| lock.members.iter().map(move |member| (lock, member)));
    let meant: Vec<_> = places.filter(|(_, member)| is_meant(member)).collect();
    match meant.as_slice() {
        [(lock, member)] if has_its_name_alone(lock, member) => Ok((*lock, *member)),
        [_] => {
            let message = format!(
                "{path}: the znode of the next holder has the same name, so a delete could hit it"
            );
            let hint = "stop the program that holds it; or `delete`, which takes that risk";
            Err(CtlError::new(Exit::Unsupported, message).hint(hint))
        }
        [] => Err(none_meant(path, locks, arguments)),
        several => {
            let lines = several.iter().map(|(_, member)| {
                format!("\n  {}  {}", member.session(), name_text(&member.path))
            });
            let message = format!("{path}: {} places are meant", several.len());
            let error = CtlError::new(Exit::InvalidInput, message);
            let error = CtlError { details: lines.collect(), ..error };
            Err(error.hint("name one of them by --session or --znode"))
        }
    }
}

fn none_meant(path: &str, locks: &[Lock], arguments: &Locks) -> CtlError {
    let what = match (&arguments.znode, arguments.session) {
        (Some(name), _) => format!("no place has the name {name}"),
        (None, Some(session)) => format!("session {session} has no place"),
        (None, None) if locks.is_empty() => "no lock found".to_owned(),
        (None, None) => "no one holds it".to_owned(),
    };
    let error = CtlError::new(Exit::Failed, format!("{path}: {what}"));
    error.hint("`zooletctl locks` shows the locks below a path, and all their places")
}

/// Whether no later place can have the same name. A simple lock is one znode for all holders, and a
/// permit of kazoo has the same name each time that its program takes one; other names have a number.
fn has_its_name_alone(lock: &Lock, member: &Member) -> bool {
    let is_lease = member.place.family == Family::Kazoo && member.place.role == Role::Permit;
    lock.kind != Kind::Simple && !is_lease
}

/// Deletes exactly this znode: its name is its own, and a version that differs shows that someone has
/// written it since it was shown.
async fn delete(member: &Member, connection: &Connection) -> Result<(), CtlError> {
    let version = Version::Exactly(member.stat.version);
    let client = &connection.client;
    let deleted = match &member.twin {
        None => connection.ask(&member.path, client.delete(&member.path, version)).await,
        Some(twin) => {
            // Without one of the two the other would still keep a family of clients out.
            let both = client
                .transaction()
                .delete(&member.path, version)
                .delete(&twin.path, Version::Exactly(twin.stat.version));
            connection.ask(&member.path, both.commit()).await.map(drop)
        }
    };
    deleted.map_err(|error| match error.code {
        Some(ErrorCode::NoNode) => {
            let message = format!("{}: the znode has gone by itself", member.path);
            CtlError { message, hint: None, ..error }
        }
        _ => error,
    })
}

fn id_of(member: &Member) -> Option<String> {
    let session = member.session();
    (session != SessionId::NONE).then(|| session.to_string())
}

fn who(member: &Member, clients: &Clients) -> String {
    let Some(session) = id_of(member) else { return "no session".to_owned() };
    match clients.address(member.session()) {
        Some(address) => format!("session {session} ({address})"),
        None => format!("session {session} (from an unknown address)"),
    }
}

/// Who has the place, and what a delete means to them.
fn description(lock: &Lock, member: &Member, clients: &Clients) -> String {
    let role = member.place.role.word();
    let state = if member.holds { "held" } else { "waited for" };
    let (since, now) = (member.stat.ctime, now_ms());
    format!(
        "{} ({role}) is {state} by {}\n  znode  {}, of the family {}\n  since  {}, {}\n  data   {}\n{}",
        name_text(&lock.path),
        who(member, clients),
        name_text(&member.path),
        member.place.family,
        time_text(since),
        age_text(now.saturating_sub(since)),
        data_shown(member),
        consequences(member),
    )
}

/// What the client notices.
fn consequences(member: &Member) -> &'static str {
    use Family::{Bilingual, CRecipes, Curator, Go, JavaRecipes, Kazoo, Unknown};
    match (member.holds, member.place.family) {
        (true, Curator) => {
            "its session lives; zoolet's client reports the loss at once, Curator does not look at \
             its znode while it holds: that program goes on beside the next holder until it releases"
        }
        (true, Bilingual) => {
            "its session lives; zoolet's client reports the loss at once, and `zooletctl lock` ends \
             its command"
        }
        (true, Kazoo | Go | JavaRecipes | CRecipes) => {
            "its session lives; its client does not look at its znode while it holds: that program \
             goes on beside the next holder until it releases"
        }
        (true, Unknown) => {
            "its session lives; whether its program notices is not known: it may go on beside the \
             next holder"
        }
        (false, Curator | Bilingual | Kazoo) => {
            "its session lives; its client finds that it has no place, and goes to the end of the \
             queue"
        }
        (false, Go | JavaRecipes | CRecipes | Unknown) => {
            "its session lives; whether its client finds that it has no place is not known"
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use clap::Parser;
    use zoolet_client::Stat;
    use zoolet_survey::locks::parse;

    use super::*;
    use crate::args::{Arguments, Command};

    const ID: &str = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";

    fn arguments(words: &[&str]) -> Locks {
        let line = [&["zooletctl", "locks", "--release", "/a"], words].concat();
        match Arguments::try_parse_from(line).unwrap().command {
            Some(Command::Locks(arguments)) => arguments,
            other => panic!("{other:?}"),
        }
    }

    /// A read-write lock with two readers of sessions 1 and 2, and a writer of session 2.
    fn lock() -> Lock {
        let places = [("__READ__", 1), ("__READ__", 2), ("__WRIT__", 2)];
        let member = |(number, (mark, session)): (usize, (&str, i64))| {
            let name = format!("_c_{ID}-{mark}{number:010}");
            let stat = Stat { ephemeral_owner: SessionId(session), ..Stat::default() };
            let (place, data) = (parse(&name).unwrap(), Bytes::new());
            Member { path: format!("/a/{name}"), place, data, stat, twin: None, holds: false }
        };
        let members = places.into_iter().enumerate().map(member).collect();
        Lock::of_queue("/a".into(), Kind::ReadWrite, members)
    }

    #[test]
    fn one_place_is_meant_or_none_is_deleted() {
        let locks = [lock()];
        let chosen = |words: &[&str]| {
            let chosen = choose("/a", &locks, &arguments(words));
            chosen.map(|(_, member)| member.place.number).map_err(|error| error.to_string())
        };
        assert_eq!(chosen(&["--session", "0x1"]), Ok(0));
        assert_eq!(chosen(&["--znode", &format!("_c_{ID}-__WRIT__0000000002")]), Ok(2));
        assert_eq!(chosen(&["--znode", &format!("/a/_c_{ID}-__READ__0000000001")]), Ok(1));
        let several = chosen(&[]).unwrap_err();
        assert!(several.contains("2 places are meant") && several.contains("\n  0x2"), "{several}");
        assert!(chosen(&["--session", "2"]).unwrap_err().contains("2 places are meant"));
        assert!(chosen(&["--session", "3"]).unwrap_err().contains("session 0x3 has no place"));
        assert!(chosen(&["--znode", "x"]).unwrap_err().contains("no place has the name x"));
        let none = choose("/a", &[], &arguments(&[])).unwrap_err().to_string();
        assert!(none.contains("/a: no lock found"), "{none}");
    }

    #[test]
    fn a_name_that_the_next_holder_has_too_is_refused() {
        let mut simple = lock();
        simple.kind = Kind::Simple;
        simple.members.truncate(1);
        let why = choose("/a", &[simple], &arguments(&["--yes"])).unwrap_err().to_string();
        assert!(why.contains("the next holder has the same name"), "{why}");
    }
}
