//! Multipart uploads that nobody will complete. They are no objects: no listing shows them, and they cost as their parts do.
//!
//! The clients can abort an upload but not say which there are. S3 can: the request is signed by the client, and made here.

use super::{StoreError, Stores};
use hoglake_model::Location;
use object_store::aws::AmazonS3;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::signer::{Method, SignedUrlOptions, Signer};
use percent_encoding::percent_decode_str;
use std::time::Duration;

/// How long the store may take to answer.
const TIMEOUT: Duration = Duration::from_secs(30);

impl Stores {
    /// Aborts the multipart uploads of the object at `location`, whoever began them. How many there were: none in stores
    /// other than S3, which keep no such thing under a name.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Denied`] and [`StoreError::Unsupported`] where the store does not tell uploads at all.
    pub async fn abort_uploads(&self, location: &Location) -> Result<usize, StoreError> {
        let object = self.open(location)?;
        let Some(s3) = self.s3(location) else { return Ok(0) };
        let uploads = list(&s3, location).await?;
        for upload in &uploads {
            match s3.abort_multipart(&object.path, upload).await {
                // completed or aborted by its owner meanwhile
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(object.error(error)),
            }
        }
        Ok(uploads.len())
    }
}

/// The ids of an object's uploads.
async fn list(s3: &AmazonS3, location: &Location) -> Result<Vec<String>, StoreError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
        StoreError::at(location, object_store::Error::Generic { store: "S3", source })
    };
    let key = location.key();
    // those of the very key come first among all whose keys begin with it: one page has them
    let asked = SignedUrlOptions::new().with_query([("uploads", ""), ("prefix", key), ("encoding-type", "url")]);
    let url = s3.signed_url_opts(Method::GET, &Path::default(), TIMEOUT, &asked).await;
    let url = url.map_err(|error| StoreError::at(location, error))?;
    let client = reqwest::Client::builder().timeout(TIMEOUT).build().map_err(|error| failed(error.into()))?;
    let response = client.get(url).send().await.map_err(|error| failed(error.without_url().into()))?;
    let status = response.status();
    let text = response.text().await.map_err(|error| failed(error.without_url().into()))?;
    let said = || format!("it answers {status} when asked for unfinished uploads");
    match status.as_u16() {
        200 => Ok(uploads_of(key, &text)),
        401 | 403 => {
            let source = object_store::Error::PermissionDenied { path: key.to_owned(), source: said().into() };
            Err(StoreError::at(location, source))
        }
        400 | 404 | 405 | 501 => Err(StoreError::Unsupported { location: location.to_string(), reason: said() }),
        _ => Err(failed(said().into())),
    }
}

/// The ids of `key`'s uploads in an answer of S3 whose keys are encoded as in addresses, so that they hold no markup.
fn uploads_of(key: &str, answer: &str) -> Vec<String> {
    let text = |upload: &str, tag: &str| {
        let (_, rest) = upload.split_once(&format!("<{tag}>"))?;
        Some(rest.split_once(&format!("</{tag}>"))?.0.to_owned())
    };
    let decoded = |key: String| percent_decode_str(&key.replace('+', " ")).decode_utf8_lossy().into_owned();
    let uploads = answer.split("<Upload>").skip(1).filter_map(|upload| {
        let upload = upload.split_once("</Upload>")?.0;
        (text(upload, "Key").map(decoded)? == key).then(|| text(upload, "UploadId")).flatten()
    });
    uploads.collect()
}

#[cfg(test)]
mod tests {
    use super::uploads_of;

    #[test]
    fn only_uploads_of_the_very_key_are_meant() {
        let upload = |key: &str, id: &str| {
            format!("<Upload><UploadId>{id}</UploadId><Key>{key}</Key><Initiator><ID>x</ID></Initiator></Upload>")
        };
        let answer = format!(
            "<ListMultipartUploadsResult><Prefix>a/b</Prefix>{}{}{}{}</ListMultipartUploadsResult>",
            upload("a/b%2Bc+d%26", "1"),
            upload("a%2Fb%2Bc%20d%26", "2"),
            upload("a/b%2Bc+d%26.parquet", "3"),
            "<Upload><Key>a/b%2Bc+d%26</Key></Upload>",
        );
        assert_eq!(uploads_of("a/b+c d&", &answer), ["1", "2"]);
        assert!(uploads_of("a", &answer).is_empty());
        assert!(uploads_of("a", "<Upload><Key>a</Key>").is_empty());
    }
}
