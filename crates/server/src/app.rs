//! What every handler can reach.

use crate::auth::Authenticator;
use crate::config::Config;
use hoglake_catalog::Catalog;
use std::sync::Arc;

/// The server's parts, shared by all requests.
#[derive(Clone)]
pub struct App(Arc<Parts>);

/// See [`App`].
pub struct Parts {
    /// The settings that the server was started with.
    pub config: Config,
    /// Who may do what.
    pub auth: Authenticator,
    /// The store.
    pub catalog: Catalog,
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
