//! The secret that the servers of an ensemble share, and the proof that a server knows it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::entropy::Entropy;

/// The length of a nonce, in bytes.
pub(super) const NONCE_BYTES: usize = 32;

/// The length of a proof, in bytes.
pub(super) const PROOF_BYTES: usize = 32;

/// The shortest secret, in bytes: a shorter one could be guessed from what a stranger can collect.
const SECRET_BYTES_MIN: usize = 16;

/// The block of SHA-256, in bytes.
const BLOCK_BYTES: usize = 64;

/// The secret that all servers of an ensemble share.
#[derive(Clone)]
pub struct Secret {
    bytes: Arc<[u8]>,
    /// Where the nonces come from.
    entropy: Arc<dyn Entropy>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Why the secret cannot be used.
#[derive(Debug, Error)]
pub enum SecretError {
    /// The file cannot be read.
    #[error("cannot read the secret of the servers from {path}: {source}")]
    Read { path: PathBuf, source: io::Error },
    /// It is too easy to guess.
    #[error(
        "the secret of the servers in {path} has {bytes} bytes; use at least {SECRET_BYTES_MIN} \
         random ones, for example from `openssl rand -base64 32`"
    )]
    Short { path: PathBuf, bytes: usize },
}

impl Secret {
    /// A secret of these bytes.
    pub fn new(bytes: &[u8], entropy: Arc<dyn Entropy>) -> Self {
        Self { bytes: Arc::from(bytes), entropy }
    }

    /// Makes a secret of what was read from a file, without the white space around it.
    pub fn of_file(
        path: &Path,
        read: io::Result<Vec<u8>>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, SecretError> {
        let bytes = read.map_err(|source| SecretError::Read { path: path.to_owned(), source })?;
        let secret = bytes.trim_ascii();
        if secret.len() < SECRET_BYTES_MIN {
            return Err(SecretError::Short { path: path.to_owned(), bytes: secret.len() });
        }
        Ok(Self::new(secret, entropy))
    }

    /// Random bytes that no other handshake has.
    pub(super) fn nonce(&self) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        for word in nonce.chunks_exact_mut(8) {
            word.copy_from_slice(&self.entropy.number().to_be_bytes());
        }
        nonce
    }

    /// Proves that this side knows the secret.
    pub(super) fn prove(&self, parts: &[&[u8]]) -> [u8; PROOF_BYTES] {
        hmac_sha256(&self.bytes, parts)
    }

    /// Checks the other side's proof, in a time that does not depend on it.
    pub(super) fn is_proof(&self, proof: &[u8; PROOF_BYTES], parts: &[&[u8]]) -> bool {
        let expected = self.prove(parts);
        proof.iter().zip(&expected).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
    }
}

/// RFC 2104 over SHA-256.
fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; PROOF_BYTES] {
    let mut block = [0; BLOCK_BYTES];
    let hashed;
    let key = if key.len() > BLOCK_BYTES {
        hashed = Sha256::digest(key);
        &hashed[..]
    } else {
        key
    };
    for (to, from) in block.iter_mut().zip(key) {
        *to = *from;
    }
    let mut inner = Sha256::new();
    inner.update(block.map(|byte| byte ^ 0x36));
    for part in parts {
        inner.update(part);
    }
    let mut outer = Sha256::new();
    outer.update(block.map(|byte| byte ^ 0x5c));
    outer.update(inner.finalize());
    outer.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::RealEntropy;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    }

    #[test]
    fn the_hash_is_that_of_rfc_4231() {
        let check = |key: &[u8], parts: &[&[u8]], expected| {
            assert_eq!(hex(&hmac_sha256(key, parts)), expected);
        };
        check(
            &[0x0b; 20],
            &[b"Hi ", b"There"],
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
        );
        check(
            b"Jefe",
            &[b"what do ya want for nothing?"],
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        );
        check(
            &[0xaa; 131],
            &[b"Test Using Larger Than Block-Size Key - Hash Key First"],
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        );
    }

    #[test]
    fn a_proof_is_worth_nothing_with_another_secret_or_other_bytes() {
        let new = |bytes| Secret::new(bytes, Arc::new(RealEntropy));
        let secret = new(b"sixteen bytes or more");
        let proof = secret.prove(&[b"a", b"b"]);
        assert!(secret.is_proof(&proof, &[b"a", b"b"]));
        assert!(!secret.is_proof(&proof, &[b"a", b"c"]));
        assert!(!new(b"another one, as long").is_proof(&proof, &[b"a", b"b"]));
        assert!(!format!("{secret:?}").contains("sixteen"));
    }

    #[test]
    fn a_secret_comes_from_a_file_and_is_not_too_short() {
        let path = Path::new("secret");
        let of = |read| Secret::of_file(path, read, Arc::new(RealEntropy));
        let missing = of(Err(io::ErrorKind::NotFound.into())).unwrap_err().to_string();
        assert!(missing.contains("secret"), "{missing}");
        let secret = of(Ok(b"  0123456789abcdef\n".to_vec())).unwrap();
        assert_eq!(&*secret.bytes, b"0123456789abcdef");
        assert_ne!(secret.nonce(), secret.nonce());
        let short = of(Ok(b"0123456789abcde\n".to_vec())).unwrap_err().to_string();
        assert!(short.contains("15 bytes"), "{short}");
    }
}
