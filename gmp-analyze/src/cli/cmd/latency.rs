//! `latency`: how long goroutines were in each state, as a table and as histograms.

use super::{damage, picture, range};
use crate::analysis::breakdown::{Breakdown, By};
use crate::cli::args::{ByArg, LatencyArgs};
use crate::cli::{Failure, Verdict, config};
use crate::render::{breakdown, csv};
use crate::{input, plot, session};
use std::io::Write;

pub(super) fn run(args: &LatencyArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let by = match args.by {
        ByArg::Group => By::Group,
        ByArg::Goroutine => By::Goroutine,
        ByArg::Cause => By::Cause,
    };
    let mut input = input::open(&args.trace, true)?;
    let outcome = session::run_filtered(
        &mut input,
        &range::filter(&args.filter),
        Breakdown::new(by, range::window(&args.range)?),
    )?;
    let span = outcome.end.since(outcome.begin);
    let latency = outcome.sink.finish(input.tables());
    let facts = input.facts();
    let top = args.top.unwrap_or(usize::MAX);
    if args.json {
        breakdown::json(out, &facts, &latency, top)?;
    } else if args.csv {
        csv::table(out, &breakdown::table(&latency, top))?;
    } else {
        breakdown::text(out, &latency, config::layout(args.width, args.top))?;
    }
    damage::note(&input, &outcome.counts);
    range::note(&args.range, &facts.source, input.event_count() > 0, span);
    if latency.series().is_empty() {
        let what = "there is no goroutine to show";
        picture::note(&facts.source, what);
    }
    if let Some(path) = &args.histogram {
        let name = picture::name_of(&facts.source);
        let svg = plot::histogram::draw(&latency, name, args.picture_width)?;
        picture::write(path, &svg, out)?;
    }
    if let Some(path) = &args.bins {
        let mut bins = Vec::new();
        breakdown::bins(&mut bins, &latency)?;
        picture::write(path, &String::from_utf8_lossy(&bins), out)?;
    }
    Ok(Verdict::Fine)
}
