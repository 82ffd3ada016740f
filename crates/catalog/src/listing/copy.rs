//! Binary COPY: statements with numbers put in, and rows read back field by field.
//!
//! COPY takes no bind parameters. What is put into a statement is therefore a number by type ([`Parameter`]): ids and
//! snapshots, never text, so that nothing from outside can become SQL.

use crate::{Error, Result};
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use sqlx::PgConnection;
use std::fmt::Write;

/// A number, or numbers, to put into a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Parameter<'a> {
    One(i64),
    Many(&'a [i64]),
}

/// `query` with `$1`, `$2`, ... replaced by `parameters`; comments are dropped.
pub(crate) fn with_numbers(query: &str, parameters: &[Parameter<'_>]) -> String {
    let mut statement = String::with_capacity(query.len() + 64);
    for line in query.lines().filter(|line| !line.starts_with("--")) {
        let mut parts = line.split('$');
        statement.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let parameter = part[..digits].parse::<usize>().ok().and_then(|n| parameters.get(n.checked_sub(1)?));
            match parameter {
                Some(Parameter::One(number)) => drop(write!(statement, "{number}::bigint")),
                Some(Parameter::Many(numbers)) => push_array(&mut statement, numbers),
                None => statement.push_str("null"),
            }
            statement.push_str(&part[digits..]);
        }
        statement.push('\n');
    }
    statement
}

fn push_array(statement: &mut String, numbers: &[i64]) {
    statement.push_str("'{");
    let mut buffer = itoa::Buffer::new();
    for (index, number) in numbers.iter().enumerate() {
        if index > 0 {
            statement.push(',');
        }
        statement.push_str(buffer.format(*number));
    }
    statement.push_str("}'::bigint[]");
}

/// The rows of a COPY under way.
pub(crate) struct Rows<'c> {
    messages: BoxStream<'c, Result<Bytes, sqlx::Error>>,
    started: bool,
}

/// `PGCOPY\n\377\r\n\0`, which every binary COPY starts with.
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

impl<'c> Rows<'c> {
    /// Starts to read the rows of `query`.
    pub(crate) async fn of(
        connection: &'c mut PgConnection,
        query: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Rows<'c>> {
        let statement = format!("copy ({}) to stdout (format binary)", with_numbers(query, parameters));
        let messages = connection.copy_out_raw(&statement).await?.boxed();
        Ok(Self { messages, started: false })
    }

    /// The next row. Postgres sends one row a message.
    pub(crate) async fn next(&mut self) -> Result<Option<Row>> {
        while let Some(mut message) = self.messages.try_next().await? {
            if !self.started {
                self.started = true;
                message = without_header(message)?;
            }
            match message.first_chunk::<2>().map(|count| i16::from_be_bytes(*count)) {
                // An empty message, or the trailer.
                None | Some(-1) => {}
                Some(fields) => return Ok(Some(Row { message: message.slice(2..), at: 0, left: fields })),
            }
        }
        Ok(None)
    }
}

/// Drops signature, flags and the length-prefixed extension.
fn without_header(message: Bytes) -> Result<Bytes> {
    let flags = SIGNATURE.len();
    let extension = message.get(flags + 4..).and_then(|rest| rest.first_chunk::<4>()).map(|n| u32::from_be_bytes(*n));
    match extension {
        Some(extension) if message.starts_with(SIGNATURE) && message.len() >= flags + 8 + extension as usize => {
            Ok(message.slice(flags + 8 + extension as usize..))
        }
        _ => Err(Error::Corrupt("COPY does not start with its header".to_owned())),
    }
}

/// One row; fields are taken in order.
pub(crate) struct Row {
    message: Bytes,
    at: usize,
    left: i16,
}

impl Row {
    /// The bytes of the next field, none for null.
    pub(crate) fn bytes(&mut self) -> Result<Option<&[u8]>> {
        let cut = || Error::Corrupt("a COPY row is shorter than its fields".to_owned());
        if self.left == 0 {
            return Err(cut());
        }
        self.left -= 1;
        let length = self.message.get(self.at..).and_then(|rest| rest.first_chunk::<4>()).ok_or_else(cut)?;
        self.at += 4;
        let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else { return Ok(None) };
        let field = self.message.get(self.at..self.at + length).ok_or_else(cut)?;
        self.at += length;
        Ok(Some(field))
    }

    /// The first field, a bigint, without taking it.
    pub(crate) fn first_number(&self) -> Result<i64> {
        let field =
            self.message.get(4..12).ok_or_else(|| Error::Corrupt("a COPY row has no first field".to_owned()))?;
        big(field)
    }

    /// A bigint.
    pub(crate) fn number(&mut self) -> Result<Option<i64>> {
        self.bytes()?.map(big).transpose()
    }

    /// A bigint that is never null.
    pub(crate) fn required_number(&mut self) -> Result<i64> {
        self.number()?.ok_or_else(|| Error::Corrupt("a number is null that never is".to_owned()))
    }

    /// A boolean; null is false.
    pub(crate) fn boolean(&mut self) -> Result<bool> {
        Ok(self.bytes()?.is_some_and(|bytes| bytes == [1]))
    }

    /// A one-dimensional array, none for null.
    pub(crate) fn array(&mut self) -> Result<Option<Array<'_>>> {
        self.bytes()?.map(Array::of).transpose()
    }
}

/// An 8-byte integer.
pub(crate) fn big(bytes: &[u8]) -> Result<i64> {
    bytes.try_into().map(i64::from_be_bytes).map_err(|_| Error::Corrupt("a bigint is not of 8 bytes".to_owned()))
}

/// The elements of a one-dimensional array.
#[derive(Clone, Copy)]
pub(crate) struct Array<'a> {
    rest: &'a [u8],
}

impl<'a> Array<'a> {
    fn of(bytes: &'a [u8]) -> Result<Self> {
        match bytes.first_chunk::<4>().map(|n| i32::from_be_bytes(*n)) {
            Some(0) => Ok(Self { rest: &[] }),
            // dimensions, flags, element type, length, lower bound
            Some(1) if bytes.len() >= 20 => Ok(Self { rest: &bytes[20..] }),
            _ => Err(Error::Corrupt("an array has more than one dimension".to_owned())),
        }
    }
}

impl<'a> Iterator for Array<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let (length, rest) = self.rest.split_first_chunk::<4>()?;
        match usize::try_from(i32::from_be_bytes(*length)) {
            Ok(length) => {
                let (element, rest) = rest.split_at_checked(length)?;
                self.rest = rest;
                Some(Some(element))
            }
            Err(_) => {
                self.rest = rest;
                Some(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_get_into_a_statement() {
        let query = "-- $1 catalog\nselect a$1, $2\nfrom b where c = any($3) and d = $4";
        let parameters = [Parameter::One(7), Parameter::One(-8), Parameter::Many(&[1, 2])];
        assert_eq!(
            with_numbers(query, &parameters),
            "select a7::bigint, -8::bigint\nfrom b where c = any('{1,2}'::bigint[]) and d = null\n"
        );
    }

    #[test]
    fn arrays_give_their_elements() {
        let array = [
            &1_i32.to_be_bytes()[..],
            &0_i32.to_be_bytes(),
            &25_i32.to_be_bytes(),
            &3_i32.to_be_bytes(),
            &1_i32.to_be_bytes(),
            &1_i32.to_be_bytes(),
            b"x",
            &(-1_i32).to_be_bytes(),
            &0_i32.to_be_bytes(),
        ]
        .concat();
        let elements: Vec<_> = Array::of(&array).unwrap().collect();
        assert_eq!(elements, [Some(&b"x"[..]), None, Some(&b""[..])]);
        assert_eq!(Array::of(&[0; 12]).unwrap().count(), 0);
        assert!(Array::of(&[0, 0, 0, 2]).is_err());
    }
}
