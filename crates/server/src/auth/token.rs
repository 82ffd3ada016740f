//! Bearer tokens: 32 random bytes, shown once; the server keeps their SHA-256.
//!
//! A plain hash is enough because the bytes are random: there is nothing to guess that a slow hash would slow down.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use subtle::ConstantTimeEq;

const PREFIX: &str = "hog_";

/// A new token.
///
/// # Errors
/// When the system has no randomness.
pub fn generate() -> Result<String, rand::rngs::SysError> {
    use rand::TryRng;
    let mut bytes = [0u8; 32];
    rand::rngs::SysRng.try_fill_bytes(&mut bytes)?;
    Ok(format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes)))
}

/// The SHA-256 of a token; written `sha256:` and 64 hexadecimal digits.
#[derive(Clone)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Hashes `token`.
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token.as_bytes()).into())
    }

    /// Compares in constant time.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hash]")
    }
}

impl FromStr for TokenHash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || "the hash must be sha256: and 64 hexadecimal digits".to_owned();
        let digits = text
            .strip_prefix("sha256:")
            .filter(|digits| digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let digits = digits.ok_or_else(wrong)?;
        let mut hash = [0u8; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Self(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_reads_back_and_matches_its_token_only() {
        let (one, two) = (generate().unwrap(), generate().unwrap());
        assert_ne!(one, two);
        let stored: TokenHash = TokenHash::of(&one).to_string().parse().unwrap();
        assert!(stored.matches(&TokenHash::of(&one)));
        assert!(!stored.matches(&TokenHash::of(&two)));
    }

    #[test]
    fn other_spellings_are_no_hash() {
        let digits = "0".repeat(64);
        for bad in [
            digits.clone(),
            format!("sha256:{}", "0".repeat(63)),
            format!("sha256:{}", "+1".repeat(32)),
            format!("md5:{digits}"),
        ] {
            assert!(bad.parse::<TokenHash>().is_err(), "{bad}");
        }
    }
}
