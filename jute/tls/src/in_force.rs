//! How long the certificates that a port has loaded are valid.

use std::collections::BTreeMap;
use std::fmt;

use tracing::{error, warn};

use crate::now_s;
use crate::settings::TlsSettings;
use crate::stored::{StoredCertificate, StoredKind};

const DAY_S: i64 = 24 * 60 * 60;

/// A certificate is to be replaced within this time.
const CERTIFICATE_SOON_S: i64 = 30 * DAY_S;

/// A list of revoked certificates is to be replaced within this time: many are valid for a week.
const LIST_SOON_S: i64 = 2 * DAY_S;

/// The certificates and lists that a port has loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificatesInForce(Vec<StoredCertificate>);

/// Why the certificates of a kind cannot be used now.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault<'a> {
    stored: &'a StoredCertificate,
    is_early: bool,
}

impl fmt::Display for Fault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StoredCertificate { kind, file, subject, .. } = self.stored;
        let what = match kind {
            StoredKind::Certificate => "the certificate",
            StoredKind::Authority => "the authority",
            StoredKind::Revocations => "the list of revoked certificates",
        };
        let why =
            if self.is_early { "is not valid yet (is the clock right?)" } else { "has expired" };
        write!(f, "{}: {what} {subject} {why}", file.display())
    }
}

impl CertificatesInForce {
    /// Reads the files of these settings. Certificates whose validity cannot be read are not watched.
    pub(crate) fn load(settings: &TlsSettings, port: &'static str) -> Self {
        match settings.certificates() {
            Ok(all) => Self(all),
            Err(error) => {
                warn!(port, %error, "TLS: the validity of the certificates is not watched");
                Self::default()
            }
        }
    }

    /// Returns the seconds until the first of each kind expires, below zero if it has. Of authorities
    /// only those count that are valid, if any is: an old one stays in a trust store while it is
    /// replaced.
    pub fn seconds_left(&self) -> Vec<(StoredKind, i64)> {
        self.seconds_left_at(now_s())
    }

    fn seconds_left_at(&self, now_s: i64) -> Vec<(StoredKind, i64)> {
        let left = |kind: StoredKind| {
            let left_s = |stored: &StoredCertificate| stored.not_after_s.saturating_sub(now_s);
            let ends = || self.of(kind).map(left_s);
            let end = match kind {
                StoredKind::Certificate => self.needed(now_s).map(left_s).min(),
                StoredKind::Authority => {
                    ends().filter(|left| *left > 0).min().or_else(|| ends().max())
                }
                StoredKind::Revocations => ends().min(),
            };
            Some((kind, end?))
        };
        StoredKind::ALL.into_iter().filter_map(left).collect()
    }

    fn of(&self, kind: StoredKind) -> impl Iterator<Item = &StoredCertificate> {
        self.0.iter().filter(move |stored| stored.kind == kind)
    }

    /// Returns the own certificate and those of its chain that are valid or that no valid one of the
    /// same subject replaces, as an old cross-signature that is sent along with the new root.
    fn needed(&self, now_s: i64) -> impl Iterator<Item = &StoredCertificate> {
        let is_replaced = move |stored: &StoredCertificate| {
            let takes_its_place = |other: &StoredCertificate| {
                other.subject == stored.subject && other.is_valid(now_s)
            };
            let of = |kind| self.of(kind).any(takes_its_place);
            of(StoredKind::Certificate) || of(StoredKind::Authority)
        };
        let chain = self.of(StoredKind::Certificate).enumerate();
        let needed = chain
            .filter(move |(at, stored)| *at == 0 || stored.is_valid(now_s) || !is_replaced(stored));
        needed.map(|(_, stored)| stored)
    }

    /// Returns the kinds with which no connection, or none of some, succeeds at a time.
    fn faults(&self, now_s: i64) -> BTreeMap<StoredKind, Fault<'_>> {
        let fault = |kind: StoredKind| {
            let invalid = |stored: &&StoredCertificate| !stored.is_valid(now_s);
            let stored = match kind {
                StoredKind::Certificate => self.needed(now_s).find(invalid),
                StoredKind::Revocations => self.of(kind).find(invalid),
                StoredKind::Authority => self.invalid_authority(now_s),
            }?;
            Some((kind, Fault { stored, is_early: stored.not_before_s > now_s }))
        };
        StoredKind::ALL.into_iter().filter_map(fault).collect()
    }

    /// Returns an authority that is not valid where no other serves in its place: none is valid, or
    /// none with the name of the issuer of the own chain.
    fn invalid_authority(&self, now_s: i64) -> Option<&StoredCertificate> {
        let issuer = self.needed(now_s).last().map(|last| &last.issuer);
        let is_own = |stored: &&StoredCertificate| Some(&stored.subject) == issuer;
        let all = || self.of(StoredKind::Authority);
        let is_valid = |stored: &StoredCertificate| stored.is_valid(now_s);
        if !all().any(is_valid) {
            return all().next();
        }
        let own_is_valid = all().filter(is_own).any(is_valid);
        all().find(is_own).filter(|_| !own_is_valid)
    }

    /// Returns what keeps these from taking the place of `before`: a kind that those before can still
    /// be used with.
    pub(crate) fn worse_than(&self, before: &Self) -> Option<String> {
        self.worse_than_at(before, now_s())
    }

    fn worse_than_at(&self, before: &Self, now_s: i64) -> Option<String> {
        let known = before.faults(now_s);
        let is_newer =
            |kind| kind == StoredKind::Revocations && self.has_newer_lists(before, now_s);
        let is_taken = |kind: StoredKind| known.contains_key(&kind) || is_newer(kind);
        let new = self.faults(now_s).into_iter().find(|(kind, _)| !is_taken(*kind));
        new.map(|(_, fault)| fault.to_string())
    }

    /// Returns whether each list that is not valid is only overdue, and newer than the one of the same
    /// issuer in `before`: connections check it all the same, and it has the newer revocations.
    fn has_newer_lists(&self, before: &Self, now_s: i64) -> bool {
        let is_newer = |list: &StoredCertificate| {
            let known = |old: &StoredCertificate| {
                old.issuer == list.issuer && old.not_before_s < list.not_before_s
            };
            list.not_before_s <= now_s && before.of(StoredKind::Revocations).any(known)
        };
        let mut invalid = self.of(StoredKind::Revocations).filter(|list| !list.is_valid(now_s));
        invalid.all(is_newer)
    }

    /// Logs what has expired, is not valid yet, or expires soon.
    pub(crate) fn log(&self, port: &'static str) {
        let now_s = now_s();
        for stored in &self.0 {
            let left_s = stored.not_after_s.saturating_sub(now_s);
            let soon_s = match stored.kind {
                StoredKind::Revocations => LIST_SOON_S,
                StoredKind::Certificate | StoredKind::Authority => CERTIFICATE_SOON_S,
            };
            let fault = Fault { stored, is_early: stored.not_before_s > now_s };
            if !stored.is_valid(now_s) {
                error!(port, "TLS: {fault}: replace it");
            } else if left_s < soon_s {
                let StoredCertificate { kind, file, subject, .. } = stored;
                warn!(
                    port, kind = kind.name(), file = %file.display(), subject,
                    "TLS: expires in {} days {} h: replace it", left_s / DAY_S, left_s % DAY_S / 3600
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_S: i64 = 1_000_000_000;

    /// Returns a stored certificate that is valid for these days before and after now.
    fn stored(kind: StoredKind, subject: &str, days: (i64, i64)) -> StoredCertificate {
        StoredCertificate {
            kind,
            file: "x.pem".into(),
            subject: subject.to_owned(),
            issuer: "CN=ca".to_owned(),
            not_before_s: NOW_S + days.0 * DAY_S,
            not_after_s: NOW_S + days.1 * DAY_S,
        }
    }

    fn server(days: (i64, i64)) -> StoredCertificate {
        stored(StoredKind::Certificate, "CN=server", days)
    }

    fn authority(name: &str, days: (i64, i64)) -> StoredCertificate {
        stored(StoredKind::Authority, name, days)
    }

    #[test]
    fn a_reload_must_not_make_a_valid_kind_invalid() {
        let list = |days| stored(StoredKind::Revocations, "CN=ca", days);
        let good = CertificatesInForce(vec![
            server((-1, 100)),
            authority("CN=ca", (-1, 100)),
            list((-1, 5)),
        ]);
        let (server, list) = (&server, &list);
        let intermediate = |days| stored(StoredKind::Certificate, "CN=between", days);
        let (valid, expired, early) = ((-1, 100), (-10, -1), (1, 10));
        for (what, new, expected) in [
            ("all valid", vec![server(valid), authority("CN=ca", valid)], None),
            ("expired", vec![server(expired), authority("CN=ca", valid)], Some("has expired")),
            ("early", vec![server(early), authority("CN=ca", valid)], Some("is not valid yet")),
            (
                "authority",
                vec![server(valid), authority("CN=ca", expired)],
                Some("authority CN=ca"),
            ),
            (
                "own authority",
                vec![server(valid), authority("CN=ca", expired), authority("CN=other", valid)],
                Some("authority CN=ca has expired"),
            ),
            (
                "replaced authority",
                vec![server(valid), authority("CN=ca", expired), authority("CN=ca", valid)],
                None,
            ),
            (
                "foreign authority",
                vec![server(valid), authority("CN=ca", valid), authority("CN=other", expired)],
                None,
            ),
            (
                "needed intermediate",
                vec![server(valid), intermediate(expired), authority("CN=ca", valid)],
                Some("certificate CN=between has expired"),
            ),
            (
                "replaced intermediate",
                vec![server(valid), intermediate(expired), intermediate(valid)],
                None,
            ),
            (
                "cross-signed root",
                vec![server(valid), intermediate(expired), authority("CN=between", valid)],
                None,
            ),
            ("own certificate", vec![server(expired), server(valid)], Some("has expired")),
            (
                "list",
                vec![server(valid), list(expired)],
                Some("list of revoked certificates CN=ca"),
            ),
            ("newer list", vec![server(valid), list((0, 0))], None),
            ("early list", vec![server(valid), list(early)], Some("is not valid yet")),
        ] {
            let why = CertificatesInForce(new).worse_than_at(&good, NOW_S);
            match expected {
                None => assert_eq!(why, None, "{what}"),
                Some(text) => {
                    assert!(why.as_ref().is_some_and(|why| why.contains(text)), "{why:?}");
                }
            }
        }
        let list_alone = CertificatesInForce(vec![server(valid), list(expired)]);
        let other = CertificatesInForce(vec![server((-1, 200)), list(expired)]);
        assert_eq!(other.worse_than_at(&list_alone, NOW_S), None, "the list was invalid before");
    }

    #[test]
    fn the_first_end_of_each_kind_counts() {
        let all = CertificatesInForce(vec![
            server((-1, 7)),
            server((-1, 9)),
            authority("CN=old", (-9, -1)),
            authority("CN=ca", (-1, 5)),
        ]);
        let expected = [(StoredKind::Certificate, 7 * DAY_S), (StoredKind::Authority, 5 * DAY_S)];
        assert_eq!(all.seconds_left_at(NOW_S), expected);
        let expired = CertificatesInForce(vec![authority("CN=ca", (-9, -1))]);
        assert_eq!(expired.seconds_left_at(NOW_S), [(StoredKind::Authority, -DAY_S)]);
    }
}
