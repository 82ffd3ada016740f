//! JSON request bodies.

mod budget;
mod objects;

pub use budget::BodyBudget;

use crate::api::error::ApiError;
use crate::app::App;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use budget::Held;
use hoglake_model::{ErrorCode, Refusal};
use http_body_util::BodyExt;
use objects::Objects;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// A JSON body of type `T`, and the bytes it was read from.
///
/// # Errors
/// 400 for another content type or encoding, an empty body, `null`, anything that is not UTF-8 JSON, and a value that
/// is not a `T` (the detail names the field); 408 when the client stops sending; 413 above the body limit; 503 when the
/// bodies of other requests take all the memory there is for them.
#[derive(Debug)]
pub struct JsonBody<T> {
    /// The decoded body.
    pub value: T,
    /// What the client sent, for comparing a repeated request with its first.
    pub bytes: Bytes,
    /// Its part of the memory for bodies, until the request is answered.
    _held: Held,
}

/// Bodies above this size are decoded on a thread that no other request waits for.
const LARGE: usize = 256 << 10;

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &App) -> Result<Self, ApiError> {
        check_headers(request.headers())?;
        let http = &app.config.http;
        let mut held = app.bodies.hold();
        let bytes = read(request.into_body(), http.body_limit_bytes, http.body_timeout_ms, &mut held).await?;
        if bytes.len() <= LARGE {
            let value = decode(&bytes)?;
            return Ok(Self { value, bytes, _held: held });
        }
        let decoded =
            tokio::task::spawn_blocking(move || decode(&bytes).map(|value| Self { value, bytes, _held: held }));
        Ok(decoded.await.map_err(ApiError::fault)??)
    }
}

fn check_headers(headers: &HeaderMap) -> Result<(), Refusal> {
    let content_type = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or("").to_ascii_lowercase());
    let Some(content_type) = content_type else {
        return Err(Refusal::bad_request("the request has no Content-Type: send application/json"));
    };
    let mut parts = content_type.split(';').map(str::trim);
    let json = parts.next() == Some("application/json");
    let utf8 = parts.all(|parameter| match parameter.strip_prefix("charset=") {
        Some(charset) => matches!(charset.trim_matches('"'), "utf-8" | "utf8" | "us-ascii"),
        None => true,
    });
    if !json || !utf8 {
        return Err(Refusal::bad_request("the Content-Type of the request must be application/json, in UTF-8"));
    }
    match headers.get(header::CONTENT_ENCODING) {
        Some(encoding) if encoding.as_bytes() != b"identity" => {
            Err(Refusal::bad_request("a request body cannot be compressed: send it without Content-Encoding"))
        }
        _ => Ok(()),
    }
}

/// Reads a whole body of at most `limit` bytes, giving the client `patience` for each piece.
async fn read(mut body: Body, limit: usize, patience: Duration, held: &mut Held) -> Result<Bytes, ApiError> {
    let too_large = || {
        let detail = format!("the request body is larger than {limit} bytes, which is the limit of this server");
        Refusal::new(ErrorCode::PayloadTooLarge, detail)
    };
    let announced = body.size_hint().lower();
    if announced > limit as u64 {
        return Err(too_large().into());
    }
    let mut bytes = bytes::BytesMut::with_capacity(usize::try_from(announced).unwrap_or(0));
    while let Some(frame) = next(&mut body, patience).await? {
        if bytes.len() + frame.len() > limit {
            return Err(too_large().into());
        }
        held.grow_to(bytes.len() + frame.len())?;
        if bytes.is_empty() && body.is_end_stream() {
            return Ok(frame);
        }
        bytes.extend_from_slice(&frame);
    }
    Ok(bytes.freeze())
}

async fn next(body: &mut Body, patience: Duration) -> Result<Option<Bytes>, ApiError> {
    loop {
        return match tokio::time::timeout(patience, body.frame()).await {
            Ok(None) => Ok(None),
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => Ok(Some(data)),
                Err(_trailers) => continue,
            },
            Ok(Some(Err(_))) => Err(Refusal::bad_request("the request body broke off before its end").into()),
            Err(_elapsed) => {
                let detail = format!("no more of the request body arrived for {} ms", patience.as_millis());
                Err(ApiError::from(Refusal::bad_request(detail)).with_status(StatusCode::REQUEST_TIMEOUT))
            }
        };
    }
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    if bytes.trim_ascii().is_empty() {
        return Err(Refusal::bad_request("the request has no body: send a JSON object"));
    }
    if bytes.trim_ascii() == b"null" {
        return Err(Refusal::bad_request("the request body is null: send a JSON object"));
    }
    // The path of the offending field is worth a second pass, but only when there is one.
    read_value(bytes).map_err(|error| {
        let deserializer = &mut serde_json::Deserializer::from_slice(bytes);
        match serde_path_to_error::deserialize::<_, T>(Objects(deserializer)) {
            Err(located) if located.path().iter().len() > 0 => {
                refusal(&format!("field `{}`: {}", located.path(), located.inner()))
            }
            _ => refusal(&error.to_string()),
        }
    })
}

fn read_value<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<T> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = T::deserialize(Objects(&mut deserializer))?;
    deserializer.end()?;
    Ok(value)
}

fn refusal(problem: &str) -> Refusal {
    const LONGEST: usize = 600;
    let mut shown: String = problem.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if problem.chars().count() > LONGEST {
        shown.push('…');
    }
    Refusal::bad_request(format!("the request body is not what this operation takes: {shown}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[allow(dead_code)]
        files: Vec<Inner>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[allow(dead_code)]
        record_count: i64,
    }

    fn detail(body: &[u8]) -> String {
        let refusal = decode::<Outer>(body).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::BadRequest);
        refusal.detail
    }

    #[test]
    fn the_detail_points_at_the_field() {
        let detail = detail(br#"{"files": [{"record_count": 1}, {"record_count": "1"}]}"#);
        assert!(detail.contains("`files[1].record_count`") && detail.contains("line 1"), "{detail}");
    }

    #[test]
    fn unknown_fields_and_numbers_beyond_int64_are_refused() {
        assert!(detail(br#"{"files": [{"record_count": 1, "nope": 2}]}"#).contains("nope"));
        assert!(detail(br#"{"files": [{"record_count": 9223372036854775808}]}"#).contains("record_count"));
        assert!(detail(br#"{"files": [{"record_count": 1.0}]}"#).contains("record_count"));
        assert!(decode::<Outer>(br#"{"files": [{"record_count": 9223372036854775807}]}"#).is_ok());
    }

    #[test]
    fn an_array_is_no_object_at_any_depth() {
        #[derive(Debug, Default, Deserialize)]
        #[serde(default)]
        struct Lenient {
            #[allow(dead_code)]
            one: Option<i64>,
            #[allow(dead_code)]
            more: Option<Vec<Lenient>>,
        }
        for body in [&b"[]"[..], b"[1]", b"{\"more\": [[]]}", b"{\"more\": [{\"more\": [[1, null]]}]}"] {
            let refusal = decode::<Lenient>(body).unwrap_err();
            assert!(refusal.detail.contains("expected an object"), "{}", refusal.detail);
        }
        assert!(decode::<Lenient>(b"{\"more\": [{}, {\"one\": null}]}").is_ok());
        assert!(detail(b"{\"files\": [[1]]}").contains("`files[0]`"));
        assert_eq!(decode::<serde_json::Value>(b"{\"a\": [[1], {}]}").unwrap().to_string(), "{\"a\":[[1],{}]}");
    }

    #[test]
    fn text_with_a_nul_is_refused_at_any_depth() {
        #[derive(Debug, Deserialize)]
        struct Texts {
            #[allow(dead_code)]
            texts: Vec<Option<String>>,
        }
        assert!(decode::<Texts>(br#"{"texts": ["\\u0000", "", null, "\u0001"]}"#).is_ok());
        let refusal = decode::<Texts>(br#"{"texts": [null, "a\u0000b"]}"#).unwrap_err();
        assert!(refusal.detail.contains("`texts[1]`") && refusal.detail.contains("U+0000"), "{}", refusal.detail);
    }

    #[test]
    fn nothing_undecodable_passes() {
        let utf16: Vec<u8> = "{\"files\": []}".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let utf32: Vec<u8> = "{\"files\": []}".chars().flat_map(|c| (c as u32).to_be_bytes()).collect();
        let deep = [b"{\"files\":".to_vec(), vec![b'['; 100_000]].concat();
        for body in [
            &b""[..],
            b" \n",
            b"null",
            b" null ",
            b"[]",
            b"[[]]",
            b"{",
            b"{\"files\": []}x",
            b"\xff\xfe",
            b"\xef\xbb\xbf{}",
            &utf16,
            &utf32,
            &deep,
        ] {
            detail(body);
        }
        assert!(decode::<Option<Outer>>(b"null").is_err());
    }
}
