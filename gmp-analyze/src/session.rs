//! One trace read from its begin to its end, and what was made of it.

use crate::analysis::collect::Collector;
use crate::analysis::filter::{Filter, Only};
use crate::analysis::report::Report;
use crate::input::{self, Input};
use crate::machine::{Machine, Outcome, Sink};
use gmp_trace::check::Checker;
use std::ffi::OsStr;

/// Gives every event that is left of `input` to a machine with this sink.
///
/// # Errors
///
/// When the file cannot be read any further.
pub fn run<S: Sink>(input: &mut Input, sink: S) -> Result<Outcome<S>, input::Error> {
    let mut machine = Machine::new(sink);
    input.read_ahead(|event| machine.event(event))?;
    Ok(machine.finish())
}

/// Gives `sink` what is left of `input`, of goroutines only what `filter` takes.
///
/// # Errors
///
/// As [`run`].
pub fn run_filtered<S: Sink>(
    input: &mut Input,
    filter: &Filter,
    sink: S,
) -> Result<Outcome<S>, input::Error> {
    if filter.is_everything() {
        return run(input, sink);
    }
    let mut machine = Machine::new(Only::new(filter.clone(), sink));
    input.for_each_event(|event, tables| {
        machine.sink_mut().learn(event, tables);
        machine.event(event);
    })?;
    Ok(machine.finish().map(Only::into_sink))
}

/// The report on the trace at `path`; `lives` asks for the list of every goroutine, `progress` for
/// a bar on the terminal.
///
/// # Errors
///
/// When there is no such file, it cannot be read, or it is no trace that can be read.
pub fn report(path: &OsStr, lives: bool, progress: bool) -> Result<Report, input::Error> {
    let mut input = input::open(path, progress)?;
    let outcome = run(&mut input, Collector::new(lives))?;
    Ok(Report::new(
        outcome,
        input.facts(),
        input.tables(),
        input.anomalies(),
    ))
}

/// The report on the trace at `path`, with the rules that it breaks among its anomalies: the
/// validator of `gmp-trace`, which shares no code with the state machine, has seen every event too.
///
/// # Errors
///
/// As [`report`].
pub fn checked(path: &OsStr, progress: bool) -> Result<Report, input::Error> {
    let mut input = input::open(path, progress)?;
    let mut machine = Machine::new(Collector::new(false));
    let mut checker = Checker::new();
    input.read_ahead(|event| {
        checker.event(event);
        machine.event(event);
    })?;
    let mut anomalies = input.anomalies();
    anomalies.extend(input::broken_rules(&checker.finish(input.event_count())));
    Ok(Report::new(
        machine.finish(),
        input.facts(),
        input.tables(),
        anomalies,
    ))
}
