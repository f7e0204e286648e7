//! A line of the shell taken apart into words.

/// The words of a line. Single quotes keep everything; double quotes keep all but `\"` and `\\`; a
/// backslash outside of quotes keeps the next character. The error says what is wrong with the line.
pub(crate) fn split(line: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            c if c.is_whitespace() => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err("a single quote is not closed"),
                    }
                }
            }
            '"' => double_quoted(&mut characters, word.get_or_insert_default())?,
            '\\' => {
                let next = characters.next().ok_or("the line ends with a backslash")?;
                word.get_or_insert_default().push(next);
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

fn double_quoted(
    characters: &mut impl Iterator<Item = char>,
    word: &mut String,
) -> Result<(), &'static str> {
    const OPEN: &str = "a double quote is not closed";
    loop {
        match characters.next().ok_or(OPEN)? {
            '"' => return Ok(()),
            '\\' => match characters.next().ok_or(OPEN)? {
                c @ ('"' | '\\') => word.push(c),
                c => word.extend(['\\', c]),
            },
            c => word.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_backslashes_keep_words_together() {
        for (line, words) in [
            ("", vec![]),
            ("  ls   / ", vec!["ls", "/"]),
            ("set /a 'two words'", vec!["set", "/a", "two words"]),
            (r#"set /a "say \"x\" \n""#, vec!["set", "/a", r#"say "x" \n"#]),
            (r"get /a\ b", vec!["get", "/a b"]),
            ("set /a ''", vec!["set", "/a", ""]),
            ("a'b'\"c\"d", vec!["abcd"]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
        for bad in ["'", "\"", "\\", "a 'b", "\"\\"] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }
}
