//! Protocol, metadata and partitioning of a commit: as little as the content needs, and never less than there was.

use super::super::action::{Format, Metadata, Protocol};
use super::super::schema::{self, Mapping};
use super::super::source::Definition as Current;
use super::super::write::{FileWriter, PartitionColumn};
use super::super::{partition, protocol, type_widening};
use crate::sync::{Error, Result, to_properties};
use hoglake_model::FieldId;
use hoglake_model::table::{
    Field, FieldIds, Primitive, Schema, TableFormat, TableState, Transform, Type, Unsupported, UnsupportedKind, Value,
    capability,
};
use std::collections::{HashMap, HashSet};

/// Characters that column names may not have without column mapping.
const SPECIAL: &[char] = &[' ', ',', ';', '{', '}', '(', ')', '\n', '\t', '='];
const MAPPING_MODE: &str = "delta.columnMapping.mode";
const MAX_COLUMN_ID: &str = "delta.columnMapping.maxColumnId";
/// How physical names begin that stand in no file.
const BY_ID: &str = "col-";
const ENABLE_VECTORS: &str = "delta.enableDeletionVectors";

/// What the commit will say about the table.
#[derive(Debug)]
pub(super) struct Definition {
    pub metadata: Metadata,
    pub files: FileWriter,
    features: Vec<&'static str>,
    /// Why every file has to be stated anew: the keys of statistics or partition values change.
    pub restate: Option<String>,
    /// What is lost, for the report.
    pub warnings: Vec<String>,
    /// What the schema's text is made of, with the types that older files have.
    schema: (Schema, Mapping, Vec<(FieldId, Primitive)>),
    /// Whether those are declared as the protocol asks.
    declares: bool,
}

impl Definition {
    pub fn new(
        current: Option<&Current>,
        state: &TableState,
        now_ms: i64,
        unpartitioned: bool,
        type_widening: bool,
    ) -> Result<Self> {
        // A table that has the feature keeps it.
        let declares = type_widening || current.is_some_and(|c| type_widening::is_declared(&c.protocol));
        let before = current.map(|c| protocol::mapping("the target", &c.protocol, &c.metadata)).transpose()?;
        let wanted = wanted_mapping(state);
        // Turning mapping off again would orphan the physical names in the log.
        let mapping = match before {
            Some(Mapping::Id) => Mapping::Id,
            Some(Mapping::Name) if wanted == Mapping::None => Mapping::Name,
            _ => wanted,
        };
        let mut restate = None;
        if let Some(before) = before
            && before != mapping
        {
            restate = Some("the columns of the target need column mapping from now on".to_owned());
        }
        let mut table_schema = state.schema.clone();
        let had = match current.filter(|_| before == Some(Mapping::Id)) {
            Some(current) => stored_names(&current.metadata)?,
            None => HashMap::new(),
        };
        let mut moved: HashSet<FieldId> = state.binding.by_id.iter().copied().collect();
        moved.extend(had.iter().filter(|(_, name)| name.starts_with(BY_ID)).map(|(id, _)| *id));
        physical_names(&mut table_schema.fields, mapping, &moved);
        table_schema.walk(&mut |path, node| {
            if let (Some(field), Some(had)) = (node.field, had.get(&node.id))
                && field.stored_name() != had
            {
                restate = Some(format!("the column {} is found by its id alone from now on", path.join(".")));
            }
        });
        // What the table remembers counts on when the source has forgotten it.
        let mut older_types = state.binding.older_types.clone();
        if let Some(current) = current {
            let (had, _) = schema::parse("the target", &current.metadata.schema_string, Mapping::None)?;
            let mut known = schema::older_paths(&current.metadata.schema_string);
            had.walk(&mut |path, node| {
                known.extend(node.ty.primitive().map(|ty| (path.iter().map(|p| (*p).to_owned()).collect(), ty)));
            });
            type_widening::note(&table_schema, &known, &mut older_types);
        }
        let mut warnings = lost(state, mapping);
        warnings.extend(type_widening::warnings(&table_schema, &older_types, declares));
        let mut columns = partition_columns(state, &table_schema, &mut warnings);
        if unpartitioned {
            columns.clear();
        }
        if let Some(current) = current {
            let had: Vec<_> = current.metadata.partition_columns.iter().flatten().collect();
            // Partitioning only ever shrinks: a table that could not keep a column as partition must not flap.
            columns.retain(|(name, _)| had.contains(&name));
            if columns.len() != had.len() {
                restate = Some("the partitioning of the target changes".to_owned());
            }
        }
        let mut configuration = current.and_then(|c| c.metadata.configuration.clone()).unwrap_or_default();
        for (key, value) in to_properties(&state.watermark()) {
            configuration.insert(key.to_owned(), Some(value));
        }
        if mapping != Mapping::None {
            let mode = if mapping == Mapping::Id { "id" } else { "name" };
            configuration.insert(MAPPING_MODE.to_owned(), Some(mode.to_owned()));
            let known = configuration.get(MAX_COLUMN_ID).cloned().flatten().and_then(|t| t.parse::<i64>().ok());
            let max = state.schema.max_id().0.max(known.unwrap_or(0));
            configuration.insert(MAX_COLUMN_ID.to_owned(), Some(max.to_string()));
        }
        let previous = current.map(|c| &c.metadata);
        let metadata = Metadata {
            id: previous.map_or_else(|| uuid::Uuid::new_v4().to_string(), |m| m.id.clone()),
            name: previous.map_or_else(|| state.name.clone(), |m| m.name.clone()),
            description: previous.and_then(|m| m.description.clone()),
            format: Some(Format { provider: "parquet".to_owned() }),
            schema_string: schema::format(&table_schema, mapping, &older_types, declares),
            partition_columns: Some(columns.iter().map(|(name, _)| name.clone()).collect()),
            configuration: Some(configuration),
            created_time: previous.map_or(Some(now_ms), |m| m.created_time),
        };
        let schema = (table_schema.clone(), mapping, older_types);
        let files = FileWriter::new(&table_schema, columns.into_iter().map(|(_, column)| column).collect());
        let features = features(&state.schema, mapping);
        let mut definition = Self { metadata, files, features, restate, warnings, schema, declares };
        definition.declare_widened();
        Ok(definition)
    }

    /// Takes in types that only the files told of, by the names down to the columns.
    ///
    /// # Errors
    /// [`Error::Unsupported`] naming the columns whose older files no reader would find the values of.
    pub fn note_older(&mut self, found: &[(Vec<String>, Primitive)]) -> Result<()> {
        let (schema, mapping, older_types) = &mut self.schema;
        let known = older_types.len();
        for (id, then, _) in type_widening::of_columns(schema, found) {
            if !older_types.contains(&(id, then)) {
                older_types.push((id, then));
            }
        }
        let new = older_types.get(known..).unwrap_or_default();
        let refused = type_widening::unsupported(schema, new);
        if !refused.is_empty() {
            return Err(Error::Unsupported(refused));
        }
        self.warnings.extend(type_widening::warnings(schema, new, self.declares));
        self.metadata.schema_string = schema::format(schema, *mapping, older_types, self.declares);
        self.declare_widened();
        Ok(())
    }

    /// Declares the feature by which readers know of narrower types in older files, if there are any.
    fn declare_widened(&mut self) {
        let (schema, _, older_types) = &self.schema;
        let differs = |(id, then): &(FieldId, Primitive)| {
            schema.primitive(*id).is_some_and(|now| type_widening::differ(*then, now))
        };
        if !self.declares || !older_types.iter().any(differs) || self.features.contains(&type_widening::FEATURE) {
            return;
        }
        self.features.push(type_widening::FEATURE);
        if let Some(configuration) = &mut self.metadata.configuration {
            configuration.insert(type_widening::ENABLE.to_owned(), Some("true".to_owned()));
        }
    }

    /// Turns deletion vectors on.
    pub fn enable_vectors(&mut self) {
        if !self.features.contains(&"deletionVectors") {
            self.features.push("deletionVectors");
        }
        if let Some(configuration) = &mut self.metadata.configuration {
            configuration.insert(ENABLE_VECTORS.to_owned(), Some("true".to_owned()));
        }
    }

    /// The protocol: reader 1 and writer 2 unless something needs more ("Table Features").
    pub fn protocol(&self, current: Option<&Protocol>) -> Protocol {
        let table_features = self.features.iter().any(|f| *f != "columnMapping");
        let old = current.cloned().unwrap_or(Protocol {
            min_reader_version: 1,
            min_writer_version: 2,
            reader_features: None,
            writer_features: None,
        });
        if !table_features && old.min_writer_version < 7 {
            let (reader, writer) = if self.features.is_empty() { (1, 2) } else { (2, 5) };
            return Protocol {
                min_reader_version: old.min_reader_version.max(reader),
                min_writer_version: old.min_writer_version.max(writer),
                ..old
            };
        }
        let mut reader = old.reader_features.clone().unwrap_or_default();
        let mut writer = old.writer_features.clone().unwrap_or_default();
        if old.min_reader_version == 2 && old.reader_features.is_none() {
            reader.push("columnMapping".to_owned());
            writer.push("columnMapping".to_owned());
        }
        if old.min_writer_version < 7 {
            // What the former version implied stays supported.
            let implied = [
                (2, "appendOnly"),
                (2, "invariants"),
                (3, "checkConstraints"),
                (4, "changeDataFeed"),
                (4, "generatedColumns"),
                (6, "identityColumns"),
            ];
            let implied = implied.iter().filter(|(version, _)| old.min_writer_version >= *version);
            writer.extend(implied.map(|(_, feature)| (*feature).to_owned()));
        }
        // A table that has the feature as a preview keeps it as that.
        let preview = writer.iter().any(|f| f == type_widening::PREVIEW);
        let features = self.features.iter().filter(|f| !(preview && **f == type_widening::FEATURE));
        for feature in features {
            for list in [&mut reader, &mut writer] {
                if !list.iter().any(|f| f == feature) {
                    list.push((*feature).to_owned());
                }
            }
        }
        Protocol {
            min_reader_version: 3,
            min_writer_version: 7,
            reader_features: Some(reader),
            writer_features: Some(writer),
        }
    }
}

fn features(schema: &Schema, mapping: Mapping) -> Vec<&'static str> {
    let mut features = Vec::new();
    if mapping != Mapping::None {
        features.push("columnMapping");
    }
    let mut types = HashSet::new();
    schema.walk(&mut |_, node| types.extend(node.ty.primitive()));
    if types.contains(&Primitive::Timestamp) {
        features.push("timestampNtz");
    }
    if types.contains(&Primitive::Variant) {
        features.push("variantType");
    }
    features
}

/// What the source says of its columns and Delta does not.
fn lost(state: &TableState, mapping: Mapping) -> Vec<String> {
    let path = |id| state.schema.path(id).map(|path| path.join("."));
    let mut lost = Vec::new();
    let identifiers: Vec<_> = state.schema.identifier_fields.iter().filter_map(|id| path(*id)).collect();
    if !identifiers.is_empty() {
        lost.push(format!("that rows are identified by {} is lost; Delta has no place for it", identifiers.join(", ")));
    }
    for path in state.binding.by_id.iter().filter(|_| mapping == Mapping::Id).filter_map(|id| path(*id)) {
        lost.push(format!(
            "the column {path} has other names in some files, so that the table has column mapping by id; readers that \
             map columns by name all the same (delta-rs and DuckDB do) find null in it"
        ));
    }
    lost
}

/// Column mapping by id where names in the files differ from today's, by name where a name is not allowed otherwise.
fn wanted_mapping(state: &TableState) -> Mapping {
    if !state.binding.by_id.is_empty() && state.field_ids == FieldIds::Assigned {
        return Mapping::Id;
    }
    let mut special = false;
    state.schema.walk(&mut |_, node| {
        special |= node.field.is_some_and(|f| f.physical_name.is_some() || f.name.contains(SPECIAL));
    });
    if special { Mapping::Name } else { Mapping::None }
}

/// The names under which the columns of a table stand in its log.
fn stored_names(metadata: &Metadata) -> Result<HashMap<FieldId, String>> {
    let (schema, _) = schema::parse("the target", &metadata.schema_string, Mapping::Id)?;
    let mut names = HashMap::new();
    schema.walk(&mut |_, node| names.extend(node.field.map(|field| (node.id, field.stored_name().to_owned()))));
    Ok(names)
}

/// By name the physical name is the name in the files. By id it only has to be unique; columns that all files call by
/// their name keep it, for readers that look for the physical name all the same, and the others have one that is in no
/// file, so that such readers find null and not the values of another column.
fn physical_names(fields: &mut [Field], mapping: Mapping, moved: &HashSet<FieldId>) {
    for field in fields {
        match mapping {
            Mapping::None => field.physical_name = None,
            Mapping::Name => {}
            Mapping::Id if moved.contains(&field.id) || field.name.starts_with(BY_ID) => {
                field.physical_name = Some(format!("{BY_ID}{}", field.id));
            }
            Mapping::Id => field.physical_name = None,
        }
        nested_names(&mut field.ty, mapping, moved);
    }
}

fn nested_names(ty: &mut Type, mapping: Mapping, moved: &HashSet<FieldId>) {
    match ty {
        Type::Struct(members) => physical_names(members, mapping, moved),
        Type::List(element) => nested_names(&mut element.ty, mapping, moved),
        Type::Map(entry) => {
            nested_names(&mut entry.0.ty, mapping, moved);
            nested_names(&mut entry.1.ty, mapping, moved);
        }
        Type::Primitive(_) => {}
    }
}

/// The columns by whose value every spec partitions, with their place in each spec's tuple.
fn partition_columns(
    state: &TableState,
    schema: &Schema,
    warnings: &mut Vec<String>,
) -> Vec<(String, PartitionColumn)> {
    let Some(default) = state.spec(state.default_spec) else { return Vec::new() };
    let mut columns = Vec::new();
    for field in &default.fields {
        let column = schema.fields.iter().find(|c| c.id == field.source);
        let place = |spec: &hoglake_model::table::PartitionSpec| {
            spec.fields.iter().position(|f| f.source == field.source && f.transform == Transform::Identity)
        };
        let places: Option<HashMap<_, _>> = state.specs.iter().map(|s| Some((s.id, place(s)?))).collect();
        match (column, column.and_then(|c| c.ty.primitive()), places) {
            (Some(column), Some(ty), Some(places)) if partitions(ty) => {
                let partition = PartitionColumn { name: column.stored_name().to_owned(), ty, places };
                columns.push((column.name.clone(), partition));
            }
            _ if field.transform == Transform::Void => {}
            _ => warnings.push(format!(
                "the partition field {} ({}) is not part of the Delta layout; files keep their statistics",
                field.name, field.transform
            )),
        }
    }
    columns
}

/// Types whose values survive as partition strings in every reader.
fn partitions(ty: Primitive) -> bool {
    let value = match ty {
        Primitive::Boolean => Value::Boolean(true),
        Primitive::Byte | Primitive::Short | Primitive::Int => Value::Int(1),
        Primitive::Long => Value::Long(1),
        Primitive::Float => Value::Float(1.0),
        Primitive::Double => Value::Double(1.0),
        Primitive::Decimal(d) => Value::Decimal { unscaled: 1, scale: d.scale },
        Primitive::Date => Value::Date(1),
        Primitive::Timestamp | Primitive::Timestamptz => Value::Timestamp(1),
        Primitive::String => Value::String("a".into()),
        _ => return false,
    };
    partition::format(ty, &value).is_some()
}

/// What Delta cannot express of a state.
pub(super) fn unsupported(state: &TableState) -> Vec<Unsupported> {
    let target = TableFormat::Delta;
    let mut found = capability::unsupported_types(target, &state.schema, |primitive| match primitive {
        Primitive::Time => Some("has no counterpart; store it as a long or a string"),
        Primitive::TimestampNs | Primitive::TimestamptzNs => Some("has no counterpart; Delta keeps microseconds"),
        _ => None,
    });
    found.extend(capability::initial_defaults(target, &state.schema));
    found.extend(type_widening::unsupported(&state.schema, &state.binding.older_types));
    // "All column names must be unique regardless of casing."
    found.extend(capability::twins(target, &state.schema, true));
    if !state.binding.by_id.is_empty() && state.binding.ids_may_be_absent {
        found.push(Unsupported {
            target,
            kind: UnsupportedKind::Feature,
            place: state.root.clone(),
            detail: "columns were renamed, and the table has a name mapping for files without field ids; Delta finds \
                     renamed columns by id alone, and would read such files as null"
                .to_owned(),
        });
    }
    found
}
