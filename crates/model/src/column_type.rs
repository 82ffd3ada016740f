//! The thirteen column types of the catalog and their parameters.

use crate::Refusal;
use serde_json::{Map, Value};
use std::fmt;

/// A column type of the catalog contract (`ColumnDef.type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// One byte, 0 or 1.
    Boolean,
    /// 32-bit signed.
    Int,
    /// 64-bit signed.
    Long,
    /// IEEE 754 binary32.
    Float,
    /// IEEE 754 binary64.
    Double,
    /// Fixed point.
    Decimal(DecimalType),
    /// Days since 1970-01-01.
    Date,
    /// Microseconds since midnight.
    Time,
    /// Microseconds since 1970-01-01T00:00:00, no zone.
    Timestamp,
    /// Microseconds since 1970-01-01T00:00:00Z.
    Timestamptz,
    /// UTF-8.
    String,
    /// 16 bytes, big-endian.
    Uuid,
    /// Bytes.
    Binary,
}

/// Precision and scale of a decimal: `1 <= precision <= 38`, `0 <= scale <= precision`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DecimalType {
    /// Total digits.
    pub precision: u8,
    /// Digits after the point.
    pub scale: u8,
}

impl ColumnType {
    /// The literals of the contract, in its order.
    pub const LITERALS: [&'static str; 13] = [
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "decimal",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "string",
        "uuid",
        "binary",
    ];

    /// Reads a type literal and its parameters. Literals are exact: lower case, nothing around them.
    ///
    /// Parameters that the type does not know are left alone (the caller stores and echoes them).
    ///
    /// # Errors
    /// [`ErrorCode::Validation`](crate::ErrorCode::Validation) for another literal, or a decimal without a valid
    /// `precision` and `scale`.
    pub fn parse(literal: &str, params: Option<&Map<String, Value>>) -> Result<Self, Refusal> {
        Ok(match literal {
            "boolean" => Self::Boolean,
            "int" => Self::Int,
            "long" => Self::Long,
            "float" => Self::Float,
            "double" => Self::Double,
            "decimal" => Self::Decimal(DecimalType::parse(params)?),
            "date" => Self::Date,
            "time" => Self::Time,
            "timestamp" => Self::Timestamp,
            "timestamptz" => Self::Timestamptz,
            "string" => Self::String,
            "uuid" => Self::Uuid,
            "binary" => Self::Binary,
            other => {
                return Err(Refusal::validation(format!(
                    "column type {} does not exist; use one of {}",
                    crate::name::quoted(other),
                    Self::LITERALS.join(", ")
                )));
            }
        })
    }

    /// The literal of the contract, without parameters.
    pub const fn literal(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Int => "int",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Decimal(_) => "decimal",
            Self::Date => "date",
            Self::Time => "time",
            Self::Timestamp => "timestamp",
            Self::Timestamptz => "timestamptz",
            Self::String => "string",
            Self::Uuid => "uuid",
            Self::Binary => "binary",
        }
    }

    /// Whether a column may be promoted from `self` to `to`: `int` to `long` and `float` to `double`, nothing else.
    pub const fn promotes_to(self, to: Self) -> bool {
        matches!((self, to), (Self::Int, Self::Long) | (Self::Float, Self::Double))
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decimal(d) => write!(f, "decimal({},{})", d.precision, d.scale),
            other => f.write_str(other.literal()),
        }
    }
}

impl DecimalType {
    /// Largest precision: what 16 bytes hold.
    pub const MAX_PRECISION: u8 = 38;

    fn parse(params: Option<&Map<String, Value>>) -> Result<Self, Refusal> {
        let precision = Self::integer(params, "precision")?;
        let scale = Self::integer(params, "scale")?;
        let valid = (1..=i64::from(Self::MAX_PRECISION)).contains(&precision) && (0..=precision).contains(&scale);
        match (valid, u8::try_from(precision), u8::try_from(scale)) {
            (true, Ok(precision), Ok(scale)) => Ok(Self { precision, scale }),
            _ => Err(Refusal::validation(format!(
                "decimal({precision},{scale}) is not allowed: type_params need 1 <= precision <= {} and 0 <= scale <= \
                 precision",
                Self::MAX_PRECISION
            ))),
        }
    }

    fn integer(params: Option<&Map<String, Value>>, key: &str) -> Result<i64, Refusal> {
        params
            .and_then(|p| p.get(key))
            .and_then(Value::as_i64)
            .ok_or_else(|| Refusal::validation(format!("a decimal column needs type_params with an integer `{key}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn decimal(params: Value) -> Result<ColumnType, Refusal> {
        ColumnType::parse("decimal", params.as_object())
    }

    #[test]
    fn every_literal_parses_and_prints_itself() {
        let params = json!({"precision": 10, "scale": 2, "note": "kept"});
        for literal in ColumnType::LITERALS {
            let parsed = ColumnType::parse(literal, params.as_object()).unwrap();
            assert_eq!(parsed.literal(), literal);
        }
    }

    #[test]
    fn other_literals_are_refused() {
        for bad in ["LONG", "Int", "uuid_t", "varchar2", "", "decimal(10,2)", "int "] {
            assert!(ColumnType::parse(bad, None).is_err(), "{bad}");
        }
    }

    #[test]
    fn decimals_need_whole_numbers_in_range() {
        assert!(decimal(json!({"precision": 38, "scale": 38})).is_ok());
        for bad in [
            json!(null),
            json!({}),
            json!({"precision": 10}),
            json!({"precision": "10", "scale": 2}),
            json!({"precision": 0, "scale": 0}),
            json!({"precision": 39, "scale": 0}),
            json!({"precision": 300, "scale": 0}),
            json!({"precision": 10, "scale": -1}),
            json!({"precision": 10, "scale": 11}),
            json!({"precision": 10.5, "scale": 1}),
        ] {
            assert!(decimal(bad.clone()).is_err(), "{bad}");
        }
    }
}
