//! The timeline: lanes, and under them utilization, run queues and goroutines by state on the same
//! time axis.

mod lanes;
mod layout;
mod legend;
mod panels;

pub use layout::pixels;

use super::axis::TimeAxis;
use super::svg::{self, Anchor, Svg};
use super::{Error, palette};
use crate::analysis::timeline::{Chart, Colour, Lanes};
use crate::analysis::window::Window;
use crate::machine::GoroutineState;
use crate::units;
use layout::Layout;
use panels::{Panels, STATE_ORDER, Stack};
use plotters::prelude::{IntoDrawingArea, SVGBackend, WHITE};

/// Pixels between two ticks of time, at least.
const TICKS: u32 = 90;

/// A part of the runnable goroutines that is smaller than one in so many is not drawn.
const NEGLIGIBLE: i64 = 1_000;

/// Draws `chart` of the trace called `name`. `height` is what the whole picture is to have; it gets
/// more where the lanes need it.
///
/// # Errors
///
/// When plotters fails, which would be an error of this program.
pub fn draw(chart: &Chart, name: &str, height: Option<u32>) -> Result<String, Error> {
    let names: Vec<String> = chart
        .legend
        .iter()
        .map(|group| group.name.clone())
        .collect();
    let left = layout::left(chart.options.lanes);
    let right = left + chart.options.pixels as u32;
    let (entries, lines) = legend::entries(chart, &names, left, right);
    let layout = Layout::new(chart, lines, height);
    let most = (layout.pixels / TICKS).max(2) as usize;
    let panels = Panels {
        chart,
        layout: &layout,
        axis: TimeAxis::new(chart.from, chart.to, most),
    };
    let queued = queued(chart);
    let queues = queue_stack(chart, &queued);
    let (states, crowd) = state_stack(chart);
    let mut drawn = String::new();
    {
        let backend = SVGBackend::with_string(&mut drawn, (layout.width, layout.height));
        let canvas = backend.into_drawing_area();
        canvas.fill(&WHITE)?;
        let above = layout.world.map_or(layout.lanes.y, |world| world.y);
        let bottom = layout.busy.y + layout.busy.height();
        panels.mesh(&canvas, above, bottom - above)?;
        let queues_end = layout.local.y + layout.local.height();
        panels.mesh(&canvas, layout.queues.y, queues_end - layout.queues.y)?;
        panels.mesh(&canvas, layout.states.y, layout.states.height)?;
        panels.stack(&canvas, layout.queues, &queues, false)?;
        panels.stack(&canvas, layout.states, &states, true)?;
        canvas.present()?;
    }
    let mut svg = Svg::default();
    svg.raw(palette::PATTERNS);
    svg.open(&format!("font-family=\"{}\"", super::FONT));
    let title = format!("Scheduler timeline of {}", svg::plain(name));
    legend::draw(&mut svg, &layout, &entries, &title, &subtitle(chart));
    lanes::Lanes::new(chart, &layout, &names).draw(&mut svg);
    below(&mut svg, &panels, &queues);
    by_state(&mut svg, &panels, &states, crowd);
    if let Some(why) = nothing(chart) {
        let x = f64::from(layout.left) + f64::from(layout.pixels) / 2.0;
        let y = f64::from(layout.lanes.y) + f64::from(layout.lanes.height()) / 2.0 + 5.0;
        let style = "font-size=\"14\" fill=\"#333333\"";
        svg.text((x, y), Anchor::Middle, style, &why);
    }
    svg.close();
    Ok(svg::over(&drawn, &title, &svg.into_string()))
}

/// Why a chart shows nothing, or no lanes; `None` where it shows something.
pub fn nothing(chart: &Chart) -> Option<String> {
    if chart.events == 0 {
        return Some("the trace has no events".to_owned());
    }
    if chart.is_empty {
        let (from, to) = (units::duration(chart.from), units::duration(chart.to));
        let trace = units::duration(chart.trace);
        return Some(if chart.trace.0 == 0 {
            let events = units::counted(chart.events, "event");
            format!("the trace has {events} and no length")
        } else {
            let where_to = match chart.options.window.to == Window::WHOLE.to {
                true => format!("after {from}"),
                false => format!("between {from} and {to}"),
            };
            format!("nothing of the trace is {where_to}: it is {trace} long")
        });
    }
    let what = match chart.options.lanes {
        Lanes::Procs => "Ps",
        Lanes::Threads => "threads",
        Lanes::Groups => "goroutines",
        Lanes::Tasks => "tasks",
    };
    chart
        .lanes
        .is_empty()
        .then(|| format!("the trace tells of no {what}, so there are no lanes"))
}

fn subtitle(chart: &Chart) -> String {
    let window = if chart.to - chart.from == chart.trace {
        units::duration(chart.trace)
    } else {
        format!(
            "{} to {} of {}",
            units::duration(chart.from),
            units::duration(chart.to),
            units::duration(chart.trace)
        )
    };
    let colours = match (chart.options.lanes, chart.options.colour) {
        (Lanes::Tasks, _) => "colours: regions",
        (Lanes::Groups, _) => "colours: states of the group's goroutines, by their share",
        (_, Colour::Group) => "colours: start functions of goroutines",
        (_, Colour::State) => "colours: states",
    };
    format!(
        "{window} · {} · {colours} · spans narrower than a pixel are merged, colours share the height by time",
        units::counted(chart.events, "event"),
    )
}

/// Goroutines in the queues of all Ps together, by pixel.
fn queued(chart: &Chart) -> Vec<i64> {
    let local = chart
        .queues
        .as_ref()
        .map_or(&[][..], |queues| &queues.local);
    (0..chart.options.pixels)
        .map(|pixel| local.iter().map(|pixels| pixels[pixel]).sum())
        .collect()
}

/// Where runnable goroutines wait; where the trace does not tell, how many there are.
fn queue_stack<'a>(chart: &'a Chart, queued: &'a [i64]) -> Stack<'a> {
    let runnable = chart.states[GoroutineState::Runnable as usize].as_slice();
    let parts = match &chart.queues {
        Some(queues) => vec![
            ("queues of Ps", palette::BLUE, queued),
            ("global queue", palette::ORANGE, queues.global.as_slice()),
            ("not told where", palette::GREY, queues.elsewhere.as_slice()),
        ],
        None => vec![("runnable", palette::ORANGE, runnable)],
    };
    // What clocks that disagree leave over is not worth an entry of the legend.
    let all: i64 = runnable.iter().sum();
    let is_there = |pixels: &[i64]| pixels.iter().sum::<i64>() > all / NEGLIGIBLE;
    let parts = parts.into_iter().filter(|(_, _, pixels)| is_there(pixels));
    Stack {
        parts: parts.collect(),
    }
}

/// Waiting goroutines that are so many times more than all others at their most are not stacked on
/// them, so that the others can be seen.
const CROWD: i64 = 6;

/// Goroutines by state; and how many waited on average, where they are left out.
fn state_stack(chart: &Chart) -> (Stack<'_>, Option<f64>) {
    let pixels_of = |state: GoroutineState| chart.states[state as usize].as_slice();
    let others = |pixel: usize| -> i64 {
        let others = STATE_ORDER
            .iter()
            .filter(|&&state| state != GoroutineState::Waiting);
        others.map(|&state| pixels_of(state)[pixel]).sum()
    };
    let most = (0..chart.options.pixels).map(others).max().unwrap_or(0);
    let waiting: i64 = pixels_of(GoroutineState::Waiting).iter().sum();
    let mean = waiting / chart.options.pixels.max(1) as i64;
    let is_crowd = most > 0 && mean > most.saturating_mul(CROWD);
    let parts = STATE_ORDER
        .iter()
        .filter(|&&state| !(is_crowd && state == GoroutineState::Waiting))
        .map(|&state| (state.name(), palette::goroutine(state), pixels_of(state)))
        .filter(|(_, _, pixels)| pixels.iter().any(|&time| time > 0));
    let stack = Stack {
        parts: parts.collect(),
    };
    let length = (chart.to.0 - chart.from.0).max(1) as f64;
    (stack, is_crowd.then_some(waiting as f64 / length))
}

/// Heat and headings under the lanes.
fn below(svg: &mut Svg, panels: &Panels<'_>, queues: &Stack<'_>) {
    let (chart, layout) = (panels.chart, panels.layout);
    if !chart.busy.is_empty() {
        panels.heading(svg, layout.busy.y, "Utilization of each P");
        panels.heat_key(svg, layout.busy.y, "0%", "100% running");
        let rows = chart.busy.iter();
        let rows: Vec<_> = rows
            .map(|(p, pixels)| (format!("P{p}"), pixels.as_slice()))
            .collect();
        let say = |share: f64| format!("{} running", units::percent(share));
        panels.heat(svg, layout.busy, &rows, 1.0, say);
    }
    let local = chart
        .queues
        .as_ref()
        .map_or(&[][..], |queues| &queues.local);
    let rows = local.iter().enumerate();
    let rows: Vec<_> = rows
        .map(|(p, pixels)| (format!("P{p}"), pixels.as_slice()))
        .collect();
    let full = panels.most(&rows);
    let heading = match &chart.queues {
        Some(_) if full > 0.0 => {
            format!(
                "Runnable goroutines by queue; below, in the queue of each P (darkest: {full:.1})"
            )
        }
        Some(_) => "Runnable goroutines by queue".to_owned(),
        None => "Runnable goroutines (this trace does not tell in which queue)".to_owned(),
    };
    panels.heading(svg, layout.queues.y, &heading);
    panels.key(svg, layout.queues.y, &queues.key());
    panels.stack_hovers(svg, layout.queues, queues);
    let say = |mean: f64| format!("{mean:.2} goroutines in its queue");
    panels.heat(svg, layout.local, &rows, full, say);
}

/// What stands over the plot of goroutines by state.
fn by_state(svg: &mut Svg, panels: &Panels<'_>, states: &Stack<'_>, crowd: Option<f64>) {
    let band = panels.layout.states;
    let heading = match crowd {
        Some(mean) => {
            let mean = units::count(mean.round() as u64);
            format!("Goroutines by state, without those that wait ({mean} on average)")
        }
        None => "Goroutines by state".to_owned(),
    };
    panels.heading(svg, band.y, &heading);
    panels.key(svg, band.y, &states.key());
    panels.stack_hovers(svg, band, states);
}
