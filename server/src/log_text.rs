//! Texts of clients in lines of a log.

use std::borrow::Cow;

/// The longest text of a client in a line, in bytes. Longer ones are cut.
pub(crate) const LOG_TEXT_BYTES_MAX: usize = 4096;

/// Returns a text as a line shows it. A longer text is cut, and ends with its full length.
/// Otherwise, a client with one long path could fill a disk with little work.
pub(crate) fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= LOG_TEXT_BYTES_MAX {
        return Cow::Borrowed(text);
    }
    let (shown, _) = text.split_at(text.floor_char_boundary(LOG_TEXT_BYTES_MAX));
    Cow::Owned(format!("{shown}…[{} bytes]", text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_shows_its_length() {
        let longest = "x".repeat(LOG_TEXT_BYTES_MAX);
        assert_eq!(cut(&longest), longest);
        let long = format!("x{}", "ü".repeat(LOG_TEXT_BYTES_MAX));
        let shown = format!("x{}…[8193 bytes]", "ü".repeat(LOG_TEXT_BYTES_MAX / 2 - 1));
        assert_eq!(cut(&long), shown);
    }
}
