//! Partition specs of the catalog: six transforms.

use super::TableDefinition;
use crate::name::quoted;
use crate::{ColumnType, FieldId, Refusal, SpecId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A partition spec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartitionSpec {
    /// Unique in the table, never reused.
    pub spec_id: SpecId,
    /// In the order of the files' partition values. Empty: unpartitioned.
    pub fields: Vec<PartitionField>,
}

/// One field of a spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PartitionField {
    /// The column.
    pub source_field_id: FieldId,
    /// How its value becomes a partition value.
    #[serde(flatten)]
    pub transform: Transform,
}

/// How a partition value is derived from a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "transform", content = "transform_param", rename_all = "lowercase")]
pub enum Transform {
    /// The value itself.
    Identity,
    /// Murmur3 modulo this many buckets, at least 1.
    Bucket(i32),
    /// Years since 1970.
    Year,
    /// Months since 1970-01.
    Month,
    /// Days since 1970-01-01.
    Day,
    /// Hours since 1970-01-01T00.
    Hour,
}

/// `PartitionField` of the contract, as a client sends it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionFieldDef {
    /// The column.
    pub source_field_id: FieldId,
    /// Name of the transform.
    pub transform: String,
    /// Number of buckets.
    pub transform_param: Option<i64>,
}

impl Transform {
    /// Reads the name of a transform and its parameter.
    ///
    /// # Errors
    /// 422 for another name, a bucket without a number of at least 1, a parameter where none belongs.
    pub fn parse(name: &str, param: Option<i64>) -> Result<Self, Refusal> {
        let transform = match name {
            "bucket" => {
                return match param.map(i32::try_from) {
                    Some(Ok(buckets)) if buckets >= 1 => Ok(Self::Bucket(buckets)),
                    _ => Err(Refusal::validation(format!(
                        "transform `bucket` needs `transform_param`, the number of buckets, from 1 to {}",
                        i32::MAX
                    ))),
                };
            }
            "identity" => Self::Identity,
            "year" => Self::Year,
            "month" => Self::Month,
            "day" => Self::Day,
            "hour" => Self::Hour,
            other => {
                return Err(Refusal::validation(format!(
                    "transform {} does not exist; use identity, bucket, year, month, day or hour",
                    quoted(other)
                )));
            }
        };
        match param {
            None => Ok(transform),
            Some(_) => {
                Err(Refusal::validation(format!("transform `{name}` takes no `transform_param`; only `bucket` does")))
            }
        }
    }

    /// The name in the contract.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Bucket(_) => "bucket",
            Self::Year => "year",
            Self::Month => "month",
            Self::Day => "day",
            Self::Hour => "hour",
        }
    }

    /// The number of buckets.
    pub const fn param(self) -> Option<i32> {
        match self {
            Self::Bucket(buckets) => Some(buckets),
            _ => None,
        }
    }

    /// Whether columns of type `source` may be partitioned this way.
    ///
    /// # Source
    /// Iceberg table spec, "Partition Transforms": bucket has no hash for boolean, float and double; a date has no hour.
    pub const fn accepts(self, source: ColumnType) -> bool {
        use ColumnType as T;
        match self {
            Self::Identity => true,
            Self::Bucket(_) => !matches!(source, T::Boolean | T::Float | T::Double),
            Self::Year | Self::Month | Self::Day => matches!(source, T::Date | T::Timestamp | T::Timestamptz),
            Self::Hour => matches!(source, T::Timestamp | T::Timestamptz),
        }
    }
}

impl fmt::Display for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket(buckets) => write!(f, "bucket({buckets})"),
            other => f.write_str(other.name()),
        }
    }
}

impl PartitionFieldDef {
    /// Checks the field against the live columns of `table`.
    ///
    /// # Errors
    /// 422 for an unknown column, or a transform that does not exist or does not take the column's type.
    pub fn check(&self, table: &TableDefinition) -> Result<PartitionField, Refusal> {
        let column = table.column_by_id(self.source_field_id).ok_or_else(|| {
            Refusal::validation(format!(
                "no live column has field id {}; partition by a live column",
                self.source_field_id
            ))
        })?;
        let transform = Transform::parse(&self.transform, self.transform_param)?;
        if !transform.accepts(column.column_type) {
            return Err(Refusal::validation(format!(
                "transform `{}` does not take column {} of type {}; use `identity` or a transform made for that type",
                transform.name(),
                quoted(&column.name),
                column.column_type
            )));
        }
        Ok(PartitionField { source_field_id: self.source_field_id, transform })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_the_contract_has_them() {
        let json =
            |transform| serde_json::to_string(&PartitionField { source_field_id: FieldId(3), transform }).unwrap();
        assert_eq!(json(Transform::Day), r#"{"source_field_id":3,"transform":"day"}"#);
        assert_eq!(json(Transform::Bucket(16)), r#"{"source_field_id":3,"transform":"bucket","transform_param":16}"#);
    }

    #[test]
    fn names_are_exact_and_parameters_belong_to_bucket() {
        for name in ["identity", "year", "month", "day", "hour"] {
            assert_eq!(Transform::parse(name, None).map(Transform::name), Ok(name));
            assert!(Transform::parse(name, Some(1)).is_err(), "{name}");
        }
        assert_eq!(Transform::parse("bucket", Some(1)), Ok(Transform::Bucket(1)));
        for bad in [None, Some(0), Some(-1), Some(1 << 31)] {
            assert!(Transform::parse("bucket", bad).is_err(), "{bad:?}");
        }
        for bad in ["truncate", "Day", "", "void", "days"] {
            assert!(Transform::parse(bad, None).is_err(), "{bad}");
        }
    }

    #[test]
    fn transforms_take_the_types_of_the_iceberg_spec() {
        let accepted = |transform: Transform| -> Vec<&str> {
            let decimal = serde_json::json!({"precision": 9, "scale": 2});
            let parse = |literal| ColumnType::parse(literal, decimal.as_object()).unwrap();
            ColumnType::LITERALS.into_iter().filter(|literal| transform.accepts(parse(literal))).collect()
        };
        assert_eq!(accepted(Transform::Identity), ColumnType::LITERALS);
        assert_eq!(accepted(Transform::Hour), ["timestamp", "timestamptz"]);
        assert_eq!(accepted(Transform::Month), ["date", "timestamp", "timestamptz"]);
        let hashed = ["int", "long", "decimal", "date", "time", "timestamp", "timestamptz", "string", "uuid", "binary"];
        assert_eq!(accepted(Transform::Bucket(4)), hashed);
    }
}
