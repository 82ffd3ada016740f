//! Names: what a namespace, table, view, column or catalog may be called.

use crate::Refusal;
use serde::Serialize;
use std::fmt;

/// The name of a namespace, table, view or column: `[A-Za-z_][A-Za-z0-9_-]{0,127}`, case-sensitive.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Identifier(String);

/// The name of a catalog: `[a-z][a-z0-9_-]{0,62}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct CatalogName(String);

impl Identifier {
    /// Longest identifier, in characters (all of them ASCII).
    pub const MAX_LEN: usize = 128;

    /// Checks `name` against the identifier policy; `kind` names the thing in the error ("table", "column", ...).
    ///
    /// # Errors
    /// [`ErrorCode::Validation`](crate::ErrorCode::Validation) with the rule and the offending name.
    ///
    /// # Source
    /// OpenAPI `ColumnDef.name`.
    pub fn parse(kind: &str, name: &str) -> Result<Self, Refusal> {
        if is_identifier(name) {
            return Ok(Self(name.to_owned()));
        }
        Err(Refusal::validation(format!(
            "{kind} name {} is not allowed: it must start with a letter or underscore, go on with letters, digits, \
             underscores or hyphens, and have at most {} characters",
            quoted(name),
            Self::MAX_LEN
        )))
    }

    /// Checks a column name: an identifier that does not start with the reserved prefix `_hog` (in any case).
    ///
    /// # Errors
    /// [`ErrorCode::Validation`](crate::ErrorCode::Validation).
    pub fn parse_column(name: &str) -> Result<Self, Refusal> {
        let parsed = Self::parse("column", name)?;
        if name.get(..4).is_some_and(|prefix| prefix.eq_ignore_ascii_case("_hog")) {
            return Err(Refusal::validation(format!(
                "column name {} is not allowed: the prefix `_hog` is reserved for columns that hoglake writes",
                quoted(name)
            )));
        }
        Ok(parsed)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl CatalogName {
    /// Checks `name` against the catalog name policy.
    ///
    /// # Errors
    /// [`ErrorCode::Validation`](crate::ErrorCode::Validation).
    pub fn parse(name: &str) -> Result<Self, Refusal> {
        let mut bytes = name.bytes();
        let valid = name.len() <= 63
            && bytes.next().is_some_and(|b| b.is_ascii_lowercase())
            && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
        if valid {
            return Ok(Self(name.to_owned()));
        }
        Err(Refusal::validation(format!(
            "catalog name {} is not allowed: it must start with a lower-case letter, go on with lower-case letters, \
             digits, underscores or hyphens, and have at most 63 characters",
            quoted(name)
        )))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether `name` satisfies the identifier policy. Lookups use this to answer 404 without asking the database.
pub fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= Identifier::MAX_LEN
        && bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// `name` in backticks, control characters escaped and long names cut, so that an error is safe to print.
pub fn quoted(name: &str) -> String {
    let mut shown: String = name.chars().take(Identifier::MAX_LEN + 1).flat_map(char::escape_debug).collect();
    if name.chars().count() > Identifier::MAX_LEN + 1 {
        shown.push('…');
    }
    format!("`{shown}`")
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for CatalogName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_follow_the_policy() {
        let longest = "a".repeat(128);
        for good in ["a", "_leading", "UPPER-Case_9", longest.as_str()] {
            assert_eq!(Identifier::parse("table", good).map(|n| n.to_string()), Ok(good.to_owned()));
        }
        let too_long = "a".repeat(129);
        for bad in ["", "9a", "a b", "a/b", "naïve", "-a", "a'b", "a\0", too_long.as_str()] {
            let refusal = Identifier::parse("table", bad).unwrap_err();
            assert_eq!(refusal.code, crate::ErrorCode::Validation, "{bad:?}");
        }
    }

    #[test]
    fn the_hog_prefix_is_reserved_for_columns_only() {
        for bad in ["_hog_row_id", "_HOG_x", "_hog", "_Hogwarts"] {
            assert!(Identifier::parse_column(bad).is_err(), "{bad}");
            assert!(Identifier::parse("table", bad).is_ok(), "{bad}");
        }
        assert!(Identifier::parse_column("_ho").is_ok());
        assert!(Identifier::parse_column("hog_row_id").is_ok());
    }

    #[test]
    fn catalog_names_are_lower_case() {
        let longest = format!("a{}", "9".repeat(62));
        for good in ["a", "lake-1_x", longest.as_str()] {
            assert!(CatalogName::parse(good).is_ok(), "{good}");
        }
        let too_long = "a".repeat(64);
        for bad in ["", "A", "9a", "_a", "a.b", too_long.as_str()] {
            assert!(CatalogName::parse(bad).is_err(), "{bad}");
        }
    }
}
