//! `convert`: the trace in another format.

use super::{damage, picture};
use crate::cli::args::{ConvertArgs, FormatArg};
use crate::cli::{Failure, Verdict};
use crate::diag::Counts;
use crate::input;
use crate::units::counted;
use gmp_trace::Body;
use gmp_trace::go::write::{Outcome, Writer};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub(super) fn run(args: &ConvertArgs) -> Result<Verdict, Failure> {
    let FormatArg::Go = args.to;
    let mut input = input::open(&args.trace, true)?;
    let outcome = if args.output == "-" {
        // Bytes, from which nothing may be stripped as the colours of text are.
        to_go(&mut input, io::stdout().lock(), Failure::Output)?
    } else {
        let path = Path::new(&args.output);
        let cannot = |error: io::Error| {
            let path = path.display();
            let message = format!("{path} cannot be written: {error}; name another file with -o");
            Failure::Usage(message)
        };
        if is_same_file(&args.trace, path) {
            let path = path.display();
            let message = format!(
                "{path} is the trace itself, which is still to be read; name another file with -o"
            );
            return Err(Failure::Usage(message));
        }
        to_go(&mut input, File::create(path).map_err(cannot)?, cannot)?
    };
    damage::note(&input, &Counts::default());
    let source = input.facts().source;
    for line in told(&outcome) {
        picture::note(&source, &line);
    }
    Ok(Verdict::Fine)
}

/// True where `trace` names the file that `output` names, by whatever path.
fn is_same_file(trace: &OsStr, output: &Path) -> bool {
    let identity = |path: &Path| {
        let metadata = path.metadata().ok()?;
        metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
    };
    let read = if trace == "-" {
        Path::new("/dev/stdin")
    } else {
        Path::new(trace)
    };
    identity(output).is_some_and(|output| identity(read) == Some(output))
}

/// Writes the trace to `out`, whose errors become what `failure` makes of them.
fn to_go(
    input: &mut input::Input,
    out: impl Write,
    failure: impl Fn(io::Error) -> Failure,
) -> Result<Outcome, Failure> {
    let mut writer = Writer::new(out, input.format());
    while let Some(event) = input.next_event()? {
        writer.event(&event, input.tables()).map_err(&failure)?;
        if let (Body::Sync { .. }, Some(allocations)) = (event.body, input.allocations()) {
            writer
                .allocations(allocations, input.tables())
                .map_err(&failure)?;
        }
    }
    writer.finish(input.tables()).map_err(failure)
}

/// What is not as it was, a line each.
fn told(outcome: &Outcome) -> Vec<String> {
    let list = |counts: &BTreeMap<&str, u64>| {
        let words: Vec<String> = counts
            .iter()
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        (counts.values().sum::<u64>(), words.join(", "))
    };
    let mut lines = Vec::new();
    let (left_out, kinds) = list(&outcome.left_out);
    if left_out > 0 {
        let events = counted(left_out, "event");
        lines.push(format!(
            "{events} left out, Go has nothing like them: {kinds}"
        ));
    }
    let (added, kinds) = list(&outcome.added);
    if added > 0 {
        let events = counted(added, "event");
        lines.push(format!("{events} added, which Go's reader wants: {kinds}"));
    }
    for (cut, what) in [
        (outcome.cut_strings, "string"),
        (outcome.cut_stacks, "stack"),
    ] {
        if cut > 0 {
            lines.push(format!("{} cut to Go's limits", counted(cut, what)));
        }
    }
    lines
}
