//! GET /v1/info

use crate::app::App;
use axum::Json;
use axum::extract::State;
use serde::Serialize;

/// What this installation calls itself.
#[derive(Debug, Serialize)]
pub struct InstanceInfo {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

/// Answers with the configured name, if there is one.
pub async fn get(State(app): State<App>) -> Json<InstanceInfo> {
    let name = app.config.instance_name.as_deref().map(str::trim).filter(|name| !name.is_empty());
    Json(InstanceInfo { name: name.map(str::to_owned) })
}
