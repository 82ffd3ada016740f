//! A filter as written.

use crate::Comparison;

/// A boolean expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// Two or more, all of which must be true.
    And(Vec<Expression>),
    /// Two or more, one of which must be true.
    Or(Vec<Expression>),
    /// The opposite; unknown stays unknown.
    Not(Box<Expression>),
    /// A test of one column.
    Predicate(Name, Test),
}

/// A column name, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Without its double quotes.
    pub text: String,
    /// Byte offset.
    pub at: usize,
}

/// What is asked of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// `column <comparison> literal`.
    Compare(Comparison, Literal),
    /// `column [NOT] IN (literal, ...)`.
    In {
        /// With NOT.
        negated: bool,
        /// At least one.
        list: Vec<Literal>,
    },
    /// `column [NOT] BETWEEN low AND high`, both ends included.
    Between {
        /// With NOT.
        negated: bool,
        /// Lower end.
        low: Literal,
        /// Upper end.
        high: Literal,
    },
    /// `column IS [NOT] NULL`.
    Null {
        /// With NOT.
        negated: bool,
    },
    /// `column [NOT] STARTS WITH 'prefix'`.
    StartsWith {
        /// With NOT.
        negated: bool,
        /// The prefix.
        prefix: Literal,
    },
}

/// A literal, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Literal {
    /// What it is.
    pub kind: LiteralKind,
    /// Byte offset.
    pub at: usize,
}

/// The kinds of literal that can be told apart without knowing the column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiteralKind {
    /// Digits, as written.
    Number(String),
    /// Text, without its single quotes.
    Text(String),
    /// TRUE or FALSE.
    Boolean(bool),
}
