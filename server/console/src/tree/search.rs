//! Finding znodes by a part of their names, within limits.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;
use zoolet_survey::path::join;

use crate::failure::Failure;
use crate::shared_client::answer;
use crate::state::{Asked, State};

/// The limits of one search.
const FOUND_MAX: usize = 200;
const VISITED_MAX: usize = 50_000;
const TIME_MAX: Duration = Duration::from_secs(10);

/// How many znodes are listed at a time.
const LISTS_MAX: usize = 64;

/// `search`: the znodes below a path whose name contains a text, in any case of letters.
pub(crate) async fn search(state: &State, asked: &Asked) -> Result<Value, Failure> {
    let top = asked.query.path("path")?;
    let wanted = asked.query.text("text").unwrap_or_default().to_lowercase();
    if wanted.is_empty() {
        return Err(Failure::invalid("text is missing: a part of the name that is looked for"));
    }
    let client = state.client(asked).await?;
    let begun = Instant::now();
    let (mut found, mut visited, mut refused) = (Vec::new(), 0_usize, 0_usize);
    let mut next = VecDeque::from([top.to_owned()]);
    let has_room = |found: &Vec<String>, visited| {
        found.len() < FOUND_MAX && visited < VISITED_MAX && begun.elapsed() < TIME_MAX
    };
    while !next.is_empty() && has_room(&found, visited) {
        let listed = next.drain(..next.len().min(LISTS_MAX)).collect::<Vec<_>>();
        let lists = join_all(listed.iter().map(|path| answer(client.children(path)))).await;
        for (path, list) in listed.iter().zip(lists) {
            let mut names = match list {
                Ok((names, _)) => names,
                Err(_) if path != top => {
                    refused += 1;
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            names.sort_unstable();
            visited += names.len();
            for name in names {
                let child = join(path, &name);
                if name.to_lowercase().contains(&wanted) {
                    found.push(child.clone());
                }
                next.push_back(child);
            }
        }
    }
    let is_complete = next.is_empty() && found.len() <= FOUND_MAX;
    found.truncate(FOUND_MAX);
    Ok(json!({
        "path": top,
        "found": found,
        "visited": visited,
        "refused": refused,
        "isComplete": is_complete,
    }))
}
