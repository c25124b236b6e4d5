//! Prints the records of a Go trace, as `go tool trace -d=wire` does, or turns such text back into a
//! trace.
//!
//! ```text
//! cargo run --features go --example go_text -- trace.out > trace.txt
//! cargo run --features go --example go_text -- --back trace.txt > trace.out
//! ```

use std::error::Error;
use std::io::{Write, stdout};

use gmp_trace::go::text;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut out = stdout().lock();
    match arguments.as_slice() {
        [path] => text::to_text(&std::fs::read(path)?, &mut out)?,
        [flag, path] if flag == "--back" => {
            out.write_all(&text::from_text(&std::fs::read_to_string(path)?)?)?;
        }
        _ => return Err("expected [--back] and a path".into()),
    }
    Ok(())
}
