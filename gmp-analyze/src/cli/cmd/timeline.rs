//! `timeline`: a picture of what ran where and when.

use super::{damage, picture, range};
use crate::analysis::timeline::{Colour, Lanes, Options, Timeline};
use crate::cli::args::{ColourArg, LanesArg, TimelineArgs};
use crate::cli::{Failure, Verdict};
use crate::{input, plot, session};
use std::io::Write;

pub(super) fn run(args: &TimelineArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    let lanes = match args.lanes {
        LanesArg::P => Lanes::Procs,
        LanesArg::M => Lanes::Threads,
        LanesArg::Group => Lanes::Groups,
        LanesArg::Task => Lanes::Tasks,
    };
    let colour = match (args.color, lanes) {
        // A lane of a group has one start function: its colours are states.
        (_, Lanes::Groups) | (ColourArg::State, _) => Colour::State,
        (ColourArg::Group, _) => Colour::Group,
    };
    let options = Options {
        lanes,
        colour,
        window: range::window(&args.range)?,
        pixels: plot::timeline::pixels(args.width, lanes),
    };
    let mut input = input::open(&args.trace, true)?;
    let outcome = session::run_filtered(
        &mut input,
        &range::filter(&args.filter),
        Timeline::new(options),
    )?;
    let chart = outcome.sink.finish(outcome.end, input.tables());
    damage::note(&input, &outcome.counts);
    let source = input.facts().source;
    if let Some(why) = plot::timeline::nothing(&chart) {
        picture::note(&source, &format!("{why}; the picture says so"));
    }
    let svg = plot::timeline::draw(&chart, picture::name_of(&source), args.height)?;
    picture::write(&args.output, &svg, out)?;
    Ok(Verdict::Fine)
}
