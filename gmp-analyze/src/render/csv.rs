//! One table as CSV (RFC 4180), with the fields that JSON has.

use super::table::{Field, Table};
use std::io;

/// Writes a line of field names and a line for each row.
///
/// # Errors
///
/// What `out` fails with.
pub fn table(out: &mut dyn io::Write, table: &Table) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(table.field_names())?;
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
    writer.flush()
}
