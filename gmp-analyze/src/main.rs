//! `gmp-analyze`: explains traces of goroutine schedulers. Exit codes only; the rest is in the
//! library.

use std::process::ExitCode;

fn main() -> ExitCode {
    gmp_analyze::cli::run()
}
