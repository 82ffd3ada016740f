//! What a client asks for, checked as far as that goes without looking at the table.

use super::Place;
use super::failure::Failure;
use super::settings::{Grants, SOURCE_DATA_PATH, Settings, is_secret};
use hoglake_formats::store::Roots;
use hoglake_model::table::TableFormat;
use hoglake_model::{Location, name};
use percent_encoding::percent_decode_str;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// The longest path and name.
const LONGEST: usize = 4096;

/// `ConvertTableRequest` of the contract.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ConvertTableRequest {
    /// The format to read.
    pub source_format: String,
    /// What targets call the table.
    pub source_table_name: String,
    /// Where it is.
    pub source_table_path: String,
    /// The formats to write. Some XTable clients spell the field `target-format`.
    #[serde(alias = "target-format")]
    pub target_formats: Vec<String>,
    /// Settings of this conversion.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "texts")]
    pub configurations: Option<BTreeMap<String, String>>,
    /// Where the targets are written, which XTable clients send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_data_path: Option<String>,
}

/// What a server allows to all requests.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Where to read and write.
    pub roots: std::sync::Arc<Roots>,
    /// Which stores.
    pub grants: Grants,
}

/// A request that can be tried.
#[derive(Clone)]
pub struct Conversion {
    /// The format to read.
    pub source: TableFormat,
    /// What targets call the table.
    pub name: String,
    /// Where it is.
    pub place: Place,
    /// Where the targets are written.
    pub target_root: Location,
    /// The formats to write, each once.
    pub targets: Vec<TableFormat>,
    /// How.
    pub settings: Settings,
}

impl ConvertTableRequest {
    /// The request without what is kept in memory only, and whether that was anything.
    pub fn without_secrets(&self) -> (Self, bool) {
        let mut public = self.clone();
        let mut is_private = false;
        if let Some(configurations) = &mut public.configurations {
            let before = configurations.len();
            configurations.retain(|key, _| !is_secret(key));
            is_private = configurations.len() < before;
        }
        (public, is_private)
    }

    /// Checks the request.
    ///
    /// # Errors
    /// 400 for what does not fit, 403 for a path or an endpoint that is not allowed.
    pub fn check(&self, rules: &Rules) -> Result<Conversion, Failure> {
        let source = format("source-format", &self.source_format, &SOURCES)?;
        let mut targets = Vec::new();
        for text in &self.target_formats {
            let target = format("target-formats", text, &TARGETS)?;
            if target == source {
                return Err(Failure::bad_request(format!(
                    "`target-formats`: the table is of format {source} already; leave it out"
                )));
            }
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        if targets.is_empty() {
            return Err(Failure::bad_request(
                "`target-formats` is empty; name at least one of ICEBERG, DELTA and HUDI",
            ));
        }
        let name = self.source_table_name.trim();
        if name.is_empty() || name.len() > LONGEST || name.chars().any(char::is_control) {
            return Err(Failure::bad_request(
                "`source-table-name` must be a name of at most 4096 bytes without control characters",
            ));
        }
        let none = BTreeMap::new();
        let configurations = self.configurations.as_ref().unwrap_or(&none);
        let data_path = match (&self.source_data_path, configurations.get(SOURCE_DATA_PATH)) {
            (Some(one), Some(other)) if one != other => {
                return Err(Failure::bad_request(
                    "`source-data-path` is given twice, with different values; give it once",
                ));
            }
            (Some(path), _) | (None, Some(path)) => Some(path),
            (None, None) => None,
        };
        let settings = Settings::read(configurations, &rules.grants)?;
        location("source-table-path", &self.source_table_path, &rules.roots)?;
        let place = Place::parse(&self.source_table_path)?;
        // The table's root is a folder above what was named.
        allowed("source-table-path", &place.root, &rules.roots)?;
        let target_root = match data_path {
            Some(path) => location(SOURCE_DATA_PATH, path, &rules.roots)?,
            None => place.root.clone(),
        };
        Ok(Conversion { source, name: name.to_owned(), place, target_root, targets, settings })
    }
}

/// Reads a map of texts. What a wrong value says is never repeated: it may be a secret.
fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    use serde_json::Value;
    let object = match Value::deserialize(deserializer)? {
        Value::Null => return Ok(None),
        Value::Object(object) => object,
        _ => return Err(D::Error::custom("`configurations` must be an object of texts")),
    };
    let text = |(key, value): (String, Value)| match value {
        Value::String(text) => Ok((key, text)),
        _ => Err(D::Error::custom(format!("`configurations`: the value of {} must be a text", name::quoted(&key)))),
    };
    object.into_iter().map(text).collect::<Result<_, _>>().map(Some)
}

const SOURCES: [TableFormat; 4] = [TableFormat::Iceberg, TableFormat::Delta, TableFormat::Hudi, TableFormat::Parquet];
const TARGETS: [TableFormat; 3] = [TableFormat::Iceberg, TableFormat::Delta, TableFormat::Hudi];

fn format(field: &str, text: &str, known: &[TableFormat]) -> Result<TableFormat, Failure> {
    let found = TableFormat::parse(text.trim()).filter(|format| known.contains(format));
    found.ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|format| format.as_str()).collect();
        Failure::bad_request(format!("`{field}`: {} is none of {}", name::quoted(text), names.join(", ")))
    })
}

/// Reads a location of the request and makes sure that it is inside the roots.
fn location(field: &str, text: &str, roots: &Roots) -> Result<Location, Failure> {
    if text.trim().is_empty() || text.len() > LONGEST {
        return Err(Failure::bad_request(format!("`{field}` must be a location of 1 to {LONGEST} bytes")));
    }
    if climbs(text) {
        return Err(Failure::outside(format!(
            "`{field}`: {} has a `.` or `..` segment; name the place itself",
            name::quoted(text)
        )));
    }
    match Location::parse(text) {
        Ok(location) => {
            allowed(field, &location, roots)?;
            Ok(location)
        }
        Err(refusal) if has_scheme(text) => Err(Failure::outside(format!("`{field}`: {}", refusal.detail))),
        Err(refusal) => Err(Failure::bad_request(format!("`{field}`: {}", refusal.detail))),
    }
}

fn allowed(field: &str, location: &Location, roots: &Roots) -> Result<(), Failure> {
    if roots.covers(location) {
        return Ok(());
    }
    let what = if roots.is_empty() {
        "this server converts nowhere: its operator lists the places in HOGLAKE_CONVERSION_ROOTS"
    } else {
        "it lies outside the places that this server converts in (HOGLAKE_CONVERSION_ROOTS)"
    };
    Err(Failure::outside(format!("`{field}`: {}: {what}", name::quoted(&location.to_string()))))
}

/// Whether a segment is `.` or `..`, encoded or not. Keys are taken literally, so that an encoded one leads nowhere else;
/// whoever sends it means to climb.
fn climbs(text: &str) -> bool {
    let mut text = text.to_owned();
    for _ in 0..3 {
        if text.split(['/', '\\']).any(|segment| matches!(segment, "." | "..")) {
            return true;
        }
        let decoded = percent_decode_str(&text).decode_utf8_lossy().into_owned();
        if decoded == text {
            return false;
        }
        text = decoded;
    }
    false
}

fn has_scheme(text: &str) -> bool {
    let name = text.split(':').next().filter(|name| name.len() < text.len()).unwrap_or_default();
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rules() -> Rules {
        let roots = Roots::parse(["s3://lake/a", "file:///srv/lake"], None).unwrap();
        Rules { roots: std::sync::Arc::new(roots), grants: Grants::default() }
    }

    fn check(change: serde_json::Value) -> Result<Conversion, Failure> {
        let mut body = json!({"source-format": "DELTA", "source-table-name": "t", "source-table-path": "s3://lake/a/t",
                              "target-formats": ["ICEBERG"]});
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        serde_json::from_value::<ConvertTableRequest>(body).unwrap().check(&rules())
    }

    #[test]
    fn formats_are_read_in_any_case_and_each_counts_once() {
        let found = check(json!({"source-format": "delta", "target-formats": ["iceberg", "Hudi", "ICEBERG"]})).unwrap();
        assert_eq!((found.source, found.targets), (TableFormat::Delta, vec![TableFormat::Iceberg, TableFormat::Hudi]));
        for bad in [
            json!({"source-format": "ORC"}),
            json!({"source-format": "HOGLAKE"}),
            json!({"target-formats": []}),
            json!({"target-formats": ["PARQUET"]}),
            json!({"target-formats": ["PAIMON"]}),
            json!({"target-formats": ["DELTA"]}),
            json!({"source-table-name": " "}),
            json!({"source-table-path": ""}),
            json!({"source-table-path": "t"}),
            json!({"configurations": {"nope": "1"}}),
            json!({"source-data-path": "s3://lake/a/t", "configurations": {"source-data-path": "s3://lake/a/u"}}),
        ] {
            assert_eq!(check(bad.clone()).err().map(|f| f.model.code), Some(400), "{bad}");
        }
    }

    #[test]
    fn what_a_secret_says_is_not_repeated_whatever_its_type() {
        for value in
            [json!(48151623), json!(4.25e7), json!(true), json!([48151623]), json!({"a": "48151623"}), json!(null)]
        {
            for configurations in [json!({"s3.secret-access-key": value}), value.clone(), json!("48151623")] {
                // what is no wrong shape
                if configurations.is_null() || configurations == json!({"a": "48151623"}) {
                    continue;
                }
                let body = json!({"source-format": "DELTA", "source-table-name": "t", "target-formats": ["ICEBERG"],
                                  "source-table-path": "s3://lake/a/t", "configurations": configurations});
                let Err(error) = serde_json::from_value::<ConvertTableRequest>(body.clone()) else { panic!("{body}") };
                let words = error.to_string();
                let said = ["48151623", "4.25", "42500000", "true"].iter().any(|secret| words.contains(secret));
                assert!(!said && words.contains("`configurations`"), "{words}");
            }
        }
    }

    #[test]
    fn parts_of_a_table_name_it() {
        for (path, root) in [
            ("s3://lake/a/t/_delta_log", "s3://lake/a/t"),
            ("s3a://lake/a/t/metadata/v3.metadata.json", "s3a://lake/a/t"),
            ("/srv/lake/t/.hoodie/", "/srv/lake/t"),
        ] {
            let found = check(json!({"source-table-path": path})).unwrap();
            assert_eq!(found.place.root.to_string(), root);
            assert_eq!(found.target_root.to_string(), root);
        }
        let found = check(json!({"source-data-path": "s3://lake/a/t/data"})).unwrap();
        assert_eq!(found.target_root.to_string(), "s3://lake/a/t/data");
    }

    #[test]
    fn nothing_outside_the_roots_passes_however_it_is_spelled() {
        for path in [
            "s3://lake/b/t",
            "s3://lake/ab",
            "s3://lake",
            "s3://other/a/t",
            "s3://lake/a/../b",
            "s3://lake/a/%2e%2e/b",
            "s3://lake/a/%252e%252E/b",
            "s3://lake/a/.%2e/b",
            "s3://lake/a/..",
            "s3://lake//a/t",
            "s3a://Lake/a/t",
            "gs://lake/a/t",
            "abfss://lake@acc.dfs.core.windows.net/a/t",
            "http://lake/a/t",
            "hdfs://lake/a/t",
            "file://srv/lake/t",
            "file:srv/lake/t",
            "file:///etc",
            "FILE:/etc/passwd",
            "/etc",
            "/srv/lake/../../etc",
            "/srv/lake2",
            "/srv/Lake/t",
            "/srv/lake\\..\\..\\etc",
            "s3://key:secret@lake/a/t",
            // The root above is what would be read.
            "s3://lake/a/metadata/../../b",
        ] {
            for field in ["source-table-path", "source-data-path"] {
                let failure = check(json!({field: path})).err().unwrap_or_else(|| panic!("{field} {path} passes"));
                assert_eq!(failure.model.code, 403, "{field} {path}: {}", failure.model.message);
            }
        }
        // A metadata folder at a root belongs to a table above it.
        let roots = Roots::parse(["s3://lake/a/t/_delta_log"], None).unwrap();
        let rules = Rules { roots: std::sync::Arc::new(roots), grants: Grants::default() };
        let body = json!({"source-format": "DELTA", "source-table-name": "t", "target-formats": ["ICEBERG"],
                          "source-table-path": "s3://lake/a/t/_delta_log"});
        let request: ConvertTableRequest = serde_json::from_value(body).unwrap();
        assert_eq!(request.check(&rules).err().unwrap().model.code, 403);
    }

    #[test]
    fn what_is_stored_has_no_secret() {
        let body = json!({"source-format": "DELTA", "source-table-name": "t", "source-table-path": "s3://lake/a/t",
                          "target-formats": ["ICEBERG"],
                          "configurations": {"s3.access-key-id": "AKIA", "s3.secret-access-key": "s3cret",
                                             "gcs.oauth2-token": "ya29", "sync-mode": "full"}});
        let request: ConvertTableRequest = serde_json::from_value(body).unwrap();
        let (public, is_private) = request.without_secrets();
        let text = serde_json::to_string(&public).unwrap();
        assert!(is_private && text.contains("sync-mode"));
        for secret in ["AKIA", "s3cret", "ya29"] {
            assert!(!text.contains(secret), "{text}");
        }
        assert!(!public.without_secrets().1);
    }
}
