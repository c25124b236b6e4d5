//! Parses and aggregates an access log through a pipeline of goroutines.
//!
//! ```text
//! read_batches ──► parse ×4 ──► aggregate ──► report
//!                    │  ▲
//!                    ▼  │ one goroutine for each line with a payload: the work is uneven,
//!                 decode    so idle Ps steal
//! ```
//!
//! A watcher wakes up every few milliseconds and looks how far the others are. Record it and look at it:
//!
//! ```sh
//! GMPDEBUG=trace=trace.bin cargo run --release --example logpipe
//! gmp-analyze report trace.bin
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gmp_runtime::{Receiver, Runtime, Sender, channel, go, sleep};

const LINES_PER_BATCH: usize = 256;
const PARSERS: usize = 4;
const BATCHES_IN_FLIGHT: usize = 8;

/// What is known of one path of the site.
#[derive(Debug, Default, Clone)]
struct Statistics {
    requests: u64,
    errors: u64,
    bytes: u64,
    slowest_ms: u64,
    /// Sum of the checksums of the payloads that were sent to it.
    checksum: u64,
}

type Table = BTreeMap<String, Statistics>;

fn main() -> io::Result<()> {
    let lines = match std::env::args().nth(1) {
        Some(text) => text.parse().map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{text} is not a number of lines"),
            )
        })?,
        None => 200_000,
    };
    let path = std::env::temp_dir().join(format!("logpipe-{}.log", std::process::id()));
    generate(&path, lines)?;
    let runtime = Runtime::builder().build()?;
    // SAFETY: no reference into a thread-local and no guard of a std lock lives across a call that may
    // park: the pipeline passes owned values, and printing happens after it.
    let table = unsafe { runtime.run(|| pipeline(path.clone())) };
    std::fs::remove_file(&path)?;
    print(&table?, lines)
}

/// Reads, parses and aggregates the log at `path`.
fn pipeline(path: PathBuf) -> io::Result<Table> {
    let done = Arc::new(AtomicU64::new(0));
    let (batches, to_parse) = channel(BATCHES_IN_FLIGHT);
    let (partial, to_merge) = channel(0);
    let reader = go(move || read_batches(&path, &batches));
    for _ in 0..PARSERS {
        let (to_parse, partial, done) = (to_parse.clone(), partial.clone(), done.clone());
        go(move || parse(&to_parse, &partial, &done));
    }
    drop(partial);
    let aggregator = go(move || aggregate(&to_merge));
    go(move || watch(&done));
    let table = aggregator
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    reader
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    Ok(table)
}

/// Cuts the file into batches of lines.
fn read_batches(path: &Path, batches: &Sender<Vec<String>>) -> io::Result<()> {
    let mut batch = Vec::with_capacity(LINES_PER_BATCH);
    for line in BufReader::new(File::open(path)?).lines() {
        batch.push(line?);
        if batch.len() == LINES_PER_BATCH {
            let full = std::mem::replace(&mut batch, Vec::with_capacity(LINES_PER_BATCH));
            if batches.send(full).is_err() {
                return Err(io::Error::other("nobody parses any more"));
            }
        }
    }
    batches
        .send(batch)
        .map_err(|_| io::Error::other("nobody parses any more"))
}

/// Parses batches until there are no more, then passes on what it has counted.
fn parse(batches: &Receiver<Vec<String>>, partial: &Sender<Table>, done: &AtomicU64) {
    let mut table = Table::new();
    for batch in batches {
        // Lines with a payload are decoded beside the parsing, by whoever has time.
        let mut decoding = Vec::new();
        for line in &batch {
            let Some(request) = Request::parse(line) else {
                continue;
            };
            let entry = table.entry(request.path.to_owned()).or_default();
            entry.requests += 1;
            entry.errors += u64::from(request.status >= 500);
            entry.bytes += request.bytes;
            entry.slowest_ms = entry.slowest_ms.max(request.milliseconds);
            if let Some(payload) = request.payload {
                let payload = payload.to_owned();
                decoding.push((request.path, go(move || decode(&payload))));
            }
        }
        for (path, checksum) in decoding {
            if let (Some(entry), Ok(checksum)) = (table.get_mut(path), checksum.join()) {
                entry.checksum = entry.checksum.wrapping_add(checksum);
            }
        }
        // ordering: Relaxed: a figure to look at.
        done.fetch_add(batch.len() as u64, Ordering::Relaxed);
    }
    let _ = partial.send(table);
}

/// One line: `address method path status bytes milliseconds [payload]`.
struct Request<'a> {
    path: &'a str,
    status: u32,
    bytes: u64,
    milliseconds: u64,
    payload: Option<&'a str>,
}

impl<'a> Request<'a> {
    fn parse(line: &'a str) -> Option<Request<'a>> {
        let mut fields = line.split_ascii_whitespace().skip(2);
        Some(Request {
            path: fields.next()?,
            status: fields.next()?.parse().ok()?,
            bytes: fields.next()?.parse().ok()?,
            milliseconds: fields.next()?.parse().ok()?,
            payload: fields.next(),
        })
    }
}

/// Decodes a payload of hexadecimal digits and hashes it, several times over: some tens of microseconds.
fn decode(payload: &str) -> u64 {
    let bytes: Vec<u8> = payload
        .as_bytes()
        .chunks_exact(2)
        .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for _ in 0..200 {
        for &byte in &bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash
}

/// Adds up what the parsers have counted.
fn aggregate(partial: &Receiver<Table>) -> Table {
    let mut table = Table::new();
    for part in partial {
        for (path, more) in part {
            let entry = table.entry(path).or_default();
            entry.requests += more.requests;
            entry.errors += more.errors;
            entry.bytes += more.bytes;
            entry.slowest_ms = entry.slowest_ms.max(more.slowest_ms);
            entry.checksum = entry.checksum.wrapping_add(more.checksum);
        }
    }
    table
}

/// Looks at the progress until nothing moves any more.
fn watch(done: &AtomicU64) {
    let mut before = u64::MAX;
    loop {
        // ordering: Relaxed: a figure to look at.
        let now = done.load(Ordering::Relaxed);
        if now == before {
            return;
        }
        before = now;
        sleep(Duration::from_millis(5));
    }
}

/// Writes a log of `lines` lines, always the same one. One line in 40 has a payload, of uneven length.
fn generate(path: &Path, lines: u64) -> io::Result<()> {
    const PATHS: [&str; 6] = [
        "/",
        "/login",
        "/search",
        "/cart",
        "/checkout",
        "/api/v1/items",
    ];
    let mut out = BufWriter::new(File::create(path)?);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..lines {
        let path = PATHS[(random() % 6).min(random() % 6) as usize];
        let status = if random() % 97 == 0 { 503 } else { 200 };
        let (bytes, milliseconds) = (random() % 50_000, random() % 300);
        write!(
            out,
            "10.0.{}.{} GET {path} {status} {bytes} {milliseconds}",
            random() % 8,
            random() % 250
        )?;
        if random() % 40 == 0 {
            write!(out, " ")?;
            for _ in 0..(16 + random() % 240) {
                write!(out, "{:02x}", random() as u8)?;
            }
        }
        writeln!(out)?;
    }
    out.flush()
}

fn print(table: &Table, lines: u64) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let total: u64 = table.values().map(|entry| entry.requests).sum();
    writeln!(out, "{total} requests in {lines} lines")?;
    for (path, entry) in table {
        writeln!(
            out,
            "{path:<14} {:>7} requests {:>5} errors {:>11} bytes  slowest {:>3} ms  {:016x}",
            entry.requests, entry.errors, entry.bytes, entry.slowest_ms, entry.checksum
        )?;
    }
    Ok(())
}
