//! Colours, the same for people who see colours differently (Okabe and Ito's), and names of what
//! they stand for.

use crate::analysis::timeline::{COLOURS, Mark, Paint};
use crate::machine::{GoroutineState, ProcState, ThreadState};

pub(super) const BLUE: &str = "#0072B2";
pub(super) const ORANGE: &str = "#E69F00";
pub(super) const GREEN: &str = "#009E73";
pub(super) const PURPLE: &str = "#CC79A7";
pub(super) const SKY: &str = "#56B4E9";
pub(super) const YELLOW: &str = "#F0E442";
pub(super) const VERMILLION: &str = "#D55E00";
pub(super) const GREY: &str = "#8C8C8C";
pub(super) const DARK: &str = "#4D4D4D";
pub(super) const LIGHT: &str = "#DADADA";
pub(super) const BACKGROUND: &str = "#F3F3F3";

/// Colours of groups or of curves, the most important first.
pub(super) const SERIES: [&str; COLOURS] = [BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW];

/// Fills that are no plain colour: hatched for system calls, dotted for what is not known.
pub(super) const PATTERNS: &str = concat!(
    "<defs>",
    "<pattern id=\"hatched\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">",
    "<rect width=\"4\" height=\"4\" fill=\"#FFFFFF\"/><rect width=\"2\" height=\"4\" fill=\"#7A7A7A\"/></pattern>",
    "<pattern id=\"dotted\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\">",
    "<rect width=\"4\" height=\"4\" fill=\"#FFFFFF\"/><rect width=\"1.5\" height=\"1.5\" fill=\"#B0B0B0\"/></pattern>",
    "</defs>"
);
const HATCHED: &str = "url(#hatched)";
const DOTTED: &str = "url(#dotted)";

/// The colour of `paint`; `None` for what lanes show by their background.
pub(super) fn fill(paint: Paint) -> Option<&'static str> {
    Some(match paint {
        Paint::Group(rank) => SERIES[rank % COLOURS],
        Paint::Others => GREY,
        Paint::Goroutine(state) => goroutine(state),
        Paint::Proc(state) => match state {
            ProcState::Unknown => DOTTED,
            ProcState::Running => GREEN,
            ProcState::Scheduler => DARK,
            ProcState::Syscall => HATCHED,
            ProcState::Idle => return None,
            ProcState::Stopped => VERMILLION,
            ProcState::Absent => "#FFFFFF",
        },
        Paint::Thread(state) => match state {
            ThreadState::Unknown => DOTTED,
            ThreadState::Running => GREEN,
            ThreadState::Scheduler => DARK,
            ThreadState::Spinning => VERMILLION,
            ThreadState::Syscall => HATCHED,
            ThreadState::Parked => return None,
        },
        Paint::Task => LIGHT,
        Paint::Stop => VERMILLION,
        Paint::Collection => PURPLE,
    })
}

/// The colour of goroutines in `state`.
pub(super) fn goroutine(state: GoroutineState) -> &'static str {
    match state {
        GoroutineState::Unknown => DOTTED,
        GoroutineState::Runnable => ORANGE,
        GoroutineState::Running => GREEN,
        GoroutineState::Syscall => SKY,
        GoroutineState::SyscallWithoutP => BLUE,
        GoroutineState::Waiting => LIGHT,
    }
}

/// What `paint` stands for, for legends and texts under the pointer.
pub(super) fn name(paint: Paint, groups: &[String]) -> String {
    match paint {
        Paint::Group(rank) => groups.get(rank).cloned().unwrap_or_default(),
        Paint::Others => "other groups".to_owned(),
        Paint::Goroutine(state) => state.name().to_owned(),
        Paint::Proc(state) => match state {
            ProcState::Scheduler => "in the scheduler".to_owned(),
            ProcState::Syscall => "in a system call".to_owned(),
            ProcState::Absent => "no such P".to_owned(),
            ProcState::Unknown => "not known".to_owned(),
            state => state.name().to_owned(),
        },
        Paint::Thread(state) => match state {
            ThreadState::Scheduler => "in the scheduler".to_owned(),
            ThreadState::Syscall => "in a system call".to_owned(),
            ThreadState::Unknown => "not known".to_owned(),
            state => state.name().to_owned(),
        },
        Paint::Task => "task, outside its regions".to_owned(),
        Paint::Stop => "stop of the world, from its request".to_owned(),
        Paint::Collection => "collection".to_owned(),
    }
}

/// Colour of a mark.
pub(super) fn mark(mark: Mark) -> &'static str {
    match mark {
        Mark::Steal => "#000000",
        Mark::HandOff => PURPLE,
        Mark::Preemption => VERMILLION,
    }
}

/// Colours of heat from nothing to all, light to dark, so that grey printing keeps the order.
pub(super) const HEAT: [&str; 9] = [
    "#F3F3F3", "#DEEBF7", "#C6DBEF", "#9ECAE1", "#6BAED6", "#4292C6", "#2171B5", "#08519C",
    "#08306B",
];
