//! Listings of the development object store, page by page without reading the whole bucket for each page.
//!
//! The file store reads, looks up and sorts every object of a bucket for every thousand that it gives out, which makes
//! listing a large folder quadratic. Here the names are read once, and only where the prefix leads; the pages that follow
//! go on in that list. An object that is written meanwhile may be missing in it, as S3 allows nobody to rely on either.

use super::uploads;
use chrono::{DateTime, SecondsFormat, Utc};
use http_body_util::BodyExt;
use hyper::http::{Extensions, HeaderMap, HeaderValue, Method, Uri, header};
use s3s::route::S3Route;
use s3s::{Body, S3Request, S3Response, S3Result, s3_error};
use std::collections::VecDeque;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use url::form_urlencoded;

/// Objects of a page, as S3 has it.
const MAX_KEYS: usize = 1_000;
/// Listings that can be under way at a time without any of them being read again.
const LISTINGS: usize = 4;

/// Answers `GET /{bucket}?list-type=2` without a delimiter.
pub(super) struct Listing {
    root: PathBuf,
    under_way: Mutex<VecDeque<(Asked, Names)>>,
}

/// The names below a prefix, ascending.
type Names = Arc<Vec<String>>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Asked {
    bucket: String,
    prefix: String,
}

/// The parameters of a request.
#[derive(Debug, Default)]
struct Page {
    asked: Asked,
    after: String,
    continued: bool,
    max_keys: usize,
}

impl Page {
    /// None for what the file store should answer itself.
    fn parse(uri: &Uri) -> Option<Self> {
        let bucket = uri.path().trim_matches('/');
        let is_name =
            !bucket.is_empty() && bucket.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
        let mut page = Self { max_keys: MAX_KEYS, ..Self::default() };
        page.asked.bucket = bucket.to_owned();
        let mut is_listing = false;
        for (name, value) in form_urlencoded::parse(uri.query()?.as_bytes()) {
            match name.as_ref() {
                "list-type" => is_listing = value == "2",
                "prefix" => page.asked.prefix = value.into_owned(),
                "start-after" if !page.continued => page.after = value.into_owned(),
                "start-after" => {}
                "continuation-token" => {
                    page.continued = true;
                    page.after = value.into_owned();
                }
                "max-keys" => page.max_keys = value.parse::<usize>().ok().filter(|n| *n > 0)?.min(MAX_KEYS),
                _ => return None,
            }
        }
        (is_name && is_listing).then_some(page)
    }
}

impl Listing {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, under_way: Mutex::default() }
    }

    /// The names that a continued listing goes on in, or those that are there now.
    fn names(&self, page: &Page) -> io::Result<Names> {
        let under_way = || self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if page.continued
            && let Some((_, names)) = under_way().iter().find(|(asked, _)| *asked == page.asked)
        {
            return Ok(Arc::clone(names));
        }
        let mut names = Vec::new();
        walk(&self.root.join(&page.asked.bucket), "", &page.asked.prefix, &mut names)?;
        names.sort_unstable();
        let names = Arc::new(names);
        if names.len() > page.max_keys {
            let mut under_way = under_way();
            under_way.retain(|(asked, _)| *asked != page.asked);
            under_way.push_front((page.asked.clone(), Arc::clone(&names)));
            under_way.truncate(LISTINGS);
        }
        Ok(names)
    }

    fn answer(&self, page: &Page) -> io::Result<String> {
        let names = self.names(page)?;
        let begin = names.partition_point(|name| *name <= page.after);
        let end = names.len().min(begin + page.max_keys);
        let mut objects = String::new();
        let mut count = 0;
        for name in &names[begin..end] {
            // gone since the names were read
            let Ok(metadata) = std::fs::metadata(self.root.join(&page.asked.bucket).join(name)) else { continue };
            let modified = DateTime::<Utc>::from(metadata.modified()?).to_rfc3339_opts(SecondsFormat::Millis, true);
            count += 1;
            let _ = write!(
                objects,
                "<Contents><Key>{}</Key><LastModified>{modified}</LastModified><Size>{}</Size></Contents>",
                escaped(name),
                metadata.len()
            );
        }
        let next = match names.get(end.saturating_sub(1)) {
            Some(last) if end < names.len() => {
                format!("<NextContinuationToken>{}</NextContinuationToken>", escaped(last))
            }
            _ => String::new(),
        };
        Ok(format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
             <Name>{}</Name><Prefix>{}</Prefix><KeyCount>{count}</KeyCount><MaxKeys>{}</MaxKeys>\
             <IsTruncated>{}</IsTruncated>{next}{objects}</ListBucketResult>",
            page.asked.bucket,
            escaped(&page.asked.prefix),
            page.max_keys,
            !next.is_empty(),
        ))
    }
}

/// Adds the names below `folder`, whose own name is `path`, that begin with `prefix`. Folders that cannot hold any are
/// not looked into.
fn walk(folder: &Path, path: &str, prefix: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let name = format!("{path}{name}");
        if entry.file_type()?.is_dir() {
            let inner = format!("{name}/");
            if inner.starts_with(prefix) || prefix.starts_with(&inner) {
                walk(&entry.path(), &inner, prefix, names)?;
            }
        } else if name.starts_with(prefix) {
            names.push(name);
        }
    }
    Ok(())
}

pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => drop(write!(escaped, "&#{};", c as u32)),
            c => escaped.push(c),
        }
    }
    escaped
}

/// What is answered here.
enum Question {
    Objects(Page),
    Uploads(uploads::Asked),
}

impl Question {
    fn parse(uri: &Uri) -> Option<Self> {
        Page::parse(uri).map(Self::Objects).or_else(|| uploads::Asked::parse(uri).map(Self::Uploads))
    }

    fn bucket(&self) -> &str {
        match self {
            Self::Objects(page) => &page.asked.bucket,
            Self::Uploads(asked) => &asked.bucket,
        }
    }
}

#[async_trait::async_trait]
impl S3Route for Route {
    fn is_match(&self, method: &Method, uri: &Uri, _headers: &HeaderMap, _extensions: &mut Extensions) -> bool {
        *method == Method::GET
            && Question::parse(uri).is_some_and(|question| self.0.root.join(question.bucket()).is_dir())
    }

    async fn call(&self, request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let question = Question::parse(&request.uri).ok_or_else(|| s3_error!(InvalidRequest))?;
        drop(request.input.collect().await);
        let listing = Arc::clone(&self.0);
        let answer = tokio::task::spawn_blocking(move || match question {
            Question::Objects(page) => listing.answer(&page),
            Question::Uploads(asked) => asked.answer(&listing.root),
        });
        let answer = answer.await.map_err(io::Error::other).flatten().map_err(|error| {
            tracing::error!(%error, "the development object store cannot list its folder");
            s3_error!(InternalError)
        })?;
        let mut response = S3Response::new(Body::from(answer));
        response.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        Ok(response)
    }
}

/// [`Listing`] as the S3 service takes it.
pub(super) struct Route(pub(super) Arc<Listing>);

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys and the token of the next page.
    fn page(listing: &Listing, query: &str) -> (Vec<String>, Option<String>) {
        let uri = format!("/lake?list-type=2&{query}").parse().unwrap();
        let answer = listing.answer(&Page::parse(&uri).unwrap()).unwrap();
        let all = |tag: &str| -> Vec<String> {
            let open = format!("<{tag}>");
            let parts = answer.split(&open).skip(1);
            parts.map(|rest| rest.split("</").next().unwrap().to_owned()).collect()
        };
        (all("Key"), all("NextContinuationToken").pop())
    }

    #[test]
    fn pages_follow_each_other_in_the_order_of_names() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a/2", "a/10", "a/b/c", "a&b", "b/1", "ab"] {
            let path = root.path().join("lake").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"x").unwrap();
        }
        let listing = Listing::new(root.path().to_owned());
        assert_eq!(page(&listing, "").0, ["a&amp;b", "a/10", "a/2", "a/b/c", "ab", "b/1"]);
        assert_eq!(page(&listing, "prefix=a/").0, ["a/10", "a/2", "a/b/c"]);
        assert_eq!(page(&listing, "prefix=a/b").0, ["a/b/c"]);
        assert_eq!(page(&listing, "prefix=a/&start-after=a/10").0, ["a/2", "a/b/c"]);
        assert_eq!(page(&listing, "prefix=../").0, [""; 0]);
        let (keys, next) = page(&listing, "max-keys=2");
        assert_eq!((keys, next.as_deref()), (vec!["a&amp;b".to_owned(), "a/10".to_owned()], Some("a/10")));
        std::fs::remove_file(root.path().join("lake/a/2")).unwrap();
        std::fs::write(root.path().join("lake/a/3"), b"x").unwrap();
        let (keys, next) = page(&listing, "max-keys=2&continuation-token=a/10");
        assert_eq!((keys, next.as_deref()), (vec!["a/b/c".to_owned()], Some("a/b/c")));
        assert_eq!(page(&listing, "max-keys=2&continuation-token=a/b/c").0, ["ab", "b/1"]);
        assert_eq!(page(&listing, "prefix=a/").0, ["a/10", "a/3", "a/b/c"], "a new listing looks anew");
    }

    #[test]
    fn other_listings_are_left_to_the_file_store() {
        for uri in [
            "/lake?list-type=2&delimiter=/",
            "/lake?prefix=a",
            "/?list-type=2",
            "/lake/a?list-type=2",
            "/..?list-type=2",
        ] {
            assert!(Page::parse(&uri.parse().unwrap()).is_none(), "{uri}");
        }
    }
}
