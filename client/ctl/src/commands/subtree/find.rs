//! `find`: the znodes of a subtree that fit, as they are visited.

use std::time::Duration;

use serde_json::json;
use zoolet_client::{ErrorCode, SessionId};
use zoolet_survey::clock::now_ms;

use super::super::Context;
use super::super::walk::{Visited, Walk};
use crate::args::Find;
use crate::error::CtlError;
use crate::format::{name_text, stat_json, stat_text};
use crate::path;

/// `find [PATH] [--name GLOB] …`. Of the tree it keeps in memory what the walk has still to visit:
/// the siblings of the znodes on the way down.
pub(crate) async fn find(arguments: &Find, context: &Context) -> Result<(), CtlError> {
    path::check(&arguments.path)?;
    let now_ms = now_ms();
    let mut walk = Walk::new(&arguments.path)
        .json(context.output.json)
        .depth(arguments.max_depth.unwrap_or(usize::MAX));
    let (mut visited, mut printed) = (0, 0);
    let stopped = |error: CtlError, visited: usize, printed: usize| {
        let message = format!("{}; {printed} of {visited} znodes fitted so far", error.message);
        CtlError { message, ..error }
    };
    loop {
        let found = walk.next(&context.connection).await;
        let Some(found) = found.map_err(|error| stopped(error, visited, printed))? else { break };
        let is_it = fits(arguments, &found, now_ms)
            && data_fits(arguments, &found, context)
                .await
                .map_err(|error| stopped(error, visited, printed))?;
        visited += 1;
        if !is_it {
            continue;
        }
        printed += 1;
        let text = || {
            let path = name_text(&found.path);
            if arguments.stat { format!("{path}\n{}", stat_text(&found.stat)) } else { path }
        };
        let json = || json!({ "path": found.path, "stat": stat_json(&found.stat) });
        context.output.result(text, json)?;
    }
    Ok(())
}

/// Whether a znode fits by what the list of its children says of it.
fn fits(arguments: &Find, found: &Visited, now_ms: i64) -> bool {
    let stat = &found.stat;
    let name = found.path.rsplit('/').next().unwrap_or_default();
    let age_ms = now_ms.saturating_sub(stat.mtime);
    let bytes = u64::try_from(stat.data_length).unwrap_or(0);
    found.depth >= arguments.min_depth
        && arguments.name.as_ref().is_none_or(|glob| glob.matches(name))
        && (!arguments.ephemeral || stat.ephemeral_owner != SessionId::NONE)
        && arguments.owner.is_none_or(|owner| stat.ephemeral_owner == owner)
        && (!arguments.leaf || found.children.is_empty())
        && arguments.size.iter().all(|bound| bound.holds(bytes))
        && arguments.newer.is_none_or(|newer| age_ms < ms(newer))
        && arguments.older.is_none_or(|older| age_ms > ms(older))
}

/// Whether its data fits, which is read only if it is asked for.
async fn data_fits(arguments: &Find, found: &Visited, context: &Context) -> Result<bool, CtlError> {
    let Some(text) = &arguments.contains else { return Ok(true) };
    if usize::try_from(found.stat.data_length).is_ok_and(|length| length < text.len()) {
        return Ok(false);
    }
    context.connection.go_on()?;
    let get = context.connection.client.get(&found.path);
    match context.connection.ask(&found.path, get).await {
        Ok((data, _)) => Ok(contains(&data, text.as_bytes())),
        // Deleted since it was listed.
        Err(error) if error.code == Some(ErrorCode::NoNode) => Ok(false),
        Err(error) => Err(error),
    }
}

fn contains(data: &[u8], text: &[u8]) -> bool {
    text.is_empty() || data.windows(text.len()).any(|window| window == text)
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_found_in_data() {
        assert!(contains(b"abc", b"bc") && contains(b"", b"") && contains(b"a\xffb", b"b"));
        assert!(!contains(b"abc", b"ac") && !contains(b"", b"a"));
    }
}
