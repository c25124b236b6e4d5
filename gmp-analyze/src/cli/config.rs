//! What arguments mean on this terminal.

use crate::render::text::Layout;
use anstream::ColorChoice;
use std::io;

/// Columns where there is no terminal.
const NO_TERMINAL: usize = 100;

/// Columns beyond which lines are hard to follow, and below which tables cannot be drawn.
const WIDTHS: std::ops::RangeInclusive<usize> = 80..=120;

/// Rows of each table of text.
const TOP: usize = 10;

/// Whether to colour standard output: on a terminal, unless the user or `NO_COLOR` says no.
pub(super) fn colour(no_color: bool) -> ColorChoice {
    if no_color {
        ColorChoice::Never
    } else {
        anstream::AutoStream::choice(&io::stdout())
    }
}

/// How text is to look. A width that was asked for is taken as it is, down to what a table needs.
pub(super) fn layout(width: Option<usize>, top: Option<usize>) -> Layout {
    let of_terminal = || match terminal_size::terminal_size_of(io::stdout()) {
        Some((width, _)) => usize::from(width.0).clamp(*WIDTHS.start(), *WIDTHS.end()),
        None => NO_TERMINAL,
    };
    let width = width.map_or_else(of_terminal, |width| width.max(*WIDTHS.start()));
    Layout {
        width,
        top: top.unwrap_or(TOP),
    }
}
