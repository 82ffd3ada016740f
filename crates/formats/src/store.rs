//! Object stores: the one place where a location and a configuration become a client.
//!
//! Everything that reads or writes objects asks [`Stores::open`]. Clients are kept per bucket, so that connections are
//! reused. Keys reach the store exactly as [`Location::key`] has them; percent-encoding on the wire is the client's
//! affair, once.
//!
//! The process must have installed a rustls crypto provider (`ring`) before the first HTTPS request.

mod config;
mod confined;
mod environment;
mod roots;
mod uploads;

pub(crate) use confined::{is_outside, outside};
pub use roots::Roots;

pub use config::{AzureConfig, GcsConfig, S3Config, Secret, StoreConfig};

use hoglake_model::{Location, Root};
use object_store::aws::{AmazonS3, AmazonS3Builder, S3CopyIfNotExists};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Why an object could not be reached. Display prints one level; the cause is the source.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The object does not exist.
    #[error("`{location}` does not exist in its store")]
    NotFound {
        /// The object.
        location: String,
    },
    /// The store knows us and says no.
    #[error("the store denies access to `{location}`; check the credentials and the bucket's policy")]
    Denied {
        /// The object.
        location: String,
        /// What the store said.
        source: object_store::Error,
    },
    /// A conditional write lost: the object exists already, or is another than the one expected.
    #[error("`{location}` was written by somebody else")]
    Conflict {
        /// The object.
        location: String,
        /// What the store said.
        source: object_store::Error,
    },
    /// The location is outside what the configuration allows.
    #[error("`{location}` lies outside the places that this server may read and write")]
    Outside {
        /// The object.
        location: String,
    },
    /// The location or the configuration cannot be served, however often it is tried.
    #[error("`{location}` cannot be served: {reason}")]
    Unsupported {
        /// The object.
        location: String,
        /// The rule and the remedy.
        reason: String,
    },
    /// No credentials were configured, and the platform has none.
    #[error("there are no credentials for `{location}`: {}", environment::remedy(location))]
    NoCredentials {
        /// The object.
        location: String,
        /// What the platform said.
        source: object_store::Error,
    },
    /// The store did not answer, or not properly. Trying again later may help.
    #[error("the store failed on `{location}`")]
    Transient {
        /// The object.
        location: String,
        /// What happened.
        source: object_store::Error,
    },
}

impl StoreError {
    /// Classifies what a store answered about `location`.
    pub fn at(location: &(impl ToString + ?Sized), source: object_store::Error) -> Self {
        use object_store::Error;
        let location = location.to_string();
        match source {
            Error::NotFound { .. } => Self::NotFound { location },
            _ if is_outside(&source) => Self::Outside { location },
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => Self::Denied { location, source },
            Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. } => {
                Self::Conflict { location, source }
            }
            Error::InvalidPath { .. }
            | Error::NotSupported { .. }
            | Error::NotImplemented { .. }
            | Error::UnknownConfigurationKey { .. } => Self::Unsupported { location, reason: source.to_string() },
            _ if asked_for_instance_role(&source) => Self::NoCredentials { location, source },
            _ => Self::Transient { location, source },
        }
    }

    /// Where it happened.
    pub fn location(&self) -> &str {
        match self {
            Self::NotFound { location }
            | Self::Denied { location, .. }
            | Self::Conflict { location, .. }
            | Self::Outside { location }
            | Self::Unsupported { location, .. }
            | Self::NoCredentials { location, .. }
            | Self::Transient { location, .. } => location,
        }
    }

    /// Whether the same request may succeed later without anybody changing the object. Denials count: credentials are
    /// rotated and policies repaired without the object being at fault.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Transient { .. } | Self::Denied { .. } | Self::NoCredentials { .. })
    }
}

/// Where instances get their credentials, on all platforms: the last place that the clients ask.
const INSTANCE_METADATA: [&str; 2] = ["http://169.254.169.254/", "http://metadata.google.internal/"];

/// Whether `error` is about fetching credentials rather than about the object.
pub(crate) fn asked_for_instance_role(error: &object_store::Error) -> bool {
    let object_store::Error::Generic { .. } = error else { return false };
    let text = error.to_string();
    INSTANCE_METADATA.iter().any(|place| text.contains(place))
}

/// An object and the client that serves it.
#[derive(Debug, Clone)]
pub struct Object {
    /// Where it lies.
    pub location: Location,
    /// The client of its bucket.
    pub store: Arc<dyn ObjectStore>,
    /// Its key in that client's terms.
    pub path: Path,
}

impl Object {
    /// Classifies an error of this object's store.
    pub fn error(&self, source: object_store::Error) -> StoreError {
        StoreError::at(&self.location, source)
    }
}

/// Clients for every bucket that was asked for, made on demand from one configuration.
#[derive(Debug)]
pub struct Stores {
    config: StoreConfig,
    roots: Option<Arc<Roots>>,
    clients: Mutex<HashMap<Root, Client>>,
}

/// The client of a bucket, as all stores have it, and as S3 alone does.
#[derive(Debug, Clone)]
struct Client {
    store: Arc<dyn ObjectStore>,
    s3: Option<Arc<AmazonS3>>,
}

impl Client {
    fn of(store: impl ObjectStore) -> Self {
        Self { store: Arc::new(store), s3: None }
    }
}

impl Stores {
    /// No clients yet.
    pub fn new(config: StoreConfig) -> Self {
        Self { config, roots: None, clients: Mutex::default() }
    }

    /// No clients yet; what lies outside `roots` can neither be read nor written nor listed through any of them, whoever
    /// names it: a request, or the metadata of a table.
    pub fn confined(config: StoreConfig, roots: Arc<Roots>) -> Self {
        Self { config, roots: Some(roots), clients: Mutex::default() }
    }

    /// The places that may be used, where not all may.
    pub fn roots(&self) -> Option<&Arc<Roots>> {
        self.roots.as_ref()
    }

    /// The object at `location`, which need not exist; nothing is requested from the store.
    ///
    /// # Errors
    /// [`StoreError::Outside`] for a location outside the roots, [`StoreError::Unsupported`] when the configuration does
    /// not complete the location.
    pub fn open(&self, location: &Location) -> Result<Object, StoreError> {
        if self.roots.as_ref().is_some_and(|roots| !roots.covers(location)) {
            return Err(StoreError::Outside { location: location.to_string() });
        }
        let unsupported = |reason: String| StoreError::Unsupported { location: location.to_string(), reason };
        let path = Path::parse(location.key()).map_err(|e| unsupported(e.to_string()))?;
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let store = match clients.get(location.root()) {
            Some(client) => Arc::clone(&client.store),
            None => {
                let mut client = self.connect(location.root()).map_err(unsupported)?;
                if let Some(roots) = &self.roots {
                    client.store = confined::wrap(client.store, location.root().clone(), Arc::clone(roots));
                }
                let store = Arc::clone(&client.store);
                clients.insert(location.root().clone(), client);
                store
            }
        };
        Ok(Object { location: location.clone(), store, path })
    }

    /// The client of the bucket of `location`, when it is one of S3 and was opened.
    fn s3(&self, location: &Location) -> Option<Arc<AmazonS3>> {
        let clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.get(location.root())?.s3.clone()
    }

    fn connect(&self, root: &Root) -> Result<Client, String> {
        let client = ClientOptions::new()
            .with_connect_timeout(Duration::from_secs(5))
            .with_timeout(Duration::from_secs(120))
            .with_pool_max_idle_per_host(64);
        let retry = RetryConfig {
            backoff: BackoffConfig { max_backoff: Duration::from_secs(2), ..BackoffConfig::default() },
            max_retries: 4,
            retry_timeout: Duration::from_secs(30),
        };
        match root {
            Root::Local => Ok(Client::of(self.connect_local()?)),
            Root::S3 { bucket } => {
                let s3 = &self.config.s3;
                let mut builder = AmazonS3Builder::new()
                    .with_bucket_name(bucket)
                    .with_region(if s3.region.is_empty() { "us-east-1" } else { &s3.region })
                    .with_virtual_hosted_style_request(!s3.path_style)
                    .with_client_options(client.with_allow_http(true))
                    // A copy that does not overwrite: how a large commit gets its name.
                    .with_copy_if_not_exists(S3CopyIfNotExists::Multipart)
                    .with_retry(retry);
                if let Some(endpoint) = &s3.endpoint {
                    builder = builder.with_endpoint(endpoint);
                }
                if let Some(credentials) = &s3.credentials {
                    builder = builder.with_access_key_id(&credentials.0).with_secret_access_key(credentials.1.expose());
                    if let Some(token) = &s3.session_token {
                        builder = builder.with_token(token.expose());
                    }
                } else {
                    builder = environment::aws(builder);
                }
                let s3 = Arc::new(builder.build().map_err(|e| e.to_string())?);
                Ok(Client { store: Arc::<AmazonS3>::clone(&s3), s3: Some(s3) })
            }
            Root::Gcs { bucket } => {
                let gcs = &self.config.gcs;
                let mut builder = GoogleCloudStorageBuilder::new()
                    .with_bucket_name(bucket)
                    .with_client_options(client.with_allow_http(gcs.endpoint.is_some()))
                    .with_retry(retry);
                if let Some(endpoint) = &gcs.endpoint {
                    builder = builder.with_base_url(endpoint);
                }
                if let Some(key) = &gcs.service_account_key {
                    builder = builder.with_service_account_key(key.expose());
                }
                if let Some(token) = &gcs.oauth2_token {
                    builder = builder.with_bearer_token(token.expose());
                }
                if gcs.service_account_key.is_none() && gcs.oauth2_token.is_none() {
                    builder = environment::google(builder);
                }
                Ok(Client::of(builder.build().map_err(|e| e.to_string())?))
            }
            Root::Azure { account, container } => {
                let azure = &self.config.azure;
                let host = account.clone().or_else(environment::azure_account).ok_or(
                    "the location names no storage account; write container@account.dfs.core.windows.net or set \
                     AZURE_STORAGE_ACCOUNT",
                )?;
                let (name, suffix) = host.split_once('.').unwrap_or((&host, ""));
                let mut builder = MicrosoftAzureBuilder::new()
                    .with_account(name)
                    .with_container_name(container)
                    .with_client_options(client.with_allow_http(azure.endpoint.is_some()))
                    .with_retry(retry);
                if let Some(endpoint) = &azure.endpoint {
                    builder = builder.with_endpoint(endpoint.clone());
                } else if suffix.ends_with("fabric.microsoft.com") {
                    builder = builder.with_use_fabric_endpoint(true);
                } else if !suffix.is_empty() && suffix != "core.windows.net" {
                    builder = builder.with_endpoint(format!("https://{name}.blob.{suffix}"));
                }
                if let Some(key) = &azure.access_key {
                    builder = builder.with_access_key(key.expose());
                }
                if let Some(token) = &azure.oauth2_token {
                    builder = builder.with_bearer_token_authorization(token.expose());
                }
                if let Some(sas) = &azure.sas_token {
                    let pairs = url::form_urlencoded::parse(sas.expose().trim_start_matches('?').as_bytes());
                    builder = builder.with_sas_authorization(pairs.into_owned().collect::<Vec<_>>());
                }
                if azure.access_key.is_none() && azure.oauth2_token.is_none() && azure.sas_token.is_none() {
                    builder = environment::azure(builder, name);
                }
                Ok(Client::of(builder.build().map_err(|e| e.to_string())?))
            }
        }
    }

    fn connect_local(&self) -> Result<LocalFileSystem, String> {
        if !self.config.local {
            return Err("local files are not allowed by the configuration; use an object store".to_owned());
        }
        Ok(LocalFileSystem::new().with_fsync(self.config.local_fsync))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_credentials_says_what_to_set() {
        let location = Location::parse("s3://lake/x").unwrap();
        let error = |text: &str| object_store::Error::Generic { store: "S3", source: text.into() };
        let asked = "Error performing PUT http://169.254.169.254/latest/api/token in 1ms - 403 Forbidden";
        let lacking = StoreError::at(&location, error(asked));
        assert!(lacking.is_transient(), "a role may be attached later");
        let direct = crate::sync::Error::store("s3://lake/x", error(asked));
        for text in [lacking.to_string(), direct.to_string()] {
            for part in ["s3://lake/x", "HOGLAKE_S3_ACCESS_KEY", "HOGLAKE_S3_SECRET_KEY", "HOGLAKE_S3_ENDPOINT"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
        for (place, part) in [
            ("gs://lake/x", "GOOGLE_APPLICATION_CREDENTIALS"),
            ("abfss://l@a.dfs.core.windows.net/x", "AZURE_STORAGE_KEY"),
        ] {
            let text = StoreError::at(&Location::parse(place).unwrap(), error(asked)).to_string();
            assert!(text.contains(part), "{text}");
        }
        let other = StoreError::at(&location, error("Error performing GET https://lake.example/x - 500"));
        assert!(matches!(other, StoreError::Transient { .. }));
    }
}
