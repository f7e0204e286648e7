//! "Did you mean": the known name nearest to a mistyped one.

/// A clause to append to an error about an unknown name; empty when nothing is near.
pub(super) fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    match nearest(name, known) {
        Some(known) => format!("; did you mean `{known}`?"),
        None => String::new(),
    }
}

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    // A name this long is not a slip of the finger, and comparing it would cost its square.
    if name.len() > 100 {
        return None;
    }
    let name = name.to_lowercase();
    known
        .map(|known| (distance(&name, &known.to_lowercase()), known))
        .filter(|(distance, known)| *distance <= known.len().div_ceil(4).min(4))
        .min()
        .map(|(_, known)| known)
}

/// Levenshtein's distance: insertions, deletions and replacements of single characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        let mut left = i + 1;
        next.push(left);
        for (pair, to) in row.windows(2).zip(&b) {
            let &[diagonal, above] = pair else { continue };
            let replaced = diagonal + usize::from(from != *to);
            left = replaced.min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}
