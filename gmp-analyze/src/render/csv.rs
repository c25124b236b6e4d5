//! One table as CSV (RFC 4180), with the fields that JSON has.

use super::table::{Cell, Column, Field, Table, fields_of};
use std::io;

/// Writes a line of field names and a line for each row.
///
/// # Errors
///
/// What `out` fails with.
pub fn table(out: &mut dyn io::Write, table: &Table) -> io::Result<()> {
    names(out, table.columns)?;
    rows(out, table)
}

/// Writes the line of field names.
pub(super) fn names(out: &mut dyn io::Write, columns: &[Column]) -> io::Result<()> {
    let fields = columns
        .iter()
        .flat_map(|column| fields_of(column, &Cell::Nothing));
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(fields.map(|(name, _)| name).collect::<Vec<_>>())?;
    writer.flush()
}

/// Writes a line for each row.
pub(super) fn rows(out: &mut dyn io::Write, table: &Table) -> io::Result<()> {
    // Whoever writes row by row does not want each of them to reach the disk alone.
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in &table.rows {
        let fields = table.fields(row).map(|(_, field)| match field {
            Field::Null => String::new(),
            Field::Text(text) => text.to_owned(),
            Field::Integer(number) => number.to_string(),
            Field::Number(number) => number.to_string(),
            Field::Flag(flag) => flag.to_string(),
        });
        writer.write_record(fields)?;
    }
    let bytes = writer
        .into_inner()
        .map_err(csv::IntoInnerError::into_error)?;
    out.write_all(&bytes)
}
