//! The watermark as table properties: our own exact one, and the one that Apache XTable writes and reads.
//!
//! `XTABLE_METADATA` is a JSON string with `lastInstantSynced` (ISO-8601 UTC, millisecond precision),
//! `instantsToConsiderForNextSync`, `version` 0, `sourceTableFormat` and `sourceIdentifier`. Ours adds the identity of
//! the source and the revision, so that a replaced table or a schema change without a new snapshot is noticed. When
//! the two disagree (XTable ran after us), XTable's newer word counts.

use chrono::{DateTime, SecondsFormat, Utc};
use hoglake_model::table::{TableFormat, VersionId, Watermark};
use serde::{Deserialize, Serialize};

/// The property that XTable keeps.
pub const XTABLE_KEY: &str = "XTABLE_METADATA";

/// The property that hoglake keeps beside it.
pub const WATERMARK_KEY: &str = "hoglake.watermark";

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Xtable {
    last_instant_synced: String,
    #[serde(default)]
    instants_to_consider_for_next_sync: Vec<String>,
    #[serde(default)]
    version: i64,
    #[serde(default)]
    source_table_format: Option<String>,
    #[serde(default)]
    source_identifier: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Own {
    format: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    table_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
    timestamp_ms: i64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    deletes_left_out: bool,
}

/// The value of [`XTABLE_KEY`] for a watermark.
pub fn to_xtable(mark: &Watermark) -> String {
    let instant = DateTime::<Utc>::from_timestamp_millis(mark.timestamp_ms).unwrap_or_default();
    let value = Xtable {
        last_instant_synced: instant.to_rfc3339_opts(SecondsFormat::Millis, true),
        instants_to_consider_for_next_sync: Vec::new(),
        version: 0,
        source_table_format: Some(mark.format.as_str().to_owned()),
        source_identifier: mark.version.as_ref().map(|v| v.0.clone()),
    };
    serde_json::to_string(&value).unwrap_or_default()
}

/// Both properties for a watermark.
pub fn to_properties(mark: &Watermark) -> [(&'static str, String); 2] {
    let own = Own {
        format: mark.format.as_str().to_owned(),
        table_id: mark.table_id.clone(),
        version: mark.version.as_ref().map(|v| v.0.clone()),
        revision: mark.revision.clone(),
        timestamp_ms: mark.timestamp_ms,
        deletes_left_out: mark.deletes_left_out,
    };
    [(XTABLE_KEY, to_xtable(mark)), (WATERMARK_KEY, serde_json::to_string(&own).unwrap_or_default())]
}

/// Reads the watermark back from properties; `None` when there is none that can be read.
pub fn from_properties<'a>(get: impl Fn(&str) -> Option<&'a str>) -> Option<Watermark> {
    let own = get(WATERMARK_KEY).and_then(|text| serde_json::from_str::<Own>(text).ok()).and_then(|own| {
        Some(Watermark {
            format: TableFormat::parse(&own.format)?,
            table_id: own.table_id,
            version: own.version.map(VersionId),
            revision: own.revision,
            timestamp_ms: own.timestamp_ms,
            deletes_left_out: own.deletes_left_out,
        })
    });
    let Some(text) = get(XTABLE_KEY) else { return own };
    let Some(theirs) = serde_json::from_str::<Xtable>(text).ok().and_then(|x| from_xtable(&x)) else { return own };
    match own {
        // Written together: the exact one knows more.
        Some(own) if own.version == theirs.version && own.timestamp_ms == theirs.timestamp_ms => Some(own),
        // XTable does not repair what was left out before it came.
        own => Some(Watermark { deletes_left_out: own.is_some_and(|own| own.deletes_left_out), ..theirs }),
    }
}

/// Whether the watermark in these properties is the one that hoglake wrote last, and nobody's newer word.
pub(crate) fn is_own<'a>(get: impl Fn(&str) -> Option<&'a str>) -> bool {
    let own = from_properties(|key| if key == XTABLE_KEY { None } else { get(key) });
    own.is_some() && own == from_properties(get)
}

fn from_xtable(x: &Xtable) -> Option<Watermark> {
    // Commits that were still in flight then are not below the watermark; only a full comparison finds them.
    let pending = !x.instants_to_consider_for_next_sync.is_empty();
    let instant = DateTime::parse_from_rfc3339(&x.last_instant_synced).ok()?;
    if x.version > 0 {
        return None;
    }
    Some(Watermark {
        format: TableFormat::parse(x.source_table_format.as_deref()?)?,
        table_id: None,
        version: x.source_identifier.clone().filter(|_| !pending).map(VersionId),
        revision: None,
        timestamp_ms: instant.timestamp_millis(),
        deletes_left_out: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> Watermark {
        Watermark {
            format: TableFormat::Delta,
            table_id: Some("a-b".to_owned()),
            version: Some(VersionId("12".to_owned())),
            revision: None,
            timestamp_ms: 1_700_000_000_123,
            deletes_left_out: true,
        }
    }

    #[test]
    fn xtable_reads_what_we_write() {
        assert_eq!(
            to_xtable(&mark()),
            r#"{"lastInstantSynced":"2023-11-14T22:13:20.123Z","instantsToConsiderForNextSync":[],"version":0,"sourceTableFormat":"DELTA","sourceIdentifier":"12"}"#
        );
    }

    #[test]
    fn what_xtable_wrote_is_what_we_write() {
        // By XTable 0.5.0-SNAPSHOT (commit 54b58df): into an Iceberg table, a Hudi commit, a Delta log, in this order.
        for (theirs, format, version) in [
            (
                r#"{"lastInstantSynced":"2026-12-01T03:03:07.299Z","instantsToConsiderForNextSync":[],"version":0,"sourceTableFormat":"HUDI","sourceIdentifier":"20261201030307299"}"#,
                TableFormat::Hudi,
                "20261201030307299",
            ),
            (
                r#"{"lastInstantSynced":"2026-12-01T02:22:33.600Z","instantsToConsiderForNextSync":[],"version":0,"sourceTableFormat":"DELTA","sourceIdentifier":"0"}"#,
                TableFormat::Delta,
                "0",
            ),
            (
                r#"{"lastInstantSynced":"2026-12-01T02:32:03.580Z","instantsToConsiderForNextSync":[],"version":0,"sourceTableFormat":"ICEBERG","sourceIdentifier":"4413589191661933089"}"#,
                TableFormat::Iceberg,
                "4413589191661933089",
            ),
        ] {
            let read = from_properties(|key| (key == XTABLE_KEY).then_some(theirs));
            assert_eq!(read.as_ref().map(|mark| mark.format), Some(format));
            assert_eq!(read.as_ref().and_then(|mark| mark.version.as_ref()).map(|v| &*v.0), Some(version));
            assert_eq!(read.as_ref().map(to_xtable).as_deref(), Some(theirs));
        }
    }

    #[test]
    fn our_own_watermark_survives_and_a_newer_one_of_xtable_wins() {
        let both = to_properties(&mark());
        let get = |key: &str| both.iter().find(|(k, _)| *k == key).map(|(_, v)| v.as_str());
        assert_eq!(from_properties(get), Some(mark()));
        assert!(is_own(get));

        let theirs = r#"{"lastInstantSynced":"2024-01-01T00:00:00Z","instantsToConsiderForNextSync":[],"version":0,"sourceTableFormat":"DELTA","sourceIdentifier":"15"}"#;
        let newer = |key: &str| if key == XTABLE_KEY { Some(theirs) } else { get(key) };
        assert!(!is_own(newer));
        let read = from_properties(newer);
        assert!(read.as_ref().is_some_and(|m| m.deletes_left_out), "XTable has not repaired it");
        assert_eq!(read.and_then(|m| m.version), Some(VersionId("15".to_owned())));
    }

    #[test]
    fn pending_instants_and_unknown_versions_are_not_trusted() {
        let pending = r#"{"lastInstantSynced":"2024-01-01T00:00:00Z","instantsToConsiderForNextSync":["2024-01-01T00:00:01Z"],"version":0,"sourceTableFormat":"HUDI","sourceIdentifier":"15"}"#;
        let read = from_properties(|key| (key == XTABLE_KEY).then_some(pending));
        assert_eq!(read.map(|m| m.version), Some(None));
        let future = r#"{"lastInstantSynced":"2024-01-01T00:00:00Z","version":1,"sourceTableFormat":"HUDI"}"#;
        assert_eq!(from_properties(|key| (key == XTABLE_KEY).then_some(future)), None);
    }
}
