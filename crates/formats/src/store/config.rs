//! Endpoints and credentials of the stores. Secrets never print.

use std::fmt;

/// A credential that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    /// The secret itself, for the client that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Everything that turns locations into clients. Absent credentials mean those of the environment's variables, else the
/// platform's own (instance roles, workload identity).
#[derive(Debug, Clone, Default)]
pub struct StoreConfig {
    /// Whether paths and `file:` locations may be used at all.
    pub local: bool,
    /// Whether local writes reach the disk before they are reported done.
    pub local_fsync: bool,
    /// Amazon S3 and what speaks its protocol.
    pub s3: S3Config,
    /// Google Cloud Storage.
    pub gcs: GcsConfig,
    /// Azure Blob Storage and `OneLake`.
    pub azure: AzureConfig,
}

impl StoreConfig {
    /// Local files only, each write flushed to disk.
    pub fn local() -> Self {
        Self { local: true, local_fsync: true, ..Self::default() }
    }
}

/// How to reach S3.
#[derive(Debug, Clone)]
pub struct S3Config {
    /// Another endpoint than Amazon's, with its scheme.
    pub endpoint: Option<String>,
    /// Region to sign for; blank is `us-east-1`.
    pub region: String,
    /// Access key id and secret access key.
    pub credentials: Option<(String, Secret)>,
    /// Token of temporary credentials.
    pub session_token: Option<Secret>,
    /// Buckets in the path rather than in the host name.
    pub path_style: bool,
}

impl Default for S3Config {
    fn default() -> Self {
        Self { endpoint: None, region: String::new(), credentials: None, session_token: None, path_style: true }
    }
}

/// How to reach Google Cloud Storage.
#[derive(Debug, Clone, Default)]
pub struct GcsConfig {
    /// Another endpoint than Google's, with its scheme.
    pub endpoint: Option<String>,
    /// Service account key, as JSON.
    pub service_account_key: Option<Secret>,
    /// A bearer token, in place of a key.
    pub oauth2_token: Option<Secret>,
}

/// How to reach Azure.
#[derive(Debug, Clone, Default)]
pub struct AzureConfig {
    /// Shared key of the account.
    pub access_key: Option<Secret>,
    /// A shared access signature, as its query text, in place of a key.
    pub sas_token: Option<Secret>,
    /// A bearer token, in place of a key.
    pub oauth2_token: Option<Secret>,
    /// Another endpoint than Azure's, with its scheme.
    pub endpoint: Option<String>,
}
