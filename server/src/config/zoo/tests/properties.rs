//! Java's properties format; the expected pairs are what `java.util.Properties` makes of the
//! same texts, without the blanks at the end of a value, which ZooKeeper trims.

use crate::config::files::Source;
use crate::config::zoo::properties::parse;

fn source(text: &str) -> Source {
    Source { file: "zoo.cfg".into(), text: text.to_owned() }
}

fn pairs(text: &str) -> Vec<(String, String, usize)> {
    let parsed = parse(&source(text)).unwrap();
    parsed.into_iter().map(|p| (p.key, p.value, p.line)).collect()
}

#[test]
fn every_separator_and_escape_of_java_is_read() {
    type Row<'a> = (&'a str, &'a [(&'a str, &'a str, usize)]);
    let table: &[Row<'_>] = &[
        ("a=b", &[("a", "b", 1)]),
        ("a:b", &[("a", "b", 1)]),
        ("a b", &[("a", "b", 1)]),
        ("a\tb", &[("a", "b", 1)]),
        ("  a  =  b  ", &[("a", "b", 1)]),
        ("a = = b", &[("a", "= b", 1)]),
        ("a  : b=c", &[("a", "b=c", 1)]),
        ("a", &[("a", "", 1)]),
        ("a=", &[("a", "", 1)]),
        ("# a=b\n! c=d\n\n  # e=f\ng=h", &[("g", "h", 5)]),
        ("a=b # no comment", &[("a", "b # no comment", 1)]),
        ("a=b\\\n   c\\\n\td\ne=f", &[("a", "bcd", 1), ("e", "f", 4)]),
        ("a=b\\\\\nc=d", &[("a", "b\\", 1), ("c", "d", 2)]),
        ("a=b\\\n# c", &[("a", "b# c", 1)]),
        ("# a\\\nb=c", &[("b", "c", 2)]),
        ("a\\ b\\=c\\:d=e", &[("a b=c:d", "e", 1)]),
        ("a=\\u0041\\u00e4\\ud83d\\ude00", &[("a", "Aä😀", 1)]),
        ("a=x\\ty\\z", &[("a", "x\tyz", 1)]),
        ("a=b\r\nc=d\re=f", &[("a", "b", 1), ("c", "d", 2), ("e", "f", 3)]),
        ("a=b\\\r\n  c", &[("a", "bc", 1)]),
        ("a=b\\", &[("a", "b", 1)]),
        ("a=b\\\n\nc=d", &[("a", "b", 1), ("c", "d", 3)]),
        ("a=b\\\n\\\n c", &[("a", "bc", 1)]),
        ("  \\\n a=b", &[("a", "b", 1)]),
        ("a\\\nb=c", &[("ab", "c", 1)]),
        ("\u{c}a=b", &[("a", "b", 1)]),
        ("=b", &[("", "b", 1)]),
        ("", &[]),
    ];
    for (text, expected) in table {
        let expected: Vec<_> =
            expected.iter().map(|(k, v, l)| ((*k).to_owned(), (*v).to_owned(), *l)).collect();
        assert_eq!(pairs(text), expected, "{text:?}");
    }
}

#[test]
fn a_bad_escape_is_an_error_at_its_line() {
    for text in ["a=b\nc=\\u12", "a=b\nc=\\u12g4", "a=b\nc=\\ud83d", "a=b\n\\u+123=c"] {
        let error = parse(&source(text)).unwrap_err();
        assert_eq!(error.line, 2, "{text:?}");
    }
}
