//! The name of a certificate's subject, as Java's `X500Principal.getName()` writes it: the form of
//! RFC 2253, which ACLs in the field hold.

use std::fmt::Write;

use x509_parser::der_parser::asn1_rs::{Tag, ToDer};
use x509_parser::prelude::{AttributeTypeAndValue, FromDer, X509Certificate, X509Name};

/// The attributes that have a name in RFC 2253. All others are written as numbers.
const KEYWORDS: [(&str, &str); 9] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

/// What is escaped within a value.
const ESCAPED: &str = ",=+<>#;\"\\";

/// Returns the name of a certificate's subject, or why there is none.
pub fn subject_name(certificate: &[u8]) -> Result<String, String> {
    let (_, certificate) = X509Certificate::from_der(certificate)
        .map_err(|error| format!("the certificate cannot be read: {error}"))?;
    name_text(certificate.subject())
}

/// Returns a name as text.
pub(super) fn name_text(name: &X509Name<'_>) -> Result<String, String> {
    let parts: Vec<_> = name.iter_rdn().collect();
    let mut text = String::new();
    for (place, part) in parts.into_iter().rev().enumerate() {
        for (at, attribute) in part.iter().enumerate() {
            match (place, at) {
                (0, 0) => {}
                (_, 0) => text.push(','),
                _ => text.push('+'),
            }
            push_attribute(&mut text, attribute)?;
        }
    }
    Ok(text)
}

fn push_attribute(name: &mut String, attribute: &AttributeTypeAndValue<'_>) -> Result<(), String> {
    let id = attribute.attr_type().to_id_string();
    let value = attribute.attr_value();
    let keyword = KEYWORDS.iter().find(|(known, _)| *known == id).map(|(_, keyword)| *keyword);
    name.push_str(keyword.unwrap_or(&id));
    name.push('=');
    if keyword.is_some() && is_text(value.tag()) {
        // Java decodes all of them as UTF-8, whatever their type.
        push_escaped(name, &String::from_utf8_lossy(value.data));
        return Ok(());
    }
    name.push('#');
    let der = value.to_der_vec().map_err(|error| format!("attribute {id}: {error}"))?;
    for byte in der {
        write!(name, "{byte:02x}").expect("a String takes everything");
    }
    Ok(())
}

fn is_text(tag: Tag) -> bool {
    [
        Tag::PrintableString,
        Tag::Utf8String,
        Tag::T61String,
        Tag::Ia5String,
        Tag::GeneralString,
        Tag::BmpString,
        Tag::UniversalString,
    ]
    .contains(&tag)
}

/// Escapes what has a meaning, and blanks at both ends.
fn push_escaped(name: &mut String, value: &str) {
    let is_blank = |c: char| matches!(c, ' ' | '\r');
    let leading = value.len() - value.trim_start_matches(is_blank).len();
    let trailing = value.trim_end_matches(is_blank).len();
    for (at, c) in value.char_indices() {
        match c {
            '\0' => name.push_str("\\00"),
            c => {
                if ESCAPED.contains(c) || at < leading || at >= trailing {
                    name.push('\\');
                }
                name.push(c);
            }
        }
    }
}
