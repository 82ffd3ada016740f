//! Partitioning, inferred from the table's properties.
//!
//! Simple and complex key generators put the value of each partition column into one directory level: identity
//! partitions. A timestamp-based key generator formats a column into levels; that is a transform of the open formats
//! only when the column is a date or a timestamp in UTC, and otherwise the table is read as unpartitioned, which
//! changes no row, with a warning.
//!
//! # Source
//! Hudi documentation, "Key generation"; properties `hoodie.table.partition.fields`,
//! `hoodie.table.keygenerator.class` and `.type`, `hoodie.datasource.write.hive_style_partitioning`,
//! `hoodie.datasource.write.partitionpath.urlencode`, `hoodie.keygen.timebased.output.dateformat`.

use super::properties::Properties;
use crate::hive_path::{HIVE_NULL, parse};
use hoglake_model::FieldId;
use hoglake_model::table::{Field, PartitionField, PartitionSpec, Primitive, Schema, Transform, Value};
use percent_encoding::percent_decode_str;

/// What somebody says about the partition paths of a table, in the words of Apache XTable's `partitionSpec`:
/// `column:TYPE` or `column:TYPE:FORMAT`, separated by commas, where TYPE is `VALUE`, `YEAR`, `MONTH`, `DAY` or `HOUR`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionPathSpec {
    fields: String,
    format: Option<String>,
}

impl std::str::FromStr for PartitionPathSpec {
    type Err = String;

    /// # Errors
    /// A sentence that names the part that does not fit, and the form.
    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write column:VALUE, or column:DAY:yyyy-MM-dd (YEAR, MONTH, DAY or HOUR with the format of \
                            the path), separated by commas";
        let mut fields = Vec::new();
        let mut format = None;
        for part in text.split(',').map(str::trim) {
            let mut words = part.splitn(3, ':').map(str::trim);
            let (column, kind, shape) = (words.next().unwrap_or_default(), words.next(), words.next());
            let kind = kind.unwrap_or_default().to_ascii_uppercase();
            let letters = |shape: &str| shape.chars().filter(char::is_ascii_alphabetic).collect::<String>();
            let expected = match kind.as_str() {
                "VALUE" => None,
                "YEAR" => Some("yyyy"),
                "MONTH" => Some("yyyyMM"),
                "DAY" => Some("yyyyMMdd"),
                "HOUR" => Some("yyyyMMddHH"),
                _ => return Err(format!("`{part}` is no partition: {FORM}")),
            };
            match (expected, shape) {
                _ if column.is_empty() => return Err(format!("`{part}` names no column: {FORM}")),
                (None, None) => fields.push(format!("{column}:SIMPLE")),
                (None, Some(_)) => return Err(format!("`{part}`: VALUE has no format; {FORM}")),
                (Some(expected), Some(shape)) if letters(shape) == expected => {
                    if format.as_deref().is_some_and(|other| other != shape) {
                        return Err("two columns with different time formats cannot be read".to_owned());
                    }
                    format = Some(shape.to_owned());
                    fields.push(format!("{column}:TIMESTAMP"));
                }
                (Some(expected), _) => {
                    return Err(format!("`{part}`: the format must have the letters {expected} in this order"));
                }
            }
        }
        Ok(Self { fields: fields.join(","), format })
    }
}

impl PartitionPathSpec {
    /// Makes a table's properties say what this says.
    pub(super) fn replace(&self, properties: &mut Properties) {
        let mut set = |key: &str, value: &str| drop(properties.0.insert(key.to_owned(), value.to_owned()));
        set("hoodie.table.partition.fields", &self.fields);
        set("hoodie.table.keygenerator.type", "CUSTOM");
        if let Some(format) = &self.format {
            set("hoodie.keygen.timebased.output.dateformat", format);
            set("hoodie.keygen.timebased.output.timezone", "UTC");
        }
    }
}

/// How partition paths become partition values.
#[derive(Debug, Clone, Default)]
pub(super) struct Partitioning {
    columns: Vec<Column>,
    url_encoded: bool,
    pub(super) spec: PartitionSpec,
}

#[derive(Debug, Clone)]
struct Column {
    name: String,
    ty: Primitive,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One level holds the value.
    Identity,
    /// So many levels hold a date with year first.
    Levels(usize),
}

impl Partitioning {
    /// Infers the partitioning; partition columns that the files do not store are added to `schema`.
    pub(super) fn infer(properties: &Properties, schema: &mut Schema) -> (Self, Vec<String>) {
        let declared = properties.list("hoodie.table.partition.fields");
        let generator = properties
            .get("hoodie.table.keygenerator.type")
            .or_else(|| properties.get("hoodie.table.keygenerator.class"))
            .unwrap_or_default()
            .to_ascii_uppercase();
        let mut warnings = Vec::new();
        let unpartitioned = |why: String, mut warnings: Vec<String>| {
            warnings.push(format!("the table is read as unpartitioned: {why}"));
            (Self::default(), warnings)
        };
        if declared.is_empty() || generator.contains("NON_PARTITION") || generator.contains("NONPARTITION") {
            return (Self::default(), warnings);
        }
        let time_based = generator.contains("TIMESTAMP");
        let dropped = properties.is_true("hoodie.datasource.write.drop.partition.columns");
        let mut found = Self {
            url_encoded: properties.is_true("hoodie.datasource.write.partitionpath.urlencode"),
            ..Self::default()
        };
        for declared in declared {
            // Custom key generators name the kind after a colon.
            let (name, custom) = match declared.split_once(':') {
                Some((name, kind)) => (name.to_owned(), Some(kind.to_ascii_uppercase())),
                None => (declared, None),
            };
            if schema.column(&name).is_none() && dropped {
                let id = schema.max_id().0 + 1;
                schema.fields.push(Field::optional(id, name.clone(), Primitive::String.into()));
            }
            let Some((id, ty)) = schema.column(&name).and_then(|f| Some((f.id, f.ty.primitive()?))) else {
                return unpartitioned(format!("its partition column `{name}` is no plain column"), warnings);
            };
            let by_time = custom.as_deref().map_or(time_based, |kind| kind == "TIMESTAMP");
            let (transform, kind) = if by_time {
                match transform(properties, ty) {
                    Some((transform, levels)) => (transform, Kind::Levels(levels)),
                    None => {
                        return unpartitioned(
                            format!("`{name}` is partitioned by a formatted time that no transform expresses"),
                            warnings,
                        );
                    }
                }
            } else {
                (Transform::Identity, Kind::Identity)
            };
            found.spec.fields.push(PartitionField { source: id, field_id: 0, name: name.clone(), transform });
            found.columns.push(Column { name, ty, kind });
        }
        if found.columns.len() > 1 && found.columns.iter().any(|c| c.kind != Kind::Identity) {
            warnings.push("several partition columns, one of them by time".to_owned());
        }
        (found, warnings)
    }

    /// The source columns of the spec with identity transform, by position in the tuple.
    pub(super) fn identities(&self) -> impl Iterator<Item = (usize, FieldId, &str)> {
        let fields = self.spec.fields.iter().enumerate().filter(|(_, f)| f.transform == Transform::Identity);
        fields.map(|(i, f)| (i, f.source, f.name.as_str()))
    }

    /// The partition tuple of a partition path.
    ///
    /// # Errors
    /// A sentence that names the column and the text that is no value of its type.
    pub(super) fn tuple(&self, path: &str) -> Result<Vec<Option<Value>>, String> {
        if self.columns.is_empty() {
            return Ok(Vec::new());
        }
        let mut levels: Vec<&str> = if path.is_empty() { Vec::new() } else { path.split('/').collect() };
        let wanted: usize = self.columns.iter().map(|c| if let Kind::Levels(n) = c.kind { n } else { 1 }).sum();
        // A single text column swallows the slashes of its value.
        if let ([only], true) = (self.columns.as_slice(), levels.len() > 1)
            && only.kind == Kind::Identity
        {
            levels = vec![path];
        }
        if levels.len() != wanted && !(levels.len() == 1 && self.columns.len() == 1) {
            return Err(format!("partition path `{path}` does not have the {wanted} levels of the partition columns"));
        }
        let mut rest = levels.as_slice();
        let mut tuple = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let count = if let Kind::Levels(n) = column.kind { n.min(rest.len()) } else { 1 };
            let (mine, others) = rest.split_at_checked(count).unwrap_or((rest, &[]));
            rest = others;
            tuple.push(self.value(column, mine)?);
        }
        Ok(tuple)
    }

    fn value(&self, column: &Column, levels: &[&str]) -> Result<Option<Value>, String> {
        let text = levels.join("/");
        let text = text.strip_prefix(&format!("{}=", column.name)).unwrap_or(&text);
        let text = if self.url_encoded {
            percent_decode_str(text).decode_utf8().map_err(|e| e.to_string())?.into_owned()
        } else {
            text.to_owned()
        };
        if text == HIVE_NULL {
            return Ok(None);
        }
        let value = match column.kind {
            Kind::Identity => identity(&text, column.ty),
            Kind::Levels(_) => period(&text, self.transform_of(column)),
        };
        match value {
            Some(value) => Ok(Some(value)),
            None => Err(format!("`{text}` is no value of partition column `{}` of type {}", column.name, column.ty)),
        }
    }

    fn transform_of(&self, column: &Column) -> Transform {
        let field = self.spec.fields.iter().find(|f| f.name == column.name);
        field.map_or(Transform::Identity, |f| f.transform)
    }
}

/// The transform that an output format amounts to, and how many levels it makes.
fn transform(properties: &Properties, ty: Primitive) -> Option<(Transform, usize)> {
    let zone = ["hoodie.keygen.timebased.output.timezone", "hoodie.keygen.timebased.timezone"]
        .iter()
        .find_map(|key| properties.get(key));
    let utc = zone.is_none_or(|z| matches!(z.to_ascii_uppercase().as_str(), "UTC" | "GMT" | "Z"));
    if !utc || !matches!(ty, Primitive::Date | Primitive::Timestamp | Primitive::Timestamptz) {
        return None;
    }
    let format = properties
        .get("hoodie.keygen.timebased.output.dateformat")
        .or_else(|| properties.get("hoodie.deltastreamer.keygen.timebased.output.dateformat"))?;
    let levels = format.split('/').count();
    let letters: String = format.chars().filter(|c| c.is_ascii_alphabetic()).collect();
    Some(match letters.as_str() {
        "yyyy" => (Transform::Year, levels),
        "yyyyMM" => (Transform::Month, levels),
        "yyyyMMdd" => (Transform::Day, levels),
        "yyyyMMddHH" if ty != Primitive::Date => (Transform::Hour, levels),
        _ => return None,
    })
}

/// The value of a period transform from the digits of a path.
fn period(text: &str, transform: Transform) -> Option<Value> {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let part = |range: std::ops::Range<usize>| digits.get(range)?.parse::<i32>().ok();
    let year = part(0..4)?;
    let days = |month: i32, day: i32| {
        let (month, day) = (u32::try_from(month).ok()?, u32::try_from(day).ok()?);
        let date = chrono::NaiveDate::from_ymd_opt(year, month, day)?;
        i32::try_from(date.signed_duration_since(chrono::NaiveDate::default()).num_days()).ok()
    };
    Some(match transform {
        Transform::Year if digits.len() == 4 => Value::Int(year - 1970),
        Transform::Month if digits.len() == 6 => {
            let month = part(4..6)?;
            days(month, 1)?;
            Value::Int((year - 1970) * 12 + month - 1)
        }
        Transform::Day if digits.len() == 8 => Value::Date(days(part(4..6)?, part(6..8)?)?),
        Transform::Hour if digits.len() == 10 => {
            let hour = part(8..10).filter(|h| (0..24).contains(h))?;
            Value::Int(days(part(4..6)?, part(6..8)?)?.checked_mul(24)?.checked_add(hour)?)
        }
        _ => return None,
    })
}

fn identity(text: &str, ty: Primitive) -> Option<Value> {
    parse(text, ty).or_else(|| match ty {
        // Writers without logical types put the stored number into the path.
        Primitive::Date => Some(Value::Date(text.parse().ok()?)),
        Primitive::Timestamp | Primitive::Timestamptz => {
            let number: i64 = text.parse().ok()?;
            Some(Value::Timestamp(if text.len() > 14 { number } else { number.checked_mul(1000)? }))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn infer(lines: &str, columns: &[(&str, Primitive)]) -> (Partitioning, Vec<String>) {
        let properties = Properties::parse("p", lines.as_bytes()).unwrap();
        let fields = columns.iter().zip(1..).map(|((name, ty), id)| Field::optional(id, *name, (*ty).into())).collect();
        Partitioning::infer(&properties, &mut Schema { fields, identifier_fields: Vec::new() })
    }

    #[test]
    fn levels_are_values() {
        let (found, _) = infer(
            "hoodie.table.partition.fields=a,b\nhoodie.datasource.write.partitionpath.urlencode=true",
            &[("a", Primitive::Int), ("b", Primitive::String)],
        );
        let tuple = |path: &str| found.tuple(path);
        assert_eq!(tuple("a=1/b=x%2Fy"), Ok(vec![Some(Value::Int(1)), Some(Value::String("x/y".into()))]));
        assert_eq!(tuple("1/__HIVE_DEFAULT_PARTITION__"), Ok(vec![Some(Value::Int(1)), None]));
        assert!(tuple("x/y").unwrap_err().contains("`a`") && tuple("1/2/3").is_err() && tuple("").is_err());
        let (single, _) = infer("hoodie.table.partition.fields=p", &[("p", Primitive::String)]);
        assert_eq!(single.tuple("a/b/c"), Ok(vec![Some(Value::String("a/b/c".into()))]));
    }

    #[test]
    fn what_somebody_says_of_the_paths_replaces_the_properties() {
        let apply = |spec: &str, columns: &[(&str, Primitive)]| {
            let mut properties = Properties::parse("p", b"hoodie.table.partition.fields=x").unwrap();
            spec.parse::<PartitionPathSpec>().unwrap().replace(&mut properties);
            let fields =
                columns.iter().zip(1..).map(|((name, ty), id)| Field::optional(id, *name, (*ty).into())).collect();
            Partitioning::infer(&properties, &mut Schema { fields, identifier_fields: Vec::new() }).0
        };
        let found = apply("level:VALUE", &[("level", Primitive::Int)]);
        assert_eq!(found.tuple("level=3"), Ok(vec![Some(Value::Int(3))]));
        let found = apply("at:DAY:yyyy-MM-dd, level:value", &[("at", Primitive::Timestamp), ("level", Primitive::Int)]);
        assert_eq!(found.spec.fields[0].transform, Transform::Day);
        assert_eq!(found.tuple("1970-01-03/7"), Ok(vec![Some(Value::Date(2)), Some(Value::Int(7))]));
        for bad in ["", "level", "level:X", ":VALUE", "level:VALUE:x", "at:DAY", "at:DAY:yyyy", "a:VALUE,,b:VALUE"] {
            assert!(bad.parse::<PartitionPathSpec>().is_err(), "{bad}");
        }
    }

    #[test]
    fn formatted_times_are_transforms_of_timestamps_only() {
        let lines = "hoodie.table.partition.fields=ts\nhoodie.table.keygenerator.type=TIMESTAMP\n\
                     hoodie.keygen.timebased.output.dateformat=yyyy/MM/dd/HH";
        let (found, warnings) = infer(lines, &[("ts", Primitive::Timestamptz)]);
        assert!(warnings.is_empty());
        assert_eq!(found.spec.fields[0].transform, Transform::Hour);
        assert_eq!(found.tuple("1970/01/02/03"), Ok(vec![Some(Value::Int(27))]));
        assert!(found.tuple("1970/13/02/03").is_err() && found.tuple("1970/01/02/24").is_err());
        let (text, warnings) = infer(lines, &[("ts", Primitive::String)]);
        assert!(text.spec.fields.is_empty() && warnings[0].contains("`ts`"));
        assert_eq!(text.tuple("2024/01/15/09"), Ok(vec![]));
        let zoned = format!("{lines}\nhoodie.keygen.timebased.timezone=GMT+8:00");
        assert!(infer(&zoned, &[("ts", Primitive::Timestamptz)]).0.spec.fields.is_empty());
    }
}
