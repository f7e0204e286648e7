//! Who may do what (protocol §9).

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest as _, Sha1};
use zoolet_jute::{Acl, AuthPacket, ClientInfo, ErrorCode, Id};

/// The longest ACL, in bytes on the wire.
const ACL_BYTES_MAX: usize = 1 << 20;

/// Whom a connection has proved to be, as far as is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Who {
    /// Identities that it has for certain.
    pub ids: Vec<Id>,
    /// Whether it has no others. Of a client its certificate is not recorded, and its address is known
    /// in some runs.
    pub has_no_other: bool,
    /// `skipACL`.
    pub skips_acl: bool,
}

impl Who {
    /// Whether an ACL grants one of the permissions `wanted`; `None` if that depends on identities
    /// that are not known.
    pub fn may(&self, acl: &[Acl], wanted: i32) -> Option<bool> {
        let is_super = self.ids.iter().any(|id| id.scheme.as_deref() == Some("super"));
        if self.skips_acl || acl.is_empty() || is_super {
            return Some(true);
        }
        let entries = || acl.iter().filter(|entry| entry.perms & wanted != 0);
        if entries().any(|entry| self.matches(&entry.id)) {
            return Some(true);
        }
        let is_unknown =
            |entry: &Acl| matches!(entry.id.scheme.as_deref(), Some("ip" | "x509" | "sasl"));
        if !self.has_no_other && entries().any(is_unknown) { None } else { Some(false) }
    }

    /// What `whoAmI` shows of the identities that are known (protocol §2.16): of a digest the user alone.
    pub fn shown(&self) -> Vec<ClientInfo> {
        let shown = self.ids.iter().map(|id| {
            let auth_scheme = id.scheme.clone().unwrap_or_default();
            let whole = id.id.as_deref().unwrap_or_default();
            let is_digest = auth_scheme == "digest";
            let user = whole.split(':').next().filter(|_| is_digest).unwrap_or(whole).to_owned();
            ClientInfo { auth_scheme, user }
        });
        shown.collect()
    }

    fn matches(&self, granted: &Id) -> bool {
        let (Some(scheme), Some(id)) = (granted.scheme.as_deref(), granted.id.as_deref()) else {
            return false;
        };
        if scheme == "world" {
            return id == "anyone";
        }
        let of_scheme = self.ids.iter().filter(|own| own.scheme.as_deref() == Some(scheme));
        let own = of_scheme.filter_map(|own| own.id.as_deref());
        match scheme {
            "ip" => own.into_iter().any(|address| is_within(address, id)),
            "sasl" => own.into_iter().any(|user| user == id || user == "super"),
            _ => own.into_iter().any(|own| own == id),
        }
    }
}

fn network(text: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
    let address: IpAddr = address.parse().ok()?;
    let all = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        Some(bits) => bits.parse().ok()?,
        None => all,
    };
    (bits <= all).then_some((address, bits))
}

fn bit(octets: &[u8], number: u32) -> Option<bool> {
    let octet = octets.get(usize::try_from(number / 8).ok()?)?;
    Some(octet & (0x80 >> (number % 8)) != 0)
}

fn is_within(address: &str, text: &str) -> bool {
    let (Ok(address), Some((network, bits))) = (address.parse::<IpAddr>(), network(text)) else {
        return false;
    };
    let agree = |a: &[u8], b: &[u8]| (0..bits).all(|number| bit(a, number) == bit(b, number));
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => agree(&a.octets(), &b.octets()),
        (IpAddr::V6(a), IpAddr::V6(b)) => agree(&a.octets(), &b.octets()),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

/// Which schemes an ACL may name besides the old ones: what the command's kind says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Schemes {
    pub(super) x509: bool,
    pub(super) sasl: bool,
}

/// The ACL that is stored for one that was asked for (protocol §9.4).
pub(super) fn fix_up(
    asked: Option<&[Acl]>,
    ids: &[Id],
    schemes: Schemes,
) -> Result<Vec<Acl>, ErrorCode> {
    let mut unique: Vec<&Acl> = Vec::new();
    for entry in asked.unwrap_or_default() {
        if !unique.contains(&entry) {
            unique.push(entry);
        }
    }
    let mut fixed = Vec::new();
    for entry in unique {
        let (scheme, id) = (entry.id.scheme.as_deref(), entry.id.id.as_deref());
        if scheme == Some("auth") {
            let before = fixed.len();
            let proved = ids
                .iter()
                .filter(|id| matches!(id.scheme.as_deref(), Some("digest" | "sasl" | "x509")));
            fixed.extend(proved.map(|id| Acl { perms: entry.perms, id: id.clone() }));
            if fixed.len() == before {
                return Err(ErrorCode::InvalidAcl);
            }
        } else if scheme.zip(id).is_some_and(|(scheme, id)| is_valid(scheme, id, schemes)) {
            fixed.push(entry.clone());
        } else {
            return Err(ErrorCode::InvalidAcl);
        }
    }
    let bytes: usize = fixed.iter().map(|entry| 4 + entry.id.encoded_bytes()).sum();
    if fixed.is_empty() || bytes > ACL_BYTES_MAX { Err(ErrorCode::InvalidAcl) } else { Ok(fixed) }
}

fn is_valid(scheme: &str, id: &str, schemes: Schemes) -> bool {
    match scheme {
        "world" => id == "anyone",
        "ip" => network(id).is_some(),
        // As Java splits it: empty parts at the end do not count.
        "digest" => id.trim_end_matches(':').split(':').count() == 2,
        "x509" => schemes.x509 && id.contains('='),
        "sasl" => {
            let (name, realm) = id.split_once('@').map_or((id, None), |(n, r)| (n, Some(r)));
            let is_plain = realm.is_none();
            let is_principal = realm.is_some_and(|realm| !realm.contains(['/', '@']))
                && name.matches('/').count() <= 1;
            schemes.sasl && (is_plain || is_principal)
        }
        _ => false,
    }
}

/// The ACL as a client without ADMIN sees it (protocol §2.5).
pub(super) fn masked(acl: &[Acl]) -> Vec<Acl> {
    let mut masked = acl.to_vec();
    for entry in &mut masked {
        let is_digest = entry.id.scheme.as_deref() == Some("digest");
        if let Some((user, _)) = entry.id.id.as_deref().and_then(|id| id.split_once(':'))
            && is_digest
        {
            entry.id.id = Some(format!("{user}:x"));
        }
    }
    masked
}

/// What an auth request proves (protocol §9.5).
pub fn identities(packet: &AuthPacket, super_digest: Option<&str>) -> Vec<Id> {
    if packet.scheme.as_deref() != Some("digest") {
        return Vec::new();
    }
    let credentials = packet.auth.clone().unwrap_or_default();
    let text = String::from_utf8_lossy(&credentials).into_owned();
    let user = text.split(':').next().unwrap_or_default();
    let digest = format!("{user}:{}", STANDARD.encode(Sha1::digest(text.as_bytes())));
    let superuser = (super_digest == Some(digest.as_str())).then(|| Id::new("super", ""));
    superuser.into_iter().chain([Id::new("digest", digest)]).collect()
}
