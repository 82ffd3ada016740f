//! `/v1/conversion`: tables between formats.

use crate::api::answer::respond;
use crate::api::extract::{Caller, IdempotencyKey, JsonBody, Path};
use crate::app::App;
use crate::conversion::failure::Failure;
use crate::conversion::preference::Preferences;
use crate::conversion::request::ConvertTableRequest;
use crate::conversion::service::{Asker, Submitted};
use crate::conversion::submitted;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hoglake_catalog::conversions::State as Job;
use hoglake_catalog::idempotency::{Answer, NO_CATALOG};
use uuid::Uuid;

/// Converts a table, at once or as a job.
pub async fn convert(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    key: IdempotencyKey,
    body: JsonBody<ConvertTableRequest>,
) -> Result<Response, Failure> {
    let preferences = Preferences::of(&headers);
    let asker = Asker { actor: caller.identity.actor.to_string(), request_id: caller.request_id.as_str().to_owned() };
    let key = key.of_body(&body.bytes)?;
    let request = body.value;
    let refused = |failure: Failure| {
        app.converter.note(&asker, &request.source_table_path, &Err(failure.clone()));
        failure
    };
    let conversion = app.converter.check(&request).map_err(refused)?;
    if preferences.respond_async {
        let submitted = app.converter.in_background(&asker, &request, conversion, key.as_ref()).await;
        return match submitted.map_err(refused)? {
            Submitted::Replayed(answer) => Ok(replayed(answer)),
            Submitted::Job(id) => accepted(&app, id, preferences).await,
        };
    }
    if let Some(key) = &key
        && let Some(stored) = app.catalog.answer_find(NO_CATALOG, key).await?
    {
        return Ok(replayed(stored));
    }
    let done = app.converter.in_foreground(asker, &request, conversion).await?;
    let body = serde_json::to_string(&done).map_err(|error| Failure::fault(error.to_string()))?;
    let answer = Answer { status: 200, body: Some(body), snapshot: None, replayed: false };
    if let Some(key) = &key {
        app.catalog.answer_store(NO_CATALOG, key, &answer).await?;
    }
    let mut response = respond(answer);
    Preferences::varies(response.headers_mut());
    Ok(response)
}

/// 202 with the job's id; its result instead, when the client would wait and it is over in time.
async fn accepted(app: &App, id: Uuid, preferences: Preferences) -> Result<Response, Failure> {
    if let Some(wait) = preferences.wait
        && let Some(Job::Finished { status, answer }) = app.converter.find_within(id, wait).await?
    {
        return Ok(finished(status, answer));
    }
    let answer = Answer { status: 202, body: Some(submitted(id).to_string()), snapshot: None, replayed: false };
    let mut response = respond(answer);
    locate(&mut response, &id.to_string());
    Ok(response)
}

/// The stored answer of an earlier request with the same key.
fn replayed(answer: Answer) -> Response {
    let accepted = (answer.status == 202).then(|| answer.body.clone()).flatten();
    let id = accepted.and_then(|body| serde_json::from_str::<serde_json::Value>(&body).ok());
    let mut response = respond(answer);
    if let Some(id) = id.as_ref().and_then(|body| body["conversion-id"].as_str()) {
        locate(&mut response, id);
    }
    response
}

fn locate(response: &mut Response, id: &str) {
    if let Ok(place) = HeaderValue::from_str(&format!("/v1/conversion/table/{id}")) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    Preferences::applied(response.headers_mut());
}

/// The result of a job, or that it is not over yet.
pub async fn status(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Failure> {
    let unknown = || {
        Failure::new(
            404,
            "not_found",
            format!(
                "there is no conversion {}; answers are kept for {} seconds",
                hoglake_model::name::quoted(&id),
                app.config.conversion.conversion_job_retention_seconds
            ),
        )
    };
    let found = Uuid::try_parse(&id).map_err(|_| unknown())?;
    match app.converter.find(found).await?.ok_or_else(unknown)? {
        Job::Pending => {
            let mut response = StatusCode::ACCEPTED.into_response();
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            Ok(response)
        }
        Job::Finished { status, answer } => Ok(finished(status, answer)),
    }
}

fn finished(status: u16, body: String) -> Response {
    respond(Answer { status, body: Some(body), snapshot: None, replayed: false })
}
