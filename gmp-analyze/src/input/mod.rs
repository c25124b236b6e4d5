//! Traces from files and standard input: opened, told apart, unpacked, read with progress.

mod ahead;
mod facts;
mod progress;
mod sniff;
mod text;
mod unpack;

pub use facts::TraceFacts;
pub use text::{Opened, TextLines, open_trace_or_text};

use crate::diag::{Anomaly, First, Severity, Source};
use flate2::read::MultiGzDecoder;
use gmp_trace::go::experiment::Allocations;
use gmp_trace::info::TraceFormat;
use gmp_trace::tables::Tables;
use gmp_trace::time::Nanos;
use gmp_trace::{Event, Options, ReadAt, Reader};
use progress::{Progress, ProgressAt};
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
    let source = name_of(path);
    let fail = |message: String| Error {
        source: source.clone(),
        message,
    };
    if let Some(file) = plain_trace(path, progress) {
        return Input::new(options().open_at(file), source, Damage::default());
    }
    let (bytes, damage, _) = trace_bytes(path, progress, is_trace).map_err(fail)?;
    Input::new(options().open(bytes), source, damage)
}

/// Two processors are busy with reading and analysis; where there are more, one may decode for the
/// reader.
fn options() -> Options {
    match std::thread::available_parallelism() {
        Ok(processors) if processors.get() > 2 => Options::new(),
        _ => Options::new().one_thread(),
    }
}

/// The file at `path`, where it is a trace as it stands there: one that can be read at any place.
/// Whatever is wrong with another one is found when it is opened as a stream.
fn plain_trace(path: &OsStr, progress: bool) -> Option<ProgressAt> {
    // A pipe must be opened once: whoever writes to it would lose its reader.
    if path == "-" || !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    let mut first = [0; LOOKED_AT];
    let looked = file.read_at(&mut first, 0).ok()?;
    let found = sniff::kind(first.get(..looked)?);
    is_trace(found).then(|| ProgressAt::new(file, length, progress))
}

/// Writes the records of the trace at `path` to `out` as text, as they are in the file.
///
/// # Errors
///
/// As [`open`]; when `out` cannot be written to, which is the second kind of error. A Go trace is
/// held in memory as a whole.
pub fn raw(path: &OsStr, out: &mut impl io::Write) -> Result<io::Result<()>, Error> {
    let source = name_of(path);
    let fail = |message: String| Error {
        source: source.clone(),
        message,
    };
    let (mut bytes, _, kind) = trace_bytes(path, false, is_trace).map_err(fail)?;
    let written = if kind == Kind::Go {
        let mut whole = Vec::new();
        let read = bytes.read_to_end(&mut whole);
        read.map_err(|error| fail(format!("cannot be read: {error}")))?;
        gmp_trace::go::text::to_text(&whole, out)
    } else {
        gmp_trace::text::to_text(bytes, out).map(drop)
    };
    match written {
        Ok(()) => Ok(Ok(())),
        Err(error) if error.is_io() => Ok(Err(io_cause(&error))),
        Err(error) => Err(fail(error.to_string())),
    }
}

/// The input or output error under `error`, as one that can be given on.
fn io_cause(error: &gmp_trace::Error) -> io::Error {
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    let kind = source.map_or(io::ErrorKind::Other, io::Error::kind);
    io::Error::new(kind, error.to_string())
}

fn name_of(path: &OsStr) -> String {
    if path == "-" {
        STANDARD_INPUT.to_owned()
    } else {
        Path::new(path).display().to_string()
    }
}

/// Where the bytes of a trace come from.
type Bytes = Box<dyn Read + Send>;

fn is_trace(kind: Kind) -> bool {
    matches!(kind, Kind::Gmp | Kind::Go)
}

/// The unpacked bytes of the file at `path`, its damage, and its kind, which is one that `accepts`
/// takes.
fn trace_bytes(
    path: &OsStr,
    progress: bool,
    accepts: fn(Kind) -> bool,
) -> Result<(Bytes, Damage, Kind), String> {
    let (bytes, length): (Bytes, Option<u64>) = if path == "-" {
        (Box::new(io::stdin()), None)
    } else {
        let (file, length) = open_file(Path::new(path))?;
        (Box::new(file), length)
    };
    unpacked(Box::new(Progress::new(bytes, length, progress)), accepts)
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

/// Looks at the first bytes, and unpacks what is packed.
fn unpacked(mut bytes: Bytes, accepts: fn(Kind) -> bool) -> Result<(Bytes, Damage, Kind), String> {
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
    if !accepts(kind) {
        return Err(sniff::not_a_trace(kind, wrapping, &first));
    }
    Ok((Box::new(io::Cursor::new(first).chain(bytes)), damage, kind))
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
    fn new(
        reader: Result<Reader, gmp_trace::Error>,
        source: String,
        damage: Damage,
    ) -> Result<Input, Error> {
        match reader {
            Ok(reader) => Ok(Input {
                reader,
                source,
                damage,
            }),
            Err(error) => Err(Error {
                source,
                message: error.to_string(),
            }),
        }
    }

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

    /// Calls `each` for every event, while another thread reads ahead.
    ///
    /// # Errors
    ///
    /// As [`Input::for_each_event`].
    pub fn read_ahead(&mut self, each: impl FnMut(&Event)) -> Result<(), Error> {
        ahead::for_each_event(&mut self.reader, each).map_err(|error| self.failed(&error))
    }

    /// How many events the trace has given.
    pub fn event_count(&self) -> u64 {
        self.reader.info().events
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

    /// The format of the trace.
    pub fn format(&self) -> TraceFormat {
        self.reader.info().format
    }

    /// What the ids in events of Go's experiment about allocations mean, so far.
    pub fn allocations(&self) -> Option<&Allocations> {
        self.reader.allocations()
    }

    /// True for a trace of Go.
    pub fn is_of_go(&self) -> bool {
        matches!(self.reader.info().format, TraceFormat::Go { .. })
    }

    /// What the trace says of itself, as far as it was read.
    pub fn facts(&self) -> TraceFacts {
        let info = self.reader.info();
        TraceFacts {
            source: self.source.clone(),
            of_go: self.is_of_go(),
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

/// The rules that a trace breaks, as anomalies; each tells the first break.
pub fn broken_rules(report: &gmp_trace::check::Report) -> Vec<Anomaly> {
    let anomaly = |(rule, &count): (&gmp_trace::check::Rule, &u64)| {
        let first = report.broken.iter().find(|broken| broken.rule == *rule);
        let what = first.map_or(String::new(), |broken| {
            format!(" (First: {}.)", broken.what)
        });
        Anomaly {
            kind: with_hyphens(&format!("{rule:?}")),
            source: Source::Trace,
            severity: Severity::Error,
            count,
            first: first.map_or(First::Nowhere, |broken| {
                First::Event(broken.order, broken.time)
            }),
            meaning: format!("{}{what}", rule.sentence()),
        }
    };
    report.counts.iter().map(anomaly).collect()
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
    use std::process::Command;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn a_pipe_is_not_opened_to_look_at_it() {
        let pipe = std::env::temp_dir().join(format!("gmp-analyze-pipe-{}", std::process::id()));
        let made = Command::new("mkfifo").arg(&pipe).status().expect("runs");
        assert!(made.success());
        let (tell, told) = channel();
        let path = pipe.clone();
        let looking = std::thread::spawn(move || {
            let is_none = plain_trace(path.as_os_str(), false).is_none();
            tell.send(is_none).expect("somebody who listens");
        });
        // Nobody writes to it, so that whoever opens it waits.
        let is_none = told.recv_timeout(Duration::from_secs(60));
        let mut both = File::options();
        drop(both.read(true).write(true).open(&pipe).expect("opens"));
        looking.join().expect("no panic");
        std::fs::remove_file(&pipe).expect("removed");
        assert_eq!(is_none, Ok(true));
    }

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
