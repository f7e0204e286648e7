//! The data of znodes, between bytes and JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::requests::Sent;

/// The longest data that is shown and written, as servers have it by default.
const DATA_BYTES_MAX: usize = 1 << 20;

/// Returns data as text if it is UTF-8 without control characters, or else as bytes; the length alone
/// if it is too long.
pub(crate) fn shown(data: &[u8]) -> Value {
    if data.len() > DATA_BYTES_MAX {
        return json!({ "length": data.len(), "isTooLong": true });
    }
    let is_shown = |it: char| !it.is_control() || ['\n', '\r', '\t'].contains(&it);
    match str::from_utf8(data) {
        Ok(text) if text.chars().all(is_shown) => json!({ "length": data.len(), "text": text }),
        Ok(_) | Err(_) => json!({ "length": data.len(), "base64": STANDARD.encode(data) }),
    }
}

/// Reads the data that a page sends: `text`, or `base64`.
pub(crate) fn sent(sent: &Sent) -> Result<Vec<u8>, Failure> {
    let data = match (sent.optional_text("text"), sent.optional_text("base64")) {
        (Some(text), None) => text.as_bytes().to_vec(),
        (None, Some(text)) => {
            STANDARD.decode(text).map_err(|error| Failure::invalid(format!("base64: {error}")))?
        }
        _ => return Err(Failure::invalid("text or base64 is expected, one of them")),
    };
    if data.len() > DATA_BYTES_MAX {
        let why = format!("the data has {} bytes, the limit is {DATA_BYTES_MAX}", data.len());
        return Err(Failure::new(hyper::StatusCode::PAYLOAD_TOO_LARGE, why));
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_text_or_bytes() {
        assert_eq!(shown("grüße\n".as_bytes()), json!({ "length": 8, "text": "grüße\n" }));
        assert_eq!(shown(b"\xff\0"), json!({ "length": 2, "base64": "/wA=" }));
        assert_eq!(shown(b"a\x1b[2J")["text"], Value::Null, "what would disturb a terminal");
        assert_eq!(shown(&vec![b'a'; DATA_BYTES_MAX + 1])["isTooLong"], true);
    }
}
