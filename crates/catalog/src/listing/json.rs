//! Rows of files as JSON bytes, in the shapes of the contract.

use super::copy::{Row, big};
use crate::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hoglake_model::{Bounds, ColumnType};
use std::collections::HashMap;

/// Appends `number`.
pub(crate) fn push_number(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends `text`, which is UTF-8, as a JSON string.
pub(crate) fn push_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    let mut plain = 0;
    for (index, byte) in text.iter().enumerate() {
        if *byte >= 0x20 && *byte != b'"' && *byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&text[plain..index]);
        plain = index + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(control >> 4)]);
                out.push(HEX[usize::from(control & 15)]);
            }
        }
    }
    out.extend_from_slice(&text[plain..]);
    out.push(b'"');
}

/// Appends `,"name":number`.
fn push_member(out: &mut Vec<u8>, name: &'static str, number: i64) {
    out.extend_from_slice(name.as_bytes());
    push_number(out, number);
}

/// Appends the `DataFile` of the next eleven fields; returns its id, and whether its statistics are provided.
///
/// Fields: id, path, record count, size, footer size, first row id, statistics state, begin, spec, partition values,
/// explicit row ids.
pub(crate) fn push_data_file(out: &mut Vec<u8>, row: &mut Row) -> Result<(i64, bool)> {
    let id = row.required_number()?;
    push_member(out, "{\"data_file_id\":", id);
    out.extend_from_slice(b",\"path\":");
    push_string(out, row.bytes()?.unwrap_or_default());
    push_member(out, ",\"file_format\":\"parquet\",\"record_count\":", row.required_number()?);
    push_member(out, ",\"file_size_bytes\":", row.required_number()?);
    if let Some(footer_size) = row.number()? {
        push_member(out, ",\"footer_size\":", footer_size);
    }
    push_member(out, ",\"row_id_start\":", row.required_number()?);
    out.extend_from_slice(b",\"stats_state\":");
    let state = row.bytes()?.unwrap_or_default();
    push_string(out, state);
    let provided = state == b"provided";
    push_member(out, ",\"begin_snapshot\":", row.required_number()?);
    if let Some(spec_id) = row.number()? {
        push_member(out, ",\"spec_id\":", spec_id);
    }
    if let Some(values) = row.array()? {
        out.extend_from_slice(b",\"partition_values\":[");
        for (index, value) in values.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            match value {
                Some(value) => push_string(out, value),
                None => out.extend_from_slice(b"null"),
            }
        }
        out.push(b']');
    }
    let explicit: &[u8] = if row.boolean()? { b",\"explicit_row_ids\":true}" } else { b",\"explicit_row_ids\":false}" };
    out.extend_from_slice(explicit);
    Ok((id, provided))
}

/// Appends the `DeleteFile` of the next six fields, or nothing where the first is null, and returns its data file's id.
///
/// Fields: id, data file, path, delete count, size, begin.
pub(crate) fn push_delete_file(out: &mut Vec<u8>, row: &mut Row) -> Result<Option<i64>> {
    let Some(id) = row.number()? else {
        for _ in 0..5 {
            row.bytes()?;
        }
        return Ok(None);
    };
    push_member(out, "{\"delete_file_id\":", id);
    let data_file = row.required_number()?;
    push_member(out, ",\"data_file_id\":", data_file);
    out.extend_from_slice(b",\"path\":");
    push_string(out, row.bytes()?.unwrap_or_default());
    push_member(out, ",\"file_format\":\"puffin-dv\",\"delete_count\":", row.required_number()?);
    push_member(out, ",\"file_size_bytes\":", row.required_number()?);
    push_member(out, ",\"begin_snapshot\":", row.required_number()?);
    out.push(b'}');
    Ok(Some(data_file))
}

/// Appends the `column_stats` of the next seven fields. Where they are null, the file was registered with statistics of no
/// column, if they are `provided`; else nothing is appended and false returned. Columns that `types` does not have are
/// left out, and so are columns without both counts; bounds are brought into the type.
///
/// Fields, parallel arrays: field ids, value counts, null counts, NaN counts, sizes, lower bounds, upper bounds.
pub(crate) fn push_statistics(
    out: &mut Vec<u8>,
    row: &mut Row,
    types: &HashMap<i64, ColumnType>,
    provided: bool,
) -> Result<bool> {
    let mut fields: Vec<i64> = Vec::new();
    let known = match row.array()? {
        Some(ids) => {
            for id in ids {
                fields.push(id.and_then(|b| b.try_into().ok()).map_or(0, |b| i64::from(i32::from_be_bytes(b))));
            }
            true
        }
        None => false,
    };
    let mut numbers: [Vec<Option<i64>>; 4] = Default::default();
    for column in &mut numbers {
        if let Some(array) = row.array()? {
            for element in array {
                column.push(element.map(big).transpose()?);
            }
        }
    }
    let mut bounds: [Vec<Option<Vec<u8>>>; 2] = Default::default();
    for side in &mut bounds {
        if let Some(array) = row.array()? {
            side.extend(array.map(|element| element.map(<[u8]>::to_vec)));
        }
    }
    if !known && !provided {
        return Ok(false);
    }
    out.push(b'[');
    let start = out.len();
    let [values, nulls, nans, sizes] = &numbers;
    let at = |column: &Vec<Option<i64>>, index: usize| column.get(index).copied().flatten();
    for (index, field) in fields.iter().enumerate() {
        let (Some(ty), Some(value_count), Some(null_count)) = (types.get(field), at(values, index), at(nulls, index))
        else {
            continue;
        };
        if out.len() > start {
            out.push(b',');
        }
        push_member(out, "{\"field_id\":", *field);
        push_member(out, ",\"value_count\":", value_count);
        push_member(out, ",\"null_count\":", null_count);
        if let Some(nan_count) = at(nans, index) {
            push_member(out, ",\"nan_count\":", nan_count);
        }
        if let Some(size) = at(sizes, index) {
            push_member(out, ",\"size_bytes\":", size);
        }
        let side = |side: usize| bounds[side].get(index).and_then(|bound| bound.as_deref());
        let bounds = Bounds::stored(*ty, side(0), side(1));
        for (name, bound) in [(",\"lower_bound\":\"", bounds.lower()), (",\"upper_bound\":\"", bounds.upper())] {
            if let Some(bound) = bound {
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(STANDARD.encode(bound).as_bytes());
                out.push(b'"');
            }
        }
        out.push(b'}');
    }
    out.push(b']');
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn strings_come_back_as_they_were(text in any::<String>(), controls in "[\\x00-\\x1f\"\\\\a]{0,20}") {
            for text in [text, controls] {
                let mut out = Vec::new();
                push_string(&mut out, text.as_bytes());
                prop_assert_eq!(serde_json::from_slice::<String>(&out).ok(), Some(text));
            }
        }
    }
}
