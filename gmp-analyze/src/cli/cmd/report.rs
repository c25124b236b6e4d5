//! `report`: the whole picture on one page.

use crate::analysis::report::Report;
use crate::cli::args::ReportArgs;
use crate::cli::{Failure, Verdict, config};
use crate::render::{csv, json, sections, text};
use crate::session;
use std::io::Write;

pub(super) fn run(args: &ReportArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let lives = args.goroutines || args.csv.as_deref() == Some("goroutines");
    let mut verdict = Verdict::Fine;
    for (number, path) in args.input.traces.iter().enumerate() {
        let report = session::report(path, lives, true)?;
        show(args, &report, number, out)?;
        if is_denied(args, &report) {
            verdict = Verdict::Denied;
        }
    }
    Ok(verdict)
}

fn show(
    args: &ReportArgs,
    report: &Report,
    number: usize,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if args.json {
        json::report(out, report, args.top)?;
    } else if let Some(name) = &args.csv {
        let mut tables = sections::all(report);
        tables.push(sections::summary(report));
        let table = tables.iter_mut().find(|table| table.name == name);
        let table = table.ok_or_else(|| Failure::Usage(format!("no table is called {name}")))?;
        table.rows.truncate(args.top.unwrap_or(usize::MAX));
        csv::table(out, table)?;
    } else {
        if number > 0 {
            writeln!(out)?;
        }
        text::report(out, report, config::layout(args.width, args.top))?;
    }
    Ok(())
}

fn is_denied(args: &ReportArgs, report: &Report) -> bool {
    let denied = |rule: &str| {
        args.deny
            .iter()
            .any(|denied| denied == rule || denied == "all")
    };
    report.findings.iter().any(|finding| denied(finding.rule))
}
