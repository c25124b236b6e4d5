//! What commands that draw have in common: where pictures go, and what is said about them.

use crate::cli::Failure;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;

/// Writes `picture` to the file `to`; to `out` where that is `-`.
pub(super) fn write(to: &OsStr, picture: &str, out: &mut dyn Write) -> Result<(), Failure> {
    if to == "-" {
        out.write_all(picture.as_bytes())?;
        return Ok(());
    }
    std::fs::write(to, picture).map_err(|error| {
        let path = Path::new(to).display();
        Failure::Usage(format!(
            "{path} cannot be written: {error}; name another file with -o"
        ))
    })
}

/// The name of a trace without its directories, so that a picture is the same wherever it lies.
pub(super) fn name_of(source: &str) -> &str {
    Path::new(source)
        .file_name()
        .and_then(OsStr::to_str)
        .unwrap_or(source)
}

/// Says on standard error what a picture lacks.
pub(super) fn note(source: &str, what: &str) {
    // Where standard error is closed, the picture still says it.
    let _ = writeln!(io::stderr(), "gmp-analyze: {source}: {what}");
}
