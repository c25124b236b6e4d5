//! Which tables SQL can be asked over.

use super::style::{self, paint};
use super::text::wrapped;
use crate::tables::schema::Table;
use std::io;

/// Writes every table and every column with type, unit and meaning, in lines of at most `width` columns.
///
/// # Errors
///
/// What `out` fails with.
pub fn list(out: &mut dyn io::Write, width: usize) -> io::Result<()> {
    for (number, table) in Table::ALL.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", paint(style::TITLE, table.name()))?;
        wrapped(out, table.about(), "  ", "  ", width, Some(style::QUIET))?;
        for column in table.columns() {
            let comma = if column.unit.words().is_empty() {
                ""
            } else {
                ", "
            };
            let (of_type, unit) = (column.unit.sql_type(), column.unit.words());
            writeln!(out, "  {} {of_type}{comma}{unit}", column.name)?;
            wrapped(
                out,
                column.about,
                "      ",
                "      ",
                width,
                Some(style::QUIET),
            )?;
        }
    }
    Ok(())
}
