//! A filter whose names and literals are looked up, with negation pushed down to the leaves.

use crate::literal::Constant;
use crate::{ColumnType, Comparison, FieldId};

/// A bound filter: leaves, and how they combine.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicate {
    pub(super) root: Node,
    pub(super) leaves: Vec<Leaf>,
}

/// A monotone combination of leaves: there is no negation left in it.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// True of no row.
    Never,
    /// The leaf of this index.
    Leaf(usize),
    /// True where all are.
    All(Vec<Node>),
    /// True where one is.
    Any(Vec<Node>),
}

/// A test of one column.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    /// The column.
    pub field_id: FieldId,
    /// Its type at the snapshot.
    pub ty: ColumnType,
    /// The test.
    pub test: Test,
}

/// What is asked of a column's value. All but [`Test::IsNull`] are false or unknown for null.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// Null.
    IsNull,
    /// Not null.
    NotNull,
    /// Compares with a constant.
    Compare {
        /// How.
        comparison: Comparison,
        /// With what.
        constant: Constant,
        /// Whether NaN satisfies the test under some engine's order although the comparison alone would not say so:
        /// `NOT (x > 5)` is true of NaN where NaN is beside the numbers.
        nan: bool,
    },
    /// Equals one of these.
    In(Vec<Constant>),
    /// Differs from all of these.
    NotIn(Vec<Constant>),
    /// Starts with this string or binary.
    StartsWith(Constant),
    /// Does not.
    NotStartsWith(Constant),
}

impl Predicate {
    /// How the leaves combine.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The leaves, by index.
    pub fn leaves(&self) -> &[Leaf] {
        &self.leaves
    }

    /// The columns that the leaves test, ascending, each once.
    pub fn field_ids(&self) -> Vec<FieldId> {
        let mut ids: Vec<FieldId> = self.leaves.iter().map(|leaf| leaf.field_id).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Whether a file may hold a row for which the filter is true, given what each leaf says about the file.
    pub fn may_match(&self, mut leaf: impl FnMut(usize) -> bool) -> bool {
        fn walk(node: &Node, leaf: &mut dyn FnMut(usize) -> bool) -> bool {
            match node {
                Node::Never => false,
                Node::Leaf(index) => leaf(*index),
                Node::All(nodes) => nodes.iter().all(|node| walk(node, leaf)),
                Node::Any(nodes) => nodes.iter().any(|node| walk(node, leaf)),
            }
        }
        walk(&self.root, &mut leaf)
    }
}
