//! What partition tuples rule out, worked out once a tuple.

use super::super::Scope;
use super::super::index::{TableIndex, UNKNOWN_TUPLE};
use crate::Result;
use hoglake_model::FieldId;
use hoglake_model::filter::Predicate;
use hoglake_model::table::Transform;
use sqlx::PgConnection;
use std::collections::HashMap;

pub(super) struct Partitions {
    /// Source column and transform of each field, by spec.
    specs: HashMap<i64, Vec<(FieldId, Transform)>>,
    /// Per tuple, a bit for each leaf that no row can pass; the top bit says that it has been worked out.
    ruled_out: Vec<u64>,
}

impl Partitions {
    /// Leaves that have a bit.
    pub(super) const LEAVES: usize = 63;
    const KNOWN: u64 = 1 << 63;

    /// Reads the specs, where the index has partitioned files.
    pub(super) async fn load(connection: &mut PgConnection, scope: Scope, index: &TableIndex) -> Result<Self> {
        let mut specs: HashMap<i64, Vec<(FieldId, Transform)>> = HashMap::new();
        if index.tuples.len() > 1 {
            let rows: Vec<(i64, i64, String, Option<i32>)> =
                sqlx::query_as(include_str!("../../../sql/scan/partition_fields.sql"))
                    .bind(scope.catalog.0)
                    .bind(scope.table.0)
                    .fetch_all(connection)
                    .await?;
            for (spec, source, transform, parameter) in rows {
                let transform = match transform.as_str() {
                    "bucket" => Transform::Bucket(parameter.and_then(|n| u32::try_from(n).ok()).unwrap_or(0)),
                    // What is not known here rules nothing out.
                    other => Transform::parse(other).unwrap_or(Transform::Void),
                };
                specs.entry(spec).or_default().push((FieldId(source), transform));
            }
        }
        Ok(Self { specs, ruled_out: vec![0; index.tuples.len()] })
    }

    /// A bit for each leaf that no row of a file with this tuple can pass.
    pub(super) fn ruled_out(&mut self, index: &TableIndex, tuple: u32, predicate: &Predicate) -> u64 {
        if tuple == 0 || tuple == UNKNOWN_TUPLE {
            return 0;
        }
        let Some(known) = self.ruled_out.get_mut(tuple as usize) else { return 0 };
        if *known & Self::KNOWN == 0 {
            *known = Self::KNOWN;
            if let Some((spec, values)) = index.tuples.get_index(tuple as usize)
                && let Some(fields) = self.specs.get(spec)
                && fields.len() == values.len()
            {
                for (number, leaf) in predicate.leaves().iter().enumerate().take(Self::LEAVES) {
                    let passes = fields.iter().zip(values).all(|((source, transform), value)| {
                        *source != leaf.field_id || leaf.may_match_partition(*transform, value.as_deref())
                    });
                    if !passes {
                        *known |= 1 << number;
                    }
                }
            }
        }
        *known
    }
}
