//! The colours of text output. They are always written; whoever prints to something that is no
//! terminal strips them.

use crate::analysis::findings::Urgency;
use crate::diag::Severity;
use crate::machine::ProcState;
use anstyle::{AnsiColor, Style};

pub(super) const TITLE: Style = Style::new().bold();
pub(super) const HEADING: Style = Style::new().dimmed();
pub(super) const QUIET: Style = Style::new().dimmed();

const fn colour(colour: AnsiColor) -> Style {
    Style::new().fg_color(Some(anstyle::Color::Ansi(colour)))
}

pub(super) fn urgency(urgency: Urgency) -> Style {
    match urgency {
        Urgency::Problem => colour(AnsiColor::Red).bold(),
        Urgency::Warning => colour(AnsiColor::Yellow).bold(),
        Urgency::Note => colour(AnsiColor::Cyan),
    }
}

pub(super) fn severity(severity: Severity) -> Style {
    match severity {
        Severity::Error => colour(AnsiColor::Red).bold(),
        Severity::DataLoss => colour(AnsiColor::Yellow),
        Severity::Info => colour(AnsiColor::Cyan),
    }
}

/// The colour of a P's state and the character that stands for it without colours.
pub(super) fn proc_state(state: ProcState) -> (Style, char) {
    match state {
        ProcState::Running => (colour(AnsiColor::Green), '█'),
        ProcState::Scheduler => (colour(AnsiColor::Yellow), '▓'),
        ProcState::Syscall => (colour(AnsiColor::Blue), '▒'),
        ProcState::Stopped => (colour(AnsiColor::Red), '×'),
        ProcState::Idle => (Style::new().dimmed(), '·'),
        ProcState::Unknown => (colour(AnsiColor::Magenta), '?'),
        ProcState::Absent => (Style::new().dimmed(), ' '),
    }
}

/// `text` in `style`.
pub(super) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}
