//! Networks in ACLs of the scheme `ip`, as Apache `ZooKeeper`'s `IPAuthenticationProvider` reads them.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::access::parse_network;

const SEGMENTS: usize = 8;

/// The bits before the IPv4 address in an IPv4-mapped IPv6 address.
const MAPPED_BITS: u32 = 96;

/// Returns a network in a spelling that all releases read alike; `None` if an ACL must not have it.
///
/// Apache accepts leading zeros and signs, which are removed here: the servers of this and of older
/// releases must read an entry of the log alike. An IPv4-mapped address would match no
/// client, because such a client counts as one of IPv4.
pub(crate) fn normalized(expression: &str) -> Option<Cow<'_, str>> {
    let (address, bits) = match expression.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (expression, None),
    };
    let address: IpAddr =
        if address.contains(':') { v6(address)?.into() } else { v4(address)?.into() };
    let width = if address.is_ipv4() { 32 } else { 128 };
    let asked = bits.map(|bits| bits.parse::<i32>().ok().and_then(|bits| u32::try_from(bits).ok()));
    let asked = match asked {
        Some(asked) => Some(asked.filter(|asked| *asked <= width)?),
        None => None,
    };
    let bits = asked.unwrap_or(width);
    if matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some()) && bits >= MAPPED_BITS {
        return None;
    }
    if parse_network(expression) == Some((address, bits)) {
        return Some(Cow::Borrowed(expression));
    }
    Some(Cow::Owned(match asked {
        Some(bits) => format!("{address}/{bits}"),
        None => address.to_string(),
    }))
}

fn v4(text: &str) -> Option<Ipv4Addr> {
    let mut numbers = text.split('.').map(|number| u8::try_from(number.parse::<i32>().ok()?).ok());
    let octets = [(); 4].map(|()| numbers.next().flatten());
    let [Some(a), Some(b), Some(c), Some(d)] = octets else { return None };
    numbers.next().is_none().then_some(Ipv4Addr::new(a, b, c, d))
}

fn v6(text: &str) -> Option<Ipv6Addr> {
    let segments = |part: &str| match part {
        "" => Some(Vec::new()),
        part => part.split(':').map(segment).collect::<Option<Vec<u16>>>(),
    };
    let (start, end) = if let Some((start, end)) = text.split_once("::") {
        // Of both sides together, at least one segment is left out.
        let (start, end) = (segments(start)?, segments(end)?);
        (start.len() + end.len() < SEGMENTS).then_some((start, end))?
    } else {
        let all = segments(text)?;
        (all.len() == SEGMENTS).then_some((all, Vec::new()))?
    };
    let mut address = [0; SEGMENTS];
    address.iter_mut().zip(&start).for_each(|(place, segment)| *place = *segment);
    address.iter_mut().rev().zip(end.iter().rev()).for_each(|(place, segment)| *place = *segment);
    Some(address.into())
}

/// Up to four characters; a negative number counts by its low 16 bits, as in Java.
fn segment(text: &str) -> Option<u16> {
    let value = (text.len() <= 4).then(|| i32::from_str_radix(text, 16).ok()).flatten()?;
    let [.., high, low] = value.to_be_bytes();
    Some(u16::from_be_bytes([high, low]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_apache_reads_them() {
        let kept = [
            "10.0.0.1",
            "10.0.0.0/8",
            "0.0.0.0/0",
            "10.0.0.1/32",
            "10.0.0.1/08",
            "::1",
            "::",
            "::/0",
            "2001:db8::/32",
            "2001:DB8::1",
            "1:2:3:4:5:6:7::",
            "::2:3:4:5:6:7:8",
            "1:2:3:4:5:6:7:8",
            "fe80::1/128",
            "0:0:0:0:0:0:0:1",
            "::ffff:a00:1/64",
        ];
        for text in kept {
            assert_eq!(normalized(text).as_deref(), Some(text));
        }
        let rewritten = [
            ("010.0.0.1", "10.0.0.1"),
            ("10.000.00.0/008", "10.0.0.0/8"),
            ("+10.0.0.-0", "10.0.0.0"),
            ("10.0.0.0/-0", "10.0.0.0/0"),
            ("::+1", "::1"),
            ("::-1", "::ffff"),
        ];
        for (text, expected) in rewritten {
            assert_eq!(normalized(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_apache_refuses_or_no_client_matches_is_refused() {
        let refused = [
            "",
            "/",
            "x",
            "10",
            "10.0.0",
            "10.0.0.1.",
            "10.0.0.1.1",
            "10.0.0.256",
            "10.0.0.-1",
            "10.0.0. 1",
            "10.0.0.x",
            "10.0.0.1/",
            "10.0.0.1/33",
            "10.0.0.1/-1",
            "10.0.0.1/8/8",
            "10.0.0.1/x",
            "::ffff:10.0.0.1",
            "::10.0.0.1",
            "1:2:3:4:5:6:10.0.0.1",
            ":",
            ":::",
            "::1::",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:6:7:8:9",
            "1:2:3:4::5:6:7:8",
            "::00001",
            "::g",
            "fe80::1%lo",
            "::1/129",
            "1:2:3:4:5:6:7:",
            ":1:2:3:4:5:6:7",
            "[::1]",
            // These Apache accepts.
            "::ffff:a00:1",
            "::ffff:0:0/96",
            "0:0:0:0:0:ffff:a00:1/128",
        ];
        for text in refused {
            assert_eq!(normalized(text), None, "{text}");
        }
    }
}
