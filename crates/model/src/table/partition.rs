//! Partitioning: transforms of columns, and the specs that files are written under.

use crate::FieldId;
use std::fmt;

/// How a partition value is derived from a column (Iceberg table spec, "Partition Transforms").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transform {
    /// The value itself.
    Identity,
    /// Years since 1970, as [`Value::Int`](super::Value::Int).
    Year,
    /// Months since 1970-01, as an int.
    Month,
    /// Days since 1970-01-01, as [`Value::Date`](super::Value::Date).
    Day,
    /// Hours since 1970-01-01T00, as an int.
    Hour,
    /// Murmur3 modulo this many buckets, as an int.
    Bucket(u32),
    /// Truncated to this width, in the column's own type.
    Truncate(u32),
    /// Always null: a field that was dropped from a v1 spec.
    Void,
}

/// One field of a spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionField {
    /// The column.
    pub source: FieldId,
    /// The id of the partition field itself where the source has one (Iceberg: from 1000), else 0.
    pub field_id: i32,
    /// The name of the partition field; for identity usually the column's.
    pub name: String,
    /// The transform.
    pub transform: Transform,
}

/// A way of partitioning; a file's [`spec_id`](super::DataFile::spec_id) says which one its tuple follows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionSpec {
    /// Unique in the table.
    pub id: i32,
    /// The fields, in the order of the files' partition tuples. Empty: unpartitioned.
    pub fields: Vec<PartitionField>,
}

impl PartitionSpec {
    /// A spec with one identity field per column.
    pub fn identity<'a>(id: i32, columns: impl IntoIterator<Item = (FieldId, &'a str)>) -> Self {
        let field = |(source, name): (FieldId, &str)| PartitionField {
            source,
            field_id: 0,
            name: name.to_owned(),
            transform: Transform::Identity,
        };
        Self { id, fields: columns.into_iter().map(field).collect() }
    }
}

impl fmt::Display for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bucket(n) => return write!(f, "bucket[{n}]"),
            Self::Truncate(width) => return write!(f, "truncate[{width}]"),
            Self::Identity => "identity",
            Self::Year => "year",
            Self::Month => "month",
            Self::Day => "day",
            Self::Hour => "hour",
            Self::Void => "void",
        })
    }
}

impl Transform {
    /// Reads the spelling of the Iceberg specification; `None` for a transform that does not exist there.
    pub fn parse(text: &str) -> Option<Self> {
        let argument = |name: &str| -> Option<u32> {
            text.strip_prefix(name)?.strip_prefix('[')?.strip_suffix(']')?.parse().ok().filter(|n| *n > 0)
        };
        Some(match text {
            "identity" => Self::Identity,
            "year" => Self::Year,
            "month" => Self::Month,
            "day" => Self::Day,
            "hour" => Self::Hour,
            "void" => Self::Void,
            _ => return argument("bucket").map(Self::Bucket).or_else(|| argument("truncate").map(Self::Truncate)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transforms_print_and_parse() {
        for text in ["identity", "year", "month", "day", "hour", "void", "bucket[16]", "truncate[4]"] {
            assert_eq!(Transform::parse(text).map(|t| t.to_string()).as_deref(), Some(text));
        }
        for bad in ["bucket", "bucket[0]", "bucket[-1]", "bucket[]", "zorder", "Identity", "truncate[4] "] {
            assert_eq!(Transform::parse(bad), None, "{bad}");
        }
    }
}
