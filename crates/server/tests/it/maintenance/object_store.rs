//! The development object store behind a door that can hold an upload back, and refuse to delete some objects.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use hoglake_formats::store::{S3Config, Secret};
use hoglake_server::dev::object_store::{ACCESS_KEY, BUCKET, REGION, SECRET_KEY, router};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tower::ServiceExt;

/// The endpoint, served until the test ends. Its objects are files below a folder.
#[derive(Clone)]
pub struct ObjectStore {
    pub endpoint: String,
    root: PathBuf,
    door: Arc<Mutex<Door>>,
}

#[derive(Default)]
struct Door {
    /// Methods and targets of the requests so far.
    requests: Vec<String>,
    /// Keys that `DeleteObjects` was asked to delete.
    deleted: Vec<String>,
    /// Keys that `DeleteObjects` answers with an error.
    kept: BTreeSet<String>,
    /// Tells that an upload has come, and waits for leave to go on.
    gate: Option<(oneshot::Sender<()>, oneshot::Receiver<()>)>,
}

impl ObjectStore {
    pub async fn start(root: &Path) -> Self {
        let inner = router(root).unwrap();
        let door: Arc<Mutex<Door>> = Arc::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let store = Self {
            endpoint: format!("http://{}", listener.local_addr().unwrap()),
            root: root.to_owned(),
            door: Arc::clone(&door),
        };
        let serving = store.clone();
        let outer = Router::new().fallback(move |request: Request| {
            let (store, inner) = (serving.clone(), inner.clone());
            async move { store.answer(request, inner).await }
        });
        tokio::spawn(async move { axum::serve(listener, outer).await.unwrap() });
        store
    }

    /// That of a running `hoglake dev`, whose objects are below `root`.
    pub fn of_dev(endpoint: &str, root: PathBuf) -> Self {
        Self { endpoint: endpoint.to_owned(), root, door: Arc::default() }
    }

    /// The folder of its buckets.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Multipart uploads that nobody has ended: their ids.
    pub fn open_uploads(&self) -> Vec<String> {
        let names =
            std::fs::read_dir(&self.root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter_map(|n| Some(n.strip_prefix(".upload-")?.strip_suffix(".json")?.to_owned())).collect()
    }

    /// How a client is told about it.
    pub fn config(&self) -> S3Config {
        S3Config {
            endpoint: Some(self.endpoint.clone()),
            region: REGION.to_owned(),
            credentials: Some((ACCESS_KEY.to_owned(), Secret::new(SECRET_KEY))),
            path_style: true,
            ..S3Config::default()
        }
    }

    /// The file of an object.
    pub fn file(&self, path: &str) -> PathBuf {
        self.root.join(path.strip_prefix("s3://").unwrap())
    }

    /// Lets `DeleteObjects` fail for these paths; none any more when empty.
    pub fn keep(&self, paths: &[&str]) {
        let key = |path: &&str| path.strip_prefix(&format!("s3://{BUCKET}/")).unwrap().to_owned();
        self.door().kept = paths.iter().map(key).collect();
    }

    /// Holds the next upload of a compaction back: wait for the first, then send the second.
    pub fn hold_upload(&self) -> (oneshot::Receiver<()>, oneshot::Sender<()>) {
        let (came, coming) = oneshot::channel();
        let (leave, leaving) = oneshot::channel();
        self.door().gate = Some((came, leaving));
        (coming, leave)
    }

    /// How many requests contained `part`.
    pub fn requests(&self, part: &str) -> usize {
        self.door().requests.iter().filter(|request| request.contains(part)).count()
    }

    /// Methods and targets of the requests so far.
    pub fn lines(&self) -> Vec<String> {
        self.door().requests.clone()
    }

    /// Keys that bulk deletions have named so far, each as often as it was named.
    pub fn deleted(&self) -> Vec<String> {
        self.door().deleted.clone()
    }

    /// Counts from here on.
    pub fn forget(&self) {
        let mut door = self.door();
        door.requests.clear();
        door.deleted.clear();
    }

    fn door(&self) -> std::sync::MutexGuard<'_, Door> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn answer(&self, request: Request, inner: Router) -> Response {
        let line = format!("{} {}", request.method(), request.uri());
        self.door().requests.push(line.clone());
        let uploads = *request.method() == Method::PUT && line.contains("/compacted-");
        let gate = if uploads { self.door().gate.take() } else { None };
        if let Some((came, leave)) = gate {
            came.send(()).unwrap();
            leave.await.unwrap();
        }
        if *request.method() == Method::POST && request.uri().query() == Some("delete") {
            let (head, body) = request.into_parts();
            let body = to_bytes(body, usize::MAX).await.unwrap();
            let keys = keys(&body);
            self.door().deleted.extend(keys.iter().map(|key| key.replace("&amp;", "&")));
            let kept = self.door().kept.clone();
            if !kept.is_empty() {
                return self.delete_most(&keys, &kept);
            }
            return inner.oneshot(Request::from_parts(head, Body::from(body))).await.unwrap().into_response();
        }
        inner.oneshot(request).await.unwrap().into_response()
    }

    /// `DeleteObjects` as a store answers it that lets some keys be deleted and others not.
    fn delete_most(&self, keys: &[String], kept: &BTreeSet<String>) -> Response {
        let mut answer = "<DeleteResult>".to_owned();
        for key in keys {
            let name = key.replace("&amp;", "&");
            if kept.contains(&name) {
                answer += &format!(
                    "<Error><Key>{key}</Key><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
                );
            } else {
                std::fs::remove_file(self.root.join(BUCKET).join(name)).unwrap();
                answer += &format!("<Deleted><Key>{key}</Key></Deleted>");
            }
        }
        Response::new(Body::from(answer + "</DeleteResult>"))
    }
}

/// The keys that a `DeleteObjects` names, as they are written there.
fn keys(body: &[u8]) -> Vec<String> {
    let keys = std::str::from_utf8(body).unwrap().split("<Key>").skip(1);
    keys.map(|rest| rest.split("</Key>").next().unwrap().to_owned()).collect()
}
