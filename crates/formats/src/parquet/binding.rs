//! Which leaf of a file is which column, and whether its physical form is one of the column's type.

use super::Column;
use hoglake_model::{ColumnType, DecimalType, FieldId};
use parquet::basic::{ConvertedType, LogicalType, TimeUnit, Type as PhysicalType};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type};

/// How a file's leaves are matched with columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Whether names decided, because no field of the file carries an id.
    pub by_name: bool,
    /// Whether some leaf carries no id. Such a leaf of a file bound by id belongs to no column, whatever its name.
    pub missing_field_ids: bool,
    /// The ids of the top-level fields.
    pub field_ids: Vec<FieldId>,
    /// For each column, in the order given, its leaf.
    pub leaves: Vec<Option<usize>>,
}

/// A file whose leaves cannot be told apart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindingError {
    /// Two fields carry one id.
    #[error("two fields of the file carry field id {0}")]
    DuplicateId(i32),
    /// Names decide and two fields have one.
    #[error("two fields of the file are called `{0}` and none carries a field id")]
    DuplicateName(String),
}

impl Binding {
    /// Matches the top-level leaves of `schema` with `columns`: by field id when any field carries one, else by exact
    /// name. Nested fields match nothing.
    ///
    /// # Errors
    /// [`BindingError`] when the file is ambiguous.
    pub fn new(schema: &SchemaDescriptor, columns: &[Column]) -> Result<Self, BindingError> {
        let by_name = !any_id(schema.root_schema());
        let mut ids: Vec<(i32, Option<usize>)> = Vec::new();
        let mut names: Vec<(&str, usize)> = Vec::new();
        let mut leaf = 0;
        for field in schema.root_schema().get_fields() {
            let flat = field.is_primitive() && schema.column(leaf).max_rep_level() == 0;
            let info = field.get_basic_info();
            if info.has_id() {
                if ids.iter().any(|(id, _)| *id == info.id()) {
                    return Err(BindingError::DuplicateId(info.id()));
                }
                ids.push((info.id(), flat.then_some(leaf)));
            }
            if flat {
                if by_name && names.iter().any(|(name, _)| *name == field.name()) {
                    return Err(BindingError::DuplicateName(field.name().chars().take(128).collect()));
                }
                names.push((field.name(), leaf));
            }
            leaf += leaf_count(field);
        }
        let find = |column: &Column| {
            if by_name {
                names.iter().find(|(name, _)| *name == column.name).map(|(_, leaf)| *leaf)
            } else {
                ids.iter().find(|(id, _)| FieldId(i64::from(*id)) == column.field_id).and_then(|(_, leaf)| *leaf)
            }
        };
        Ok(Self {
            by_name,
            missing_field_ids: (0..schema.num_columns())
                .any(|i| !schema.column(i).self_type().get_basic_info().has_id()),
            leaves: columns.iter().map(find).collect(),
            field_ids: ids.iter().map(|(id, _)| FieldId(i64::from(*id))).collect(),
        })
    }
}

fn any_id(field: &Type) -> bool {
    // The root is the message itself, whose id would name no column.
    field.is_group() && field.get_fields().iter().any(|f| f.get_basic_info().has_id() || any_id(f))
}

fn leaf_count(field: &Type) -> usize {
    if field.is_group() { field.get_fields().iter().map(|f| leaf_count(f)).sum() } else { 1 }
}

/// How a leaf stores the values of its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As the type has them, possibly narrower.
    Direct,
    /// In thousands of the type's microseconds.
    Millis,
    /// In thousandths of the type's microseconds.
    Nanos,
    /// In twelve bytes: the day and the nanoseconds of it. They have no order, hence no bounds.
    Int96,
}

impl Form {
    /// The form in which `leaf` stores a column of type `ty`; none when it stores something else, or when that is in
    /// doubt (unsigned integers that may not fit, another scale, a time without its unit).
    pub fn of(leaf: &ColumnDescriptor, ty: ColumnType) -> Option<Self> {
        let physical = leaf.physical_type();
        let direct = |matches: bool| matches.then_some(Self::Direct);
        match ty {
            ColumnType::Boolean => direct(physical == PhysicalType::BOOLEAN),
            ColumnType::Int => direct(physical == PhysicalType::INT32 && integer_bits(leaf)? <= 32),
            ColumnType::Long => {
                direct(matches!(physical, PhysicalType::INT32 | PhysicalType::INT64) && integer_bits(leaf)? <= 64)
            }
            ColumnType::Float => direct(physical == PhysicalType::FLOAT && annotation(leaf) == Annotation::None),
            ColumnType::Double => direct(
                matches!(physical, PhysicalType::FLOAT | PhysicalType::DOUBLE) && annotation(leaf) == Annotation::None,
            ),
            ColumnType::Decimal(decimal) => direct(is_decimal(leaf, decimal)),
            ColumnType::Date => direct(physical == PhysicalType::INT32 && annotation(leaf) == Annotation::Date),
            ColumnType::Time => match annotation(leaf) {
                Annotation::Time { unit, .. } => unit_form(unit, physical),
                _ => None,
            },
            // Engines read those as instants and as local times; which one is up to the table.
            ColumnType::Timestamp | ColumnType::Timestamptz if physical == PhysicalType::INT96 => Some(Self::Int96),
            ColumnType::Timestamp | ColumnType::Timestamptz => match annotation(leaf) {
                Annotation::Timestamp { unit, utc } if physical == PhysicalType::INT64 => {
                    // Files from before logical types say nothing about zones: every such timestamp claims UTC.
                    let agrees = utc.is_none_or(|utc| utc == (ty == ColumnType::Timestamptz));
                    if agrees { unit_form(unit, physical) } else { None }
                }
                _ => None,
            },
            ColumnType::String => direct(
                physical == PhysicalType::BYTE_ARRAY && matches!(annotation(leaf), Annotation::None | Annotation::Text),
            ),
            ColumnType::Uuid => direct(
                physical == PhysicalType::FIXED_LEN_BYTE_ARRAY
                    && leaf.type_length() == 16
                    && matches!(annotation(leaf), Annotation::None | Annotation::Uuid),
            ),
            ColumnType::Binary => direct(
                matches!(physical, PhysicalType::BYTE_ARRAY | PhysicalType::FIXED_LEN_BYTE_ARRAY)
                    && matches!(annotation(leaf), Annotation::None | Annotation::Text | Annotation::Uuid),
            ),
        }
    }
}

fn unit_form(unit: TimeUnit, physical: PhysicalType) -> Option<Form> {
    match (unit, physical) {
        (TimeUnit::MILLIS, PhysicalType::INT32 | PhysicalType::INT64) => Some(Form::Millis),
        (TimeUnit::MICROS, PhysicalType::INT64) => Some(Form::Direct),
        (TimeUnit::NANOS, PhysicalType::INT64) => Some(Form::Nanos),
        _ => None,
    }
}

/// Bits of the signed integers that the leaf may hold; none when it holds something else.
fn integer_bits(leaf: &ColumnDescriptor) -> Option<u8> {
    match annotation(leaf) {
        Annotation::None => Some(if leaf.physical_type() == PhysicalType::INT32 { 32 } else { 64 }),
        Annotation::Integer { bits, signed: true } => Some(bits),
        // Unsigned values below 2^16 are the same signed; larger ones depend on how their writer thought of them.
        Annotation::Integer { bits, signed: false } if bits <= 16 => Some(bits),
        _ => None,
    }
}

fn is_decimal(leaf: &ColumnDescriptor, decimal: DecimalType) -> bool {
    let Annotation::Decimal { precision, scale } = annotation(leaf) else {
        return false;
    };
    let physical = matches!(
        leaf.physical_type(),
        PhysicalType::INT32 | PhysicalType::INT64 | PhysicalType::BYTE_ARRAY | PhysicalType::FIXED_LEN_BYTE_ARRAY
    );
    physical && scale == i32::from(decimal.scale) && (1..=i32::from(decimal.precision)).contains(&precision)
}

/// What logical or converted type a leaf carries, as far as columns can have it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Annotation {
    None,
    Integer { bits: u8, signed: bool },
    Decimal { precision: i32, scale: i32 },
    Date,
    Time { unit: TimeUnit },
    Timestamp { unit: TimeUnit, utc: Option<bool> },
    Text,
    Uuid,
    Other,
}

fn annotation(leaf: &ColumnDescriptor) -> Annotation {
    let integer = |bits, signed| Annotation::Integer { bits, signed };
    match leaf.logical_type_ref() {
        Some(LogicalType::Integer(i)) => integer(u8::try_from(i.bit_width).unwrap_or(u8::MAX), i.is_signed),
        Some(LogicalType::Decimal(d)) => Annotation::Decimal { precision: d.precision, scale: d.scale },
        Some(LogicalType::Date) => Annotation::Date,
        Some(LogicalType::Time(t)) => Annotation::Time { unit: t.unit },
        Some(LogicalType::Timestamp(t)) => Annotation::Timestamp { unit: t.unit, utc: Some(t.is_adjusted_to_u_t_c) },
        Some(LogicalType::String | LogicalType::Enum | LogicalType::Json) => Annotation::Text,
        Some(LogicalType::Uuid) => Annotation::Uuid,
        Some(_) => Annotation::Other,
        None => match leaf.converted_type() {
            ConvertedType::NONE => Annotation::None,
            ConvertedType::INT_8 => integer(8, true),
            ConvertedType::INT_16 => integer(16, true),
            ConvertedType::INT_32 => integer(32, true),
            ConvertedType::INT_64 => integer(64, true),
            ConvertedType::UINT_8 => integer(8, false),
            ConvertedType::UINT_16 => integer(16, false),
            ConvertedType::UINT_32 => integer(32, false),
            ConvertedType::UINT_64 => integer(64, false),
            ConvertedType::DECIMAL => {
                Annotation::Decimal { precision: leaf.type_precision(), scale: leaf.type_scale() }
            }
            ConvertedType::DATE => Annotation::Date,
            ConvertedType::TIME_MILLIS => Annotation::Time { unit: TimeUnit::MILLIS },
            ConvertedType::TIME_MICROS => Annotation::Time { unit: TimeUnit::MICROS },
            ConvertedType::TIMESTAMP_MILLIS => Annotation::Timestamp { unit: TimeUnit::MILLIS, utc: None },
            ConvertedType::TIMESTAMP_MICROS => Annotation::Timestamp { unit: TimeUnit::MICROS, utc: None },
            ConvertedType::UTF8 | ConvertedType::ENUM | ConvertedType::JSON => Annotation::Text,
            _ => Annotation::Other,
        },
    }
}
