//! Values that let others do more, and that Apache ZooKeeper reads differently: a warning names each
//! right that a file grants here and not there (docs/differences.md has the table).

use super::properties::Property;

/// The prefix of the system properties of Apache ZooKeeper. A key of a file becomes a system property
/// with this prefix. A key that already has the prefix has it twice then, and nothing reads it.
pub(super) const PREFIX: &str = "zookeeper.";

/// A key without its prefix, and whether a value of it grants something.
type Granting = (&'static str, fn(&str) -> bool);

static GRANTING: &[Granting] = &[
    ("skipACL", |value| value == "yes"),
    ("superUser", |_| true),
    ("superUser.*", |_| true),
    ("DigestAuthenticationProvider.superDigest", |_| true),
    ("SASLAuthenticationProvider.superPassword", |_| true),
    ("X509AuthenticationProvider.superUser", |_| true),
    ("allowSaslFailedClients", is_true),
    ("readonlymode.enabled", is_true),
    ("reconfigEnabled", is_true),
    ("4lw.commands.whitelist", |value| !value.is_empty()),
    ("client.portUnification", is_true),
    ("portUnification", is_true),
    ("ssl.clientAuth", is_not_need),
    ("ssl.quorum.clientAuth", is_not_need),
    ("ssl.quorum.hostnameVerification", |value| !is_true(value)),
];

fn is_true(value: &str) -> bool {
    value.eq_ignore_ascii_case("true")
}

fn is_not_need(value: &str) -> bool {
    !value.eq_ignore_ascii_case("need")
}

/// Returns what of a property grants more here than in Apache ZooKeeper; `name` is its key without the
/// prefix.
pub(super) fn grants_more(name: &str, property: &Property) -> Option<&'static str> {
    let is_it = |key: &str| match key.strip_suffix('*') {
        Some(family) => name.starts_with(family),
        None => name == key,
    };
    GRANTING.iter().find(|(key, grants)| is_it(key) && grants(&property.value))?;
    if property.key.starts_with(PREFIX) {
        return Some(
            "in force here, and without effect in a file of Apache ZooKeeper, which reads it without \
             the prefix `zookeeper.`",
        );
    }
    (!property.is_ascii).then_some(
        "in force here as UTF-8, and another text in Apache ZooKeeper, which reads files as \
         ISO-8859-1: write it with \\u escapes",
    )
}
