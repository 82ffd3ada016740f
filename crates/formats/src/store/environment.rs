//! Credentials from the environment, in the variables of each platform's own tools. They serve where the configuration
//! gives none; without either, the platform itself is asked for an instance's role. Endpoints and regions are settings:
//! none is taken from here.

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};

const AWS: [(&str, AmazonS3ConfigKey); 9] = [
    ("AWS_ACCESS_KEY_ID", AmazonS3ConfigKey::AccessKeyId),
    ("AWS_SECRET_ACCESS_KEY", AmazonS3ConfigKey::SecretAccessKey),
    ("AWS_SESSION_TOKEN", AmazonS3ConfigKey::Token),
    ("AWS_WEB_IDENTITY_TOKEN_FILE", AmazonS3ConfigKey::WebIdentityTokenFile),
    ("AWS_ROLE_ARN", AmazonS3ConfigKey::RoleArn),
    ("AWS_ROLE_SESSION_NAME", AmazonS3ConfigKey::RoleSessionName),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", AmazonS3ConfigKey::ContainerCredentialsRelativeUri),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", AmazonS3ConfigKey::ContainerCredentialsFullUri),
    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", AmazonS3ConfigKey::ContainerAuthorizationTokenFile),
];

const GOOGLE: [(&str, GoogleConfigKey); 3] = [
    ("GOOGLE_SERVICE_ACCOUNT", GoogleConfigKey::ServiceAccount),
    ("GOOGLE_SERVICE_ACCOUNT_KEY", GoogleConfigKey::ServiceAccountKey),
    ("GOOGLE_APPLICATION_CREDENTIALS", GoogleConfigKey::ApplicationCredentials),
];

/// Which account keys and signatures are for, and whose containers are meant where a location names no account.
const AZURE_ACCOUNT: [&str; 2] = ["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"];

/// They open one account.
const AZURE_ACCOUNT_SECRETS: [(&str, AzureConfigKey); 4] = [
    ("AZURE_STORAGE_KEY", AzureConfigKey::AccessKey),
    ("AZURE_STORAGE_ACCOUNT_KEY", AzureConfigKey::AccessKey),
    ("AZURE_STORAGE_SAS_TOKEN", AzureConfigKey::SasKey),
    ("AZURE_STORAGE_SAS_KEY", AzureConfigKey::SasKey),
];

/// They open what a principal may read, in any account.
const AZURE_IDENTITY: [(&str, AzureConfigKey); 5] = [
    ("AZURE_TENANT_ID", AzureConfigKey::AuthorityId),
    ("AZURE_CLIENT_ID", AzureConfigKey::ClientId),
    ("AZURE_CLIENT_SECRET", AzureConfigKey::ClientSecret),
    ("AZURE_FEDERATED_TOKEN_FILE", AzureConfigKey::FederatedTokenFile),
    ("AZURE_AUTHORITY_HOST", AzureConfigKey::AuthorityHost),
];

/// What to do where there are no credentials for `location`.
pub(super) fn remedy(location: &str) -> &'static str {
    match location.split_once(':').map_or("", |(scheme, _)| scheme) {
        "gs" | "gcs" => {
            "set GOOGLE_APPLICATION_CREDENTIALS or GOOGLE_SERVICE_ACCOUNT to the path of a key file; or run where the \
             platform gives a service account"
        }
        "abfs" | "abfss" | "az" | "azure" | "wasb" | "wasbs" => {
            "set AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or AZURE_TENANT_ID, \
             AZURE_CLIENT_ID and AZURE_CLIENT_SECRET; or run where the platform gives an identity"
        }
        _ => {
            "set HOGLAKE_S3_ACCESS_KEY and HOGLAKE_S3_SECRET_KEY (--s3-access-key, --s3-secret-key), and \
             HOGLAKE_S3_ENDPOINT (--s3-endpoint) for another store than Amazon's; or run where the AWS variables, a web \
             identity or an instance role give some"
        }
    }
}

pub(super) fn aws(builder: AmazonS3Builder) -> AmazonS3Builder {
    given(&AWS).fold(builder, |builder, (key, value)| builder.with_config(key, value))
}

pub(super) fn google(builder: GoogleCloudStorageBuilder) -> GoogleCloudStorageBuilder {
    given(&GOOGLE).fold(builder, |builder, (key, value)| builder.with_config(key, value))
}

/// The account that the environment is about.
pub(super) fn azure_account() -> Option<String> {
    AZURE_ACCOUNT.into_iter().find_map(variable)
}

/// Credentials for `account`: its own, unless the environment has those of another, else a principal's.
pub(super) fn azure(mut builder: MicrosoftAzureBuilder, account: &str) -> MicrosoftAzureBuilder {
    if azure_account().is_none_or(|own| own == account) {
        // One is enough, and the key does all that a signature might.
        if let Some((key, value)) = given(&AZURE_ACCOUNT_SECRETS).next() {
            return builder.with_config(key, value);
        }
    }
    for (key, value) in given(&AZURE_IDENTITY) {
        builder = builder.with_config(key, value);
    }
    builder
}

fn given<K: Clone>(variables: &[(&'static str, K)]) -> impl Iterator<Item = (K, String)> {
    variables.iter().filter_map(|(name, key)| Some((key.clone(), variable(name)?)))
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}
