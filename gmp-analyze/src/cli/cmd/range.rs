//! `--from`, `--to` and `--filter`, of commands that have them.

use super::picture;
use crate::analysis::filter::Filter;
use crate::analysis::window::Window;
use crate::cli::Failure;
use crate::cli::args::{FilterArgs, RangeArgs};
use crate::units;
use gmp_trace::time::Nanos;

/// The part of the trace.
pub(super) fn window(args: &RangeArgs) -> Result<Window, Failure> {
    let window = Window {
        from: args.from.unwrap_or(Window::WHOLE.from),
        to: args.to.unwrap_or(Window::WHOLE.to),
    };
    if window.from < window.to {
        Ok(window)
    } else {
        let message = "--from has to be before --to: nothing is between the two";
        Err(Failure::Usage(message.to_owned()))
    }
}

/// The goroutines.
pub(super) fn filter(args: &FilterArgs) -> Filter {
    Filter::new(&args.filter)
}

/// Says where there is nothing in the part, of a trace that has events and takes `span`.
pub(super) fn note(args: &RangeArgs, source: &str, has_events: bool, span: Nanos) {
    if !has_events {
        picture::note(source, "the trace has no events");
    } else if args.from.is_some_and(|from| from > span) {
        let end = units::duration(span);
        let what = format!("nothing is in the range: the trace ends at {end}");
        picture::note(source, &what);
    }
}
