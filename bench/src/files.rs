//! Where the harness keeps the programs it builds and the traces it records.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The program that is running.
pub(crate) fn own_program() -> Result<PathBuf, String> {
    std::env::current_exe()
        .map_err(|error| format!("cannot find the harness's own program: {error}"))
}

/// A directory beside the harness's own program, inside the target directory; made when missing.
pub(crate) fn directory() -> Result<PathBuf, String> {
    let directory = own_program()?.with_file_name("gmp-bench-files");
    std::fs::create_dir_all(&directory)
        .map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    Ok(directory)
}

/// Removes the file at `path`; that there is none is fine.
pub(crate) fn remove(path: &Path) -> Result<(), String> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(format!("cannot remove {}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}
