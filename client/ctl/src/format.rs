//! How znodes look: text for people, JSON for programs.

use std::fmt::Write as _;

use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine as _};
use serde_json::{Value, json};
use zoolet_client::{Acl, Stat};
use zoolet_survey::permissions::letters;

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// Data for a person: text as it is, with what would disturb a terminal escaped; bytes that are not
/// text as `\xNN`.
pub(crate) fn data_text(data: &[u8]) -> String {
    let mut text = String::with_capacity(data.len());
    for chunk in data.utf8_chunks() {
        text.push_str(&lines_text(chunk.valid()));
        for byte in chunk.invalid() {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Data in base64.
pub(crate) fn base64_text(data: &[u8]) -> String {
    STANDARD.encode(data)
}

/// The data that base64 stands for.
pub(crate) fn base64_bytes(text: &[u8]) -> Result<Vec<u8>, DecodeError> {
    STANDARD.decode(text)
}

/// Data in lines of 16 bytes, as zkCli prints them: where they begin, as numbers, as text.
pub(crate) fn hexdump_text(data: &[u8]) -> String {
    if data.is_empty() {
        return String::new();
    }
    let columns: Vec<String> = (0..16).map(|column| format!("{column:2x}")).collect();
    let edge = "-".repeat(49);
    let mut lines = vec![
        format!("         +{edge}+"),
        format!("         | {} |", columns.join(" ")),
        format!("+--------+{edge}+----------------+"),
    ];
    for (line, bytes) in data.chunks(16).enumerate() {
        let numbers: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let is_text = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
        let text: String =
            bytes.iter().map(|byte| if is_text(byte) { char::from(*byte) } else { '.' }).collect();
        lines.push(format!("|{:08x}| {:<47} |{text:<16}|", line * 16, numbers.join(" ")));
    }
    lines.push(format!("+--------+{edge}+----------------+"));
    lines.join("\n")
}

/// Text of several lines, with what would disturb a terminal escaped.
pub(crate) fn lines_text(text: &str) -> String {
    escaped(text, |c| acts_on_viewers(c) && c != '\n' && c != '\t')
}

/// A name or path, or a message that may contain some, on one line.
pub(crate) fn name_text(name: &str) -> String {
    escaped(name, acts_on_viewers)
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_escaped(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Whether a terminal acts on a character rather than shows it, or an editor does: controls, ends of
/// lines, and marks that turn the direction of the text around them. They are those of the audit log.
pub(crate) fn acts_on_viewers(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || ('\u{202a}'..='\u{202e}').contains(&character)
        || ('\u{2066}'..='\u{2069}').contains(&character)
}

/// A Stat as zkCli prints it, with times in UTC.
pub(crate) fn stat_text(stat: &Stat) -> String {
    [
        format!("cZxid = {}", stat.czxid),
        format!("ctime = {}", time_text(stat.ctime)),
        format!("mZxid = {}", stat.mzxid),
        format!("mtime = {}", time_text(stat.mtime)),
        format!("pZxid = {}", stat.pzxid),
        format!("cversion = {}", stat.cversion),
        format!("dataVersion = {}", stat.version),
        format!("aclVersion = {}", stat.aversion),
        format!("ephemeralOwner = {}", stat.ephemeral_owner),
        format!("dataLength = {}", stat.data_length),
        format!("numChildren = {}", stat.num_children),
    ]
    .join("\n")
}

/// A Stat as JSON. Zxids and sessions are text: they do not fit the numbers of every JSON reader.
pub(crate) fn stat_json(stat: &Stat) -> Value {
    json!({
        "czxid": stat.czxid.to_string(),
        "mzxid": stat.mzxid.to_string(),
        "pzxid": stat.pzxid.to_string(),
        "ctime": stat.ctime,
        "mtime": stat.mtime,
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "ephemeral_owner": stat.ephemeral_owner.to_string(),
        "data_length": stat.data_length,
        "num_children": stat.num_children,
    })
}

/// A time of the servers as `2026-01-31T12:00:00.000Z`.
pub(crate) fn time_text(since_1970_ms: i64) -> String {
    let (days, ms) = (since_1970_ms.div_euclid(DAY_MS), since_1970_ms.rem_euclid(DAY_MS));
    let (year, month, day) = civil(days);
    let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
    let (second, ms) = (ms / 1000 % 60, ms % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// The date of a day counted from 1970-01-01, in the Gregorian calendar. Years are counted from
/// March, so that the leap day is the last one, in eras of 400 years, which are equally long.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

/// An ACL as zkCli takes it: `world:anyone:cdrwa,…`.
pub(crate) fn acl_text(acl: &[Acl]) -> String {
    let entry = |entry: &Acl| {
        let (scheme, id) = (entry.id.scheme.as_deref(), entry.id.id.as_deref());
        let (scheme, id) = (scheme.unwrap_or_default(), id.unwrap_or_default());
        name_text(&format!("{scheme}:{id}:{}", letters(entry.perms)))
    };
    acl.iter().map(entry).collect::<Vec<_>>().join(",")
}

/// An ACL as JSON.
pub(crate) fn acl_json(acl: &[Acl]) -> Value {
    let entry = |entry: &Acl| {
        json!({
            "scheme": entry.id.scheme,
            "id": entry.id.id,
            "perms": letters(entry.perms),
        })
    };
    acl.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_of_the_gregorian_calendar() {
        assert_eq!(time_text(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time_text(-1), "1969-12-31T23:59:59.999Z");
        assert_eq!(time_text(951_826_154_321), "2000-02-29T12:09:14.321Z");
        assert_eq!(time_text(1_709_251_199_000), "2024-02-29T23:59:59.000Z");
        assert_eq!(time_text(4_107_542_400_000), "2100-03-01T00:00:00.000Z");
        assert!(time_text(i64::MAX).ends_with('Z'));
        assert!(time_text(i64::MIN).ends_with('Z'));
    }

    #[test]
    fn what_is_not_text_is_escaped() {
        assert_eq!(data_text(b"a\tb\n\xffc\x1b[0m"), "a\tb\n\\xffc\\u{1b}[0m");
        assert_eq!(data_text("grüße".as_bytes()), "grüße");
        assert_eq!(name_text("a\nb"), "a\\nb");
        // A name that shows another one on a terminal, and one that ends the line.
        assert_eq!(name_text("/a\u{202e}b\u{2028}c\u{9b}1m"), "/a\\u{202e}b\\u{2028}c\\u{9b}1m");
        assert_eq!(data_text("a\u{2066}\n\u{feff}b".as_bytes()), "a\\u{2066}\n\\u{feff}b");
        assert_eq!(lines_text("a\r\n\tü😀"), "a\\r\n\tü😀");
    }

    #[test]
    fn an_acl_is_what_zkcli_takes() {
        assert_eq!(acl_text(&Acl::open()), "world:anyone:cdrwa");
    }
}
