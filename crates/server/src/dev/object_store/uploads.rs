//! Multipart uploads under way in the development object store, which the file store can begin, end and abort, but not
//! list.
//!
//! It keeps `.upload-<id>.json` for each, and the attributes of the object to come in a file whose name tells bucket and key.

use super::listing::escaped;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hyper::http::Uri;
use std::fmt::Write;
use std::io;
use std::path::Path;
use url::form_urlencoded;

/// Uploads of an answer at most, as S3 has it.
const MAX_UPLOADS: usize = 1_000;

/// `GET /{bucket}?uploads`: the bucket, and the prefix of the keys asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub bucket: String,
    prefix: String,
    encoded: bool,
}

impl Asked {
    /// None for another request.
    pub(super) fn parse(uri: &Uri) -> Option<Self> {
        let bucket = uri.path().trim_matches('/').to_owned();
        let mut asked = Self { bucket, prefix: String::new(), encoded: false };
        let mut is_asked = false;
        for (name, value) in form_urlencoded::parse(uri.query()?.as_bytes()) {
            match name.as_ref() {
                "uploads" => is_asked = value.is_empty(),
                "prefix" => asked.prefix = value.into_owned(),
                "encoding-type" => asked.encoded = value == "url",
                // a signature in the address
                name if name.to_ascii_lowercase().starts_with("x-amz-") => {}
                _ => return None,
            }
        }
        let is_name = !asked.bucket.is_empty() && !asked.bucket.contains(['/', '.']);
        (is_asked && is_name).then_some(asked)
    }

    /// The uploads below `root`, in the order of keys.
    pub(super) fn answer(&self, root: &Path) -> io::Result<String> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(root)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            let Some((bucket, key, upload)) = parse_name(&name) else { continue };
            let is_open = || root.join(format!(".upload-{upload}.json")).exists();
            if bucket == self.bucket && key.starts_with(&self.prefix) && is_open() {
                found.push((key, upload.to_owned()));
            }
        }
        found.sort();
        let mut uploads = String::new();
        for (key, upload) in found.iter().take(MAX_UPLOADS) {
            let key =
                if self.encoded { form_urlencoded::byte_serialize(key.as_bytes()).collect() } else { escaped(key) };
            let _ = write!(uploads, "<Upload><Key>{key}</Key><UploadId>{upload}</UploadId></Upload>");
        }
        Ok(format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
             <ListMultipartUploadsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Bucket>{}</Bucket>\
             <IsTruncated>{}</IsTruncated>{uploads}</ListMultipartUploadsResult>",
            self.bucket,
            found.len() > MAX_UPLOADS,
        ))
    }
}

/// Bucket, key and id of an upload, from the name of the file with its attributes.
fn parse_name(name: &str) -> Option<(String, String, &str)> {
    let decode = |text: &str| String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(text).ok()?).ok();
    let rest = name.strip_prefix(".bucket-")?.strip_suffix(".metadata.json")?;
    let (bucket, rest) = rest.split_once(".object-")?;
    let (key, upload) = rest.split_once(".upload-")?;
    Some((decode(bucket)?, decode(key)?, upload))
}
