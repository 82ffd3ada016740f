//! Authentication and authorisation: static bearer tokens from a file of hashes.
//!
//! Without a tokens file everybody may do everything, as `anonymous`; the configuration allows that only on a loopback
//! address or when it is asked for by name. With one, every operation needs a token, except the probes and the
//! contract, and each operation has a [`Requirement`].

pub mod grant;
pub mod guard;
mod reload;
mod requirement;
pub mod token;
pub mod tokens_file;

pub use grant::{Access, Grant};
pub use reload::Authenticator;
pub use requirement::{Place, Requirement};

use std::sync::Arc;

/// Who sent a request: the name for the audit trail, and what it may do.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The token's name, or `anonymous`.
    pub actor: Arc<str>,
    grants: Arc<[Grant]>,
}

impl Identity {
    /// Everybody, where there is no authentication.
    pub fn anonymous() -> Self {
        Self::new("anonymous", vec![Grant::ADMIN_OF_ALL])
    }

    /// Somebody called `actor` with `grants`.
    pub fn new(actor: &str, grants: Vec<Grant>) -> Self {
        Self { actor: actor.into(), grants: grants.into() }
    }

    /// Whether this identity may do what needs `access` to `catalog`. Listings leave out what it may not read.
    pub fn may(&self, access: Access, catalog: &str) -> bool {
        self.grants.iter().any(|grant| grant.covers(access, Some(catalog)))
    }

    /// Whether this identity may do what needs `access` to all catalogs, those to come included.
    pub fn may_everywhere(&self, access: Access) -> bool {
        self.grants.iter().any(|grant| grant.covers(access, None))
    }
}
