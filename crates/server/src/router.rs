//! Every route of the server.

use crate::api;
use crate::app::App;
use crate::docs;
use crate::health;
use crate::http;
use crate::metrics;
use crate::operation::{Operation, delete, get, patch, post, put};
use axum::Router;

/// Every operation of the two contracts, in their order.
#[rustfmt::skip]
pub fn operations() -> Vec<Operation> {
    vec![
        get("/v1/catalogs", "listCatalogs", api::catalogs::list),
        post("/v1/catalogs", "createCatalog", api::catalogs::create),
        get("/v1/catalogs/{catalog}", "getCatalog", api::catalogs::get),
        get("/v1/catalogs/{catalog}/options", "getCatalogOptions", api::catalogs::options::get),
        patch("/v1/catalogs/{catalog}/options", "patchCatalogOptions", api::catalogs::options::patch),

        get("/v1/catalogs/{catalog}/namespaces", "listNamespaces", api::catalogs::namespaces::list),
        post("/v1/catalogs/{catalog}/namespaces", "createNamespace", api::catalogs::namespaces::create),
        get("/v1/catalogs/{catalog}/namespaces/{namespace}", "getNamespace", api::catalogs::namespaces::get),

        get("/v1/catalogs/{catalog}/namespaces/{namespace}/tables", "listTables", api::catalogs::namespaces::tables::list),
        post("/v1/catalogs/{catalog}/namespaces/{namespace}/tables", "createTable", api::catalogs::namespaces::tables::create),
        get("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}", "getTable", api::catalogs::namespaces::tables::get),
        delete("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}", "dropTable", api::catalogs::namespaces::tables::drop),
        post("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}/alter", "alterTable", api::catalogs::namespaces::tables::alter),
        get("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}/scan", "planScan", api::catalogs::namespaces::tables::scan::get),
        get("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}/files", "listFiles", api::catalogs::namespaces::tables::files::get),
        get("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}/changes", "getChanges", api::catalogs::namespaces::tables::changes::get),

        post("/v1/catalogs/{catalog}/commit", "commit", api::catalogs::commit::commit),

        get("/v1/catalogs/{catalog}/namespaces/{namespace}/views", "listViews", api::catalogs::namespaces::views::list),
        post("/v1/catalogs/{catalog}/namespaces/{namespace}/views", "createView", api::catalogs::namespaces::views::create),
        get("/v1/catalogs/{catalog}/namespaces/{namespace}/views/{view}", "getView", api::catalogs::namespaces::views::get),
        delete("/v1/catalogs/{catalog}/namespaces/{namespace}/views/{view}", "dropView", api::catalogs::namespaces::views::drop),

        get("/v1/catalogs/{catalog}/snapshots", "listSnapshots", api::catalogs::snapshots::list),
        get("/v1/catalogs/{catalog}/snapshots/resolve", "resolveSnapshot", api::catalogs::snapshots::resolve),

        get("/v1/catalogs/{catalog}/consumers", "listConsumers", api::catalogs::consumers::list),
        get("/v1/catalogs/{catalog}/consumers/{consumer}/offsets", "listConsumerOffsets", api::catalogs::consumers::list_offsets),
        get("/v1/catalogs/{catalog}/consumers/{consumer}/offsets/{tableUuid}", "getConsumerOffset", api::catalogs::consumers::get_offset),
        put("/v1/catalogs/{catalog}/consumers/{consumer}/offsets/{tableUuid}", "commitConsumerOffset", api::catalogs::consumers::put_offset),

        post("/v1/catalogs/{catalog}/maintenance/expire", "runExpiry", api::catalogs::maintenance::expire),
        post("/v1/catalogs/{catalog}/maintenance/compact", "runCompaction", api::catalogs::maintenance::compact),
        post("/v1/catalogs/{catalog}/maintenance/cleanup", "runCleanup", api::catalogs::maintenance::cleanup),
        post("/v1/catalogs/{catalog}/maintenance/verify", "runVerify", api::catalogs::maintenance::verify),
        post("/v1/catalogs/{catalog}/maintenance/rehydrate", "runRehydrate", api::catalogs::maintenance::rehydrate),
        post("/v1/catalogs/{catalog}/maintenance/hydrate", "runHydration", api::catalogs::maintenance::hydrate),
        get("/v1/catalogs/{catalog}/maintenance/removals", "listRemovals", api::catalogs::maintenance::removals),
        get("/v1/catalogs/{catalog}/maintenance/runs", "listMaintenanceRuns", api::catalogs::maintenance::runs),
        get("/v1/catalogs/{catalog}/stats/partitions", "getPartitionStats", api::catalogs::stats::partitions::list),

        get("/v1/catalogs/{catalog}/publications", "listPublications", api::catalogs::publications::list),
        post("/v1/catalogs/{catalog}/publications", "createPublication", api::catalogs::publications::create),
        get("/v1/catalogs/{catalog}/publications/{publication}", "getPublication", api::catalogs::publications::get),
        delete("/v1/catalogs/{catalog}/publications/{publication}", "dropPublication", api::catalogs::publications::drop),
        post("/v1/catalogs/{catalog}/publications/{publication}/resume", "resumePublication", api::catalogs::publications::resume),
        get("/v1/catalogs/{catalog}/export", "exportCatalog", api::catalogs::export::get),

        get("/v1/info", "getInstanceInfo", api::info::get),

        post("/v1/conversion/table", "convertTable", api::conversion::convert),
        get("/v1/conversion/table/{conversion-id}", "getConversionStatus", api::conversion::status),
    ]
}

/// What the server offers outside `/v1`: probes, metrics, and the contracts.
fn operational() -> Vec<Operation> {
    vec![
        get("/livez", "livez", health::livez),
        get("/healthz", "healthz", health::healthz),
        get("/metrics", "metrics", metrics::render),
        get("/openapi.yaml", "catalogContract", docs::catalog_contract),
        get("/openapi/conversion.yaml", "conversionContract", docs::conversion_contract),
        get("/docs", "docs", docs::page),
    ]
}

/// The whole server: every operation behind its guard, the manners of HTTP around them.
pub fn router(app: &App) -> Router {
    let mut router = Router::new();
    for operation in operations().into_iter().chain(operational()) {
        let (path, handler) = operation.guarded(app.clone());
        router = router.route(path, handler);
    }
    http::with_manners(router).with_state(app.clone())
}
