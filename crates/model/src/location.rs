//! Where an object lies: a URI or path taken apart once, compared by what it names, written as its table spells it.
//!
//! Keys are taken literally: `%20` in a location is three characters of the key, as Iceberg, Hudi and Hadoop's `Path`
//! have it. Formats whose paths are percent-encoded (Delta) decode before they come here.

use crate::{Refusal, name};
use std::fmt;
use std::hash::{Hash, Hasher};

/// A place in an object store or file system.
///
/// # Ordering
/// Two locations are equal when they name the same object, however they are spelled: `s3a://b/k` and `s3://b/k`,
/// `file:/k`, `file:///k` and `/k`. [`fmt::Display`] writes the spelling that was parsed.
#[derive(Debug, Clone)]
pub struct Location {
    /// Everything before the key, as spelled, with its closing slash: `s3a://bucket/`, `file:/`, `/`.
    prefix: String,
    root: Root,
    key: String,
}

/// What a key is relative to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Root {
    /// The root of the local file system.
    Local,
    /// An S3 bucket (`s3`, `s3a`, `s3n`).
    S3 {
        /// Its name.
        bucket: String,
    },
    /// A Google Cloud Storage bucket (`gs`, `gcs`).
    Gcs {
        /// Its name.
        bucket: String,
    },
    /// An Azure container (`abfs`, `abfss`, `wasb`, `wasbs`, `az`).
    Azure {
        /// The storage account's host without `dfs.` or `blob.` (`account.core.windows.net`), or none when the location
        /// leaves the account to the configuration.
        account: Option<String>,
        /// Its name.
        container: String,
    },
}

impl Location {
    /// Parses an absolute path or a URI of a known scheme. Slashes at the end are dropped.
    ///
    /// # Errors
    /// [`ErrorCode::Validation`](crate::ErrorCode::Validation) for another scheme, a relative path, a missing bucket, or
    /// a key with a control character or with an empty, `.` or `..` segment: object stores would take those literally
    /// and file systems would not.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let (prefix_len, root) = parse_root(text)?;
        let (prefix, key) = text.split_at(prefix_len);
        let mut prefix = prefix.to_owned();
        if !prefix.ends_with('/') {
            prefix.push('/');
        }
        let key = key.trim_end_matches('/');
        // A file system takes several slashes for one; an object store does not.
        let key = match root {
            Root::Local => key.split('/').filter(|segment| !segment.is_empty()).collect::<Vec<_>>().join("/"),
            _ => key.to_owned(),
        };
        check_key(text, &key)?;
        Ok(Self { prefix, root, key })
    }

    /// The bucket, container or file system.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The path below the root, without a slash at either end.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The last segment of the key; empty for the root itself.
    pub fn file_name(&self) -> &str {
        self.key.rsplit('/').next().unwrap_or_default()
    }

    /// The location one segment up; none for the root itself.
    pub fn parent(&self) -> Option<Self> {
        if self.key.is_empty() {
            return None;
        }
        let end = self.key.rfind('/').unwrap_or(0);
        Some(Self { key: self.key[..end].to_owned(), ..self.clone() })
    }

    /// The location `relative` below this one, in this one's spelling. `relative` is a literal key.
    ///
    /// # Errors
    /// As [`Location::parse`].
    pub fn join(&self, relative: &str) -> Result<Self, Refusal> {
        let relative = relative.trim_end_matches('/');
        check_key(relative, relative)?;
        let key = match (self.key.as_str(), relative) {
            (key, "") => key.to_owned(),
            ("", relative) => relative.to_owned(),
            (key, relative) => format!("{key}/{relative}"),
        };
        Ok(Self { key, ..self.clone() })
    }

    /// The key of this location relative to `base`, empty when they are the same; none when it lies elsewhere.
    pub fn relative_to(&self, base: &Self) -> Option<&str> {
        if self.root != base.root {
            return None;
        }
        if base.key.is_empty() {
            return Some(&self.key);
        }
        let rest = self.key.strip_prefix(base.key.as_str())?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.prefix)?;
        f.write_str(&self.key)
    }
}

impl PartialEq for Location {
    fn eq(&self, other: &Self) -> bool {
        self.root == other.root && self.key == other.key
    }
}

impl Eq for Location {}

impl Hash for Location {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.root.hash(state);
        self.key.hash(state);
    }
}

impl PartialOrd for Location {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Location {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (&self.root, &self.key).cmp(&(&other.root, &other.key))
    }
}

/// The canonical spelling of a prefix under which objects lie: equal for all spellings of one place, so that text
/// comparison finds overlaps. It need not parse as a location again.
///
/// A prefix with a scheme of its own (`memory://`, `hdfs://`) or without any is compared as it is written, without the
/// slashes at its end.
///
/// # Errors
/// 422 for a blank prefix, and as [`Location::parse`] for control characters, `.` and `..` segments and malformed
/// locations of a known scheme.
pub fn canonical_prefix(text: &str) -> Result<String, Refusal> {
    if text.trim().is_empty() {
        return Err(Refusal::validation("the data path is blank; give the object-store prefix of the files"));
    }
    if text.trim() != text {
        return Err(refuse(text, "it begins or ends with blanks, and no file below it could be registered"));
    }
    match Location::parse(text) {
        Ok(location) => {
            let root = match &location.root {
                Root::Local => "file://".to_owned(),
                Root::S3 { bucket } => format!("s3://{bucket}"),
                Root::Gcs { bucket } => format!("gs://{bucket}"),
                Root::Azure { account, container } => {
                    format!("abfs://{container}@{}", account.as_deref().unwrap_or_default())
                }
            };
            Ok(if location.key.is_empty() { root } else { format!("{root}/{}", location.key) })
        }
        Err(refusal) if is_known(text) => Err(refusal),
        Err(_) => {
            let plain = text.trim_end_matches('/');
            if plain.chars().any(char::is_control) {
                return Err(refuse(text, "it has control characters"));
            }
            if plain.is_empty() || plain.split('/').any(|segment| matches!(segment, "." | "..")) {
                return Err(refuse(text, "a `.` or `..` segment names no place reliably"));
            }
            Ok(plain.to_owned())
        }
    }
}

/// Whether `text` claims to be an absolute path or a URI of a scheme that [`Location`] knows.
fn is_known(text: &str) -> bool {
    const SCHEMES: [&str; 11] = ["file", "s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "wasb", "wasbs", "az"];
    text.starts_with('/')
        || text.split_once(':').is_some_and(|(scheme, _)| SCHEMES.iter().any(|s| s.eq_ignore_ascii_case(scheme)))
}

/// The root that `text` starts with and the length of its spelling.
fn parse_root(text: &str) -> Result<(usize, Root), Refusal> {
    if text.starts_with('/') {
        return Ok((1, Root::Local));
    }
    let Some((scheme, rest)) = text.split_once(':') else {
        return Err(refuse(text, "it is neither an absolute path nor a URI"));
    };
    let scheme_len = scheme.len() + 1;
    let scheme = scheme.to_ascii_lowercase();
    if scheme == "file" {
        return parse_file(text, scheme_len, rest);
    }
    let Some(rest) = rest.strip_prefix("//") else {
        return Err(refuse(text, "`//` and a bucket must follow the scheme"));
    };
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.is_empty() {
        return Err(refuse(text, "it names no bucket"));
    }
    if authority.contains(['?', '#', ' ']) || authority.chars().any(char::is_control) {
        return Err(refuse(text, "the bucket has characters that no bucket has"));
    }
    let slash = usize::from(rest.len() > authority.len());
    let prefix_len = scheme_len + 2 + authority.len() + slash;
    let bucket = authority.to_owned();
    if bucket.contains('@') && matches!(scheme.as_str(), "s3" | "s3a" | "s3n" | "gs" | "gcs") {
        return Err(Refusal::validation(
            "a location is not allowed to carry credentials: write the bucket alone, without `user:password@`",
        ));
    }
    let root = match scheme.as_str() {
        "s3" | "s3a" | "s3n" => Root::S3 { bucket },
        "gs" | "gcs" => Root::Gcs { bucket },
        "abfs" | "abfss" | "wasb" | "wasbs" | "az" => parse_azure(text, authority)?,
        _ => {
            return Err(refuse(text, "its scheme is unknown; use file, s3, s3a, gs, abfs or abfss"));
        }
    };
    Ok((prefix_len, root))
}

fn parse_file(text: &str, scheme_len: usize, rest: &str) -> Result<(usize, Root), Refusal> {
    // `file:/k`, `file:///k` and `file://localhost/k` are one file; `file://k` would make `k` a host.
    let authority_len = match rest.strip_prefix("//") {
        Some(after) => {
            let host = after.split('/').next().unwrap_or_default();
            if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
                return Err(refuse(text, "a file URI names no host; write file:///path"));
            }
            2 + host.len()
        }
        None => 0,
    };
    if !rest[authority_len..].starts_with('/') {
        return Err(refuse(text, "a file URI needs an absolute path; write file:///path"));
    }
    Ok((scheme_len + authority_len + 1, Root::Local))
}

fn parse_azure(text: &str, authority: &str) -> Result<Root, Refusal> {
    let Some((container, host)) = authority.split_once('@') else {
        return Ok(Root::Azure { account: None, container: authority.to_owned() });
    };
    let host = host.to_ascii_lowercase();
    let (account, suffix) = host.split_once('.').unwrap_or((&host, ""));
    if container.is_empty() || account.is_empty() {
        return Err(refuse(text, "an Azure location names container@account"));
    }
    let suffix = suffix.strip_prefix("dfs.").or_else(|| suffix.strip_prefix("blob.")).unwrap_or(suffix);
    let account = if suffix.is_empty() { account.to_owned() } else { format!("{account}.{suffix}") };
    Ok(Root::Azure { account: Some(account), container: container.to_owned() })
}

fn check_key(text: &str, key: &str) -> Result<(), Refusal> {
    if key.is_empty() {
        return Ok(());
    }
    for segment in key.split('/') {
        if matches!(segment, "" | "." | "..") {
            return Err(refuse(text, "an empty, `.` or `..` segment names no object reliably"));
        }
        if segment.chars().any(char::is_control) {
            return Err(refuse(text, "it has control characters"));
        }
    }
    Ok(())
}

fn refuse(text: &str, why: &str) -> Refusal {
    Refusal::validation(format!("location {} is not allowed: {why}", name::quoted(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Location {
        Location::parse(text).unwrap()
    }

    #[test]
    fn spellings_of_one_object_are_equal_and_kept() {
        for same in [
            &["s3://b/a/k", "s3a://b/a/k", "S3://b/a/k/", "s3n://b/a/k"][..],
            &["/tmp/t", "file:/tmp/t", "file:///tmp/t", "file://localhost/tmp//t/"],
            &["gs://b/k", "gcs://b/k"],
            &[
                "abfss://c@acc.dfs.core.windows.net/k",
                "abfs://c@acc.dfs.core.windows.net/k",
                "wasbs://c@ACC.blob.core.windows.net/k",
            ],
        ] {
            for text in same {
                assert_eq!(parse(text), parse(same[0]), "{text}");
            }
        }
        for text in ["s3a://b/a/k", "file:/tmp/t", "file:///tmp/t", "/tmp/t", "abfss://c@a.dfs.core.windows.net/k"] {
            assert_eq!(parse(text).to_string(), text);
        }
        assert_ne!(parse("s3://b/k"), parse("gs://b/k"));
        assert_ne!(parse("s3://b/K"), parse("s3://b/k"));
        assert_ne!(parse("abfs://c@a.dfs.core.windows.net/k"), parse("abfs://c@b.dfs.core.windows.net/k"));
    }

    #[test]
    fn keys_are_literal() {
        for key in ["a b", "a%20b", "100%", "p=é/x#1?y", "a+b", "a:b", "日本"] {
            assert_eq!(parse(&format!("s3://b/{key}")).key(), key);
            assert_eq!(parse(&format!("file:///{key}")).key(), key);
        }
    }

    #[test]
    fn ambiguous_and_foreign_locations_are_refused() {
        for bad in [
            "",
            "t",
            "./t",
            "c:\\t",
            "http://h/k",
            "s3:/b/k",
            "s3://",
            "s3:///k",
            "s3://b//k",
            "s3://b/a//k",
            "s3://b/../k",
            "s3://b/a/./k",
            "file://tmp/t",
            "file:t",
            "file:///a/../b",
            "s3://b/a\nb",
            "s3://key:secret@b/k",
            "hdfs://n/k",
            "abfs://@a.dfs/k",
        ] {
            assert!(Location::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn canonical_prefixes_are_equal_for_one_place() {
        let canonical = |text| canonical_prefix(text).unwrap();
        for text in ["s3://b/lake", "s3a://b/lake/", "S3N://b/lake//"] {
            assert_eq!(canonical(text), "s3://b/lake");
        }
        assert_eq!(canonical("/srv/lake/"), canonical("file:///srv/lake"));
        assert_eq!(canonical("s3://b/"), "s3://b");
        assert_eq!(canonical("memory://x/"), "memory://x");
        assert_eq!(canonical("lake"), "lake");
        for bad in [
            "",
            "  ",
            "s3://",
            "s3://b/../c",
            "s3://b/a\0",
            "memory://x/\n",
            "a/../b",
            "file://host/x",
            " s3://b/c",
            "s3://b/c\t",
        ] {
            assert!(canonical_prefix(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn joins_and_relative_keys_agree() {
        for base in ["s3a://b", "s3://b/t/", "file:/tmp/t", "/"] {
            let base = parse(base);
            let file = base.join("data/p=a b%2F/f.parquet").unwrap();
            assert_eq!(file.relative_to(&base), Some("data/p=a b%2F/f.parquet"));
            assert_eq!(file.file_name(), "f.parquet");
            assert_eq!(parse(&file.to_string()), file);
            assert_eq!(file.parent().unwrap().parent().unwrap().parent(), Some(base.clone()));
            assert!(base.join("../x").is_err() && base.join("/x").is_err() && base.join("a//b").is_err());
        }
        assert_eq!(parse("s3://b/t2/f").relative_to(&parse("s3://b/t")), None);
        assert_eq!(parse("s3a://b/t/f").relative_to(&parse("s3://b/t")), Some("f"));
        assert_eq!(parse("s3://b/t").relative_to(&parse("s3://b/t/")), Some(""));
    }
}
