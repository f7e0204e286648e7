//! `txn`: several writes that happen all together or not at all.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use clap::Parser;
use serde_json::{Value, json};
use zoolet_client::{Acl, MultiResult, Transaction};

use super::write::{create_mode, data_to_set, parse_acl};
use crate::args::{Txn, TxnPart, as_zkcli_users_write};
use crate::context::Context;
use crate::error::{CtlError, Exit};
use crate::format::{name_text, stat_json};
use crate::path;
use crate::words;

/// `txn [--file FILE] [PART…]`.
pub(crate) async fn txn(arguments: &Txn, context: &Context) -> Result<(), CtlError> {
    let parts = parts(arguments, context)?;
    let connection = &context.connection;
    let mut transaction = connection.client.transaction();
    for part in &parts {
        transaction = part.add_to(transaction).map_err(|error| CtlError {
            message: format!("{}: {}", part.place, error.message),
            ..error
        })?;
    }
    let (zxid, results) = match connection.ask_part("txn", transaction.commit()).await {
        Ok(committed) => committed,
        Err((number, error)) => {
            let part = number.and_then(|number| parts.get(number));
            let error = match part {
                Some(part) => part.failed(&error),
                None => error,
            };
            // What was not refused may have happened, and the error says so.
            let refused = error.code.is_some();
            let then = if refused { "; nothing was changed" } else { "" };
            return Err(CtlError { message: format!("{}{then}", error.message), ..error });
        }
    };
    let results: Vec<_> = parts.iter().zip(&results).collect();
    let text = || {
        let lines: Vec<String> = results.iter().map(|(part, result)| part.text(result)).collect();
        lines.join("\n")
    };
    let json = || {
        let results: Value = results.iter().map(|(part, result)| part.json(result)).collect();
        json!({ "zxid": zxid.to_string(), "results": results })
    };
    context.output.result(text, json)
}

/// A part, and where it is written.
struct Part {
    /// `line 3`, or `part 3` of the command line.
    place: String,
    part: TxnPart,
}

fn parts(arguments: &Txn, context: &Context) -> Result<Vec<Part>, CtlError> {
    let (lines, unit) = if arguments.parts.is_empty() {
        (read_lines(arguments.file.as_deref(), context)?, "line")
    } else {
        (arguments.parts.clone(), "part")
    };
    let mut parts = Vec::new();
    for (line, number) in lines.iter().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{unit} {number}");
        let part = parse(line).map_err(|why| {
            let message = format!("{place}: {why}");
            CtlError::new(Exit::Usage, message).hint(
                "a part is create, set, delete or check, with what these commands take; `txn \
                 --help`",
            )
        })?;
        parts.push(Part { place, part });
    }
    if parts.is_empty() {
        return Err(CtlError::new(Exit::Usage, "the transaction has no part"));
    }
    Ok(parts)
}

fn read_lines(file: Option<&Path>, context: &Context) -> Result<Vec<String>, CtlError> {
    let file = file.filter(|file| *file != Path::new("-"));
    if file.is_none() && context.is_shell {
        let error = CtlError::new(Exit::Usage, "txn needs parts here: stdin is the shell's");
        return Err(error.hint("txn 'create /a x' 'delete /b', or txn --file FILE"));
    }
    let mut text = String::new();
    let read = match file {
        Some(file) => fs::read_to_string(file).map(|read| text = read),
        None => io::stdin().lock().read_to_string(&mut text).map(drop),
    };
    read.map_err(|error| {
        let name = file.map_or("stdin".to_owned(), |file| file.display().to_string());
        CtlError::new(Exit::Io, format!("{name}: {error}"))
    })?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn parse(line: &str) -> Result<TxnPart, String> {
    let words = words::split(line)?;
    let words = as_zkcli_users_write(words.into_iter().map(Into::into));
    TxnPart::try_parse_from(words).map_err(|error| {
        let text = error.render().to_string();
        let first = text.lines().next().unwrap_or_default();
        first.trim_start_matches("error: ").to_owned()
    })
}

impl Part {
    fn add_to<'a>(&self, transaction: Transaction<'a>) -> Result<Transaction<'a>, CtlError> {
        Ok(match &self.part {
            TxnPart::Create(create) => {
                create.check_path()?;
                let acl = create.acl.as_deref().map_or_else(|| Ok(Acl::open()), parse_acl)?;
                let (data, mode) = (create.data.bytes()?, create_mode(create));
                match create.ttl_ms.map(Duration::from_millis) {
                    Some(ttl) => transaction.create_with_ttl(&create.path, &data, acl, mode, ttl),
                    None => transaction.create(&create.path, &data, acl, mode),
                }
            }
            TxnPart::Set(set) => {
                let version = set.old_version.unwrap_or(set.version);
                path::check(&set.path)?;
                transaction.set_data(&set.path, &data_to_set(set)?, version)
            }
            TxnPart::Delete(delete) => {
                path::check(&delete.path)?;
                transaction.delete(&delete.path, delete.old_version.unwrap_or(delete.version))
            }
            TxnPart::Check(check) => {
                path::check(&check.path)?;
                transaction.check(&check.path, check.version)
            }
        })
    }

    fn name(&self) -> &'static str {
        match self.part {
            TxnPart::Create(_) => "create",
            TxnPart::Set(_) => "set",
            TxnPart::Delete(_) => "delete",
            TxnPart::Check(_) => "check",
        }
    }

    fn path(&self) -> &str {
        match &self.part {
            TxnPart::Create(create) => &create.path,
            TxnPart::Set(set) => &set.path,
            TxnPart::Delete(delete) => &delete.path,
            TxnPart::Check(check) => &check.path,
        }
    }

    /// Says which part has failed.
    fn failed(&self, error: &CtlError) -> CtlError {
        let message = format!("{}: {} {}", self.place, self.name(), error.message);
        let (exit, code, hint) = (error.exit, error.code, error.hint);
        CtlError { code, hint, is_transient: error.is_transient, ..CtlError::new(exit, message) }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "reads are not asked for")]
    fn text(&self, result: &MultiResult) -> String {
        match result {
            MultiResult::Create { path } | MultiResult::Create2 { path, .. } => {
                format!("Created {}", name_text(path))
            }
            MultiResult::SetData(stat) => {
                format!("Set {}, version {}", name_text(self.path()), stat.version)
            }
            MultiResult::Delete => format!("Deleted {}", name_text(self.path())),
            _ => format!("Checked {}", name_text(self.path())),
        }
    }

    #[allow(clippy::wildcard_enum_match_arm, reason = "reads are not asked for")]
    fn json(&self, result: &MultiResult) -> Value {
        let operation = self.name();
        match result {
            MultiResult::Create { path } => json!({ "operation": operation, "path": path }),
            MultiResult::Create2 { path, stat } => {
                json!({ "operation": operation, "path": path, "stat": stat_json(stat) })
            }
            MultiResult::SetData(stat) => {
                json!({ "operation": operation, "path": self.path(), "stat": stat_json(stat) })
            }
            _ => json!({ "operation": operation, "path": self.path() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_lines_of_the_shell() {
        assert!(matches!(parse("create /a 'two words'"), Ok(TxnPart::Create(_))));
        assert!(matches!(parse("set -v 3 /a x"), Ok(TxnPart::Set(_))));
        assert!(matches!(parse("check /a -v 3"), Ok(TxnPart::Check(_))));
        for (bad, why) in [
            ("get /a", "unrecognized subcommand 'get'"),
            ("create 'open", "a single quote is not closed"),
            ("delete", "the following required arguments"),
            ("check -v x /a", "invalid value 'x'"),
        ] {
            let said = parse(bad).unwrap_err();
            assert!(said.contains(why), "{bad}: {said}");
        }
    }
}
