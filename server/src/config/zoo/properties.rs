//! The format of Java's `Properties.load`, line by line.
//!
//! A natural line ends at CR, LF or CR LF; one that ends in an odd number of backslashes goes on
//! in the next, without that one's leading blanks. `#` and `!` open a comment line. The key ends
//! at the first unescaped `=`, `:` or blank.

use super::super::error::ConfigError;
use super::super::files::Source;

/// A key and its value, and the line on which the key stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Property {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) line: usize,
    /// Whether key and value are written in ASCII: Java reads other bytes as ISO-8859-1.
    pub(super) is_ascii: bool,
}

/// Reads all properties in the order of the file, repeated keys included.
pub(super) fn parse(source: &Source) -> Result<Vec<Property>, ConfigError> {
    let mut properties = Vec::new();
    for (line, text) in logical_lines(&source.text) {
        let (key, value) = split_key(&text);
        let unescaped = unescape(key).and_then(|key| Ok((key, unescape(value)?)));
        let (key, value) = unescaped.map_err(|why| source.error(line, why))?;
        let (value, is_ascii) = (trimmed(&value).to_owned(), text.is_ascii());
        properties.push(Property { key, value, line, is_ascii });
    }
    Ok(properties)
}

/// Trims a text as Java's `String.trim` does. Rust trims more: to Apache ZooKeeper, `yes` and a
/// no-break space are not `yes`.
pub(super) fn trimmed(text: &str) -> &str {
    text.trim_matches(|c| c <= ' ')
}

/// What Java takes for a blank.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\x0c')
}

/// The lines that are neither empty nor comments, continuations joined, each with the number of
/// its first natural line.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut logical = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, natural) in natural_lines(text).into_iter().enumerate() {
        let natural = natural.trim_start_matches(is_blank);
        // A comment cannot be continued, and a continuation cannot be a comment.
        if open.is_none() && (natural.is_empty() || natural.starts_with(['#', '!'])) {
            continue;
        }
        let (line, mut joined) = open.take().unwrap_or((index + 1, String::new()));
        let backslashes = natural.bytes().rev().take_while(|byte| *byte == b'\\').count();
        if backslashes % 2 == 1 {
            joined.push_str(natural.strip_suffix('\\').unwrap_or(natural));
            open = Some((line, joined));
        } else {
            joined.push_str(natural);
            logical.push((line, joined));
        }
    }
    logical.extend(open);
    logical.retain(|(_, text)| !text.is_empty());
    logical
}

fn natural_lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        // CR LF is one line end, a CR alone is one as well.
        lines.extend(line.strip_suffix('\r').unwrap_or(line).split('\r'));
    }
    lines
}

/// Splits a logical line where its key ends.
fn split_key(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.char_indices().find(|(_, c)| {
        let ends = !escaped && (matches!(c, '=' | ':') || is_blank(*c));
        escaped = !escaped && *c == '\\';
        ends
    });
    let Some((end, _)) = end else { return (line, "") };
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(is_blank);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, rest.trim_start_matches(is_blank))
}

/// Resolves backslashes: `\t \n \r \f`, `\u` with four hexadecimal digits as UTF-16, and any other character as itself.
fn unescape(text: &str) -> Result<String, String> {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    let mut buffer = [0_u16; 2];
    while let Some(c) = chars.next() {
        let plain = match c {
            '\\' => match chars.next() {
                None => break,
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\x0c',
                Some('u') => {
                    units.push({
                        let digits: String = chars.by_ref().take(4).collect();
                        unicode_escape(&digits)?
                    });
                    continue;
                }
                Some(other) => other,
            },
            c => c,
        };
        units.extend_from_slice(plain.encode_utf16(&mut buffer));
    }
    String::from_utf16(&units).map_err(|_| "a \\u escape is half a character".to_owned())
}

fn unicode_escape(digits: &str) -> Result<u16, String> {
    let hex = digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    match u16::from_str_radix(digits, 16) {
        Ok(unit) if hex => Ok(unit),
        _ => Err(format!("`\\u{digits}`: expected four hexadecimal digits")),
    }
}
