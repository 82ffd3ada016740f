//! From a Parquet schema to the model's.

use hoglake_model::table::{Element, Field, Primitive, Schema, Type};
use hoglake_model::{DecimalType, FieldId};
use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::schema::types::{SchemaDescriptor, Type as ParquetType};
use std::collections::HashSet;

/// The schema of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileSchema {
    /// The columns. Ids are the file's own where it has them; columns without one are numbered -1, -2, ...
    pub schema: Schema,
    /// The id of every leaf column in the order of the file's column chunks; `None` inside a variant.
    pub leaves: Vec<Option<FieldId>>,
}

struct Reading {
    leaves: Vec<Option<FieldId>>,
    next: i64,
    seen: HashSet<i64>,
    path: Vec<String>,
}

type Read<T> = Result<T, String>;

/// Reads the schema of a file.
///
/// # Errors
/// A sentence that names the column whose type the model does not have.
pub fn file_schema(descriptor: &SchemaDescriptor) -> Read<FileSchema> {
    let mut reading = Reading { leaves: Vec::new(), next: 0, seen: HashSet::new(), path: Vec::new() };
    let fields = reading.fields(descriptor.root_schema().get_fields())?;
    Ok(FileSchema { schema: Schema { fields, identifier_fields: Vec::new() }, leaves: reading.leaves })
}

impl Reading {
    fn refuse<T>(&self, why: &str) -> Read<T> {
        Err(format!("column `{}`: {why}", self.path.join(".")))
    }

    fn id(&mut self, ty: &ParquetType) -> Read<FieldId> {
        let info = ty.get_basic_info();
        if info.has_id() && info.id() > 0 {
            if !self.seen.insert(i64::from(info.id())) {
                return self.refuse(&format!("field id {} is used twice in the file", info.id()));
            }
            return Ok(FieldId(i64::from(info.id())));
        }
        self.next -= 1;
        Ok(FieldId(self.next))
    }

    fn fields(&mut self, types: &[std::sync::Arc<ParquetType>]) -> Read<Vec<Field>> {
        let mut names = HashSet::new();
        let mut fields = Vec::with_capacity(types.len());
        for ty in types {
            self.path.push(ty.name().to_owned());
            if !names.insert(ty.name()) {
                return self.refuse("the name is used twice in one group");
            }
            let id = self.id(ty)?;
            let repeated = repetition(ty) == Repetition::REPEATED;
            let read = if repeated { self.bare_list(ty)? } else { self.node(ty, id)? };
            let mut field = Field::optional(id.0, ty.name(), read);
            // A repeated field without a LIST around it is a list that is never null (LogicalTypes.md, "Lists").
            field.required = repetition(ty) != Repetition::OPTIONAL;
            fields.push(field);
            self.path.pop();
        }
        Ok(fields)
    }

    fn bare_list(&mut self, ty: &ParquetType) -> Read<Type> {
        self.next -= 1;
        let id = FieldId(self.next);
        let item = self.node(ty, id)?;
        Ok(Type::List(Box::new(Element { id, required: true, ty: item })))
    }

    /// The type of a node, whatever its repetition.
    fn node(&mut self, ty: &ParquetType, id: FieldId) -> Read<Type> {
        if ty.is_primitive() {
            let primitive = match primitive(ty) {
                Ok(primitive) => primitive,
                Err(why) => return self.refuse(&why),
            };
            self.leaves.push(Some(id));
            return Ok(primitive.into());
        }
        let info = ty.get_basic_info();
        match (info.logical_type_ref(), info.converted_type()) {
            (Some(LogicalType::Variant(_)), _) => {
                self.leaves.extend(std::iter::repeat_n(None, leaf_count(ty)));
                Ok(Primitive::Variant.into())
            }
            (Some(LogicalType::List), _) | (None, ConvertedType::LIST) => self.list(ty),
            (Some(LogicalType::Map), _) | (None, ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE) => self.map(ty),
            _ => Ok(Type::Struct(self.fields(ty.get_fields())?)),
        }
    }

    /// LogicalTypes.md, "Lists", with its rules for older writers: the repeated node is the element itself when it is a
    /// leaf, has several members, or is called `array` or after the list; otherwise its only member is.
    fn list(&mut self, ty: &ParquetType) -> Read<Type> {
        let [repeated] = ty.get_fields() else { return self.refuse("a list must have one repeated member") };
        if repetition(repeated) != Repetition::REPEATED {
            return self.refuse("the member of a list must be repeated");
        }
        self.path.push("element".to_owned());
        let inner = match repeated.is_group().then(|| repeated.get_fields()) {
            Some([only])
                if repeated.name() != "array"
                    && repeated.name() != format!("{}_tuple", ty.name())
                    && repetition(only) != Repetition::REPEATED =>
            {
                Some(only)
            }
            _ => None,
        };
        let element = inner.unwrap_or(repeated);
        let id = self.id(element)?;
        let read = self.node(element, id)?;
        self.path.pop();
        let required = inner.is_none() || repetition(element) == Repetition::REQUIRED;
        Ok(Type::List(Box::new(Element { id, required, ty: read })))
    }

    /// LogicalTypes.md, "Maps". A map without values reads as the list of its keys.
    fn map(&mut self, ty: &ParquetType) -> Read<Type> {
        let [entry] = ty.get_fields() else { return self.refuse("a map must have one repeated member") };
        if repetition(entry) != Repetition::REPEATED || !entry.is_group() {
            return self.refuse("the member of a map must be a repeated group");
        }
        let (key, value) = match entry.get_fields() {
            [key, value] => (key, Some(value)),
            [key] => (key, None),
            _ => return self.refuse("the entries of a map must have a key and a value"),
        };
        self.path.push("key".to_owned());
        let key_id = self.id(key)?;
        let key_type = self.node(key, key_id)?;
        self.path.pop();
        let key = Element { id: key_id, required: true, ty: key_type };
        let Some(value) = value else { return Ok(Type::List(Box::new(key))) };
        self.path.push("value".to_owned());
        let value_id = self.id(value)?;
        let read = if repetition(value) == Repetition::REPEATED {
            self.bare_list(value)?
        } else {
            self.node(value, value_id)?
        };
        self.path.pop();
        let required = repetition(value) != Repetition::OPTIONAL;
        Ok(Type::Map(Box::new((key, Element { id: value_id, required, ty: read }))))
    }
}

fn repetition(ty: &ParquetType) -> Repetition {
    let info = ty.get_basic_info();
    if info.has_repetition() { info.repetition() } else { Repetition::REQUIRED }
}

fn leaf_count(ty: &ParquetType) -> usize {
    if ty.is_primitive() { 1 } else { ty.get_fields().iter().map(|f| leaf_count(f)).sum() }
}

/// The model's type of a leaf. Logical types come first, the older converted types where there are none.
fn primitive(ty: &ParquetType) -> Read<Primitive> {
    let info = ty.get_basic_info();
    let physical = ty.get_physical_type();
    if let Some(logical) = info.logical_type_ref() {
        return annotated(logical, physical, ty);
    }
    let no_unit = |unit| LogicalType::timestamp(true, unit);
    let logical = match info.converted_type() {
        ConvertedType::NONE => return unannotated(ty),
        ConvertedType::UTF8 => LogicalType::String,
        ConvertedType::ENUM => LogicalType::Enum,
        ConvertedType::JSON => LogicalType::Json,
        ConvertedType::BSON => LogicalType::Bson,
        ConvertedType::DATE => LogicalType::Date,
        ConvertedType::TIME_MILLIS => LogicalType::time(true, TimeUnit::MILLIS),
        ConvertedType::TIME_MICROS => LogicalType::time(true, TimeUnit::MICROS),
        ConvertedType::TIMESTAMP_MILLIS => no_unit(TimeUnit::MILLIS),
        ConvertedType::TIMESTAMP_MICROS => no_unit(TimeUnit::MICROS),
        ConvertedType::UINT_8 => LogicalType::integer(8, false),
        ConvertedType::UINT_16 => LogicalType::integer(16, false),
        ConvertedType::UINT_32 => LogicalType::integer(32, false),
        ConvertedType::UINT_64 => LogicalType::integer(64, false),
        ConvertedType::INT_8 => LogicalType::integer(8, true),
        ConvertedType::INT_16 => LogicalType::integer(16, true),
        ConvertedType::INT_32 => LogicalType::integer(32, true),
        ConvertedType::INT_64 => LogicalType::integer(64, true),
        ConvertedType::INTERVAL => return Ok(Primitive::Fixed(12)),
        ConvertedType::DECIMAL => return decimal(i64::from(ty.get_precision()), i64::from(ty.get_scale())),
        other => return Err(format!("a leaf cannot be annotated {other}")),
    };
    annotated(&logical, physical, ty)
}

fn annotated(logical: &LogicalType, physical: Physical, ty: &ParquetType) -> Read<Primitive> {
    let mismatch = || Err(format!("{logical:?} cannot be stored as {physical}"));
    Ok(match (logical, physical) {
        (LogicalType::String | LogicalType::Enum | LogicalType::Json, Physical::BYTE_ARRAY) => Primitive::String,
        (LogicalType::Bson, Physical::BYTE_ARRAY) => Primitive::Binary,
        (LogicalType::Date, Physical::INT32) => Primitive::Date,
        (LogicalType::Time(t), _) => match (t.unit, physical) {
            (TimeUnit::MILLIS, Physical::INT32) | (TimeUnit::MICROS, Physical::INT64) => Primitive::Time,
            (TimeUnit::NANOS, Physical::INT64) => return Err("times with nanoseconds are not supported".to_owned()),
            _ => return mismatch(),
        },
        (LogicalType::Timestamp(t), Physical::INT64) => match (t.unit, t.is_adjusted_to_u_t_c) {
            (TimeUnit::NANOS, true) => Primitive::TimestamptzNs,
            (TimeUnit::NANOS, false) => Primitive::TimestampNs,
            (_, true) => Primitive::Timestamptz,
            (_, false) => Primitive::Timestamp,
        },
        (LogicalType::Integer(int), _) => match (int.bit_width, int.is_signed, physical) {
            (8, true, Physical::INT32) => Primitive::Byte,
            (16, true, Physical::INT32) => Primitive::Short,
            (32, true, Physical::INT32) | (8 | 16, false, Physical::INT32) => Primitive::Int,
            (64, true, Physical::INT64) | (32, false, Physical::INT32) => Primitive::Long,
            (64, false, Physical::INT64) => {
                return Err("unsigned 64-bit integers do not fit any type of the open table formats".to_owned());
            }
            _ => return mismatch(),
        },
        (LogicalType::Decimal(d), _) => return decimal(i64::from(d.precision), i64::from(d.scale)),
        (LogicalType::Uuid, Physical::FIXED_LEN_BYTE_ARRAY) => Primitive::Uuid,
        (LogicalType::Float16, _) => return Err("16-bit floats are not supported".to_owned()),
        (LogicalType::Geometry(_) | LogicalType::Geography(_), _) => {
            return Err("geometry columns are not supported".to_owned());
        }
        (LogicalType::Unknown, _) => Primitive::Unknown,
        // A logical type of a newer format version: readers fall back to the physical type.
        (LogicalType::_Unknown { .. } | LogicalType::File, _) => return unannotated(ty),
        _ => return mismatch(),
    })
}

fn unannotated(ty: &ParquetType) -> Read<Primitive> {
    Ok(match ty.get_physical_type() {
        Physical::BOOLEAN => Primitive::Boolean,
        Physical::INT32 => Primitive::Int,
        Physical::INT64 => Primitive::Long,
        // Deprecated, but what Impala, Hive and old Spark write: an instant with nanoseconds. Values outside of what
        // 64-bit nanoseconds hold are common, so that the microsecond type is the honest one.
        Physical::INT96 => Primitive::Timestamptz,
        Physical::FLOAT => Primitive::Float,
        Physical::DOUBLE => Primitive::Double,
        Physical::BYTE_ARRAY => Primitive::Binary,
        Physical::FIXED_LEN_BYTE_ARRAY => match ty {
            ParquetType::PrimitiveType { type_length, .. } => Primitive::Fixed(
                u32::try_from(*type_length).map_err(|_| "a fixed length cannot be negative".to_owned())?,
            ),
            ParquetType::GroupType { .. } => return Err("a group has no length".to_owned()),
        },
    })
}

fn decimal(precision: i64, scale: i64) -> Read<Primitive> {
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(precision), Ok(scale)) if (1..=DecimalType::MAX_PRECISION).contains(&precision) && scale <= precision => {
            Ok(Primitive::Decimal(DecimalType { precision, scale }))
        }
        _ => Err(format!("decimal({precision},{scale}) is not supported")),
    }
}
