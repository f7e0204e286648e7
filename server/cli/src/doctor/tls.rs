//! The stores of keys and certificates, and how long they are valid.

use std::time::{SystemTime, UNIX_EPOCH};

use zoolet_server::embed::config::{ServerConfig, StoredCertificate, StoredKind, TlsPort, TlsSide};

use super::finding::Findings;

const TLS: &str = "TLS";

const DAY_S: i64 = 24 * 60 * 60;

/// A certificate that ends within these days has to be replaced.
const SOON_DAYS: i64 = 30;

/// And a list of revoked certificates, many of which are valid for a week.
const LIST_SOON_DAYS: i64 = 2;

/// Checks the stores of the ports that speak TLS.
pub(super) fn check(config: &ServerConfig, findings: &mut Findings) {
    let tls = &config.tls;
    if config.speaks_tls() {
        check_side("clients", (&tls.client, TlsPort::Clients), findings);
    }
    if config.peer_bind.is_some() && (tls.peer_enabled || tls.peer_port_unification) {
        check_side("servers", (&tls.peer, TlsPort::Servers), findings);
        // A file that cannot be read has been reported.
        for why in config.peer_refusals().unwrap_or_default() {
            findings.warn(TLS, format!("for servers: {why}"));
        }
    }
    if config.speaks_https() {
        check_side("HTTP", (&tls.http, TlsPort::Http), findings);
    }
}

fn check_side(whom: &str, (side, port): (&TlsSide, TlsPort), findings: &mut Findings) {
    match side.certificates() {
        Ok(certificates) => {
            for certificate in certificates {
                check_certificate(whom, &certificate, now_s(), findings);
            }
        }
        Err(error) => {
            findings.error(TLS, format!("for {whom}: {}", side.describe(&error, port)));
        }
    }
}

fn check_certificate(
    whom: &str,
    certificate: &StoredCertificate,
    now_s: i64,
    findings: &mut Findings,
) {
    let (what, soon_days) = if certificate.kind == StoredKind::Revocations {
        ("list of revoked certificates of ", LIST_SOON_DAYS)
    } else {
        ("", SOON_DAYS)
    };
    let file = certificate.file.display();
    let name = format!("for {whom}: {file}: {what}{}", certificate.subject);
    let days = (certificate.not_after_s - now_s).div_euclid(DAY_S);
    if certificate.not_before_s > now_s {
        findings.error(TLS, format!("{name}: not valid yet; is the clock right?"));
    } else if certificate.not_after_s <= now_s {
        findings.error(TLS, format!("{name}: has expired"));
    } else if days < soon_days {
        findings.warn(TLS, format!("{name}: expires in {days} days"));
    } else {
        findings.ok(TLS, format!("{name}: valid for {days} days"));
    }
}

#[allow(clippy::disallowed_methods, reason = "the validity of a certificate is in this time")]
fn now_s() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;

    #[test]
    fn a_certificate_is_judged_by_its_days() {
        let level = |not_before_days: i64, not_after_days: i64| {
            let now_s = 1_000_000_000;
            let certificate = StoredCertificate {
                kind: StoredKind::Certificate,
                file: "keys.pem".into(),
                subject: "CN=server".to_owned(),
                issuer: "CN=ca".to_owned(),
                not_before_s: now_s + not_before_days * DAY_S,
                not_after_s: now_s + not_after_days * DAY_S,
            };
            let mut findings = Findings::default();
            check_certificate("clients", &certificate, now_s, &mut findings);
            findings.level()
        };
        assert_eq!(level(-1, 100), Level::Ok);
        assert_eq!(level(-1, SOON_DAYS - 1), Level::Warning);
        assert_eq!(level(-10, 0), Level::Error);
        assert_eq!(level(1, 100), Level::Error);
    }
}
