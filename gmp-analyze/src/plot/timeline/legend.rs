//! Title and legend: what the colours and marks of this picture stand for, and nothing that it does
//! not have.

use super::lanes::shape;
use super::layout::{LEGEND_LINE, Layout, TEXT, TOP};
use crate::analysis::timeline::{Chart, Lanes, Mark, Paint};
use crate::machine::{GoroutineState, ProcState};
use crate::plot::palette;
use crate::plot::svg::{self, Anchor, Area, Svg};
use crate::units;
use std::collections::BTreeSet;

/// Room between two entries.
const BETWEEN: u32 = 16;
/// A sample of a colour.
const SAMPLE: u32 = 12;
/// Room of a name at most.
const NAME: u32 = 260;

/// One entry, with where it stands.
pub(super) struct Entry {
    what: What,
    text: String,
    title: String,
    x: u32,
    line: u32,
}

enum What {
    Colour(&'static str),
    Mark(Mark),
}

/// The entries of a chart, broken into lines of `width` pixels; and how many lines there are.
pub(super) fn entries(chart: &Chart, names: &[String], left: u32, width: u32) -> (Vec<Entry>, u32) {
    let mut entries: Vec<(What, String, String)> = Vec::new();
    let running: f64 = chart
        .legend
        .iter()
        .map(|entry| entry.running)
        .chain([chart.others.1])
        .map(|time| time.0 as f64)
        .sum();
    let colours = present(chart);
    for paint in &colours {
        let Some(fill) = palette::fill(*paint) else {
            let text = palette::name(*paint, names);
            entries.push((What::Colour(palette::BACKGROUND), text, String::new()));
            continue;
        };
        let name = palette::name(*paint, names);
        let time = match paint {
            Paint::Group(rank) => chart.legend.get(*rank).map(|entry| entry.running),
            Paint::Others => Some(chart.others.1),
            _ => None,
        };
        let share = time.map(|time| units::percent(time.0 as f64 / running.max(1.0)));
        let (text, title) = match (share, time) {
            (Some(share), Some(time)) => {
                let name = match paint {
                    Paint::Others => units::counted(chart.others.0 as u64, "other group"),
                    _ => name,
                };
                let short = svg::cut(&name, NAME, TEXT);
                let ran = units::duration(time);
                (
                    format!("{short} {share}"),
                    format!("{name}: ran {ran} in this picture, {share} of all running time"),
                )
            }
            _ => (name, String::new()),
        };
        entries.push((What::Colour(fill), text, title));
    }
    for mark in Mark::ALL {
        let is_there = |lane: &crate::analysis::timeline::ChartLane| {
            lane.marks.iter().any(|cells| cells.mark == mark)
        };
        if chart.lanes.iter().any(is_there) {
            entries.push((What::Mark(mark), mark.name().to_owned(), String::new()));
        }
    }
    let (mut x, mut line) = (left, 0);
    let mut placed = Vec::new();
    for (what, text, title) in entries {
        let wide = SAMPLE + 5 + svg::width_of(&text, TEXT) + BETWEEN;
        if x > left && x + wide > width {
            (x, line) = (left, line + 1);
        }
        placed.push(Entry {
            what,
            text,
            title,
            x,
            line,
        });
        x += wide;
    }
    let lines = if placed.is_empty() { 0 } else { line + 1 };
    (placed, lines)
}

/// Colours that the picture has, groups first.
fn present(chart: &Chart) -> Vec<Paint> {
    let lanes = chart.lanes.iter().chain(&chart.world);
    let mut present: BTreeSet<Paint> = lanes
        .flat_map(|lane| {
            let spans = lane.spans.iter().map(|span| span.paint);
            spans.chain(lane.merged.iter().map(|merged| merged.paint))
        })
        .collect();
    // Goroutines by state are on every picture that has any.
    for state in GoroutineState::ALL {
        let is_there = chart.states[*state as usize].iter().any(|&time| time > 0);
        if is_there && chart.options.lanes == Lanes::Groups {
            present.insert(Paint::Goroutine(*state));
        }
    }
    present.remove(&Paint::Proc(ProcState::Absent));
    let mut present: Vec<Paint> = present.into_iter().collect();
    present.sort_unstable_by_key(|paint| paint.place());
    present
}

/// Title, what the picture is about, and the legend.
pub(super) fn draw(svg: &mut Svg, layout: &Layout, entries: &[Entry], title: &str, subtitle: &str) {
    let left = f64::from(layout.left);
    let title_at = (left, f64::from(TOP) + 14.0);
    let room = layout.width - layout.left;
    let bold = "font-size=\"16\" font-weight=\"bold\" fill=\"#111111\"";
    svg.text(title_at, Anchor::Start, bold, &svg::cut(title, room, 16));
    let about_at = (left, f64::from(TOP) + 31.0);
    let quiet = format!("font-size=\"{TEXT}\" fill=\"#555555\"");
    svg.text(about_at, Anchor::Start, &quiet, subtitle);
    svg.open(&format!("font-size=\"{TEXT}\" fill=\"#333333\""));
    for entry in entries {
        let (x, y) = (
            f64::from(entry.x),
            f64::from(TOP + 42 + entry.line * LEGEND_LINE),
        );
        match entry.what {
            What::Colour(fill) => {
                let area = Area {
                    x,
                    y,
                    width: SAMPLE.into(),
                    height: 11.0,
                };
                let border = "stroke=\"#999999\" stroke-width=\"0.5\"";
                svg.rect(area, &format!("fill=\"{fill}\" {border}"), &entry.title);
            }
            What::Mark(mark) => {
                let outline = shape(mark, x + 6.0, y + 2.0, 10);
                svg.path(&outline, &format!("fill=\"{}\"", palette::mark(mark)));
            }
        }
        let at = (x + f64::from(SAMPLE) + 5.0, y + 9.5);
        svg.titled_text(at, Anchor::Start, "", &entry.text, &entry.title);
    }
    svg.close();
}
