//! Turns a trace of either kind into one that `go tool trace` opens.
//!
//! ```text
//! cargo run --release --features go --example go_write -- trace.gmpt trace.out
//! go tool trace trace.out
//! ```

use std::error::Error;
use std::fs::File;

use gmp_trace::Body;
use gmp_trace::go::write::Writer;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = arguments.as_slice() else {
        return Err("expected a trace and where to write".into());
    };
    let mut reader = gmp_trace::open(File::open(from)?)?;
    let mut writer = Writer::new(File::create(to)?, reader.info().format);
    while let Some(event) = reader.next()? {
        writer.event(&event, reader.tables())?;
        // Of Go's experiment about allocations, which few traces have.
        if let (Body::Sync { .. }, Some(allocations)) = (event.body, reader.allocations()) {
            writer.allocations(allocations, reader.tables())?;
        }
    }
    let outcome = writer.finish(reader.tables())?;
    println!(
        "{} events in {} bytes, go 1.{}",
        outcome.events, outcome.bytes, outcome.version
    );
    for (kind, count) in outcome.left_out {
        println!("{count:>8} {kind} left out");
    }
    for (kind, count) in outcome.added {
        println!("{count:>8} {kind} added");
    }
    Ok(())
}
