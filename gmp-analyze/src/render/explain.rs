//! What the columns of tables and the rules of findings mean.

use super::columns;
use super::style::{self, paint};
use super::table::{Cell, fields_of};
use super::text::wrapped;
use crate::analysis::findings::RULES;
use std::io;

/// Writes every rule and every column with its meaning, in lines of at most `width` columns.
///
/// # Errors
///
/// What `out` fails with.
pub fn everything(out: &mut dyn io::Write, width: usize) -> io::Result<()> {
    writeln!(out, "{}", paint(style::TITLE, "Findings"))?;
    for rule in RULES {
        writeln!(out, "  {}", rule.name())?;
        wrapped(
            out,
            rule.about(),
            "      ",
            "      ",
            width,
            Some(style::QUIET),
        )?;
    }
    for (name, columns) in columns::all() {
        writeln!(out, "\n{}", paint(style::TITLE, name))?;
        for column in columns {
            let fields: Vec<String> = fields_of(column, &Cell::Nothing)
                .into_iter()
                .map(|(field, _)| field)
                .collect();
            let heading = match column.heading {
                "" => String::new(),
                heading => format!("  in text: {heading}"),
            };
            writeln!(
                out,
                "  {}{}",
                fields.join(", "),
                paint(style::QUIET, &heading)
            )?;
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
