//! The words that `STYLE.md` rules out.

use std::fs;
use std::path::{Path, PathBuf};

use super::root;

/// Words and phrases of STYLE.md's list, in lower case. This file is not checked: it has to name
/// them.
const RULED_OUT: [&str; 26] = [
    "answers that",
    "answers the",
    "anybody",
    "deaf",
    "everybody",
    "exile",
    "farewell",
    "goodbye",
    "hear of",
    "heard of",
    "hears of",
    "heir",
    "is told",
    "lets",
    "nobody",
    "so many",
    "stand in for",
    "standing in",
    "stands in",
    "tell of",
    "tells of",
    "told",
    "torment",
    "troupe",
    "was told",
    "whoever",
];

/// What may come behind "is no".
const COMPARED: [&str; 7] = ["earlier", "later", "less", "longer", "more", "older", "shorter"];

/// Directories and files whose words are looked at.
const LOOKED_AT: [&str; 8] =
    ["jute", "server", "client", "tests", "docs", "README.md", "ARCHITECTURE.md", "CHANGELOG.md"];

/// Texts that hold such words for a reason: this list, and names that other programs chose.
const EXCEPT: [&str; 2] = ["tests/tests/tidy/words.rs", "tests/src/oracle/generate.rs"];

const KINDS: [&str; 9] = ["rs", "md", "toml", "py", "go", "java", "c", "txt", "mjs"];

fn texts(path: &Path, found: &mut Vec<PathBuf>) {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if path.is_dir() {
        if !["target", "node_modules", "corpus", ".venv"].contains(&name.as_ref()) {
            for entry in fs::read_dir(path).unwrap() {
                texts(&entry.unwrap().path(), found);
            }
        }
    } else if path.extension().is_some_and(|kind| KINDS.contains(&kind.to_string_lossy().as_ref()))
    {
        found.push(path.to_owned());
    }
}

/// Returns the phrases of a line that are ruled out.
fn ruled_out(line: &str) -> Vec<String> {
    let line = line.to_lowercase();
    let is_letter = |it: char| it.is_alphanumeric() || it == '_' || it == '\'';
    let words: Vec<&str> =
        line.split(|it| !is_letter(it)).filter(|word| !word.is_empty()).collect();
    let joined = format!(" {} ", words.join(" "));
    let phrases = RULED_OUT.iter().filter(|phrase| joined.contains(&format!(" {phrase} ")));
    let mut found: Vec<String> = phrases.map(|phrase| (*phrase).to_owned()).collect();
    for three in words.windows(4) {
        if let [before, "is", "no", behind] = three
            && *before != "there"
            && !COMPARED.contains(behind)
        {
            found.push(format!("is no {behind}"));
        }
    }
    found
}

#[test]
fn texts_are_in_plain_words() {
    let mut files = Vec::new();
    for place in LOOKED_AT {
        texts(&root().join(place), &mut files);
    }
    assert!(files.len() > 500, "only {} files were looked at", files.len());
    let mut found = Vec::new();
    for path in files {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        if EXCEPT.contains(&name.as_str()) {
            continue;
        }
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for (number, line) in text.lines().enumerate() {
            let phrases = ruled_out(line);
            if !phrases.is_empty() {
                found.push(format!("{name}:{}: {}", number + 1, phrases.join(", ")));
            }
        }
    }
    assert!(found.is_empty(), "{} lines:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_phrase_that_is_ruled_out_is_found() {
    assert_eq!(ruled_out("/// Tells of the end; whoever asks."), ["tells of", "whoever"]);
    assert_eq!(ruled_out("this is no port"), ["is no port"]);
    for fine in ["there is no port", "it is no longer there", "outlets", "let's", "told_soon"] {
        assert_eq!(ruled_out(fine), [""; 0], "{fine}");
    }
}
