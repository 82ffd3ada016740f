//! Every route of the server.

use crate::api::{self, not_implemented};
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
        get("/v1/catalogs", "listCatalogs", not_implemented),
        post("/v1/catalogs", "createCatalog", not_implemented),
        get("/v1/catalogs/{catalog}", "getCatalog", not_implemented),
        get("/v1/catalogs/{catalog}/options", "getCatalogOptions", not_implemented),
        patch("/v1/catalogs/{catalog}/options", "patchCatalogOptions", not_implemented),

        get("/v1/catalogs/{catalog}/namespaces", "listNamespaces", not_implemented),
        post("/v1/catalogs/{catalog}/namespaces", "createNamespace", not_implemented),
        get("/v1/catalogs/{catalog}/namespaces/{namespace}", "getNamespace", not_implemented),

        get("/v1/catalogs/{catalog}/namespaces/{namespace}/tables", "listTables", not_implemented),
        post("/v1/catalogs/{catalog}/namespaces/{namespace}/tables", "createTable", not_implemented),
        get("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}", "getTable", not_implemented),
        delete("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}", "dropTable", not_implemented),
        post("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}/alter", "alterTable", not_implemented),
        get("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}/scan", "planScan", not_implemented),
        get("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}/files", "listFiles", not_implemented),
        get("/v1/catalogs/{catalog}/namespaces/{namespace}/tables/{table}/changes", "getChanges", not_implemented),

        post("/v1/catalogs/{catalog}/commit", "commit", api::catalogs::commit::commit),

        get("/v1/catalogs/{catalog}/namespaces/{namespace}/views", "listViews", not_implemented),
        post("/v1/catalogs/{catalog}/namespaces/{namespace}/views", "createView", not_implemented),
        get("/v1/catalogs/{catalog}/namespaces/{namespace}/views/{view}", "getView", not_implemented),
        delete("/v1/catalogs/{catalog}/namespaces/{namespace}/views/{view}", "dropView", not_implemented),

        get("/v1/catalogs/{catalog}/snapshots", "listSnapshots", not_implemented),
        get("/v1/catalogs/{catalog}/snapshots/resolve", "resolveSnapshot", not_implemented),

        get("/v1/catalogs/{catalog}/consumers", "listConsumers", not_implemented),
        get("/v1/catalogs/{catalog}/consumers/{consumer}/offsets", "listConsumerOffsets", not_implemented),
        get("/v1/catalogs/{catalog}/consumers/{consumer}/offsets/{tableUuid}", "getConsumerOffset", not_implemented),
        put("/v1/catalogs/{catalog}/consumers/{consumer}/offsets/{tableUuid}", "commitConsumerOffset", not_implemented),

        post("/v1/catalogs/{catalog}/maintenance/expire", "runExpiry", not_implemented),
        post("/v1/catalogs/{catalog}/maintenance/compact", "runCompaction", not_implemented),
        post("/v1/catalogs/{catalog}/maintenance/cleanup", "runCleanup", not_implemented),
        post("/v1/catalogs/{catalog}/maintenance/verify", "runVerify", not_implemented),
        post("/v1/catalogs/{catalog}/maintenance/rehydrate", "runRehydrate", not_implemented),
        get("/v1/catalogs/{catalog}/maintenance/removals", "listRemovals", not_implemented),
        get("/v1/catalogs/{catalog}/maintenance/runs", "listMaintenanceRuns", not_implemented),
        get("/v1/catalogs/{catalog}/stats/partitions", "getPartitionStats", not_implemented),

        get("/v1/catalogs/{catalog}/publications", "listPublications", not_implemented),
        post("/v1/catalogs/{catalog}/publications", "createPublication", not_implemented),
        get("/v1/catalogs/{catalog}/publications/{publication}", "getPublication", not_implemented),
        delete("/v1/catalogs/{catalog}/publications/{publication}", "dropPublication", not_implemented),
        post("/v1/catalogs/{catalog}/publications/{publication}/resume", "resumePublication", not_implemented),
        get("/v1/catalogs/{catalog}/export", "exportCatalog", not_implemented),

        get("/v1/info", "getInstanceInfo", api::info::get),

        post("/v1/conversion/table", "convertTable", not_implemented),
        get("/v1/conversion/table/{conversion-id}", "getConversionStatus", not_implemented),
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
    http::with_manners(router, app).with_state(app.clone())
}
