//! One schema from the footers of many files.

use crate::sync::{Error, Result};
use hoglake_model::table::{Binding, Element, Field, FieldIds, Primitive, Schema, Type};
use hoglake_model::{DecimalType, FieldId};
use std::collections::{BTreeSet, HashMap};

/// The union of the schemas seen so far. Ids above zero are the files' own.
#[derive(Default)]
pub(super) struct Merge {
    fields: Vec<Field>,
    files: u64,
    /// When the newest file was written that named the columns.
    named_ms: i64,
    /// Whether some file names a column without an id.
    without_ids: bool,
    /// Names of elements, keys and values without an id in files that give one to columns.
    partial: BTreeSet<Vec<String>>,
    notes: Notes,
}

/// What the files disagree about.
#[derive(Default)]
struct Notes {
    /// Ids of columns that files call by different names.
    renamed: BTreeSet<FieldId>,
    /// Types that some file has instead of the common one, with the column's place: its number at each level.
    narrower: Vec<(Vec<usize>, Primitive)>,
    warnings: Vec<String>,
}

/// What all files together say.
#[derive(Debug)]
pub(super) struct Merged {
    pub schema: Schema,
    /// What the ids in it mean.
    pub field_ids: FieldIds,
    /// How the files differ from the schema.
    pub binding: Binding,
    /// What a reader should know.
    pub warnings: Vec<String>,
}

impl Merge {
    /// Takes a file in. Columns that occur under both sides are promoted where that is lossless.
    ///
    /// # Errors
    /// [`Error::UnsupportedSource`] naming the file and the column where types, or names and ids, contradict.
    pub(super) fn add(&mut self, key: &str, modified_ms: i64, schema: &Schema) -> Result<()> {
        let first = self.files == 0;
        schema.walk(&mut |_, node| self.without_ids |= node.field.is_some() && node.id.0 <= 0);
        let mut own = false;
        schema.walk(&mut |_, node| own |= node.field.is_some() && node.id.0 > 0);
        if own {
            schema.walk(&mut |path, node| {
                if node.field.is_none() && node.id.0 <= 0 {
                    self.partial.insert(path.iter().map(|&name| name.to_owned()).collect());
                }
            });
        }
        self.files += 1;
        if first {
            self.fields.clone_from(&schema.fields);
            self.named_ms = modified_ms;
            return Ok(());
        }
        let newer = modified_ms > self.named_ms;
        self.named_ms = self.named_ms.max(modified_ms);
        let mut merging = Merging { newer, path: Vec::new(), at: Vec::new(), notes: &mut self.notes };
        merging.fields(&mut self.fields, &schema.fields).map_err(|detail| Error::UnsupportedSource {
            feature: "files of differing schemas".to_owned(),
            place: key.to_owned(),
            detail: format!("{detail}; rewrite the file or convert it separately"),
        })
    }

    /// The union.
    pub(super) fn finish(self) -> Merged {
        let Notes { renamed, narrower, warnings } = self.notes;
        let mut schema = Schema { fields: self.fields, identifier_fields: Vec::new() };
        let mut own = false;
        schema.walk(&mut |_, node| own |= node.id.0 > 0);
        let field_ids = if own {
            // Columns that files without ids brought in are numbered after all others.
            let mut next = super::next_id(&schema);
            number(&mut schema.fields, &mut next);
            FieldIds::Assigned
        } else {
            schema = schema.renumbered(None, FieldId(0)).schema;
            FieldIds::Positional
        };
        let mut older_types = Vec::new();
        for (at, then) in narrower {
            let Some(id) = column_at(&schema.fields, &at) else { continue };
            if schema.primitive(id) != Some(then) && !older_types.contains(&(id, then)) {
                older_types.push((id, then));
            }
        }
        let mut without_ids = Vec::new();
        schema.walk(&mut |path, node| {
            if node.field.is_none() && self.partial.iter().any(|p| p.iter().eq(path.iter())) {
                without_ids.push(node.id);
            }
        });
        let binding = Binding {
            by_id: renamed.into_iter().collect(),
            without_ids,
            unlisted: Vec::new(),
            ids_may_be_absent: own && self.without_ids,
            older_types,
            partition_columns_absent: true,
        };
        Merged { schema, field_ids, binding, warnings }
    }
}

/// The id of the column at this place.
fn column_at(fields: &[Field], at: &[usize]) -> Option<FieldId> {
    let (first, rest) = at.split_first()?;
    let field = fields.get(*first)?;
    node_at(field.id, &field.ty, rest)
}

fn node_at(id: FieldId, ty: &Type, at: &[usize]) -> Option<FieldId> {
    let Some((first, rest)) = at.split_first() else { return Some(id) };
    match (ty, first) {
        (Type::Struct(fields), _) => column_at(fields, at),
        (Type::List(element), 0) => node_at(element.id, &element.ty, rest),
        (Type::Map(entry), 0) => node_at(entry.0.id, &entry.0.ty, rest),
        (Type::Map(entry), 1) => node_at(entry.1.id, &entry.1.ty, rest),
        _ => None,
    }
}

fn number(fields: &mut [Field], next: &mut i64) {
    for field in fields {
        assign(&mut field.id, next);
        number_type(&mut field.ty, next);
    }
}

fn number_type(ty: &mut Type, next: &mut i64) {
    match ty {
        Type::Primitive(_) => {}
        Type::Struct(fields) => number(fields, next),
        Type::List(element) => {
            assign(&mut element.id, next);
            number_type(&mut element.ty, next);
        }
        Type::Map(entry) => {
            for element in [&mut entry.0, &mut entry.1] {
                assign(&mut element.id, next);
                number_type(&mut element.ty, next);
            }
        }
    }
}

fn assign(id: &mut FieldId, next: &mut i64) {
    if id.0 <= 0 {
        *id = FieldId(*next);
        *next += 1;
    }
}

struct Merging<'a> {
    newer: bool,
    path: Vec<String>,
    /// As `path`, in numbers.
    at: Vec<usize>,
    notes: &'a mut Notes,
}

impl Merging<'_> {
    fn fail<T>(&self, why: &str) -> std::result::Result<T, String> {
        Err(format!("column `{}`: {why}", self.path.join(".")))
    }

    fn fields(&mut self, all: &mut Vec<Field>, new: &[Field]) -> std::result::Result<(), String> {
        let mut by_name: HashMap<String, usize> = HashMap::new();
        let mut by_id: HashMap<FieldId, usize> = HashMap::new();
        for (i, field) in all.iter().enumerate() {
            by_name.insert(field.name.clone(), i);
            if field.id.0 > 0 {
                by_id.insert(field.id, i);
            }
        }
        let before = all.len();
        let mut seen = vec![false; before];
        for field in new {
            self.path.push(field.name.clone());
            let named = by_name.get(&field.name).copied();
            let numbered = if field.id.0 > 0 { by_id.get(&field.id).copied() } else { None };
            let found = match (numbered, named) {
                (Some(i), named) if named.is_none_or(|n| n == i) => Some(i),
                (Some(_), Some(_)) => return self.fail("its field id belongs to another column in other files"),
                (None, Some(i)) => {
                    let other = all.get(i).map_or(0, |f| f.id.0);
                    if field.id.0 > 0 && other > 0 {
                        return self.fail(&format!("it has field id {} here and {other} in other files", field.id));
                    }
                    Some(i)
                }
                (None, None) => None,
                (Some(i), None) => Some(i),
            };
            match found.and_then(|i| all.get_mut(i).map(|f| (i, f))) {
                Some((i, column)) => {
                    if let Some(flag) = seen.get_mut(i) {
                        *flag = true;
                    }
                    if column.name != field.name {
                        self.notes.renamed.insert(column.id);
                        self.notes.warnings.push(format!(
                            "column {} is called `{}` in some files and `{}` in others; readers without field ids \
                             will not find both",
                            column.id, column.name, field.name
                        ));
                        if self.newer {
                            column.name.clone_from(&field.name);
                        }
                    }
                    if column.id.0 <= 0 {
                        column.id = field.id;
                    }
                    column.required &= field.required;
                    self.at.push(i);
                    self.types(&mut column.ty, &field.ty)?;
                    self.at.pop();
                }
                None => all.push(Field { required: false, ..field.clone() }),
            }
            self.path.pop();
        }
        // What this file lacks reads as null in its rows.
        for (column, seen) in all.iter_mut().zip(seen) {
            column.required &= seen;
        }
        Ok(())
    }

    fn element(
        &mut self,
        all: &mut Element,
        new: &Element,
        name: &str,
        number: usize,
    ) -> std::result::Result<(), String> {
        self.path.push(name.to_owned());
        if all.id.0 > 0 && new.id.0 > 0 && all.id != new.id {
            return self.fail(&format!("it has field id {} here and {} in other files", new.id, all.id));
        }
        if all.id.0 <= 0 {
            all.id = new.id;
        }
        all.required &= new.required;
        self.at.push(number);
        self.types(&mut all.ty, &new.ty)?;
        self.at.pop();
        self.path.pop();
        Ok(())
    }

    fn types(&mut self, all: &mut Type, new: &Type) -> std::result::Result<(), String> {
        match (&mut *all, new) {
            (Type::Primitive(old), Type::Primitive(new)) => match promote(*old, *new) {
                Some(common) => {
                    let narrower = [*old, *new].into_iter().filter(|ty| *ty != common && *ty != Primitive::Unknown);
                    self.notes.narrower.extend(narrower.map(|ty| (self.at.clone(), ty)));
                    *old = common;
                }
                None => return self.fail(&format!("it is {old} in some files and {new} in this one")),
            },
            (Type::Struct(old), Type::Struct(new)) => self.fields(old, new)?,
            (Type::List(old), Type::List(new)) => self.element(old, new, "element", 0)?,
            (Type::Map(old), Type::Map(new)) => {
                self.element(&mut old.0, &new.0, "key", 0)?;
                self.element(&mut old.1, &new.1, "value", 1)?;
            }
            (old, new) => return self.fail(&format!("it is {old} in some files and {new} in this one")),
        }
        Ok(())
    }
}

/// The type that holds the values of both, where the table formats promote to it (Iceberg "Schema Evolution").
fn promote(a: Primitive, b: Primitive) -> Option<Primitive> {
    use Primitive::{Byte, Decimal, Double, Float, Int, Long, Short, Unknown};
    if a == b {
        return Some(a);
    }
    let rank = |ty| match ty {
        Byte => Some(0),
        Short => Some(1),
        Int => Some(2),
        Long => Some(3),
        _ => None,
    };
    match (a, b) {
        (Unknown, other) | (other, Unknown) => Some(other),
        (Float, Double) | (Double, Float) => Some(Double),
        (Decimal(x), Decimal(y)) if x.scale == y.scale => {
            Some(Decimal(DecimalType { precision: x.precision.max(y.precision), scale: x.scale }))
        }
        _ => Some(if rank(a)? > rank(b)? { a } else { b }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: &[(i64, &str, Primitive)]) -> Schema {
        let fields = fields.iter().map(|(id, name, ty)| Field::optional(*id, *name, (*ty).into())).collect();
        Schema { fields, identifier_fields: Vec::new() }
    }

    fn merged(files: &[Schema]) -> Result<Merged> {
        let mut merge = Merge::default();
        for (i, file) in files.iter().enumerate() {
            merge.add(&format!("f{i}"), i64::try_from(i).unwrap(), file)?;
        }
        Ok(merge.finish())
    }

    #[test]
    fn columns_without_ids_are_joined_by_name_and_promoted() {
        let Merged { schema, field_ids: ids, binding, .. } = merged(&[
            schema(&[(-1, "a", Primitive::Int), (-2, "b", Primitive::Float)]),
            schema(&[(-1, "b", Primitive::Double), (-2, "c", Primitive::String), (-3, "a", Primitive::Long)]),
        ])
        .unwrap();
        let columns: Vec<_> = schema.fields.iter().map(|f| (f.id.0, f.name.as_str(), f.ty.primitive())).collect();
        assert_eq!(
            columns,
            [(1, "a", Some(Primitive::Long)), (2, "b", Some(Primitive::Double)), (3, "c", Some(Primitive::String))]
        );
        assert_eq!(ids, FieldIds::Positional);
        let narrower = [(FieldId(1), Primitive::Int), (FieldId(2), Primitive::Float)];
        assert!(narrower.iter().all(|older| binding.older_types.contains(older)), "{binding:?}");
        assert_eq!((binding.older_types.len(), binding.by_id.len(), binding.ids_may_be_absent), (2, 0, false));
    }

    #[test]
    fn narrower_types_are_found_in_nested_columns() {
        let element = |ty: Primitive| Element { id: FieldId(-1), required: false, ty: ty.into() };
        let file = |ty| {
            let map = Type::Map(Box::new((element(Primitive::String), element(ty))));
            let members = vec![Field::optional(-2, "x", Primitive::Date.into()), Field::optional(-3, "m", map)];
            Schema { fields: vec![Field::optional(-1, "s", Type::Struct(members))], identifier_fields: Vec::new() }
        };
        let merged = merged(&[file(Primitive::Short), file(Primitive::Long), file(Primitive::Int)]).unwrap();
        let found = |(id, then): &(FieldId, Primitive)| (merged.schema.path(*id).unwrap().join("."), *then);
        let older: Vec<_> = merged.binding.older_types.iter().map(found).collect();
        assert_eq!(older, [("s.m.value".to_owned(), Primitive::Short), ("s.m.value".to_owned(), Primitive::Int)]);
    }

    #[test]
    fn field_ids_carry_renames_and_contradictions_are_refused() {
        let Merged { schema: renamed, field_ids: ids, binding, warnings } = merged(&[
            schema(&[(7, "old", Primitive::Int)]),
            schema(&[(7, "new", Primitive::Int), (-1, "x", Primitive::Int)]),
        ])
        .unwrap();
        assert_eq!((renamed.fields[0].name.as_str(), renamed.fields[1].id.0, ids), ("new", 8, FieldIds::Assigned));
        assert_eq!(warnings.len(), 1);
        assert_eq!((binding.by_id, binding.ids_may_be_absent), (vec![FieldId(7)], true));
        // Numbered by position in each file: names and ids contradict.
        let numbered = [
            schema(&[(1, "a", Primitive::Int), (2, "b", Primitive::Int)]),
            schema(&[(1, "b", Primitive::Int), (2, "c", Primitive::Int)]),
        ];
        assert!(merged(&numbered).is_err());
        let types = [schema(&[(-1, "a", Primitive::Int)]), schema(&[(-1, "a", Primitive::String)])];
        assert!(merged(&types).unwrap_err().to_string().contains("`a`"));
    }

    #[test]
    fn elements_without_ids_beside_columns_with_them_are_told() {
        let list = |id: i64, element: i64| {
            let ty = Type::List(Box::new(Element { id: FieldId(element), required: false, ty: Primitive::Int.into() }));
            Schema { fields: vec![Field::optional(id, "l", ty)], identifier_fields: Vec::new() }
        };
        for (files, told) in [
            (vec![list(7, -1)], 1),
            (vec![list(7, 8), list(7, -1)], 1),
            (vec![list(7, 8), list(-1, -2)], 0),
            (vec![list(-1, -2)], 0),
        ] {
            let merged = merged(&files).unwrap();
            assert_eq!(merged.binding.without_ids.len(), told, "{files:?}");
            assert!(merged.binding.without_ids.iter().all(|id| merged.schema.path(*id).unwrap() == ["l", "element"]));
        }
    }

    #[test]
    fn a_column_that_some_file_lacks_is_optional() {
        let mut full = schema(&[(-1, "a", Primitive::Int), (-2, "b", Primitive::Int)]);
        full.fields.iter_mut().for_each(|f| f.required = true);
        let mut part = full.clone();
        part.fields.truncate(1);
        for files in [[full.clone(), part.clone()], [part, full]] {
            let schema = merged(&files).unwrap().schema;
            assert_eq!(schema.fields.iter().map(|f| f.required).collect::<Vec<_>>(), [true, false]);
        }
    }
}
