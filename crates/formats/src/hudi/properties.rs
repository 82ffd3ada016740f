//! `hoodie.properties`: the Java properties format, and the settings of a table in it.
//!
//! # Source
//! `java.util.Properties.load`; Hudi specification, "Table properties".

use crate::sync::{Error, Result};
use std::collections::BTreeMap;

/// The properties of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Properties(pub(super) BTreeMap<String, String>);

/// How a table lays out its timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// `<instant>.<action>` in `.hoodie`.
    One,
    /// `<requested>_<completed>.<action>` in a folder of its own.
    Two,
}

impl Properties {
    /// Parses the file.
    ///
    /// # Errors
    /// [`Error::Malformed`] for text that is not UTF-8 or a broken `\u` escape.
    pub(super) fn parse(place: &str, bytes: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes).map_err(|e| Error::malformed(place, e.to_string()))?;
        let mut found = BTreeMap::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let line = line.trim_start_matches([' ', '\t', '\u{c}']);
            if line.is_empty() || line.starts_with(['#', '!']) {
                continue;
            }
            let mut logical = line.to_owned();
            while logical.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1 {
                logical.pop();
                match lines.next() {
                    Some(next) => logical.push_str(next.trim_start_matches([' ', '\t', '\u{c}'])),
                    None => break,
                }
            }
            let (key, value) = pair(&logical).ok_or_else(|| Error::malformed(place, "an escape is broken"))?;
            found.insert(key, value);
        }
        Ok(Self(found))
    }

    /// A property that is set and not empty.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|v| v.trim()).filter(|v| !v.is_empty())
    }

    pub(super) fn is_true(&self, key: &str) -> bool {
        self.get(key).is_some_and(|v| v.eq_ignore_ascii_case("true"))
    }

    /// A list separated by commas, without its empty items.
    pub(super) fn list(&self, key: &str) -> Vec<String> {
        let items = self.get(key).unwrap_or_default().split(',').map(str::trim).filter(|i| !i.is_empty());
        items.map(str::to_owned).collect()
    }

    /// Whether rows carry the `_hoodie_*` columns.
    pub(super) fn meta_fields(&self) -> bool {
        self.get("hoodie.populate.meta.fields").is_none_or(|v| v.eq_ignore_ascii_case("true"))
    }

    pub(super) fn is_merge_on_read(&self) -> bool {
        self.get("hoodie.table.type") == Some("MERGE_ON_READ")
    }

    /// Whether the metadata table lists the files of the table.
    pub(super) fn lists_files(&self) -> bool {
        self.list("hoodie.table.metadata.partitions").iter().any(|p| p == "files")
    }

    /// Checks that the table is one that we read, and says how its timeline is laid out.
    ///
    /// # Errors
    /// [`Error::UnsupportedSource`] naming the property.
    pub(super) fn check(&self, place: &str) -> Result<Layout> {
        let unsupported = |feature: &str, detail: &str| Error::UnsupportedSource {
            feature: feature.to_owned(),
            place: place.to_owned(),
            detail: detail.to_owned(),
        };
        let number = |key: &str| match self.get(key) {
            None => Ok(None),
            Some(text) => {
                text.parse::<u32>().map(Some).map_err(|_| Error::malformed(place, format!("{key}={text} is no number")))
            }
        };
        // Tables of the first Hudi releases have no version at all.
        let version = number("hoodie.table.version")?.unwrap_or(0);
        let layout = match (version, number("hoodie.timeline.layout.version")?) {
            (0..=6, None | Some(0 | 1)) => Layout::One,
            (8 | 9, None | Some(2)) => Layout::Two,
            (0..=6 | 8 | 9, Some(layout)) => {
                let detail = format!("table version {version} with timeline layout {layout} is not a known pair");
                return Err(unsupported("hoodie.timeline.layout.version", &detail));
            }
            _ => {
                let detail = format!("table version {version} is not read; versions up to 6, 8 and 9 are");
                return Err(unsupported("hoodie.table.version", &detail));
            }
        };
        match self.get("hoodie.table.type") {
            None | Some("COPY_ON_WRITE" | "MERGE_ON_READ") => {}
            Some(other) => {
                return Err(unsupported(
                    "hoodie.table.type",
                    &format!("table type {other} does not exist in the specification"),
                ));
            }
        }
        match self.get("hoodie.table.base.file.format") {
            None => {}
            Some(format) if format.eq_ignore_ascii_case("PARQUET") => {}
            Some(format) => {
                let detail =
                    format!("base files are {format}; only PARQUET can be shared with the other table formats");
                return Err(unsupported("hoodie.table.base.file.format", &detail));
            }
        }
        if self.get("hoodie.table.format").is_some_and(|f| !f.eq_ignore_ascii_case("native")) {
            return Err(unsupported(
                "hoodie.table.format",
                "the table keeps its metadata in another format; read that one",
            ));
        }
        Ok(layout)
    }
}

/// Writes properties with their checksum, which is taken of `<database>.<table>`.
pub(super) fn write<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>, qualified_name: &str) -> String {
    let escape = |text: &str, key: bool| {
        let mut out = String::with_capacity(text.len());
        for (at, c) in text.chars().enumerate() {
            match c {
                '\\' | '=' | ':' | '#' | '!' => out.extend(['\\', c]),
                ' ' if key || at == 0 => out.push_str("\\ "),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                // Java reads the file as ISO 8859-1.
                c if !c.is_ascii() => {
                    let mut units = [0; 2];
                    out.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
                }
                c => out.push(c),
            }
        }
        out
    };
    let mut out = String::from("#Written by hoglake\n");
    for (key, value) in pairs {
        out.push_str(&format!("{}={}\n", escape(key, true), escape(value, false)));
    }
    out.push_str(&format!("hoodie.table.checksum={}\n", crc32fast::hash(qualified_name.as_bytes())));
    out
}

/// Splits a logical line at the first unescaped `=`, `:` or blank, and resolves the escapes of both sides.
fn pair(line: &str) -> Option<(String, String)> {
    let mut escaped = false;
    let mut end = line.len();
    for (at, c) in line.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if matches!(c, '=' | ':' | ' ' | '\t' | '\u{c}') {
            end = at;
            break;
        }
    }
    let blank = [' ', '\t', '\u{c}'];
    let rest = line.get(end..)?.trim_start_matches(blank);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest).trim_start_matches(blank);
    Some((unescape(line.get(..end)?)?, unescape(rest)?))
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    // `\u` escapes are UTF-16 units: two of them may make one character.
    let mut units: Vec<u16> = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let plain = match c {
            '\\' => match chars.next() {
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).collect();
                    units.push(u16::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4)?);
                    continue;
                }
                Some('n') => '\n',
                Some('t') => '\t',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some(other) => other,
                None => break,
            },
            other => other,
        };
        out.push_str(&String::from_utf16(&std::mem::take(&mut units)).ok()?);
        out.push(plain);
    }
    out.push_str(&String::from_utf16(&units).ok()?);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Properties {
        Properties::parse("hoodie.properties", text.as_bytes()).unwrap()
    }

    #[test]
    fn lines_are_read_as_java_does() {
        let found = parse(
            "#comment\n!another\n a = 1 \nb\\:c:2\nd e\nf\\u00e9=\\ud83d\\ude00\nlong=a,\\\n   b\nempty=\nback\\\\=x\\\\\n",
        );
        let pairs: Vec<_> = found.0.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            pairs,
            [
                ("a", "1 "),
                ("b:c", "2"),
                ("back\\", "x\\"),
                ("d", "e"),
                ("empty", ""),
                ("f\u{e9}", "\u{1f600}"),
                ("long", "a,b")
            ]
        );
        assert_eq!((found.get("a"), found.get("empty"), found.list("long").len()), (Some("1"), None, 2));
        for bad in ["a=\\u12", "a=\\uzzzz", "a=\\ud83d"] {
            assert!(Properties::parse("p", bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let pairs = [("a b", " x=1"), ("k", "na\u{ef}ve: \u{1f600}\\"), ("l", "a\nb")];
        let back = parse(&write(pairs.into_iter(), ".hudi_dimCustomer"));
        for (key, value) in pairs {
            assert_eq!(back.0.get(key).map(String::as_str), Some(value), "{key}");
        }
        // What Hudi itself computed for that table.
        assert_eq!(back.get("hoodie.table.checksum"), Some("4138190594"));
    }

    #[test]
    fn only_known_versions_are_read() {
        for (text, layout) in [
            ("", Layout::One),
            ("hoodie.table.version=6\nhoodie.timeline.layout.version=1", Layout::One),
            ("hoodie.table.version=8\nhoodie.timeline.layout.version=2", Layout::Two),
            ("hoodie.table.version=9", Layout::Two),
        ] {
            assert_eq!(parse(text).check("p").unwrap(), layout);
        }
        for bad in [
            "hoodie.table.version=7",
            "hoodie.table.version=10",
            "hoodie.table.version=x",
            "hoodie.table.version=6\nhoodie.timeline.layout.version=2",
            "hoodie.table.type=OTHER",
            "hoodie.table.base.file.format=LANCE",
            "hoodie.table.format=iceberg",
        ] {
            assert!(parse(bad).check("p").is_err(), "{bad}");
        }
    }
}
