//! What `hoglake dev` says when it is ready: where everything is, and a first session to paste.

use super::object_store::{ACCESS_KEY, BUCKET, REGION, SECRET_KEY};
use serde::Serialize;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where everything is.
#[derive(Debug, Serialize)]
pub struct Welcome {
    url: String,
    docs: String,
    s3_endpoint: String,
    s3_access_key: &'static str,
    s3_secret_key: &'static str,
    s3_region: &'static str,
    bucket: String,
    state_dir: PathBuf,
}

impl Welcome {
    /// For the API at `api` and the object store at `s3`.
    pub fn new(api: SocketAddr, s3: SocketAddr, state_dir: PathBuf) -> Self {
        Self {
            url: format!("http://{api}"),
            docs: format!("http://{api}/docs"),
            s3_endpoint: format!("http://{s3}"),
            s3_access_key: ACCESS_KEY,
            s3_secret_key: SECRET_KEY,
            s3_region: REGION,
            bucket: format!("s3://{BUCKET}"),
            state_dir,
        }
    }
}

impl fmt::Display for Welcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, docs, s3_endpoint, bucket, .. } = self;
        let host = s3_endpoint.trim_start_matches("http://");
        let state_dir = self.state_dir.display();
        write!(
            f,
            r#"
hoglake is ready. Stop it with Ctrl-C; everything stays in {state_dir}

  API           {url}   (contract: {docs})
  Object store  {s3_endpoint}   bucket {bucket}
                key {ACCESS_KEY}, secret {SECRET_KEY}, region {REGION}

A first session in Python (pip install pyhoglake duckdb):

import duckdb, pyarrow as pa
from pyhoglake import HoglakeClient, S3Config

hog = HoglakeClient("{url}", s3=S3Config(access_key="{ACCESS_KEY}", secret_key="{SECRET_KEY}",
                    endpoint_override="{s3_endpoint}", region="{REGION}"))
farm = hog.create_catalog("farm", "{bucket}/farm").create_namespace("yard")
pigs = farm.create_table("pigs", pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())]))
pigs.append(pa.table({{"id": [1, 2], "name": ["Snowball", "Napoleon"]}}))

duckdb.sql("""CREATE SECRET (TYPE s3, KEY_ID '{ACCESS_KEY}', SECRET '{SECRET_KEY}', REGION '{REGION}',
              ENDPOINT '{host}', URL_STYLE 'path', USE_SSL false)""")
files = [entry.data_file.path for entry in pigs.scan_plan()]
duckdb.sql("SELECT * FROM read_parquet($files)", params={{"files": files}}).show()

For other tools:

export AWS_ENDPOINT_URL={s3_endpoint} AWS_ACCESS_KEY_ID={ACCESS_KEY} AWS_SECRET_ACCESS_KEY={SECRET_KEY}
export AWS_REGION={REGION} AWS_ALLOW_HTTP=true
"#
        )
    }
}
