//! Extractors: what a request says, as types, or a 400 that points at the place.

mod body;
mod caller;
mod idempotency_key;
mod path;
mod query;

pub use body::{BodyBudget, JsonBody};
pub use caller::Caller;
pub use idempotency_key::IdempotencyKey;
pub use path::Path;
pub use query::Query;
