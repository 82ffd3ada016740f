//! Deletion vectors of a scan.

use super::Scope;
use crate::Result;
use crate::listing::copy::{Parameter, Rows};
use crate::listing::json;
use sqlx::PgConnection;
use std::collections::HashMap;

/// Most vectors that are read before the files. Beyond, each file looks its own up.
const LOADED: usize = 16_384;

/// Where the vectors of a scan come from.
pub(super) enum Vectors {
    /// From here: their JSON, by data file.
    Loaded(HashMap<i64, Box<[u8]>>),
    /// From the statement that lists the files.
    Joined,
}

impl Vectors {
    /// Reads the vectors that are visible in `scope`, if they are few. Most tables have none, and then the files need no
    /// join.
    pub(super) async fn load(connection: &mut PgConnection, scope: Scope) -> Result<Self> {
        let parameters = [scope.catalog.0, scope.table.0, scope.snapshot.id.0, LOADED as i64 + 1].map(Parameter::One);
        let query = include_str!("../../sql/delete_file/at_snapshot.sql");
        let mut rows = Rows::of(connection, query, &parameters).await?;
        let mut vectors = HashMap::new();
        while let Some(mut row) = rows.next().await? {
            let mut out = Vec::with_capacity(256);
            if let Some(data_file) = json::push_delete_file(&mut out, &mut row)? {
                vectors.insert(data_file, out.into_boxed_slice());
            }
        }
        Ok(if vectors.len() > LOADED { Self::Joined } else { Self::Loaded(vectors) })
    }
}
