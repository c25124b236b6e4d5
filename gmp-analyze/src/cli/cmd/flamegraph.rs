//! `flamegraph`: where goroutines spend their time, as a picture or folded text.

use super::{damage, picture, range};
use crate::analysis::stacks::StackCollector;
use crate::cli::args::FlamegraphArgs;
use crate::cli::{Failure, Verdict};
use crate::flame::{self, Captions, Part, Tree};
use crate::{input, session, units};
use std::ffi::OsStr;
use std::io::Write;

pub(super) fn run(args: &FlamegraphArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let mut parts = Vec::new();
    for path in &args.input.traces {
        parts.push(read(args, path, false)?);
    }
    if let Some(path) = &args.diff {
        parts.push(read(args, path, true)?);
    }
    let weighed = flame::weighed(&parts, args.by);
    let mut tree = Tree::new(args.depth);
    for part in &parts {
        part.add_to(&mut tree, weighed);
    }
    let sources: Vec<&str> = parts.iter().map(|part| part.source.as_str()).collect();
    let sources = sources.join(", ");
    if tree.cut() > 0 {
        let stacks = units::counted(tree.cut(), "stack");
        let what = format!("{stacks} deeper than {} frames: see --depth", args.depth);
        picture::note(&sources, &what);
    }
    if tree.totals(weighed.by)[0] == 0 {
        let what = weighed.what(args.kind);
        picture::note(&sources, &format!("no {what}: there is nothing to draw"));
    }
    let by = weighed.by;
    let mut drawn = Vec::new();
    match (args.folded, args.diff.is_some()) {
        (true, false) => flame::folded(&mut drawn, &tree, by)?,
        (true, true) => flame::folded_difference(&mut drawn, &tree, by)?,
        (false, difference) => {
            let captions = Captions::new(&parts, &tree, args.kind, weighed);
            flame::picture(&mut drawn, &tree, by, difference, &captions)?;
        }
    }
    picture::write(&args.output, &String::from_utf8_lossy(&drawn), out)?;
    Ok(Verdict::Fine)
}

fn read(args: &FlamegraphArgs, path: &OsStr, compared_with: bool) -> Result<Part, Failure> {
    let window = range::window(&args.range)?;
    let mut input = input::open(path, true)?;
    let outcome = session::run_filtered(
        &mut input,
        &range::filter(&args.filter),
        StackCollector::new(args.kind, window),
    )?;
    let span = outcome.end.since(outcome.begin);
    let stacks = outcome.sink.into_stacks();
    let source = input.facts().source;
    damage::note(&input, &outcome.counts);
    range::note(&args.range, &source, stacks.begun, span);
    Ok(Part {
        source: picture::name_of(&source).to_owned(),
        tables: input.tables().clone(),
        stacks,
        span,
        compared_with,
    })
}
