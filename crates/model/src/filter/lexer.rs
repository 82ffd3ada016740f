//! Splits a filter into tokens.

use super::Complaint;

/// A token, and where it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub at: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A bare word: keyword or column name.
    Word(String),
    /// A name in double quotes.
    Quoted(String),
    /// Text in single quotes.
    Text(String),
    /// A number, not yet checked.
    Number(String),
    /// `= != < <= > >= ( ) ,`, with `<>` as `!=`.
    Symbol(&'static str),
    End,
}

/// All tokens of `text`, the last one [`TokenKind::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Complaint> {
    let mut tokens = Vec::new();
    let mut at = 0;
    loop {
        let rest = text[at..].trim_start();
        at = text.len() - rest.len();
        let Some(first) = rest.chars().next() else {
            tokens.push(Token { kind: TokenKind::End, at });
            return Ok(tokens);
        };
        let (kind, length) = match first {
            '\'' => quoted(rest, '\'', at).map(|(value, length)| (TokenKind::Text(value), length))?,
            '"' => quoted(rest, '"', at).map(|(value, length)| (TokenKind::Quoted(value), length))?,
            'A'..='Z' | 'a'..='z' | '_' => {
                let word = prefix(rest, |b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
                (TokenKind::Word(word.to_owned()), word.len())
            }
            '0'..='9' | '.' | '+' | '-' => {
                let number = number(rest);
                (TokenKind::Number(number.to_owned()), number.len())
            }
            other => symbol(rest)
                .ok_or_else(|| Complaint::new(at, format!("`{}` means nothing here", other.escape_debug())))?,
        };
        tokens.push(Token { kind, at });
        at += length;
    }
}

fn symbol(rest: &str) -> Option<(TokenKind, usize)> {
    let (symbol, length) = match rest.as_bytes() {
        [b'<', b'>', ..] | [b'!', b'=', ..] => ("!=", 2),
        [b'<', b'=', ..] => ("<=", 2),
        [b'>', b'=', ..] => (">=", 2),
        [b'=', b'=', ..] => ("=", 2),
        [b'<', ..] => ("<", 1),
        [b'>', ..] => (">", 1),
        [b'=', ..] => ("=", 1),
        [b'(', ..] => ("(", 1),
        [b')', ..] => (")", 1),
        [b',', ..] => (",", 1),
        _ => return None,
    };
    Some((TokenKind::Symbol(symbol), length))
}

/// The value between two `quote`s, doubled ones standing for one, and the length with the quotes.
fn quoted(rest: &str, quote: char, at: usize) -> Result<(String, usize), Complaint> {
    let mut value = String::new();
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((index, c)) = chars.next() {
        if c != quote {
            value.push(c);
        } else if chars.next_if(|(_, next)| *next == quote).is_some() {
            value.push(quote);
        } else {
            return Ok((value, index + 1));
        }
    }
    Err(Complaint::new(at, format!("the {quote} that opens here is never closed")))
}

/// A run that looks like a number; letters glued to it belong to it, so that `12abc` is one bad number.
fn number(rest: &str) -> &str {
    let sign = usize::from(rest.starts_with(['+', '-']));
    let mut length = sign;
    let bytes = rest.as_bytes();
    while let Some(byte) = bytes.get(length) {
        let is_exponent_sign = matches!(byte, b'+' | b'-') && length > sign && matches!(bytes[length - 1], b'e' | b'E');
        if !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_') || is_exponent_sign) {
            break;
        }
        length += 1;
    }
    &rest[..length]
}

fn prefix(text: &str, belongs: impl Fn(u8) -> bool) -> &str {
    &text[..text.bytes().take_while(|b| belongs(*b)).count()]
}
