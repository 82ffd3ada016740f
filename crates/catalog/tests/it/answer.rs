//! Answers taken apart.

use hoglake_catalog::idempotency::Answer;
use hoglake_model::Refusal;
use serde_json::Value;
use std::fmt::Debug;

/// The body of `answer`.
pub fn body(answer: &Answer) -> Value {
    serde_json::from_str(answer.body.as_deref().unwrap()).unwrap()
}

/// The refusal that `result` must be.
pub fn refusal<T: Debug>(result: hoglake_catalog::Result<T>) -> Refusal {
    result.unwrap_err().refusal().expect("a refusal, not a fault")
}
