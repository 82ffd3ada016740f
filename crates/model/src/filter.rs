//! Filters of scans: a boolean expression over column names, and which files cannot hold a row for which it is true.
//!
//! [`Filter::parse`] reads the text, [`Filter::bind`] types its literals by the columns at the snapshot and pushes
//! negation down to the leaves, [`Predicate::may_match`] combines what each leaf says about a file.
//!
//! **Architecture invariant:** leaving a file out is a proof. Logic is three-valued (a comparison with null is not true),
//! bounds may be truncated or absent, counts may be absent, NaN may be ordered above everything or beside it; whatever is
//! in doubt keeps the file.
//!
//! # Ordering
//! Numbers compare exactly, whatever their spelling; strings by their UTF-8 bytes; binary and UUIDs by unsigned bytes;
//! timestamps with zone by instant.

mod ast;
mod bind;
mod key;
mod lexer;
mod parser;
mod predicate;
mod prune;
#[cfg(test)]
mod tests;

pub use ast::{Expression, Literal, LiteralKind, Name, Test as TestSyntax};
pub use key::{FileKeys, KeyTest, Keys, MAY_BE_NAN, MAY_BE_NULL, MAY_BE_PRESENT};
pub use predicate::{Leaf, Node, Predicate, Test};

use crate::{ColumnType, FieldId, Refusal};

/// A filter whose syntax is right; its names and literals have not been looked at.
#[derive(Debug, Clone)]
pub struct Filter {
    text: String,
    expression: Expression,
}

/// A column as a filter sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterColumn {
    /// The column's id.
    pub field_id: FieldId,
    /// Its name at the snapshot.
    pub name: String,
    /// Its type at the snapshot.
    pub ty: ColumnType,
}

impl Filter {
    /// Longest text, in bytes.
    pub const MAX_BYTES: usize = 65_536;
    /// Deepest nesting of parentheses and NOT.
    pub const MAX_DEPTH: usize = 64;
    /// Most literals and null tests.
    pub const MAX_TERMS: usize = 4_096;

    /// Reads a filter.
    ///
    /// # Errors
    /// 422, pointing at the place.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        if text.len() > Self::MAX_BYTES {
            return Err(Refusal::validation(format!(
                "the filter has {} bytes; the limit is {}",
                text.len(),
                Self::MAX_BYTES
            )));
        }
        let expression = lexer::tokens(text).and_then(|tokens| parser::parse(&tokens)).map_err(|e| e.refusal(text))?;
        Ok(Self { text: text.to_owned(), expression })
    }

    /// Looks the columns up, types the literals, and pushes negation down to the leaves.
    ///
    /// # Errors
    /// 422 for an unknown column or a literal that does not fit its column, pointing at the place.
    pub fn bind(&self, columns: &[FilterColumn]) -> Result<Predicate, Refusal> {
        bind::bind(&self.expression, columns).map_err(|e| e.refusal(&self.text))
    }

    /// The text as given.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// What is wrong with a filter, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Complaint {
    /// Byte offset in the text.
    at: usize,
    what: String,
}

impl Complaint {
    fn new(at: usize, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }

    /// Counts characters from 1 and draws the part of the text around the place, with a caret under it.
    fn refusal(self, text: &str) -> Refusal {
        const AROUND: usize = 30;
        let at = text.floor_char_boundary(self.at);
        let before: Vec<char> = text[..at].chars().collect();
        let shown = |c: char| if c.is_control() { ' ' } else { c };
        let start = before.len().saturating_sub(AROUND);
        let left = if start > 0 { "…" } else { "" };
        let head: String = before[start..].iter().copied().map(shown).collect();
        let mut rest = text[at..].chars();
        let tail: String = rest.by_ref().take(AROUND).map(shown).collect();
        let right = if rest.next().is_some() { "…" } else { "" };
        let indent = " ".repeat(left.chars().count() + head.chars().count());
        Refusal::validation(format!(
            "filter, character {}: {}\n  {left}{head}{tail}{right}\n  {indent}^",
            before.len() + 1,
            self.what
        ))
    }
}
