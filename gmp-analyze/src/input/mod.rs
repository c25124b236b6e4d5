//! Traces from files and standard input: opened, told apart, unpacked, read with progress.

mod facts;
mod progress;
mod sniff;
mod unpack;

pub use facts::TraceFacts;

use crate::diag::{Anomaly, First, Severity, Source};
use flate2::read::MultiGzDecoder;
use gmp_trace::info::TraceFormat;
use gmp_trace::tables::Tables;
use gmp_trace::time::Nanos;
use gmp_trace::{Event, Reader};
use progress::Progress;
use sniff::Kind;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use unpack::{Damage, Unpacked};

/// Bytes that are looked at to tell what a file is.
const LOOKED_AT: usize = 512;

/// What a user sees for standard input.
const STANDARD_INPUT: &str = "standard input";

/// Why a trace cannot be read: one line that says what was expected, what was found, and what to
/// do.
#[derive(Debug)]
pub struct Error {
    source: String,
    message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.message)
    }
}

impl std::error::Error for Error {}

/// A trace that can be read.
#[derive(Debug)]
pub struct Input {
    reader: Reader,
    source: String,
    damage: Damage,
}

/// Opens the trace at `path`; `-` is standard input. Gzip is unpacked on the way. `progress` shows
/// a bar on standard error when reading takes longer than a second.
///
/// # Errors
///
/// When there is no such file, it cannot be read, or it is no trace that can be read.
pub fn open(path: &OsStr, progress: bool) -> Result<Input, Error> {
    let is_standard_input = path == "-";
    let source = if is_standard_input {
        STANDARD_INPUT.to_owned()
    } else {
        Path::new(path).display().to_string()
    };
    let fail = |message: String| Error {
        source: source.clone(),
        message,
    };
    let (bytes, length): (Box<dyn Read + Send>, Option<u64>) = if is_standard_input {
        (Box::new(io::stdin()), None)
    } else {
        let (file, length) = open_file(Path::new(path)).map_err(fail)?;
        (Box::new(file), length)
    };
    let bytes = Progress::new(bytes, length, progress);
    let (reader, damage) = begin(Box::new(bytes)).map_err(fail)?;
    Ok(Input {
        reader,
        source,
        damage,
    })
}

fn open_file(path: &Path) -> Result<(File, Option<u64>), String> {
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            "expected a trace, found no such file: check the name".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "expected a trace, found a file that may not be read: check its permissions".to_owned()
        }
        _ => format!("cannot be opened: {error}"),
    })?;
    let metadata = file
        .metadata()
        .map_err(|error| format!("cannot be examined: {error}"))?;
    if metadata.is_dir() {
        return Err("expected a trace, found a directory: name a file in it".to_owned());
    }
    Ok((file, metadata.is_file().then_some(metadata.len())))
}

/// Looks at the first bytes and opens the reader for them.
fn begin(mut bytes: Box<dyn Read + Send>) -> Result<(Reader, Damage), String> {
    let mut damage = Damage::default();
    let mut first = look(&mut bytes)?;
    let mut kind = sniff::kind(&first);
    let mut wrapping = "";
    if kind == Kind::Gzip {
        let whole = io::Cursor::new(first).chain(bytes);
        let unpacked = Unpacked::new(MultiGzDecoder::new(whole));
        damage = unpacked.damage();
        bytes = Box::new(unpacked);
        first = look(&mut bytes)?;
        kind = sniff::kind(&first);
        wrapping = "gzip of ";
        if first.is_empty() && damage.message().is_some() {
            return Err("expected a trace, found damaged gzip: get a whole copy".to_owned());
        }
    }
    if !matches!(kind, Kind::Gmp | Kind::Go) {
        return Err(sniff::not_a_trace(kind, wrapping, &first));
    }
    match gmp_trace::open(io::Cursor::new(first).chain(bytes)) {
        Ok(reader) => Ok((reader, damage)),
        Err(error) => Err(error.to_string()),
    }
}

/// The first bytes, fewer only where there are no more.
fn look(bytes: &mut dyn Read) -> Result<Vec<u8>, String> {
    let mut first = Vec::with_capacity(LOOKED_AT);
    bytes
        .take(LOOKED_AT as u64)
        .read_to_end(&mut first)
        .map_err(|error| format!("cannot be read: {error}"))?;
    Ok(first)
}

impl Input {
    /// Calls `each` for every event, with the tables that it refers to.
    ///
    /// # Errors
    ///
    /// When the file cannot be read any further. Damage is no error: it is counted.
    pub fn for_each_event(&mut self, each: impl FnMut(&Event, &Tables)) -> Result<(), Error> {
        self.reader
            .for_each_event(each)
            .map_err(|error| self.failed(&error))
    }

    /// The next event; `None` at the end.
    ///
    /// # Errors
    ///
    /// As [`Input::for_each_event`].
    pub fn next_event(&mut self) -> Result<Option<Event>, Error> {
        self.reader.next().map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &gmp_trace::Error) -> Error {
        Error {
            source: self.source.clone(),
            message: error.to_string(),
        }
    }

    /// What events refer to.
    pub fn tables(&self) -> &Tables {
        self.reader.tables()
    }

    /// What the trace says of itself, as far as it was read.
    pub fn facts(&self) -> TraceFacts {
        let info = self.reader.info();
        TraceFacts {
            source: self.source.clone(),
            format: match info.format {
                TraceFormat::Native { major, minor } => format!("gmp trace {major}.{minor}"),
                TraceFormat::Go { version } => format!("Go 1.{version} trace"),
            },
            bytes: info.bytes,
            generations: info.generations,
            finished: info.finished,
            started_at: info.wall_start,
        }
    }

    /// What the reader found wrong so far.
    pub fn anomalies(&self) -> Vec<Anomaly> {
        let mut anomalies: Vec<Anomaly> = self.reader.anomalies().iter().map(of_reader).collect();
        if let Some(message) = self.damage.message() {
            anomalies.push(Anomaly {
                kind: "damaged-gzip".to_owned(),
                source: Source::Trace,
                severity: Severity::DataLoss,
                count: 1,
                first: First::Nowhere,
                meaning: format!(
                    "The gzip file is cut or damaged; what came before was read ({message})."
                ),
            });
        }
        anomalies
    }
}

/// A reader's anomaly as one of ours.
fn of_reader(anomaly: &gmp_trace::anomaly::Anomaly) -> Anomaly {
    let unit = anomaly.kind.unit();
    let sentence = anomaly.kind.sentence();
    let meaning = match unit.strip_prefix("ns ") {
        Some(rest) => {
            let time = Nanos(i64::try_from(anomaly.amount).unwrap_or(i64::MAX));
            format!("{sentence} ({} {rest})", crate::units::duration(time))
        }
        None if unit.is_empty() || anomaly.amount == 0 => sentence.to_owned(),
        None => format!(
            "{sentence} ({}: {})",
            unit,
            crate::units::count(anomaly.amount)
        ),
    };
    Anomaly {
        kind: with_hyphens(&format!("{:?}", anomaly.kind)),
        source: Source::Trace,
        severity: match anomaly.kind.severity() {
            gmp_trace::anomaly::Severity::Info => Severity::Info,
            gmp_trace::anomaly::Severity::DataLoss => Severity::DataLoss,
            gmp_trace::anomaly::Severity::Error => Severity::Error,
        },
        count: anomaly.count,
        first: First::Offset(anomaly.first_offset),
        meaning,
    }
}

/// `ClockSkew` as `clock-skew`.
fn with_hyphens(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 4);
    for (place, c) in name.chars().enumerate() {
        if c.is_ascii_uppercase() && place > 0 {
            text.push('-');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_the_reader_become_names() {
        let mut names = 0;
        for &kind in gmp_trace::anomaly::AnomalyKind::ALL {
            let name = with_hyphens(&format!("{kind:?}"));
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'),
                "{name}"
            );
            names += 1;
        }
        assert!(names > 10);
        assert_eq!(with_hyphens("ClockSkew"), "clock-skew");
    }
}
