//! Entity tags of reads at a named snapshot.

use hoglake_model::CatalogId;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use uuid::Uuid;

/// Changes whenever the same question gets another representation from a new version of this server.
const REPRESENTATION: &str = "1";

/// The tag of an answer about `table`: `question` is all that the answer depends on besides, and `statistics` the
/// table's statistics version, since an answer at a fixed snapshot still changes when a file's statistics arrive.
///
/// Weak, because the same files may be encoded (gzip, zstd) and, with a filter, kept differently.
pub(crate) fn etag(catalog: CatalogId, table: Uuid, statistics: i64, question: &[&str]) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{REPRESENTATION}/{catalog}/{table}/{statistics}"));
    for part in question {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let mut tag = String::from("W/\"");
    for byte in &hash.finalize()[..16] {
        let _ = write!(tag, "{byte:02x}");
    }
    tag.push('"');
    tag
}

/// Whether `If-None-Match` names `etag`, by weak comparison.
pub(crate) fn matches(if_none_match: Option<&str>, etag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    if_none_match.is_some_and(|held| held.trim() == "*" || held.split(',').any(|tag| opaque(tag) == opaque(etag)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_depends_on_all_of_its_question() {
        let tag = |version, question: &[&str]| etag(CatalogId(1), Uuid::nil(), version, question);
        let first = tag(0, &["scan", "12", "a"]);
        assert_eq!(first, tag(0, &["scan", "12", "a"]));
        for other in [tag(1, &["scan", "12", "a"]), tag(0, &["scan", "1", "2a"]), tag(0, &["files", "12", "a"])] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn if_none_match_compares_weakly() {
        let etag = "W/\"abc\"";
        for held in ["W/\"abc\"", "\"abc\"", "\"x\", W/\"abc\"", "*"] {
            assert!(matches(Some(held), etag), "{held}");
        }
        for held in [None, Some("\"x\""), Some("")] {
            assert!(!matches(held, etag));
        }
    }
}
