//! Words for requests that never become one: heads that cannot be parsed or are too long.
//!
//! hyper answers them itself, with a bare status and no body, before any handler or layer sees them. Its answer is
//! recognised on its way out and gets the body that every other failure has.

use uuid::Uuid;

/// The answer in place of `written`, when that is one of hyper's own refusals.
///
/// Answers of handlers never look like it: whatever fails with these statuses there has a body.
pub(super) fn in_words(written: &[u8]) -> Option<Vec<u8>> {
    let head = std::str::from_utf8(written.strip_prefix(b"HTTP/1.1 ")?.strip_suffix(b"\r\n\r\n")?).ok()?;
    let (status, headers) = head.split_once("\r\n")?;
    let detail = match status.get(..3)? {
        "400" => "the request cannot be parsed: send HTTP/1.1 with a method, a path, and headers in visible characters",
        "414" => "the path and query of the request are longer than this server reads",
        "431" => "the headers of the request are larger, or more, than this server reads",
        _ => return None,
    };
    let mut empty = false;
    let mut date = "";
    for line in headers.split("\r\n") {
        let (name, value) = line.split_once(':')?;
        match name.to_ascii_lowercase().as_str() {
            "content-length" => empty = value.trim() == "0",
            "date" => date = line,
            "connection" => {}
            _ => return None,
        }
    }
    if !empty {
        return None;
    }
    let body = serde_json::json!({"error": "bad_request", "detail": detail}).to_string();
    let date = if date.is_empty() { String::new() } else { format!("{date}\r\n") };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\
         x-request-id: {}\r\n{date}\r\n{body}",
        body.len(),
        Uuid::new_v4()
    );
    Some(answer.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bare_refusals_are_put_into_words() {
        let bare =
            "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\ndate: x\r\n\r\n";
        let answer = String::from_utf8(in_words(bare.as_bytes()).unwrap()).unwrap();
        assert!(answer.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\n"), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())) && head.ends_with("date: x"));
        for other in [
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\nx-request-id: a\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n{}",
            "HTTP/1.1 4",
            "",
        ] {
            assert_eq!(in_words(other.as_bytes()), None, "{other}");
        }
    }
}
