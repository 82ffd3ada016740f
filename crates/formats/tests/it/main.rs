//! Tests of the codecs against files written by others, hostile bytes, and readers of other projects.

mod checkpoints;
mod corpus;
mod deletes;
mod deletion_vector;
mod delta_source;
mod elsewhere;
mod following;
mod footer;
mod foreign;
mod hostile;
mod hudi;
mod hudi_target;
mod iceberg_source;
mod judged;
mod judges;
mod large_logs;
mod leftovers;
mod origin;
mod pairs;
mod parquet_directory;
mod puffin;
mod replays;
mod requests;
mod restored;
mod rewrite;
mod rewrite_corpus;
mod rewrite_encodings;
mod round_trips;
mod s3;
mod schema_history;
mod seeds;
mod spellings;
mod to_delta;
mod to_iceberg;
mod unchanged;
mod watched;
mod writer_rules;
mod xtable;

/// Installs the crypto provider that the binary installs at start.
pub fn install_crypto_provider() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        rustls::crypto::ring::default_provider().install_default().unwrap();
    });
}
