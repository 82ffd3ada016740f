//! What every handler can reach.

use crate::api::extract::BodyBudget;
use crate::audit::Audit;
use crate::auth::Authenticator;
use crate::config::Config;
use crate::conversion::service::Converter;
use crate::health::Health;
use crate::worker::Worker;
use hoglake_catalog::Catalog;
use metrics_exporter_prometheus::PrometheusHandle;
use std::sync::Arc;

/// The server's parts, shared by all requests.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// See [`App`].
pub struct Parts {
    /// The settings that the server was started with.
    pub config: Config,
    /// The store.
    pub catalog: Catalog,
    /// Who may do what.
    pub auth: Authenticator,
    /// The audit trail.
    pub audit: Audit,
    /// Background work, for requests that ask for some.
    pub worker: Worker,
    /// Conversion between table formats.
    pub converter: Converter,
    /// Memory for request bodies.
    pub bodies: BodyBudget,
    /// Probes of the database.
    pub health: Health,
    /// What `/metrics` shows.
    pub metrics: PrometheusHandle,
}

impl App {
    /// Shares `parts`.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

impl std::ops::Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
