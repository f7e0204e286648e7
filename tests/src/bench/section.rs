//! The section of a page that the bench writes, between two lines that mark it.

pub(super) const BEGIN: &str = "<!-- bench: begin -->";
pub(super) const END: &str = "<!-- bench: end -->";

/// Returns the page with another section; `None` when it does not have each mark once, on a line of
/// its own and in order.
pub(super) fn replace(page: &str, section: &str) -> Option<String> {
    let begin = only_line(page, BEGIN)? + BEGIN.len();
    let end = only_line(page, END)?;
    let (before, after) = (page.get(..begin)?, page.get(end..)?);
    (begin < end).then(|| format!("{before}\n\n{}\n\n{after}", section.trim()))
}

/// Returns where the one line of this text begins.
fn only_line(page: &str, text: &str) -> Option<usize> {
    let mut at = 0;
    let mut found = Vec::new();
    for line in page.split_inclusive('\n') {
        if line.trim_end() == text {
            found.push(at);
        }
        at += line.len();
    }
    if let [only] = found.as_slice() { Some(*only) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hand_written_parts_stay() {
        let page = format!("# A\n\ntext\n\n{BEGIN}\nold\n{END}\n\nmore `{BEGIN}`\n");
        let new = replace(&page, "\nnew\n| x |\n").unwrap();
        let expected = format!("# A\n\ntext\n\n{BEGIN}\n\nnew\n| x |\n\n{END}\n\nmore `{BEGIN}`\n");
        assert_eq!(new, expected);
        assert_eq!(replace(&new, "new\n| x |").as_deref(), Some(expected.as_str()));
    }

    #[test]
    fn a_page_without_the_marks_is_refused() {
        for page in [
            String::new(),
            format!("{BEGIN}\n"),
            format!("{END}\n{BEGIN}\n"),
            format!("{BEGIN}\n{BEGIN}\n{END}\n"),
        ] {
            assert_eq!(replace(&page, "new"), None, "{page}");
        }
    }
}
