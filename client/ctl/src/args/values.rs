//! Values of options.

use std::fmt;
use std::num::NonZeroUsize;
use std::time::Duration;

/// An identity, `SCHEME:ID`. `Debug` does not show it: it holds a password.
#[derive(Clone)]
pub(crate) struct Identity(pub(crate) String);

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(..)")
    }
}

impl From<&str> for Identity {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// A password. `Debug` does not show it.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// The longest duration, a million hours: what is added to a time must not overflow.
const DURATION_S_MAX: f64 = 3.6e9;

/// A duration: a number and `ms`, `s`, `m`, `h` or `d`; seconds when there is only a number.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_s = match unit {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err("a duration is written 500ms, 5s, 1m, 2h or 7d".into()),
    };
    let number: f64 = number.parse().map_err(|_| "a duration starts with a number".to_owned())?;
    let seconds = number * unit_s;
    if seconds > DURATION_S_MAX {
        return Err("a duration is a million hours at most".to_owned());
    }
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// A number from one to `MAX`.
pub(crate) fn count<const MAX: usize>(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse().ok().filter(|number: &NonZeroUsize| number.get() <= MAX);
    number.ok_or_else(|| format!("it is a number from 1 to {MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_mins(2)));
        assert_eq!(duration("7d"), Ok(Duration::from_hours(168)));
        for bad in ["", "s", "-1s", "5 s", "5w", "1e9", "1..2", "1000001h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
        assert_eq!(duration("1000000h"), Ok(Duration::from_hours(1_000_000)));
    }

    #[test]
    fn counts_have_an_end() {
        assert_eq!(count::<5>("5").map(NonZeroUsize::get), Ok(5));
        for bad in ["0", "6", "-1", "", "99999999999999999999"] {
            assert_eq!(count::<5>(bad).unwrap_err(), "it is a number from 1 to 5", "{bad}");
        }
    }
}
