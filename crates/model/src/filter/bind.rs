//! Binds a filter to the columns of a table: types the literals and pushes negation down to the leaves.
//!
//! De Morgan's laws hold in three-valued logic, and the negation of a comparison is unknown exactly where the comparison
//! is, so that nothing is lost. Only NaN needs care ([`Test::Compare`]).

use super::ast::{Expression, Literal, LiteralKind, Name, Test as Syntax};
use super::predicate::{Leaf, Node, Predicate, Test};
use super::{Complaint, FilterColumn};
use crate::literal::{self, Constant, Number, Place};
use crate::name::quoted;
use crate::{ColumnType, Comparison};
use std::cmp::Ordering;

type Bound<T> = Result<T, Complaint>;

pub(super) fn bind(expression: &Expression, columns: &[FilterColumn]) -> Bound<Predicate> {
    let mut binder = Binder { columns, leaves: Vec::new() };
    let root = binder.expression(expression, false)?;
    Ok(Predicate { root, leaves: binder.leaves })
}

struct Binder<'a> {
    columns: &'a [FilterColumn],
    leaves: Vec<Leaf>,
}

impl Binder<'_> {
    fn expression(&mut self, expression: &Expression, negated: bool) -> Bound<Node> {
        let terms = |binder: &mut Self, terms: &[Expression]| -> Bound<Vec<Node>> {
            terms.iter().map(|term| binder.expression(term, negated)).collect()
        };
        Ok(match expression {
            Expression::Not(inner) => self.expression(inner, !negated)?,
            Expression::And(list) if negated => Node::Any(terms(self, list)?),
            Expression::And(list) => Node::All(terms(self, list)?),
            Expression::Or(list) if negated => Node::All(terms(self, list)?),
            Expression::Or(list) => Node::Any(terms(self, list)?),
            Expression::Predicate(name, test) => {
                let column = self.column(name)?;
                self.test(column, test, negated)?
            }
        })
    }

    fn column(&self, name: &Name) -> Bound<FilterColumn> {
        if let Some(column) = self.columns.iter().find(|column| column.name == name.text) {
            return Ok(column.clone());
        }
        let alike = self.columns.iter().find(|column| column.name.eq_ignore_ascii_case(&name.text));
        let remedy = match alike {
            Some(column) => format!("names are case-sensitive: did you mean {}?", quoted(&column.name)),
            None => "the table has no such column at this snapshot".to_owned(),
        };
        Err(Complaint::new(name.at, format!("column {} is unknown; {remedy}", quoted(&name.text))))
    }

    fn leaf(&mut self, column: &FilterColumn, test: Test) -> Node {
        self.leaves.push(Leaf { field_id: column.field_id, ty: column.ty, test });
        Node::Leaf(self.leaves.len() - 1)
    }

    fn test(&mut self, column: FilterColumn, test: &Syntax, outer: bool) -> Bound<Node> {
        match test {
            Syntax::Null { negated } => {
                let test = if *negated == outer { Test::IsNull } else { Test::NotNull };
                Ok(self.leaf(&column, test))
            }
            Syntax::Compare(comparison, literal) => self.compare(&column, *comparison, literal, outer),
            Syntax::Between { negated, low, high } => {
                let negated = *negated != outer;
                let held = self.leaves.len();
                let ends = vec![
                    self.compare(&column, Comparison::GtEq, low, negated)?,
                    self.compare(&column, Comparison::LtEq, high, negated)?,
                ];
                if !negated && is_empty_range(&self.leaves[held..]) {
                    self.leaves.truncate(held);
                    return Ok(Node::Never);
                }
                Ok(if negated { Node::Any(ends) } else { Node::All(ends) })
            }
            Syntax::In { negated, list } => self.list(&column, list, *negated != outer),
            Syntax::StartsWith { negated, prefix } => {
                let Some(constant) = prefix_constant(column.ty, prefix) else {
                    return Err(Complaint::new(
                        prefix.at,
                        format!(
                            "STARTS WITH needs a string or binary column and a prefix in single quotes; column {} is {}",
                            quoted(&column.name),
                            column.ty
                        ),
                    ));
                };
                let test = if *negated != outer { Test::NotStartsWith(constant) } else { Test::StartsWith(constant) };
                Ok(self.leaf(&column, test))
            }
        }
    }

    fn list(&mut self, column: &FilterColumn, list: &[Literal], negated: bool) -> Bound<Node> {
        let mut constants = Vec::with_capacity(list.len());
        // What lies between two values equals none: IN drops it, NOT IN is true of it.
        for literal in list {
            match place(column, literal)? {
                Spot::At(constant) => constants.push(constant),
                Spot::Float { nearest, .. } if !negated => constants.push(Constant::Float(nearest)),
                Spot::Float { .. } | Spot::Above(_) | Spot::BelowAll | Spot::AboveAll => {}
            }
        }
        Ok(match (constants.is_empty(), negated) {
            (true, true) => self.leaf(column, Test::NotNull),
            (true, false) => Node::Never,
            (false, true) => self.leaf(column, Test::NotIn(constants)),
            (false, false) => self.leaf(column, Test::In(constants)),
        })
    }

    fn compare(
        &mut self,
        column: &FilterColumn,
        comparison: Comparison,
        literal: &Literal,
        negated: bool,
    ) -> Bound<Node> {
        use Comparison::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let comparison = if negated { opposite(comparison) } else { comparison };
        let (comparison, constant) = match (place(column, literal)?, comparison) {
            (Spot::At(constant), comparison) => (comparison, constant),
            (Spot::Above(below), Lt | LtEq) => (LtEq, below),
            (Spot::Above(below), Gt | GtEq) => (Gt, below),
            (Spot::Above(_) | Spot::BelowAll | Spot::AboveAll, Eq) => return Ok(Node::Never),
            (Spot::BelowAll, Lt | LtEq) | (Spot::AboveAll, Gt | GtEq) => return Ok(Node::Never),
            (Spot::Above(_) | Spot::BelowAll | Spot::AboveAll, _) | (Spot::Float { .. }, NotEq) => {
                return Ok(self.leaf(column, Test::NotNull));
            }
            (Spot::Float { above, .. }, Lt | LtEq) => (comparison, Constant::Float(above)),
            (Spot::Float { below, .. }, Gt | GtEq) => (comparison, Constant::Float(below)),
            (Spot::Float { nearest, .. }, Eq) => (Eq, Constant::Float(nearest)),
        };
        let nan = negated && matches!(comparison, Lt | LtEq);
        Ok(self.leaf(column, Test::Compare { comparison, constant, nan }))
    }
}

/// Whether two ends of BETWEEN have no value between them: both of a file's bounds may pass each end alone.
fn is_empty_range(ends: &[Leaf]) -> bool {
    match ends {
        [
            Leaf { test: Test::Compare { constant: low, .. }, .. },
            Leaf { test: Test::Compare { constant: high, .. }, .. },
        ] => {
            let (low, high) = (low.datum(), high.datum());
            !low.is_nan() && !high.is_nan() && low.as_lower().compare(high.as_upper()) == Some(Ordering::Greater)
        }
        _ => false,
    }
}

const fn opposite(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Eq => Comparison::NotEq,
        Comparison::NotEq => Comparison::Eq,
        Comparison::Lt => Comparison::GtEq,
        Comparison::LtEq => Comparison::Gt,
        Comparison::Gt => Comparison::LtEq,
        Comparison::GtEq => Comparison::Lt,
    }
}

/// Where a literal lies in a column of any type.
enum Spot {
    At(Constant),
    /// Above this value and below the next.
    Above(Constant),
    BelowAll,
    AboveAll,
    /// Between two floats. Engines either round the literal to a float or widen the column to double: each comparison
    /// takes the neighbour that keeps the rows of both.
    Float {
        below: f32,
        above: f32,
        nearest: f32,
    },
}

impl From<Place> for Spot {
    fn from(place: Place) -> Self {
        match place {
            Place::On(constant) => Self::At(constant),
            Place::Above(constant) => Self::Above(constant),
            Place::BelowAll => Self::BelowAll,
            Place::AboveAll => Self::AboveAll,
        }
    }
}

fn place(column: &FilterColumn, literal: &Literal) -> Bound<Spot> {
    let complain = |what: &str| {
        let shown = match &literal.kind {
            LiteralKind::Number(number) => quoted(number),
            LiteralKind::Text(text) => format!("'{}'", quoted(text).trim_matches('`')),
            LiteralKind::Boolean(value) => if *value { "TRUE" } else { "FALSE" }.to_owned(),
        };
        Complaint::new(literal.at, format!("{shown} {what} (column {}, {})", quoted(&column.name), column.ty))
    };
    let text_wanted = "does not fit; write the value in single quotes";
    match (column.ty, &literal.kind) {
        (ColumnType::Boolean, LiteralKind::Boolean(value)) => Ok(Spot::At(Constant::Boolean(*value))),
        (ColumnType::Boolean, _) => Err(complain("does not fit; write TRUE or FALSE")),
        (ColumnType::Int | ColumnType::Long | ColumnType::Decimal(_), LiteralKind::Number(text)) => Number::parse(text)
            .and_then(|number| literal::place_number(column.ty, &number))
            .map(Spot::from)
            .ok_or_else(|| complain("is no number")),
        (ColumnType::Float | ColumnType::Double, LiteralKind::Number(text)) => match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(place_float(column.ty, value)),
            _ => Err(complain("is beyond the range of a double")),
        },
        (ColumnType::Float | ColumnType::Double, LiteralKind::Text(text)) => {
            let value = match text.to_ascii_lowercase().as_str() {
                "nan" => f64::NAN,
                "infinity" | "+infinity" | "inf" | "+inf" => f64::INFINITY,
                "-infinity" | "-inf" => f64::NEG_INFINITY,
                _ => return Err(complain("does not fit; write a number without quotes, 'NaN' or 'Infinity'")),
            };
            Ok(place_float(column.ty, value))
        }
        (ColumnType::Int | ColumnType::Long | ColumnType::Decimal(_) | ColumnType::Float | ColumnType::Double, _) => {
            Err(complain("does not fit; write a number without quotes"))
        }
        (ColumnType::String, LiteralKind::Text(text)) => Ok(Spot::At(Constant::String(text.as_str().into()))),
        (ColumnType::Uuid, LiteralKind::Text(text)) => {
            literal::parse_uuid(text).map(Spot::At).ok_or_else(|| complain("is no UUID"))
        }
        (ColumnType::Binary, LiteralKind::Text(text)) => {
            literal::parse_binary(text).map(Spot::At).ok_or_else(|| complain("is no padded base64"))
        }
        (
            ColumnType::Date | ColumnType::Time | ColumnType::Timestamp | ColumnType::Timestamptz,
            LiteralKind::Text(text),
        ) => literal::place_temporal(column.ty, text).map(Spot::from).map_err(complain),
        _ => Err(complain(text_wanted)),
    }
}

fn place_float(ty: ColumnType, value: f64) -> Spot {
    if ty == ColumnType::Double {
        return Spot::At(Constant::Double(value));
    }
    let nearest = value as f32;
    match f64::from(nearest).partial_cmp(&value) {
        Some(Ordering::Less) => Spot::Float { below: nearest, above: nearest.next_up(), nearest },
        Some(Ordering::Greater) => Spot::Float { below: nearest.next_down(), above: nearest, nearest },
        _ => Spot::At(Constant::Float(nearest)),
    }
}

fn prefix_constant(ty: ColumnType, literal: &Literal) -> Option<Constant> {
    match (ty, &literal.kind) {
        (ColumnType::String, LiteralKind::Text(text)) => Some(Constant::String(text.as_str().into())),
        (ColumnType::Binary, LiteralKind::Text(text)) => literal::parse_binary(text),
        _ => None,
    }
}
