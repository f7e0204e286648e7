//! A line about a night, in the ledger that the simulator's nights have as well.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

use serde_json::json;

use super::night::Sum;

/// Where the line goes, and which commit it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    pub file: PathBuf,
    pub commit: String,
}

impl Ledger {
    /// Adds a line about the seeds from this one on. `program` is what a line of the simulator does not
    /// have; the time of all runs is in hours.
    pub(super) fn add(&self, from: u64, sum: &Sum) -> io::Result<()> {
        if let Some(directory) = self.file.parent() {
            fs::create_dir_all(directory)?;
        }
        let faults = sum.faults.iter().map(|(kind, count)| (kind.name().to_owned(), json!(count)));
        let line = json!({
            "program": "chaos",
            "commit": self.commit,
            "from": from,
            "seeds": sum.seeds,
            "real_hours": sum.length.as_secs_f64() / 3600.0,
            "faults": faults.collect::<serde_json::Map<_, _>>(),
            "checked": sum.checked,
            "violations": sum.broken.len(),
            "broken": sum.broken,
        });
        let mut file = OpenOptions::new().create(true).append(true).open(&self.file)?;
        writeln!(file, "{line}")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::*;
    use crate::chaos::Kind;

    #[test]
    fn each_night_is_a_line() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("evidence/ledger.jsonl");
        let ledger = Ledger { file: file.clone(), commit: "abc".to_owned() };
        let mut sum = Sum { seeds: 5, length: Duration::from_mins(30), ..Sum::default() };
        sum.faults.insert(Kind::KillAll, 3);
        sum.checked.insert("reads".to_owned(), 7);
        sum.broken.push(3);
        for from in [1, 2] {
            ledger.add(from, &sum).unwrap();
        }
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let expected = |from: u64| {
            json!({
                "program": "chaos", "commit": "abc", "from": from, "seeds": 5, "real_hours": 0.5,
                "faults": {"kill-all": 3}, "checked": {"reads": 7}, "violations": 1, "broken": [3],
            })
        };
        assert_eq!(lines, [expected(1), expected(2)]);
    }
}
