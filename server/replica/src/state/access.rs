//! Access control: the table of ACLs, and who may do what (protocol §9).

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use zoolet_jute::{Acl, ErrorCode, Id, perms};

use super::digest::Hasher;
use crate::FeatureLevel;

/// An ACL's place in the table. Places are local to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AclId(pub(super) u32);

/// Every ACL once, however many znodes have it.
#[derive(Clone, Debug, Default)]
pub(super) struct AclTable {
    entries: Vec<Option<AclEntry>>,
    by_value: BTreeMap<Arc<[Acl]>, AclId>,
    free: Vec<AclId>,
}

#[derive(Clone, Debug)]
struct AclEntry {
    acl: Arc<[Acl]>,
    /// How many znodes, and undo records, have it.
    holders: u64,
    hash: u64,
}

impl AclTable {
    /// The place of an ACL, for one more holder.
    pub(super) fn hold(&mut self, acl: &[Acl]) -> AclId {
        if let Some(&id) = self.by_value.get(acl) {
            self.hold_again(id);
            return id;
        }
        let acl: Arc<[Acl]> = acl.into();
        let entry = Some(AclEntry { hash: hash_acl(&acl), acl: Arc::clone(&acl), holders: 1 });
        let id = if let Some(id) = self.free.pop() {
            *self.entries.get_mut(id.0 as usize).expect("a free place is in the table") = entry;
            id
        } else {
            let next = u32::try_from(self.entries.len()).expect("fewer than 2³² ACLs");
            self.entries.push(entry);
            AclId(next)
        };
        self.by_value.insert(acl, id);
        id
    }

    /// One more holder of what somebody holds already.
    pub(super) fn hold_again(&mut self, id: AclId) {
        if let Some(Some(entry)) = self.entries.get_mut(id.0 as usize) {
            entry.holders += 1;
        }
    }

    /// One holder less; the last one takes the ACL with it.
    pub(super) fn release(&mut self, id: AclId) {
        let Some(place) = self.entries.get_mut(id.0 as usize) else { return };
        let Some(entry) = place else { return };
        invariant!(entry.holders > 0, "ACL {} is released without a holder", id.0);
        entry.holders -= 1;
        if entry.holders == 0 {
            self.by_value.remove(&entry.acl);
            *place = None;
            self.free.push(id);
        }
    }

    fn entry(&self, id: AclId) -> &AclEntry {
        let place = self.entries.get(id.0 as usize).and_then(Option::as_ref);
        place.expect("a znode holds its ACL")
    }

    pub(super) fn get(&self, id: AclId) -> &Arc<[Acl]> {
        &self.entry(id).acl
    }

    pub(super) fn hash(&self, id: AclId) -> u64 {
        self.entry(id).hash
    }

    /// All ACLs with their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = (AclId, &Arc<[Acl]>)> {
        self.by_value.iter().map(|(acl, &id)| (id, acl))
    }
}

/// The hash of an ACL; a null text and an empty one differ.
pub(super) fn hash_acl(acl: &[Acl]) -> u64 {
    let text = |hash: Hasher, text: &Option<String>| match text {
        None => hash.word(0),
        Some(text) => hash.word(1).bytes(text.as_bytes()),
    };
    let entry = |hash: Hasher, entry: &Acl| {
        text(text(hash.signed(i64::from(entry.perms)), &entry.id.scheme), &entry.id.id)
    };
    acl.iter().fold(Hasher::new(2), entry).finish()
}

/// The cost of looking at an entry of an ACL, and of comparing it with an identity, in nanoseconds.
const ENTRY_NS: usize = 50;
const IDENTITY_NS: usize = 20;

/// The cost of an entry that is stored or shown: its texts are compared, hashed and copied.
pub(super) const STORED_ENTRY_NS: usize = 500;

/// Returns whether one of `identities` has one of the permissions `wanted` (protocol §9.3), and
/// the cost of the check, in nanoseconds.
pub(super) fn judge(acl: &[Acl], wanted: i32, identities: &[Id], skip_acl: bool) -> (bool, usize) {
    if skip_acl || acl.is_empty() {
        return (true, 0);
    }
    let grants = |entry: &Acl| {
        probe!();
        entry.perms & wanted != 0 && matches(&entry.id, identities)
    };
    let granting = acl.iter().position(grants);
    let looked_at = granting.map_or(acl.len(), |at| at + 1);
    let cost = looked_at * (ENTRY_NS + IDENTITY_NS * identities.len());
    // The super user is looked for last: hardly any connection has it.
    let is_super = || identities.iter().any(|id| id.scheme.as_deref() == Some("super"));
    (granting.is_some() || is_super(), cost)
}

/// The cost of looking up a verdict, in nanoseconds.
const VERDICT_NS: usize = 100;

/// The cost of the cheapest check whose verdict is kept, in nanoseconds.
const KEPT_NS_MIN: usize = 1000;

/// The address of an ACL, and the permissions wanted.
type VerdictKey = (usize, i32);

/// The verdicts of the expensive permission checks of one multi or multiRead. All its parts have
/// the same identities, so the verdict on an ACL holds for all of them. At most one is kept for
/// each part.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdicts {
    /// Each verdict with its ACL: the address of an ACL is not reused while the ACL is held here.
    kept: BTreeMap<VerdictKey, (Arc<[Acl]>, bool)>,
}

impl Verdicts {
    /// Returns the result of [`judge`]; a kept verdict costs only its lookup. `identities` and
    /// `skip_acl` must be the same in all calls.
    pub(super) fn judge(
        &mut self,
        acl: &Arc<[Acl]>,
        wanted: i32,
        identities: &[Id],
        skip_acl: bool,
    ) -> (bool, usize) {
        probe!();
        let key = (Arc::as_ptr(acl).addr(), wanted);
        if let Some(&(_, allowed)) = self.kept.get(&key) {
            return (allowed, VERDICT_NS);
        }
        let (allowed, cost) = judge(acl, wanted, identities, skip_acl);
        if cost >= KEPT_NS_MIN {
            self.kept.insert(key, (Arc::clone(acl), allowed));
        }
        (allowed, VERDICT_NS + cost)
    }
}

/// Returns whether one of `identities` has one of the permissions `wanted`.
pub(super) fn permits(acl: &[Acl], wanted: i32, identities: &[Id], skip_acl: bool) -> bool {
    judge(acl, wanted, identities, skip_acl).0
}

fn matches(granted: &Id, identities: &[Id]) -> bool {
    let (Some(scheme), Some(expression)) = (granted.scheme.as_deref(), granted.id.as_deref())
    else {
        return false;
    };
    if scheme == "world" {
        return expression == "anyone";
    }
    let mut same = identities.iter().filter(|id| id.scheme.as_deref() == Some(scheme));
    same.any(|id| match (scheme, id.id.as_deref()) {
        ("ip", Some(address)) => ip_matches(address, expression),
        // As in Apache ZooKeeper, this user has what any user of the scheme was granted.
        ("sasl", Some("super")) => true,
        (_, id) => id == Some(expression),
    })
}

/// Whether an address lies in `addr` or `addr/bits`; families must agree (protocol §9.5).
fn ip_matches(address: &str, expression: &str) -> bool {
    let (Ok(address), Some((network, bits))) = (address.parse(), parse_network(expression)) else {
        return false;
    };
    let masked = |address: u128, width: u32| {
        let dropped = width.saturating_sub(bits);
        if dropped >= u128::BITS { 0 } else { address >> dropped }
    };
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            masked(u128::from(u32::from(a)), 32) == masked(u128::from(u32::from(b)), 32)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => masked(a.into(), 128) == masked(b.into(), 128),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

pub(super) fn parse_network(expression: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = match expression.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (expression, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Ok(width), str::parse).ok()?;
    (bits <= width).then_some((address, bits))
}

/// The most bytes of an ACL on the wire. An `auth` entry stands for every identity of its
/// connection, so a small request could ask for a very large one. Every server must decide alike,
/// so this is not a setting.
const ACL_BYTES_MAX: usize = 1 << 20;

/// The ACL to store for the one that was asked for (protocol §9.4): without duplicates, with
/// `auth` replaced by what the connection has proved to be.
pub(super) fn fix_up(
    acl: Option<&[Acl]>,
    identities: &[Id],
    level: FeatureLevel,
) -> Result<Vec<Acl>, ErrorCode> {
    let mut seen = BTreeSet::new();
    let unique = acl.unwrap_or_default().iter().filter(|entry| seen.insert(*entry));
    let (mut fixed, mut bytes) = (Vec::new(), 0);
    for entry in unique {
        probe!();
        let before = fixed.len();
        match (entry.id.scheme.as_deref(), entry.id.id.as_deref()) {
            (Some("auth"), _) => {
                let proved = identities.iter().filter(|id| is_authenticated(id));
                fixed.extend(proved.map(|id| Acl { perms: entry.perms, id: id.clone() }));
                if fixed.len() == before {
                    return Err(ErrorCode::InvalidAcl);
                }
            }
            (Some(scheme), Some(id)) if is_valid(scheme, id, level) => fixed.push(entry.clone()),
            _ => return Err(ErrorCode::InvalidAcl),
        }
        bytes += fixed.iter().skip(before).map(acl_bytes).sum::<usize>();
        if bytes > ACL_BYTES_MAX {
            return Err(ErrorCode::InvalidAcl);
        }
    }
    if fixed.is_empty() { Err(ErrorCode::InvalidAcl) } else { Ok(fixed) }
}

/// What an entry takes on the wire.
fn acl_bytes(entry: &Acl) -> usize {
    size_of::<i32>() + entry.id.encoded_bytes()
}

/// Whether an identity was proved, and is not only where the connection comes from or the super
/// user's.
pub(crate) fn is_authenticated(id: &Id) -> bool {
    matches!(id.scheme.as_deref(), Some("digest" | "sasl" | "x509"))
}

/// Whether an ACL may name this identity. Schemes that no server here can prove are refused.
fn is_valid(scheme: &str, id: &str, level: FeatureLevel) -> bool {
    match scheme {
        "world" => id == "anyone",
        "ip" => parse_network(id).is_some(),
        // Two parts, as Java splits: empty ones at the end do not count, others do.
        "digest" => {
            let trimmed = id.trim_end_matches(':');
            trimmed.matches(':').count() == 1
        }
        // The name of a certificate's subject, whose parts each have a value.
        "x509" => level >= FeatureLevel::X509 && id.contains('='),
        "sasl" => level >= FeatureLevel::SASL && is_principal(id),
        _ => false,
    }
}

/// Whether a text can be the name of a user of SASL: any without `@`, and the principals of
/// Kerberos, `name@realm` and `name/host@realm`.
pub fn is_principal(id: &str) -> bool {
    let Some((name, realm)) = id.split_once('@') else { return true };
    !realm.contains(['/', '@']) && name.matches('/').count() <= 1
}

/// The ACL as it is shown to who may not write it: without the secrets' hashes (protocol §2.5).
pub(super) fn masked(acl: &[Acl]) -> Vec<Acl> {
    let mask = |entry: &Acl| {
        probe!();
        let mut entry = entry.clone();
        if entry.id.scheme.as_deref() == Some("digest")
            && let Some((user, _)) = entry.id.id.as_deref().and_then(|id| id.split_once(':'))
        {
            entry.id.id = Some(format!("{user}:x"));
        }
        entry
    };
    acl.iter().map(mask).collect()
}

/// The ACL of `/zookeeper/config`: everyone may read it (protocol §6.2).
pub(super) fn read_only() -> Vec<Acl> {
    vec![Acl { perms: perms::READ, id: Id::new("world", "anyone") }]
}
