//! Columns whose older files store a narrower type ("Type Widening").

use super::action::Protocol;
use super::schema::type_name;
use hoglake_model::FieldId;
use hoglake_model::table::{Primitive, Schema, TableFormat, Unsupported, UnsupportedKind};

/// The table feature by which readers know that files may store narrower types.
pub(super) const FEATURE: &str = "typeWidening";

/// The same before it was part of the protocol.
pub(super) const PREVIEW: &str = "typeWidening-preview";

/// The property by which writers may widen columns.
pub(super) const ENABLE: &str = "delta.enableTypeWidening";

/// Whether a table has the feature, be it as a preview.
pub(super) fn is_declared(protocol: &Protocol) -> bool {
    protocol.reader_features.iter().flatten().any(|feature| feature == FEATURE || feature == PREVIEW)
}

/// Whether readers of tables with the feature promote values of the first type to the second.
pub(super) fn is_supported(then: Primitive, now: Primitive) -> bool {
    use Primitive::{Byte, Date, Decimal, Double, Float, Int, Long, Short, Timestamp};
    match (then, now) {
        (Byte, Short | Int | Long | Double) | (Short, Int | Long | Double) | (Int, Long | Double) => true,
        (Float, Double) | (Date, Timestamp) => true,
        (Byte | Short | Int, Decimal(now)) => now.precision - now.scale.min(now.precision) >= 10,
        (Long, Decimal(now)) => now.precision - now.scale.min(now.precision) >= 20,
        (Decimal(then), Decimal(now)) => {
            let scale = now.scale.checked_sub(then.scale);
            let precision = now.precision.checked_sub(then.precision);
            then != now && scale.zip(precision).is_some_and(|(scale, precision)| precision >= scale)
        }
        _ => false,
    }
}

/// Whether files that store the first type differ from those that store the second, as far as Delta tells types apart.
/// No file stores anything of an unknown type.
pub(super) fn differ(then: Primitive, now: Primitive) -> bool {
    then != Primitive::Unknown && type_name(then) != type_name(now)
}

/// What a column went through, as pairs of types, oldest first. Types of which neither became the other are all taken to
/// have become the last.
pub(super) fn steps(older: impl Iterator<Item = Primitive>, now: Primitive) -> Vec<(Primitive, Primitive)> {
    let mut types: Vec<_> = older.filter(|then| differ(*then, now)).collect();
    types.sort_by_key(|then| rank(*then));
    types.dedup();
    let to = |i: usize, then| types.get(i + 1).copied().filter(|next| is_supported(then, *next)).unwrap_or(now);
    types.iter().enumerate().map(|(i, then)| (*then, to(i, *then))).collect()
}

/// Orders types that widen into each other.
const fn rank(ty: Primitive) -> (u8, u8, u8) {
    match ty {
        Primitive::Byte => (0, 0, 0),
        Primitive::Short => (1, 0, 0),
        Primitive::Int => (2, 0, 0),
        Primitive::Long => (3, 0, 0),
        Primitive::Decimal(d) => (4, d.precision, d.scale),
        _ => (5, 0, 0),
    }
}

/// Columns that some files store with a type from which no reader gets to today's.
pub(super) fn unsupported<'a>(
    schema: &Schema,
    older_types: impl IntoIterator<Item = &'a (FieldId, Primitive)>,
) -> Vec<Unsupported> {
    let mut found = Vec::new();
    for (id, then) in older_types {
        if let (Some(path), Some(now)) = (schema.path(*id), schema.primitive(*id))
            && differ(*then, now)
            && !is_supported(*then, now)
        {
            found.push(Unsupported {
                target: TableFormat::Delta,
                kind: UnsupportedKind::Type,
                place: path.join("."),
                detail: format!(
                    "the column was {then} and is {now} now, which type widening of Delta does not cover; rewrite the files \
                     of the older type"
                ),
            });
        }
    }
    found
}

/// What is said of columns that were widened.
pub(super) fn warnings(schema: &Schema, older_types: &[(FieldId, Primitive)], declares: bool) -> Vec<String> {
    let means = if declares {
        format!(
            "the table has the feature {FEATURE} for it, and readers that do not know that (delta-rs) do not open it"
        )
    } else {
        format!(
            "the table does not declare the feature {FEATURE}, as asked for; readers may fail on these files, as Spark 3.5 does"
        )
    };
    let mut said = Vec::new();
    for (id, then) in older_types {
        if let (Some(path), Some(now)) = (schema.path(*id), schema.primitive(*id))
            && differ(*then, now)
        {
            let path = path.join(".");
            said.push(format!("older files may hold the column {path} as {then} instead of {now}; {means}"));
        }
    }
    said
}

/// Adds to `older_types` what columns of the schema were, by the names down to them, if that has been widened since.
pub(super) fn note(schema: &Schema, known: &[(Vec<String>, Primitive)], older_types: &mut Vec<(FieldId, Primitive)>) {
    for (id, then, now) in of_columns(schema, known) {
        if is_supported(then, now) && !older_types.contains(&(id, then)) {
            older_types.push((id, then));
        }
    }
}

/// Types by the names down to the columns, as the schema has the columns: id, the type, today's type.
pub(super) fn of_columns(schema: &Schema, known: &[(Vec<String>, Primitive)]) -> Vec<(FieldId, Primitive, Primitive)> {
    let mut found = Vec::new();
    schema.walk(&mut |path, node| {
        let Some(now) = node.ty.primitive() else { return };
        let here = known.iter().filter(|(known, _)| known.iter().map(String::as_str).eq(path.iter().copied()));
        found.extend(here.map(|(_, then)| (node.id, *then, now)));
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use Primitive::{Byte, Date, Double, Float, Int, Long, Short, String, Timestamp, Timestamptz, Unknown};
    use hoglake_model::DecimalType;

    fn decimal(precision: u8, scale: u8) -> Primitive {
        Primitive::Decimal(DecimalType { precision, scale })
    }

    #[test]
    fn changes_are_those_of_the_protocol() {
        for (then, now) in [
            (Byte, Short),
            (Byte, Long),
            (Int, Double),
            (Float, Double),
            (Date, Timestamp),
            (Short, decimal(10, 0)),
            (Int, decimal(12, 2)),
            (Long, decimal(20, 0)),
            (decimal(5, 2), decimal(12, 2)),
            (decimal(5, 2), decimal(7, 4)),
        ] {
            assert!(is_supported(then, now) && !is_supported(now, then), "{then} to {now}");
        }
        for (then, now) in [
            (Long, Double),
            (Long, Float),
            (Int, Float),
            (Date, Timestamptz),
            (Int, String),
            (Int, decimal(10, 1)),
            (Byte, decimal(5, 0)),
            (Long, decimal(20, 1)),
            (decimal(5, 2), decimal(6, 4)),
            (decimal(5, 2), decimal(9, 1)),
            (decimal(5, 2), decimal(5, 2)),
            (Int, Int),
        ] {
            assert!(!is_supported(then, now), "{then} to {now}");
        }
    }

    #[test]
    fn every_step_is_one_that_readers_take() {
        let steps = |older: &[Primitive], now| steps(older.iter().copied(), now);
        assert_eq!(steps(&[Int, Byte, Int, Unknown], Long), [(Byte, Int), (Int, Long)]);
        assert_eq!(steps(&[Float, Int], Double), [(Int, Double), (Float, Double)]);
        assert_eq!(
            steps(&[decimal(5, 2), Long, Short], decimal(25, 5)),
            [(Short, Long), (Long, decimal(25, 5)), (decimal(5, 2), decimal(25, 5))]
        );
        assert_eq!(steps(&[Long, Unknown], Long), []);
    }
}
