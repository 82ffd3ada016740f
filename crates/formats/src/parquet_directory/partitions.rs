//! Partition columns from `key=value` directories.
//!
//! Every file must have the same keys, in whatever order; a file with other keys than its neighbours is refused,
//! because readers would not agree on its rows. A value is percent-decoded once, as Hive writes it;
//! `__HIVE_DEFAULT_PARTITION__` is null, an empty value is the empty string.
//!
//! A column that the files store too has its type there. Otherwise it is `int`, `long` or `date` when every value is
//! written exactly as that type prints, so that `007` or `03` stays text and nothing is lost, else `string`.

use super::next_id;
use crate::hive_path::{HIVE_NULL, parse};
use crate::sync::{Error, Result};
use hoglake_model::FieldId;
use hoglake_model::table::{Field, PartitionSpec, Primitive, Schema, Value};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// The partition columns of a directory with one tuple a file.
pub(super) struct Partitioning {
    names: Vec<String>,
    /// The text of every value, `None` for null, before the types are known.
    text: Vec<Vec<Option<String>>>,
    types: Vec<Primitive>,
    tuples: Vec<Vec<Option<Value>>>,
}

impl Partitioning {
    pub(super) fn none(files: usize) -> Self {
        Self { names: Vec::new(), text: vec![Vec::new(); files], types: Vec::new(), tuples: Vec::new() }
    }

    pub(super) fn discover<'a>(keys: impl Iterator<Item = &'a str>) -> Result<Self> {
        let mut names: Option<Vec<String>> = None;
        let mut text = Vec::new();
        for key in keys {
            let mut pairs = Vec::new();
            let mut plain = None;
            for segment in key.rsplit_once('/').map_or("", |(folders, _)| folders).split('/').filter(|s| !s.is_empty())
            {
                match segment.split_once('=') {
                    Some((name, value)) if !name.is_empty() => pairs.push((decode(name, key)?, decode(value, key)?)),
                    _ => plain = Some(segment),
                }
            }
            if let (Some(plain), false) = (plain, pairs.is_empty()) {
                return Err(mismatch(key, &format!("`{plain}` is no key=value directory, while others above it are")));
            }
            let names = names.get_or_insert_with(|| pairs.iter().map(|(name, _)| name.to_string()).collect());
            let mut tuple = Vec::with_capacity(names.len());
            for name in names.iter() {
                let mut values = pairs.iter().filter(|(n, _)| n == name);
                match (values.next(), values.next()) {
                    (Some((_, value)), None) => tuple.push(Some(value.to_string()).filter(|v| v != HIVE_NULL)),
                    (Some(_), Some(_)) => return Err(mismatch(key, &format!("`{name}` occurs twice in it"))),
                    (None, _) => return Err(mismatch(key, &format!("it has no `{name}`, while other files have"))),
                }
            }
            if pairs.len() != names.len() {
                return Err(mismatch(key, "it has keys that other files do not have"));
            }
            text.push(tuple);
        }
        Ok(Self { names: names.unwrap_or_default(), text, types: Vec::new(), tuples: Vec::new() })
    }

    /// Gives the columns their types, adding those to `schema` that the files do not store.
    pub(super) fn typed(mut self, schema: &mut Schema) -> Result<(Self, PartitionSpec)> {
        let mut columns = Vec::new();
        for (position, name) in self.names.iter_mut().enumerate() {
            let stored = schema.column(name).or_else(|| {
                let mut same = schema.fields.iter().filter(|f| f.name.eq_ignore_ascii_case(name));
                same.next().filter(|_| same.next().is_none())
            });
            let (id, ty) = match stored {
                Some(field) => {
                    let Some(ty) = field.ty.primitive() else {
                        return Err(mismatch(name, "the files store a nested column of that name"));
                    };
                    // Hive and Spark do not distinguish case here; the files' spelling is the column's.
                    name.clone_from(&field.name);
                    (field.id, ty)
                }
                None => {
                    let ty = infer(self.text.iter().filter_map(|t| t.get(position)?.as_deref()));
                    let id = next_id(schema);
                    schema.fields.push(Field::optional(id, name.clone(), ty.into()));
                    (FieldId(id), ty)
                }
            };
            columns.push((id, name.clone()));
            self.types.push(ty);
        }
        let mut tuples = Vec::with_capacity(self.text.len());
        for tuple in std::mem::take(&mut self.text) {
            let mut values = Vec::with_capacity(tuple.len());
            for ((text, ty), name) in tuple.into_iter().zip(&self.types).zip(&self.names) {
                values.push(match text {
                    None => None,
                    Some(text) => Some(parse(&text, *ty).ok_or_else(|| {
                        mismatch(&format!("{name}={text}"), &format!("the value is no {ty}, which the files store"))
                    })?),
                });
            }
            tuples.push(values);
        }
        self.tuples = tuples;
        let spec = PartitionSpec::identity(0, columns.iter().map(|(id, name)| (*id, name.as_str())));
        Ok((self, spec))
    }

    pub(super) fn tuple(&self, file: usize) -> &[Option<Value>] {
        self.tuples.get(file).map_or(&[], Vec::as_slice)
    }

    /// The columns and their types as text: what makes an old watermark's partition values still be of the same type.
    pub(super) fn fingerprint(&self) -> Option<String> {
        if self.names.is_empty() {
            return None;
        }
        let one = |(name, ty): (&String, &Primitive)| format!("{name}:{ty}");
        Some(self.names.iter().zip(&self.types).map(one).collect::<Vec<_>>().join(","))
    }
}

fn decode<'a>(text: &'a str, key: &str) -> Result<Cow<'a, str>> {
    percent_decode_str(text).decode_utf8().map_err(|_| Error::malformed(key, "its name does not decode to UTF-8"))
}

fn mismatch(key: &str, why: &str) -> Error {
    Error::UnsupportedSource {
        feature: "directories that partition consistently".to_owned(),
        place: key.to_owned(),
        detail: format!("{why}; move the file or convert the folders separately"),
    }
}

fn infer<'a>(values: impl Iterator<Item = &'a str>) -> Primitive {
    let mut candidates = vec![Primitive::Int, Primitive::Long, Primitive::Date];
    let mut any = false;
    for value in values {
        any = true;
        candidates.retain(|ty| parse(value, *ty).is_some() && canonical(value, *ty));
    }
    candidates.first().copied().filter(|_| any).unwrap_or(Primitive::String)
}

/// Whether the text is what the type would print.
fn canonical(text: &str, ty: Primitive) -> bool {
    match ty {
        Primitive::Int => text.parse::<i32>().is_ok_and(|v| v.to_string() == text),
        Primitive::Long => text.parse::<i64>().is_ok_and(|v| v.to_string() == text),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &[&str], fields: Vec<Field>) -> Result<(Partitioning, Schema)> {
        let mut schema = Schema { fields, identifier_fields: Vec::new() };
        let found = Partitioning::discover(keys.iter().copied())?;
        let (found, _) = found.typed(&mut schema)?;
        Ok((found, schema))
    }

    #[test]
    fn types_lose_nothing() {
        for (values, ty) in [
            (&["1", "-2"][..], Primitive::Int),
            (&["1", "3000000000"], Primitive::Long),
            (&["01", "2"], Primitive::String),
            (&["2024-01-31", "1969-12-31"], Primitive::Date),
            (&["2024-02-30"], Primitive::String),
            (&["2024-1-1"], Primitive::String),
            (&["1", "", HIVE_NULL], Primitive::String),
            (&["1", HIVE_NULL], Primitive::Int),
            (&[HIVE_NULL], Primitive::String),
            (&["1.5"], Primitive::String),
        ] {
            let keys: Vec<String> = values.iter().map(|v| format!("k={v}/f.parquet")).collect();
            let (found, schema) = typed(&keys.iter().map(String::as_str).collect::<Vec<_>>(), Vec::new()).unwrap();
            assert_eq!(schema.fields[0].ty.primitive(), Some(ty), "{values:?}");
            assert_eq!(found.tuple(values.len() - 1)[0].is_none(), values[values.len() - 1] == HIVE_NULL);
        }
    }

    #[test]
    fn names_and_values_are_decoded_once() {
        let (found, schema) = typed(&["a%3Db=x%2Fy%2520 é/f.parquet"], Vec::new()).unwrap();
        assert_eq!(schema.fields[0].name, "a=b");
        assert_eq!(found.tuple(0), [Some(Value::String("x/y%20 é".into()))]);
    }

    #[test]
    fn order_does_not_matter_and_other_keys_do() {
        let (found, _) = typed(&["a=1/b=x/f.parquet", "b=y/a=2/f.parquet"], Vec::new()).unwrap();
        assert_eq!(found.tuple(1), [Some(Value::Int(2)), Some(Value::String("y".into()))]);
        for keys in [
            &["a=1/f.parquet", "f.parquet"][..],
            &["f.parquet", "a=1/f.parquet"],
            &["a=1/b=1/f.parquet", "a=1/f.parquet"],
            &["x/a=1/f.parquet"],
            &["a=1/a=2/f.parquet"],
            &["a=%ff/f.parquet"],
        ] {
            assert!(typed(keys, Vec::new()).is_err(), "{keys:?}");
        }
        assert!(typed(&["x/f.parquet", "y/z/f.parquet"], Vec::new()).unwrap().1.fields.is_empty());
    }

    #[test]
    fn a_stored_column_gives_the_type() {
        let column = || vec![Field::optional(1, "k", Primitive::Long.into())];
        let (found, schema) = typed(&["K=5/f.parquet"], column()).unwrap();
        assert_eq!((schema.fields.len(), found.tuple(0)), (1, &[Some(Value::Long(5))][..]));
        assert!(typed(&["k=x/f.parquet"], column()).is_err());
    }
}
