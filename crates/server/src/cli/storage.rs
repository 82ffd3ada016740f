//! The object stores of the commands that run without a server.

use super::failure::Failure;
use crate::config::stores::StoresConfig;
use hoglake_formats::store::Stores;
use std::sync::Arc;

impl StoresConfig {
    /// The stores of a command. Local files are always allowed: who runs the command may read them anyway.
    pub(super) fn open(&self) -> Result<Arc<Stores>, Failure> {
        self.check()?;
        // Another provider may have been installed by the process; then that one serves.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Arc::new(Stores::new(self.store_config(true))))
    }
}
