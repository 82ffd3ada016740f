//! What each operation needs. One table, so that no operation can be forgotten: a test compares it with the routes.

use super::{Access, Identity};

/// Where the access is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the catalog that the path names.
    Catalog,
    /// In all catalogs: the operation is not about one that exists.
    Everywhere,
    /// Nowhere: everybody may, without a token.
    Nowhere,
    /// Anywhere: a token that may do anything at all will do, and the handler shows only what it may see.
    Anywhere,
}

/// What a caller needs for an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirement {
    /// The kind of access.
    pub access: Access,
    /// Where.
    pub place: Place,
}

impl Requirement {
    /// The most that can be asked.
    pub const ADMIN_OF_ALL: Self = Self { access: Access::Admin, place: Place::Everywhere };

    /// What the operation `id` needs; `None` for an operation that is not in the table.
    #[rustfmt::skip]
    pub fn of(id: &str) -> Option<Self> {
        use Access::{Admin, Read, Write};
        use Place::{Anywhere, Catalog, Everywhere, Nowhere};
        let (access, place) = match id {
            "livez" | "healthz" | "catalogContract" | "conversionContract" | "docs" => (Read, Nowhere),
            "listCatalogs" | "getInstanceInfo" => (Read, Anywhere),
            "createCatalog" => (Admin, Everywhere),
            "convertTable" => (Write, Everywhere),
            "getConversionStatus" | "metrics" => (Read, Everywhere),

            "getCatalog" | "getCatalogOptions" | "listNamespaces" | "getNamespace" | "listTables" | "getTable"
            | "planScan" | "listFiles" | "getChanges" | "listViews" | "getView" | "listSnapshots" | "resolveSnapshot"
            | "listConsumers" | "listConsumerOffsets" | "getConsumerOffset" | "listRemovals" | "listMaintenanceRuns"
            | "getPartitionStats" | "listPublications" | "getPublication" | "exportCatalog" => (Read, Catalog),

            "createNamespace" | "createTable" | "dropTable" | "alterTable" | "commit" | "createView" | "dropView"
            | "commitConsumerOffset" => (Write, Catalog),

            "patchCatalogOptions" | "runExpiry" | "runCompaction" | "runCleanup" | "runVerify" | "runRehydrate"
            | "runHydration" | "createPublication" | "dropPublication" | "resumePublication" => (Admin, Catalog),

            _ => return None,
        };
        Some(Self { access, place })
    }

    /// Whether `identity` has what this asks for, in `catalog` where the path names one.
    pub fn is_met_by(self, identity: &Identity, catalog: Option<&str>) -> bool {
        match (self.place, catalog) {
            (Place::Catalog, Some(catalog)) => identity.may(self.access, catalog),
            (Place::Catalog | Place::Everywhere, _) => identity.may_everywhere(self.access),
            (Place::Anywhere | Place::Nowhere, _) => true,
        }
    }

    /// The scope to ask an administrator for.
    pub fn scope(self, catalog: Option<&str>) -> String {
        let catalog = match self.place {
            Place::Catalog => catalog.unwrap_or("*"),
            Place::Everywhere | Place::Anywhere | Place::Nowhere => "*",
        };
        format!("{catalog}:{}", self.access.as_str())
    }
}
