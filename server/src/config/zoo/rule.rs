//! What becomes of a key: the types of the tables.

/// What becomes of a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Rule {
    /// The reader of the file itself deals with it.
    Own,
    /// It fills a setting with a number, in units of `scale`.
    Number { setting: (&'static str, &'static str), scale: i128, low: Low },
    /// The same, but what is out of the setting's range is brought into it with a warning:
    /// ZooKeeper takes it, and a server that did not start would be worse.
    Clamped { setting: (&'static str, &'static str), scale: i128, low: Low },
    /// It fills a setting with `true` or `false`.
    TrueFalse { setting: (&'static str, &'static str) },
    /// It fills a setting with whether it is `yes`, in lower case.
    Yes { setting: (&'static str, &'static str) },
    /// It fills a setting with its text.
    Text { setting: (&'static str, &'static str) },
    /// It does nothing here. A value for which that makes a difference is warned of.
    Inert { shape: Shape, same: &'static [&'static str], why: &'static str },
    /// Ignoring it would be unsafe. Any other value than these is an error.
    Refused { shape: Shape, same: &'static [&'static str], why: &'static str },
}

/// What a number below the usual range means in ZooKeeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Low {
    /// Nothing: it is wrong.
    Wrong,
    /// No limit, which is 0 here.
    Zero,
    /// Not set.
    Unset,
    /// This number, and ZooKeeper warns of it.
    Raised(i128),
}

/// The values that a key accepts even where nothing is done with them, so that a slip of the
/// finger is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Any,
    TrueFalse,
    YesNo,
    Number,
}

impl Shape {
    /// What is expected, if the value is something else.
    pub(super) fn mismatch(self, value: &str) -> Option<&'static str> {
        let one_of = |words: [&str; 2]| words.iter().any(|word| word.eq_ignore_ascii_case(value));
        let (fits, expected) = match self {
            Self::Any => (true, ""),
            Self::TrueFalse => (one_of(["true", "false"]), "true or false"),
            Self::YesNo => (one_of(["yes", "no"]), "yes or no"),
            Self::Number => (value.parse::<f64>().is_ok_and(f64::is_finite), "a number"),
        };
        (!fits).then_some(expected)
    }
}

/// A key without the prefix `zookeeper.`. A name that ends in `*` stands for all names that
/// begin like it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) rule: Rule,
}

pub(super) const fn own(name: &'static str) -> Key {
    Key { name, rule: Rule::Own }
}

pub(super) const fn true_false(name: &'static str, setting: (&'static str, &'static str)) -> Key {
    Key { name, rule: Rule::TrueFalse { setting } }
}

pub(super) const fn text(name: &'static str, setting: (&'static str, &'static str)) -> Key {
    Key { name, rule: Rule::Text { setting } }
}
