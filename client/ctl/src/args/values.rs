//! Values of options.

use std::fmt;
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

/// A duration: a number and `ms`, `s`, `m` or `h`; seconds when there is only a number.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_s = match unit {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("a duration is written 500ms, 5s, 1m or 2h".into()),
    };
    let number: f64 = number.parse().map_err(|_| "a duration starts with a number".to_owned())?;
    Duration::try_from_secs_f64(number * unit_s).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_mins(2)));
        for bad in ["", "s", "-1s", "5 s", "5d", "1e9", "1..2", "99999999999999999999999h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
