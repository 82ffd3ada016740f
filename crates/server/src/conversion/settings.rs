//! `configurations` of a request: the known keys, and what they say.

use super::failure::Failure;
use hoglake_formats::hudi::PartitionPathSpec;
use hoglake_formats::store::{Secret, StoreConfig};
use hoglake_formats::sync::{Mode, UnsupportedDeletes};
use std::collections::BTreeMap;
use url::Url;

/// What a key is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The conversion.
    Plain,
    /// How to reach a store.
    Store,
    /// The same, and nobody else may see it.
    Secret,
}

/// Every known key. docs/CONVERSION.md says what each means.
const KEYS: [(&str, Kind); 21] = [
    ("azure.access-key", Kind::Secret),
    ("azure.endpoint", Kind::Store),
    ("azure.oauth2-token", Kind::Secret),
    ("azure.sas-token", Kind::Secret),
    ("delta.checkpoint-interval", Kind::Plain),
    ("delta.type-widening", Kind::Plain),
    ("gcs.endpoint", Kind::Store),
    ("gcs.oauth2-token", Kind::Secret),
    ("gcs.service-account-key", Kind::Secret),
    ("hudi.read-optimised", Kind::Plain),
    ("iceberg.format-version", Kind::Plain),
    ("metadata-retention", Kind::Plain),
    ("on-unsupported-deletes", Kind::Plain),
    ("partition-spec", Kind::Plain),
    ("s3.access-key-id", Kind::Secret),
    ("s3.endpoint", Kind::Store),
    ("s3.path-style-access", Kind::Store),
    ("s3.region", Kind::Store),
    ("s3.secret-access-key", Kind::Secret),
    ("s3.session-token", Kind::Secret),
    ("sync-mode", Kind::Plain),
];

/// A key of the request's body, which may be given among the configurations too.
pub const SOURCE_DATA_PATH: &str = "source-data-path";

fn kind(key: &str) -> Option<Kind> {
    KEYS.iter().find(|(known, _)| *known == key).map(|(_, kind)| *kind)
}

/// Whether the value of `key` is kept in memory only.
pub fn is_secret(key: &str) -> bool {
    kind(key) == Some(Kind::Secret)
}

/// What the configurations of a request say.
#[derive(Clone, Default)]
pub struct Settings {
    /// Replay commits or compare all files.
    pub mode: Mode,
    /// How long the targets keep old metadata.
    pub retention_ms: Option<i64>,
    /// How partition paths become partition columns.
    pub partition_spec: Option<PartitionPathSpec>,
    /// Show merge-on-read Hudi tables without their log files.
    pub read_optimised: bool,
    /// What becomes of row-level deletes that a target cannot hold.
    pub on_unsupported_deletes: UnsupportedDeletes,
    /// The format version of an Iceberg target.
    pub iceberg_format_version: Option<i32>,
    /// After how many commits a Delta target gets a checkpoint.
    pub checkpoint_interval: Option<i64>,
    /// Whether a Delta target declares type widening where older files make it need it.
    pub type_widening: Option<bool>,
    /// How to reach the stores, where the request says so.
    pub stores: Option<StoreConfig>,
}

/// What a server grants to requests that say how to reach a store.
#[derive(Debug, Clone, Default)]
pub struct Grants {
    /// How the server itself reaches them.
    pub own: StoreConfig,
    /// Endpoints that requests may name.
    pub endpoints: Vec<Url>,
}

impl Settings {
    /// Reads the configurations.
    ///
    /// # Errors
    /// 400 for an unknown key (the known ones are listed) or a value that does not fit; 403 for an endpoint that is not
    /// granted. No message repeats a secret.
    pub fn read(configurations: &BTreeMap<String, String>, grants: &Grants) -> Result<Self, Failure> {
        for key in configurations.keys() {
            if kind(key).is_none() && key != SOURCE_DATA_PATH {
                let known: Vec<&str> = KEYS.iter().map(|(key, _)| *key).chain([SOURCE_DATA_PATH]).collect();
                return Err(Failure::bad_request(format!(
                    "configurations key {} is unknown; the known ones are {}",
                    hoglake_model::name::quoted(key),
                    known.join(", ")
                )));
            }
        }
        let get = |key: &str| configurations.get(key).map(|value| value.trim());
        let wrong = |key: &str, rule: &str| Failure::bad_request(format!("configurations key `{key}`: {rule}"));
        let boolean = |key: &str| match get(key).map(str::to_ascii_lowercase).as_deref() {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(wrong(key, "use true or false")),
        };
        let mode = match get("sync-mode").map(str::to_ascii_lowercase).as_deref() {
            None | Some("incremental") => Mode::Incremental,
            Some("full") => Mode::Full,
            Some(_) => return Err(wrong("sync-mode", "use incremental or full")),
        };
        let retention = get("metadata-retention").map(|text| {
            duration_ms(text).ok_or_else(|| {
                wrong("metadata-retention", "use a number of hours, or a number with d, h or m, such as 7d or 36h")
            })
        });
        let partition_spec =
            get("partition-spec").map(|text| text.parse().map_err(|e: String| wrong("partition-spec", &e)));
        let interval = get("delta.checkpoint-interval").map(|text| {
            text.parse::<i64>()
                .ok()
                .filter(|n| (1..=1_000_000).contains(n))
                .ok_or_else(|| wrong("delta.checkpoint-interval", "use a whole number from 1 to 1000000"))
        });
        let on_unsupported_deletes = match get("on-unsupported-deletes").map(str::to_ascii_lowercase) {
            None => UnsupportedDeletes::default(),
            Some(name) => UnsupportedDeletes::parse(&name).ok_or_else(|| {
                wrong("on-unsupported-deletes", &format!("use one of {}", UnsupportedDeletes::NAMES.join(", ")))
            })?,
        };
        let iceberg_format_version = match get("iceberg.format-version") {
            None => None,
            Some("2") => Some(2),
            Some("3") => Some(3),
            Some(_) => return Err(wrong("iceberg.format-version", "use 2 or 3")),
        };
        let asks_for_stores = configurations.keys().any(|key| matches!(kind(key), Some(Kind::Store | Kind::Secret)));
        Ok(Self {
            mode,
            retention_ms: retention.transpose()?,
            partition_spec: partition_spec.transpose()?,
            read_optimised: boolean("hudi.read-optimised")?.unwrap_or(false),
            on_unsupported_deletes,
            iceberg_format_version,
            checkpoint_interval: interval.transpose()?,
            type_widening: boolean("delta.type-widening")?,
            stores: asks_for_stores.then(|| stores(&get, boolean("s3.path-style-access")?, grants)).transpose()?,
        })
    }
}

/// The server's way to the stores with what the request says instead. The server's own credentials are never sent to an
/// endpoint that a request names, nor mixed with those of a request.
fn stores<'a>(
    get: &impl Fn(&str) -> Option<&'a str>,
    path_style: Option<bool>,
    grants: &Grants,
) -> Result<StoreConfig, Failure> {
    let wrong = |key: &str, rule: &str| Failure::bad_request(format!("configurations key `{key}`: {rule}"));
    let secret = |key: &str| match get(key) {
        Some("") => Err(wrong(key, "it is blank")),
        value => Ok(value.map(Secret::new)),
    };
    let mut config = grants.own.clone();

    let endpoint = endpoint("s3.endpoint", get("s3.endpoint"), grants)?;
    let keys = match (get("s3.access-key-id"), secret("s3.secret-access-key")?) {
        (Some(id), Some(key)) if !id.is_empty() => Some((id.to_owned(), key)),
        (None, None) => None,
        _ => return Err(wrong("s3.access-key-id", "s3.access-key-id and s3.secret-access-key belong together")),
    };
    let token = secret("s3.session-token")?;
    if token.is_some() && keys.is_none() {
        return Err(wrong("s3.session-token", "it belongs to s3.access-key-id and s3.secret-access-key"));
    }
    if endpoint.is_some() && endpoint != config.s3.endpoint && keys.is_none() {
        return Err(wrong("s3.endpoint", "another endpoint needs credentials: s3.access-key-id, s3.secret-access-key"));
    }
    config.s3.endpoint = endpoint.or(config.s3.endpoint);
    if let Some(region) = get("s3.region") {
        let plain = !region.is_empty() && region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !plain {
            return Err(wrong("s3.region", "use letters, digits and hyphens"));
        }
        region.clone_into(&mut config.s3.region);
    }
    config.s3.path_style = path_style.unwrap_or(config.s3.path_style);
    if keys.is_some() {
        (config.s3.credentials, config.s3.session_token) = (keys, token);
    }

    let endpoint = self::endpoint("gcs.endpoint", get("gcs.endpoint"), grants)?;
    let (key, token) = (secret("gcs.service-account-key")?, secret("gcs.oauth2-token")?);
    if let Some(key) = &key {
        check_service_account(key).map_err(|rule| wrong("gcs.service-account-key", rule))?;
    }
    if key.is_some() && token.is_some() {
        return Err(wrong("gcs.oauth2-token", "give it or gcs.service-account-key, not both"));
    }
    if endpoint.is_some() && endpoint != config.gcs.endpoint && key.is_none() && token.is_none() {
        return Err(wrong("gcs.endpoint", "another endpoint needs credentials of the request"));
    }
    config.gcs.endpoint = endpoint.or(config.gcs.endpoint);
    if key.is_some() || token.is_some() {
        (config.gcs.service_account_key, config.gcs.oauth2_token) = (key, token);
    }

    let endpoint = self::endpoint("azure.endpoint", get("azure.endpoint"), grants)?;
    let (key, sas, token) = (secret("azure.access-key")?, secret("azure.sas-token")?, secret("azure.oauth2-token")?);
    let given = usize::from(key.is_some()) + usize::from(sas.is_some()) + usize::from(token.is_some());
    if given > 1 {
        return Err(wrong("azure.access-key", "give one of azure.access-key, azure.sas-token and azure.oauth2-token"));
    }
    if endpoint.is_some() && endpoint != config.azure.endpoint && given == 0 {
        return Err(wrong("azure.endpoint", "another endpoint needs credentials of the request"));
    }
    config.azure.endpoint = endpoint.or(config.azure.endpoint);
    if given == 1 {
        (config.azure.access_key, config.azure.sas_token, config.azure.oauth2_token) = (key, sas, token);
    }
    Ok(config)
}

/// An endpoint that a request names, if it is granted: the server's own, or one of the listed ones.
fn endpoint(key: &str, text: Option<&str>, grants: &Grants) -> Result<Option<String>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let url = Url::parse(text).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    });
    let Some(url) = url else {
        return Err(Failure::bad_request(format!(
            "configurations key `{key}`: use a URL that starts with http:// or https://, without credentials and query"
        )));
    };
    let own = [&grants.own.s3.endpoint, &grants.own.gcs.endpoint, &grants.own.azure.endpoint];
    let own = own.into_iter().flatten().filter_map(|own| Some((own, Url::parse(own).ok()?)));
    // The server's own spelling, so that it counts as the server's own endpoint.
    if let Some((own, _)) = own.into_iter().find(|(_, known)| *known == url) {
        return Ok(Some(own.clone()));
    }
    if grants.endpoints.contains(&url) {
        return Ok(Some(text.trim_end_matches('/').to_owned()));
    }
    Err(Failure::new(
        403,
        "forbidden_endpoint",
        format!(
            "configurations key `{key}`: this server does not connect to that endpoint; it is not among those of \
                 HOGLAKE_CONVERSION_ENDPOINTS"
        ),
    ))
}

/// A key file may say where its requests go, which only the server's operator may.
fn check_service_account(key: &Secret) -> Result<(), &'static str> {
    let json: serde_json::Value =
        serde_json::from_str(key.expose()).map_err(|_| "it must be the JSON text of a service account key")?;
    let object = json.as_object().ok_or("it must be the JSON text of a service account key")?;
    if object.contains_key("gcs_base_url") || object.contains_key("disable_oauth") {
        return Err("gcs_base_url and disable_oauth are not taken from a request");
    }
    Ok(())
}

/// `7d`, `36h`, `90m`, or a number of hours.
fn duration_ms(text: &str) -> Option<i64> {
    let (digits, unit) = match text.char_indices().next_back()? {
        (at, 'd') => (&text[..at], 86_400_000),
        (at, 'h') => (&text[..at], 3_600_000),
        (at, 'm') => (&text[..at], 60_000),
        _ => (text, 3_600_000),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<i64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, Failure> {
        let mut grants = Grants { endpoints: vec![Url::parse("http://minio:9000").unwrap()], ..Grants::default() };
        grants.own.s3.endpoint = Some("http://own:9000".to_owned());
        grants.own.s3.credentials = Some(("own".to_owned(), Secret::new("own")));
        Settings::read(&pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(), &grants)
    }

    fn code(pairs: &[(&str, &str)]) -> u16 {
        read(pairs).err().unwrap().model.code
    }

    #[test]
    fn an_unknown_key_lists_the_known_ones() {
        let failure = read(&[("s3.acess-key", "s3cret")]).err().unwrap();
        assert_eq!(failure.model.code, 400);
        for (key, _) in KEYS {
            assert!(failure.model.message.contains(key));
        }
        assert!(!failure.model.message.contains("s3cret"));
    }

    #[test]
    fn values_are_checked() {
        let set =
            read(&[("sync-mode", "FULL"), ("metadata-retention", "7d"), ("hudi.read-optimised", "True")]).unwrap();
        assert_eq!((set.mode, set.retention_ms, set.read_optimised), (Mode::Full, Some(604_800_000), true));
        assert!(set.stores.is_none());
        for (key, bad) in [
            ("sync-mode", "sometimes"),
            ("metadata-retention", "-1"),
            ("metadata-retention", "d"),
            ("metadata-retention", "99999999999999999d"),
            ("hudi.read-optimised", "1"),
            ("partition-spec", "x"),
            ("delta.checkpoint-interval", "0"),
            ("delta.type-widening", "maybe"),
            ("iceberg.format-version", "1"),
            ("on-unsupported-deletes", "warn"),
            ("s3.access-key-id", "only"),
            ("s3.session-token", "only"),
            ("s3.region", "a b"),
            ("s3.path-style-access", "maybe"),
            ("gcs.service-account-key", "{"),
            ("gcs.service-account-key", "{\"gcs_base_url\": \"http://169.254.169.254\"}"),
        ] {
            let failure = read(&[(key, bad)]).err().unwrap();
            assert_eq!(failure.model.code, 400, "{key}={bad}");
        }
    }

    #[test]
    fn a_request_cannot_send_the_server_s_credentials_elsewhere() {
        for endpoint in ["http://169.254.169.254", "http://minio:9001", "https://minio:9000", "http://minio.evil:9000"]
        {
            let keys = [("s3.endpoint", endpoint), ("s3.access-key-id", "a"), ("s3.secret-access-key", "b")];
            assert_eq!(code(&keys), 403, "{endpoint}");
        }
        for endpoint in ["", "ftp://minio:9000", "minio:9000", "http://u:p@minio:9000", "http://minio:9000?x"] {
            assert_eq!(code(&[("s3.endpoint", endpoint)]), 400, "{endpoint}");
        }
        assert_eq!(code(&[("s3.endpoint", "http://minio:9000")]), 400, "without credentials");
        let keys = [("s3.endpoint", "http://minio:9000"), ("s3.access-key-id", "a"), ("s3.secret-access-key", "b")];
        let config = read(&keys).unwrap().stores.unwrap();
        assert_eq!(config.s3.endpoint.as_deref(), Some("http://minio:9000"));
        assert_eq!(config.s3.credentials.unwrap().0, "a");
        let config = read(&[("s3.endpoint", "http://own:9000/")]).unwrap().stores.unwrap();
        assert_eq!(config.s3.credentials.unwrap().0, "own");
        assert_eq!(code(&[("azure.endpoint", "http://minio:9000")]), 400);
        assert_eq!(code(&[("azure.sas-token", "a"), ("azure.access-key", "b")]), 400);
    }
}
