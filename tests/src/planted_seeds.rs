//! The table in `docs/testing.md`: the seed with which the simulator finds each planted bug.

use std::fmt::Write;

/// The head of the table.
const HEAD: &str = "| planted bug | first seed | broken promise |\n|---|---|---|\n";

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstSeed {
    /// The bug.
    pub bug: String,
    /// The first seed that breaks the promise with it.
    pub seed: u64,
    /// The promise.
    pub promise: String,
}

/// The table of a document; `None` if there is none.
pub fn read(document: &str) -> Option<Vec<FirstSeed>> {
    let (_, table, _) = cut(document)?;
    table.lines().map(read_row).collect()
}

/// The document with these rows in its table; `None` if it has no table.
pub fn rewrite(document: &str, rows: &[FirstSeed]) -> Option<String> {
    let (before, _, after) = cut(document)?;
    let mut table = String::new();
    for FirstSeed { bug, seed, promise } in rows {
        // A String takes everything.
        let _ = writeln!(table, "| `{bug}` | {seed} | {promise} |");
    }
    Some([before, &table, after].concat())
}

/// What is before the rows, the rows, and what is behind them.
fn cut(document: &str) -> Option<(&str, &str, &str)> {
    let from = document.find(HEAD)? + HEAD.len();
    let (before, rest) = document.split_at_checked(from)?;
    let rows = rest.split_inclusive('\n').take_while(|line| line.starts_with('|'));
    let (table, after) = rest.split_at_checked(rows.map(str::len).sum())?;
    Some((before, table, after))
}

fn read_row(line: &str) -> Option<FirstSeed> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let bug = cells.next()?.trim_matches('`').to_owned();
    let seed = cells.next()?.parse().ok()?;
    let promise = cells.next()?.to_owned();
    Some(FirstSeed { bug, seed, promise })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_all_else_stays() {
        let row = |bug: &str, seed| FirstSeed {
            bug: bug.to_owned(),
            seed,
            promise: "P1 same log".to_owned(),
        };
        let document = format!("before\n\n{HEAD}| `old` | 7 | P9 time |\n\nafter\n");
        let rows = [row("one", 1), row("two", 12)];
        let rewritten = rewrite(&document, &rows).unwrap_or_default();
        assert_eq!(read(&rewritten), Some(rows.to_vec()));
        assert!(rewritten.starts_with("before\n\n| planted bug"), "{rewritten}");
        assert!(rewritten.ends_with(" |\n\nafter\n"), "{rewritten}");
        assert_eq!(read("no table"), None);
        assert_eq!(read(&format!("{HEAD}| `bug` | many | P1 |\n")), None, "not a number");
    }
}
