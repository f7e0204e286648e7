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

/// Words that names are free of besides, in lower case: a text may need one of them, a name has a
/// plainer one.
const RULED_OUT_IN_NAMES: [&str; 11] = [
    "buried", "bury", "crowd", "heard", "hear", "hears", "stand", "stands", "stood", "tell",
    "tells",
];

/// What may come behind "is no".
const COMPARED: [&str; 7] = ["earlier", "later", "less", "longer", "more", "older", "shorter"];

/// Directories and files whose words are looked at.
const LOOKED_AT: [&str; 9] = [
    "jute",
    "server",
    "client",
    "tests",
    "tls",
    "docs",
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
];

/// Texts that hold such words for a reason: this list, and names that other programs chose.
const EXCEPT: [&str; 2] = ["tests/tests/tidy/words.rs", "tests/src/oracle/generate.rs"];

const KINDS: [&str; 11] = ["rs", "md", "toml", "py", "go", "java", "c", "h", "js", "txt", "script"];

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

/// Returns the words of a name, in lower case: `until_told` and `UntilTold` are both two words.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in name.chars() {
        let begins = letter.is_uppercase() && before.is_lowercase();
        if (letter == '_' || begins) && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if letter != '_' {
            words.last_mut().unwrap().extend(letter.to_lowercase());
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns the phrases of a line that are ruled out.
fn ruled_out(line: &str) -> Vec<String> {
    let is_letter = |it: char| it.is_alphanumeric() || it == '_' || it == '\'';
    let (mut all, mut of_names) = (Vec::new(), Vec::new());
    let mut before = ' ';
    for piece in line.split_inclusive(|it| !is_letter(it)) {
        let token = piece.trim_end_matches(|it| !is_letter(it)).trim_matches('\'');
        let behind = piece.chars().last().filter(|it| !is_letter(*it)).unwrap_or(' ');
        let words = words(token);
        // Several words in one, a call or a field: that is a name, not a word of a sentence.
        if words.len() > 1 || behind == '(' || before == '.' {
            of_names.extend(words.clone());
        }
        all.extend(words);
        before = behind;
    }
    let joined = format!(" {} ", all.join(" "));
    let phrases = RULED_OUT.iter().filter(|phrase| joined.contains(&format!(" {phrase} ")));
    let mut found: Vec<String> = phrases.map(|phrase| (*phrase).to_owned()).collect();
    let named = RULED_OUT_IN_NAMES.iter().filter(|word| of_names.iter().any(|it| it == *word));
    found.extend(named.map(|word| format!("{word} in a name")));
    for four in all.windows(4) {
        if let [before, is, no, behind] = four
            && (before != "there" && is == "is" && no == "no")
            && !COMPARED.contains(&behind.as_str())
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
    for fine in ["there is no port", "it is no longer there", "outlets", "let's", "tolder"] {
        assert_eq!(ruled_out(fine), [""; 0], "{fine}");
    }
}

#[test]
fn a_word_that_is_ruled_out_is_found_in_a_name() {
    assert_eq!(ruled_out("fn until_told() {"), ["told"]);
    assert_eq!(ruled_out("struct UntilTold;"), ["told"]);
    assert_eq!(ruled_out("const SO_MANY: u32 = 1;"), ["so many"]);
    assert_eq!(ruled_out("assert!(error.is_no_node());"), ["is no node"]);
    assert_eq!(ruled_out("program.tell(line)"), ["tell in a name"]);
    assert_eq!(ruled_out("(self.heard, 1)"), ["heard in a name"]);
    for fine in ["/// They tell all: hear (or read).", "fn there_is_no_port() {", "TOLDER"] {
        assert_eq!(ruled_out(fine), [""; 0], "{fine}");
    }
}
