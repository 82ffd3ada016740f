//! The tokens file: one token a line, `NAME HASH SCOPE[,SCOPE...]`, `#` starts a comment.
//!
//! ```text
//! # name    hash                  scopes
//! ingest    sha256:5b1f...e0      sales:write,*:read
//! ops       sha256:09aa...41      *:admin
//! ```

use super::token::TokenHash;
use super::{Grant, Identity};
use std::collections::HashSet;

/// The tokens of a file.
#[derive(Debug, Default)]
pub struct Tokens(Vec<(TokenHash, Identity)>);

impl Tokens {
    /// Reads a whole file.
    ///
    /// # Errors
    /// The first wrong line, by number; never what it holds beyond the name.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with('\u{feff}') {
            return Err("it begins with a byte-order mark (U+FEFF): save it as UTF-8 without one".to_owned());
        }
        let mut tokens = Vec::new();
        let mut names = HashSet::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let token = parse_line(line).map_err(|problem| format!("line {}: {problem}", index + 1))?;
            if !names.insert(token.1.actor.clone()) {
                return Err(format!("line {}: a second token is called `{}`", index + 1, token.1.actor));
            }
            tokens.push(token);
        }
        if tokens.is_empty() {
            return Err("it holds no token, so nobody could do anything: add one (`hoglake token new`)".to_owned());
        }
        Ok(Self(tokens))
    }

    /// Whose token this is. Every stored hash is compared, so that the time says nothing about which came near.
    pub fn identify(&self, token: &str) -> Option<Identity> {
        let presented = TokenHash::of(token);
        self.0.iter().fold(
            None,
            |found, (hash, identity)| {
                if hash.matches(&presented) { Some(identity.clone()) } else { found }
            },
        )
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The line that stands for a token in the file.
pub fn line(name: &str, hash: &TokenHash, grants: &[Grant]) -> String {
    let scopes: Vec<String> = grants.iter().map(Grant::to_string).collect();
    format!("{name} {hash} {}", scopes.join(","))
}

/// Checks the name of a token, which is the actor of the audit trail.
///
/// # Errors
/// The rule that it breaks.
pub fn check_name(name: &str) -> Result<(), String> {
    let valid = (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b'@'));
    match (valid, name) {
        (true, "anonymous") => Err("a token cannot be called anonymous".to_owned()),
        (true, _) => Ok(()),
        (false, _) => Err("a token's name must be 1 to 64 letters, digits, dots, underscores, hyphens or @".to_owned()),
    }
}

fn parse_line(line: &str) -> Result<(TokenHash, Identity), String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [name, hash, scopes] = fields.as_slice() else {
        return Err("must be NAME HASH SCOPE[,SCOPE...]".to_owned());
    };
    check_name(name)?;
    let grants = scopes.split(',').map(str::parse).collect::<Result<Vec<Grant>, _>>()?;
    Ok((hash.parse()?, Identity::new(name, grants)))
}

#[cfg(test)]
mod tests {
    use super::super::Access;
    use super::*;

    #[test]
    fn a_file_identifies_its_tokens() {
        let text = format!(
            "# tokens\n\n{}  # nightly\n{}\n",
            line("ingest", &TokenHash::of("one"), &["sales:write".parse().unwrap(), "*:read".parse().unwrap()]),
            line("ops", &TokenHash::of("two"), &[Grant::ADMIN_OF_ALL]),
        );
        let tokens = Tokens::parse(&text).unwrap();
        let ingest = tokens.identify("one").unwrap();
        assert_eq!(&*ingest.actor, "ingest");
        assert!(ingest.may(Access::Write, "sales") && !ingest.may(Access::Write, "other"));
        assert!(ingest.may_everywhere(Access::Read) && !ingest.may_everywhere(Access::Write));
        assert_eq!(&*tokens.identify("two").unwrap().actor, "ops");
        assert!(tokens.identify("three").is_none() && tokens.identify("").is_none());
    }

    #[test]
    fn a_wrong_line_is_named_by_its_number() {
        let hash = TokenHash::of("x").to_string();
        for (bad, problem) in [
            (format!("\na {hash}"), "line 2"),
            (format!("a {hash} *:read\na {hash} *:read"), "second token"),
            (format!("a {hash} everything"), "scope"),
            ("a sha256:12 *:read".to_owned(), "hash"),
            (format!("anonymous {hash} *:read"), "anonymous"),
            ("# nothing".to_owned(), "no token"),
            (format!("\u{feff}a {hash} *:read"), "byte-order mark"),
        ] {
            let error = Tokens::parse(&bad).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
