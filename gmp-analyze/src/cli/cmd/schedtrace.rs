//! `schedtrace`: Go's SCHED lines rebuilt from a trace, or captured ones summed up.

use super::{damage, picture::note, range};
use crate::analysis::schedtrace::{Captured, MOST_MOMENTS, Request, Sampler, Summary};
use crate::cli::args::SchedtraceArgs;
use crate::cli::{Failure, Verdict, config};
use crate::input::{self, Input, Opened, TextLines};
use crate::render::schedtrace::{self as render, Form, MomentWriter};
use crate::render::{csv, table::Table};
use crate::units;
use std::io::Write;

pub(super) fn run(args: &SchedtraceArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    match input::open_trace_or_text(&args.trace, true)? {
        Opened::Trace(input) => of_trace(args, *input, out)?,
        Opened::Text(lines) => of_text(args, lines, out)?,
    }
    Ok(Verdict::Fine)
}

fn of_trace(args: &SchedtraceArgs, mut input: Input, out: &mut dyn Write) -> Result<(), Failure> {
    let request = Request {
        every: args.every,
        window: range::window(&args.range)?,
        detail: args.detail,
        of_go: input.is_of_go(),
    };
    let form = match (args.json, args.csv) {
        (true, _) => Form::Json,
        (_, true) => Form::Csv,
        _ => Form::Lines,
    };
    let source = input.facts().source;
    let mut summary = Summary::default();
    let mut sampler = Sampler::new(request);
    let mut writer = MomentWriter::new(out, form, source.clone());
    if args.summary {
        input.for_each_event(|event, _| {
            sampler.event(event, &mut |moment| summary.moment(moment))
        })?;
        sampler.finish(&mut |moment| summary.moment(moment));
        let moments = units::counted(sampler.moments(), "moment");
        let note = format!("{moments}, {} apart", units::duration(args.every));
        show(args, &source, &render::summary(&summary, note), out)?;
    } else {
        input.for_each_event(|event, tables| {
            sampler.event(event, &mut |moment| writer.moment(moment, tables));
        })?;
        let tables = input.tables();
        sampler.finish(&mut |moment| writer.moment(moment, tables));
        writer.finish()?;
    }
    damage::note(&input, sampler.counts());
    range::note(&args.range, &source, sampler.events() > 0, sampler.end());
    if sampler.moments() == MOST_MOMENTS {
        let moments = units::count(MOST_MOMENTS);
        let advice = "raise --every, or give --from and --to";
        note(&source, &format!("stopped after {moments} lines: {advice}"));
    }
    if sampler.moments() > 0 && form == Form::Lines {
        note(&source, &render::untold(request.of_go, args.detail));
    }
    Ok(())
}

fn of_text(
    args: &SchedtraceArgs,
    mut lines: TextLines,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let mut captured = Captured::default();
    while let Some(line) = lines.next_line()? {
        captured.line(&line);
    }
    if captured.sched_lines == 0 {
        return Err(Failure::Usage(format!(
            "{}: expected a trace or text with SCHED lines, found {} without one: run the program \
             with GMPDEBUG=schedtrace=1000 (Go: GODEBUG=schedtrace=1000) and keep its standard error",
            lines.source(),
            units::counted(captured.lines, "line"),
        )));
    }
    if let Some(damage) = lines.damage() {
        let what = format!("the gzip file is cut or damaged ({damage})");
        note(lines.source(), &what);
    }
    if lines.cut() > 0 {
        let what = format!(
            "{} longer than 1 MiB, cut there",
            units::counted(lines.cut(), "line")
        );
        note(lines.source(), &what);
    }
    if let Some(line) = captured.first_garbled {
        let garbled = units::counted(captured.garbled, "line");
        let what = format!("{garbled} cut or garbled, the first is line {line}");
        note(lines.source(), &what);
    }
    show(
        args,
        lines.source(),
        &render::summary(&captured.summary, render::note(&captured)),
        out,
    )
}

/// Shows a summary in the form that was asked for.
fn show(
    args: &SchedtraceArgs,
    source: &str,
    table: &Table,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if args.json {
        render::json(out, source, table)?;
    } else if args.csv {
        csv::table(out, table)?;
    } else {
        render::text(out, table, config::layout(None, None))?;
    }
    Ok(())
}
