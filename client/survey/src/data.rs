//! The data of znodes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// Returns the JSON form of data, a name and its value: `data` if it is UTF-8, `base64` if it is not.
pub fn json(data: &[u8]) -> (&'static str, Value) {
    match str::from_utf8(data) {
        Ok(text) => ("data", json!(text)),
        Err(_) => ("base64", json!(STANDARD.encode(data))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_that_is_not_utf8_is_in_base64() {
        assert_eq!(json(b"\xff"), ("base64", json!("/w==")));
        assert_eq!(json(b"x"), ("data", json!("x")));
    }
}
