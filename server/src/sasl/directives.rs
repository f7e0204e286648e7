//! The `key=value` lists of DIGEST-MD5, read as Java reads them.

use super::digest_md5::LoginError;

/// The directives of a response that are looked at; others are ignored.
const KEYS: [&str; 10] = [
    "username",
    "realm",
    "nonce",
    "cnonce",
    "nc",
    "qop",
    "digest-uri",
    "response",
    "charset",
    "authzid",
];

/// The values of the directives of a response.
#[derive(Debug, Default)]
pub(super) struct Directives([Option<Vec<u8>>; KEYS.len()]);

impl Directives {
    /// Reads a response. Each directive may be there once.
    pub(super) fn parse(token: &[u8]) -> Result<Self, LoginError> {
        let (mut parsed, mut rest) = (Self::default(), token);
        loop {
            rest = trim(rest, |byte| is_space(byte) || byte == b',');
            if rest.is_empty() {
                return Ok(parsed);
            }
            let (key, behind) = split(rest, |byte| is_space(byte) || b"=,".contains(&byte));
            let behind = trim(behind, is_space);
            rest = match behind.split_first() {
                // A last one without a value counts as empty.
                None if key.len() == rest.len() => {
                    parsed.set(key, Vec::new())?;
                    return Ok(parsed);
                }
                Some((b'=', value)) if !key.is_empty() => {
                    let (value, behind) = take_value(trim(value, is_space))?;
                    parsed.set(key, value)?;
                    behind
                }
                None | Some(_) => return Err(LoginError::Syntax("a directive without a value")),
            };
        }
    }

    /// Returns the value of a directive.
    pub(super) fn get(&self, key: &'static str) -> Option<&[u8]> {
        let place = KEYS.iter().position(|known| *known == key)?;
        self.0.get(place)?.as_deref()
    }

    /// Returns the value of a directive that must be there.
    pub(super) fn need(&self, key: &'static str) -> Result<&[u8], LoginError> {
        self.get(key).ok_or(LoginError::Missing(key))
    }

    fn set(&mut self, key: &[u8], value: Vec<u8>) -> Result<(), LoginError> {
        let is_key = |known: &&str| known.as_bytes().eq_ignore_ascii_case(key);
        let place = KEYS.iter().position(is_key);
        let Some(place) = place.and_then(|place| self.0.get_mut(place)) else { return Ok(()) };
        match place.replace(value) {
            None => Ok(()),
            Some(_) => Err(LoginError::Syntax("a directive is there twice")),
        }
    }
}

/// Reads one value, quoted or not; it ends at white space, a comma or the end.
fn take_value(input: &[u8]) -> Result<(Vec<u8>, &[u8]), LoginError> {
    if input.is_empty() {
        return Err(LoginError::Syntax("a directive without a value"));
    }
    let Some((b'"', quoted)) = input.split_first() else {
        let (value, rest) = split(input, |byte| is_space(byte) || byte == b',');
        return Ok((value.to_vec(), rest));
    };
    let mut value = Vec::new();
    let mut bytes = quoted.iter();
    loop {
        match bytes.next() {
            Some(b'"') => break,
            Some(b'\\') => match bytes.next() {
                Some(byte) => value.push(*byte),
                None => return Err(LoginError::Syntax("a quoted value does not end")),
            },
            Some(byte) => value.push(*byte),
            None => return Err(LoginError::Syntax("a quoted value does not end")),
        }
    }
    let rest = bytes.as_slice();
    match rest.first() {
        Some(byte) if !is_space(*byte) && *byte != b',' => {
            Err(LoginError::Syntax("a comma is missing behind a quoted value"))
        }
        Some(_) | None => Ok((value, rest)),
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn trim(input: &[u8], is_dropped: impl Fn(u8) -> bool) -> &[u8] {
    let kept = input.iter().position(|byte| !is_dropped(*byte)).unwrap_or(input.len());
    input.get(kept..).unwrap_or_default()
}

fn split(input: &[u8], ends: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = input.iter().position(|byte| ends(*byte)).unwrap_or(input.len());
    input.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_read_with_quotes_escapes_and_white_space() {
        let text = br#", username = "b\"o,b" ,REALM=zk,,nc=00000001 qop=auth,other="x",response="#;
        let parsed = Directives::parse(text).unwrap_err();
        assert_eq!(parsed.to_string(), "a directive without a value");
        let parsed = Directives::parse(&text[..text.len() - 1]).unwrap();
        assert_eq!(parsed.get("username"), Some(&b"b\"o,b"[..]));
        assert_eq!(parsed.get("realm"), Some(&b"zk"[..]));
        assert_eq!(parsed.get("nc"), Some(&b"00000001"[..]));
        assert_eq!(parsed.get("qop"), Some(&b"auth"[..]));
        assert_eq!(parsed.get("response"), Some(&b""[..]));
        assert_eq!(parsed.get("cnonce"), None);
    }

    #[test]
    fn whatever_else_is_refused() {
        for text in [
            "=x",
            "a,b=c",
            "a b=c",
            "a=",
            "a= ",
            "a=\"b",
            "a=\"b\\",
            "a=\"b\"c=d",
            "nonce=a,nonce=a",
            "nonce=a,NONCE=\"b\"",
        ] {
            assert!(Directives::parse(text.as_bytes()).is_err(), "{text}");
        }
        for text in ["", " ", ",,", "a=b", "a=\"\"", "a"] {
            assert!(Directives::parse(text.as_bytes()).is_ok(), "{text}");
        }
    }
}
