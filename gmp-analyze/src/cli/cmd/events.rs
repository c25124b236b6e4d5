//! `events`: one line an event.

use crate::cli::args::EventsArgs;
use crate::cli::{Failure, Verdict};
use crate::input;
use crate::render::events;
use std::io::Write;

pub(super) fn run(args: &EventsArgs, out: &mut dyn Write) -> Result<Verdict, Failure> {
    for path in &args.input.traces {
        if args.raw {
            input::raw(path, &mut &mut *out)??;
            continue;
        }
        let mut input = input::open(path, false)?;
        let mut line = String::new();
        while let Some(event) = input.next_event()? {
            line.clear();
            events::line(&mut line, &event, input.tables());
            line.push('\n');
            out.write_all(line.as_bytes())?;
        }
    }
    Ok(Verdict::Fine)
}
