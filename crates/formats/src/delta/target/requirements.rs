//! What a table asks of its writers ("Table Features", "Requirements for Writers") beyond what hoglake does.

use super::super::action::{Metadata, Protocol};
use super::super::protocol::property;
use hoglake_model::table::{TableFormat, Unsupported, UnsupportedKind};
use serde_json::Value as Json;

/// Writer features that need nothing of us, or that we implement. Some of them do only while the table does not use them:
/// see [`used`].
const WRITER_FEATURES: [&str; 22] = [
    "allowColumnDefaults",
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "columnMapping",
    "deletionVectors",
    "domainMetadata",
    "generatedColumns",
    "icebergCompatV1",
    "icebergCompatV2",
    "identityColumns",
    "inCommitTimestamp",
    "inCommitTimestamp-preview",
    "invariants",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantShredding-preview",
    "variantType",
    "variantType-preview",
];

/// Features that the table uses and that writers would have to honour, with where that is said.
fn used(metadata: &Metadata, is_followed: bool) -> Vec<(&'static str, String)> {
    let is_on = |key: &str| property(metadata, key).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let mut found = Vec::new();
    for (feature, key) in [
        ("inCommitTimestamp", "delta.enableInCommitTimestamps"),
        ("icebergCompatV1", "delta.enableIcebergCompatV1"),
        ("icebergCompatV2", "delta.enableIcebergCompatV2"),
        ("rowTracking", "delta.enableRowTracking"),
    ] {
        if is_on(key) {
            found.push((feature, key.to_owned()));
        }
    }
    let mut constraints: Vec<_> =
        metadata.configuration.iter().flatten().filter(|(key, _)| key.starts_with("delta.constraints.")).collect();
    constraints.sort_unstable();
    found.extend(constraints.first().map(|(key, _)| ("checkConstraints", (*key).clone())));
    if is_followed {
        // A commit of ours states the columns anew, as the source has them.
        return found;
    }
    let schema: Json = serde_json::from_str(&metadata.schema_string).unwrap_or_default();
    for (feature, key) in [
        ("invariants", "delta.invariants"),
        ("generatedColumns", "delta.generationExpression"),
        ("identityColumns", "delta.identity."),
        ("allowColumnDefaults", "CURRENT_DEFAULT"),
    ] {
        found.extend(column_with(&schema, key, 0).map(|column| (feature, format!("column {column}"))));
    }
    found
}

/// The first column whose metadata has a key that begins so.
fn column_with(json: &Json, key: &str, depth: usize) -> Option<String> {
    if depth > 128 {
        return None;
    }
    if let Some(name) = json.get("name").and_then(Json::as_str)
        && json.get("metadata").and_then(Json::as_object).is_some_and(|m| m.keys().any(|k| k.starts_with(key)))
    {
        return Some(name.to_owned());
    }
    match json {
        Json::Array(items) => items.iter().find_map(|item| column_with(item, key, depth + 1)),
        Json::Object(members) => members.values().find_map(|member| column_with(member, key, depth + 1)),
        _ => None,
    }
}

/// Why hoglake must not write to a table, if that is so. `is_followed` says whether the table is a target already.
pub(super) fn unsupported(
    place: &str,
    protocol: &Protocol,
    metadata: &Metadata,
    is_followed: bool,
) -> Vec<Unsupported> {
    let refuse = |what: String| Unsupported {
        target: TableFormat::Delta,
        kind: UnsupportedKind::Feature,
        place: place.to_owned(),
        detail: format!(
            "the table there {what}, which hoglake does not do; choose another target path, or drop the feature"
        ),
    };
    if !(1..=7).contains(&protocol.min_writer_version) {
        return vec![refuse(format!("asks for writer version {}", protocol.min_writer_version))];
    }
    let listed = protocol.writer_features.iter().flatten().filter(|_| protocol.min_writer_version == 7);
    let unknown = listed.filter(|feature| !WRITER_FEATURES.contains(&feature.as_str()));
    let unknown = unknown.map(|feature| refuse(format!("asks its writers for the feature {feature}")));
    let used = used(metadata, is_followed).into_iter();
    unknown.chain(used.map(|(feature, by)| refuse(format!("uses the feature {feature} ({by})")))).collect()
}

/// Why a commit that removes files, or changes which rows of them are deleted, must not be made.
pub(super) fn unsupported_commit(place: &str, metadata: &Metadata, removes: bool, redeletes: bool) -> Vec<Unsupported> {
    let is_on = |key: &str| property(metadata, key).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let refuse = |feature: &str, key: &str, what: &str| Unsupported {
        target: TableFormat::Delta,
        kind: UnsupportedKind::Feature,
        place: place.to_owned(),
        detail: format!(
            "the table there uses the feature {feature} ({key}), and the source {what}; turn it off, or choose another target path"
        ),
    };
    let mut found = Vec::new();
    if removes && is_on("delta.appendOnly") {
        found.push(refuse("appendOnly", "delta.appendOnly", "has removed files"));
    }
    if redeletes && is_on("delta.enableChangeDataFeed") {
        let what = "has deleted rows of files, for which hoglake writes no change files";
        found.push(refuse("changeDataFeed", "delta.enableChangeDataFeed", what));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(schema: &str, configuration: &[(&str, &str)]) -> Metadata {
        let configuration = configuration.iter().map(|(k, v)| ((*k).to_owned(), Some((*v).to_owned())));
        Metadata {
            schema_string: schema.to_owned(),
            configuration: Some(configuration.collect()),
            ..Metadata::default()
        }
    }

    fn found(version: i32, features: &[&str], metadata: &Metadata, is_followed: bool) -> Vec<String> {
        let protocol = Protocol {
            min_reader_version: 3,
            min_writer_version: version,
            reader_features: None,
            writer_features: Some(features.iter().map(|f| (*f).to_owned()).collect()),
        };
        unsupported("t", &protocol, metadata, is_followed).into_iter().map(|u| u.detail).collect()
    }

    #[test]
    fn features_are_named() {
        let plain = metadata(r#"{"type":"struct","fields":[]}"#, &[]);
        assert_eq!(found(7, &WRITER_FEATURES, &plain, false), [""; 0]);
        assert!(found(7, &["rowTracking"], &plain, true)[0].contains("the feature rowTracking"));
        assert!(found(7, &["clustering"], &plain, false)[0].contains("the feature clustering"));
        assert!(found(8, &[], &plain, false)[0].contains("writer version 8"));
        for (key, feature) in [
            ("delta.enableInCommitTimestamps", "inCommitTimestamp"),
            ("delta.enableIcebergCompatV2", "icebergCompatV2"),
            ("delta.constraints.positive", "checkConstraints"),
        ] {
            let details = found(7, &[], &metadata("{}", &[(key, "true")]), true);
            assert!(details.len() == 1 && details[0].contains(feature) && details[0].contains(key), "{details:?}");
        }
        for (key, feature) in [
            ("delta.invariants", "invariants"),
            ("delta.generationExpression", "generatedColumns"),
            ("delta.identity.start", "identityColumns"),
        ] {
            let schema = format!(
                r#"{{"type":"struct","fields":[{{"name":"s","type":{{"type":"struct","fields":[{{"name":"x","metadata":{{"{key}":1}}}}]}},"metadata":{{}}}}]}}"#
            );
            let details = found(2, &[], &metadata(&schema, &[]), false);
            assert!(
                details.len() == 1 && details[0].contains(feature) && details[0].contains("column x"),
                "{details:?}"
            );
            assert_eq!(found(2, &[], &metadata(&schema, &[]), true), [""; 0]);
        }
    }

    #[test]
    fn commits_that_a_table_forbids_are_named() {
        let both = metadata("{}", &[("delta.appendOnly", "true"), ("delta.enableChangeDataFeed", "TRUE")]);
        let details = |removes, redeletes| unsupported_commit("t", &both, removes, redeletes).len();
        assert_eq!([details(false, false), details(true, false), details(true, true)], [0, 1, 2]);
    }
}
