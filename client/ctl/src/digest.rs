//! The text by which servers know an identity of the scheme `digest`: for ACLs, and for
//! `superDigest`.

use std::io::{self, BufRead, IsTerminal, StdinLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde_json::json;
use sha1::{Digest, Sha1};
use sha2::{Sha256, Sha512};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};

use crate::args;
use crate::error::{CtlError, Exit};
use crate::output::{self, Output};

/// The algorithms of `DigestAuthenticationProvider.digestAlg` that servers take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Algorithm {
    #[value(name = "SHA1", alias = "sha1")]
    Sha1,
    #[value(name = "SHA-256", alias = "sha-256")]
    Sha256,
    #[value(name = "SHA-512", alias = "sha-512")]
    Sha512,
    #[value(name = "SHA3-224", alias = "sha3-224")]
    Sha3_224,
    #[value(name = "SHA3-256", alias = "sha3-256")]
    Sha3_256,
    #[value(name = "SHA3-384", alias = "sha3-384")]
    Sha3_384,
    #[value(name = "SHA3-512", alias = "sha3-512")]
    Sha3_512,
}

/// Prints the digest of a user and a password.
pub(crate) fn run(arguments: &args::Digest, output: Output) -> Result<(), CtlError> {
    let user = arguments.identity.0.as_str();
    if user.contains(':') {
        let message = "a password on the command line is refused, it shows it: give USER alone";
        let error = CtlError::new(Exit::Usage, message);
        return Err(error.hint("the password is read from standard input"));
    }
    if user.is_empty() {
        return Err(CtlError::new(Exit::InvalidInput, "the user's name is empty: give USER"));
    }
    let digest = digest(arguments.algorithm, user, &read_password(user)?);
    output.result(|| digest.clone(), || json!({ "digest": digest }))
}

fn digest(algorithm: Algorithm, user: &str, password: &str) -> String {
    let credentials = format!("{user}:{password}");
    let hash = match algorithm {
        Algorithm::Sha1 => STANDARD.encode(Sha1::digest(credentials)),
        Algorithm::Sha256 => STANDARD.encode(Sha256::digest(credentials)),
        Algorithm::Sha512 => STANDARD.encode(Sha512::digest(credentials)),
        Algorithm::Sha3_224 => STANDARD.encode(Sha3_224::digest(credentials)),
        Algorithm::Sha3_256 => STANDARD.encode(Sha3_256::digest(credentials)),
        Algorithm::Sha3_384 => STANDARD.encode(Sha3_384::digest(credentials)),
        Algorithm::Sha3_512 => STANDARD.encode(Sha3_512::digest(credentials)),
    };
    format!("{user}:{hash}")
}

/// Reads a line of standard input; on a terminal it asks for it and does not show it.
fn read_password(user: &str) -> Result<String, CtlError> {
    let stdin = io::stdin();
    if !stdin.is_terminal() {
        return read_line(stdin.lock());
    }
    output::prompt(&format!("password of {user}: "));
    let shown = tcgetattr(&stdin).map_err(io::Error::from)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Flush, &hidden).map_err(io::Error::from)?;
    let password = read_line(stdin.lock());
    output::note("");
    tcsetattr(&stdin, OptionalActions::Now, &shown).map_err(io::Error::from)?;
    password
}

fn read_line(mut stdin: StdinLock<'_>) -> Result<String, CtlError> {
    let mut line = String::new();
    let read = stdin.read_line(&mut line).map_err(|error| {
        if error.kind() == io::ErrorKind::InvalidData {
            let message = "the password on standard input is not UTF-8";
            return CtlError::new(Exit::InvalidInput, message);
        }
        CtlError::new(Exit::Io, format!("standard input: {error}"))
    })?;
    if read == 0 {
        let message = "there is no password: standard input has ended";
        return Err(CtlError::new(Exit::InvalidInput, message));
    }
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    /// The example of `ZooKeeper`'s own documentation, and what openssl says.
    #[test]
    fn digests_are_those_of_the_reference() {
        let sha1 = digest(Algorithm::Sha1, "super", "superpw");
        assert_eq!(sha1, "super:g9oN2HttPfn8MMWJZ2r45Np/LIA=");
        let sha256 = digest(Algorithm::Sha256, "super", "test");
        assert_eq!(sha256, "super:wjySwxg860UATFtciuZ1lpzrCHrPeov6SPu/ZD56uig=");
        let sha3 = digest(Algorithm::Sha3_224, "super", "test");
        assert_eq!(sha3, "super:774X6Nz1d3BUO6raVFndfjoMF6e1LHrnHVv5IA==");
        let sha3 = digest(Algorithm::Sha3_256, "super", "test");
        assert_eq!(sha3, "super:cRy/KPYuDpW/dtsepniTMpuiuupnWgdU9txltIfv3hA=");
    }

    #[test]
    fn every_algorithm_of_the_servers_is_offered() {
        let offered: Vec<_> = Algorithm::value_variants()
            .iter()
            .filter_map(|algorithm| Some(algorithm.to_possible_value()?.get_name().to_owned()))
            .collect();
        assert_eq!(
            offered,
            zoolet_replica::DigestAlgorithm::ALL.map(zoolet_replica::DigestAlgorithm::name)
        );
    }
}
