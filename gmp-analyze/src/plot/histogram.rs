//! Histograms of durations on logarithmic axes: a plot for each state, all together as an area, the
//! first groups, goroutines or causes as lines.

use super::palette;
use super::svg::{self, Anchor, Area, Svg};
use super::{Error, font};
use crate::analysis::breakdown::{By, LatencyTable, STATE_ORDER, Series};
use crate::analysis::distribution::{Bin, Distribution};
use crate::analysis::latency::found_name;
use crate::analysis::names;
use crate::machine::GoroutineState;
use crate::units;
use gmp_trace::time::Nanos;
use plotters::coord::Shift;
use plotters::prelude::*;

/// Size of letters.
const TEXT: u32 = 11;
/// Space left of the plots, for the axis of counts.
const LEFT: u32 = 64;
const RIGHT: u32 = 24;
const TOP: u32 = 12;
/// Height of a plot, of the line over it, and of the axis under the last one.
const PLOT: u32 = 150;
const HEADING: u32 = 40;
const AXIS: u32 = 44;
const LEGEND_LINE: u32 = 18;
/// Counts are drawn from here: a bin without values is on the axis, one with a single value is seen.
const FLOOR: f64 = 0.7;

/// Percentiles that have a line.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// One plot: a state, all of it, and curves with their colours.
struct Plot<'a> {
    state: GoroutineState,
    all: &'a Distribution,
    curves: Vec<(usize, &'a Distribution)>,
}

/// Draws the durations of `latency` of the trace called `name`, `width` pixels wide.
///
/// # Errors
///
/// When plotters fails, which would be an error of this program.
pub fn draw(latency: &LatencyTable, name: &str, width: u32) -> Result<String, Error> {
    let series = latency.series();
    let labels = labels(latency);
    let plots = plots(latency, &series, labels.len());
    let title = match latency.by {
        By::Cause => format!("Scheduling latency by cause, {}", svg::plain(name)),
        By::Group => format!("Time in each state by start function, {}", svg::plain(name)),
        By::Goroutine => format!("Time in each state by goroutine, {}", svg::plain(name)),
    };
    let (places, lines) = legend_places(&labels, width);
    let first = TOP + 42 + lines * LEGEND_LINE;
    let count = plots.len().max(1) as u32;
    let height = first + count * (HEADING + PLOT) + AXIS;
    let range = range(&plots);
    let mut drawn = String::new();
    {
        let backend = SVGBackend::with_string(&mut drawn, (width, height));
        let canvas = backend.into_drawing_area();
        canvas.fill(&WHITE)?;
        for (number, plot) in plots.iter().enumerate() {
            let y = first + number as u32 * (HEADING + PLOT) + HEADING;
            let last = number + 1 == plots.len();
            let below = if last { AXIS } else { 0 };
            let area = canvas.clone().shrink((0, y), (width, PLOT + below));
            one(&area, plot, range, below)?;
        }
        canvas.present()?;
    }
    let mut svg = Svg::default();
    svg.raw(palette::PATTERNS);
    svg.open(&format!("font-family=\"{}\"", super::FONT));
    heading(&mut svg, &title, latency);
    legend(&mut svg, &labels, &places);
    for (number, plot) in plots.iter().enumerate() {
        let y = first + number as u32 * (HEADING + PLOT) + HEADING;
        over(&mut svg, plot, y, width, range);
    }
    if plots.is_empty() {
        let at = (f64::from(width) / 2.0, f64::from(first + PLOT / 2));
        let style = "font-size=\"14\" fill=\"#333333\"";
        svg.text(
            at,
            Anchor::Middle,
            style,
            "the trace has no durations to show",
        );
    }
    svg.close();
    Ok(svg::over(&drawn, &title, &svg.into_string()))
}

/// Names of the curves.
fn labels(latency: &LatencyTable) -> Vec<String> {
    if latency.by == By::Cause {
        let causes = latency.causes.iter().take(palette::SERIES.len());
        return causes
            .map(|cause| format!("{} · {}", found_name(cause.found), cause.cause.name()))
            .collect();
    }
    let rows: Vec<_> = latency.rows.iter().take(palette::SERIES.len()).collect();
    let short = |function: &str| {
        let plain = names::plain_function(function);
        match plain.rmatch_indices("::").nth(1) {
            Some((at, _)) => plain[at + 2..].to_owned(),
            None => plain,
        }
    };
    let label = |row: &&crate::analysis::breakdown::Row| {
        let function = short(&row.name.function);
        let same = rows
            .iter()
            .filter(|other| short(&other.name.function) == function);
        match row.goroutine {
            Some(goroutine) => format!("G{goroutine} {function}"),
            None if same.count() > 1 => {
                let place = row.name.position.rsplit('/').next().unwrap_or_default();
                // File and line; the column rarely tells more.
                let line: Vec<&str> = place.split(':').take(2).collect();
                format!("{function} {}", line.join(":"))
            }
            None => function,
        }
    };
    rows.iter().map(label).collect()
}

fn plots<'a>(latency: &'a LatencyTable, series: &[Series<'a>], curves: usize) -> Vec<Plot<'a>> {
    let mut plots = Vec::new();
    for state in STATE_ORDER {
        let of_state = |series: &&Series<'a>| series.state == state;
        let all = series
            .iter()
            .filter(of_state)
            .find(|series| series.name.is_none() && series.cause.is_none());
        let Some(all) = all else {
            continue;
        };
        let curves = (0..curves).filter_map(|number| {
            let durations: &'a Distribution = if latency.by == By::Cause {
                &latency.causes[number].latency
            } else {
                &latency.rows[number].states[state as usize]
            };
            (durations.count() > 0).then_some((number, durations))
        });
        plots.push(Plot {
            state,
            all: all.durations,
            curves: curves.collect(),
        });
    }
    plots
}

/// The powers of ten that hold every duration, in nanoseconds.
fn range(plots: &[Plot<'_>]) -> (f64, f64) {
    let bins = || plots.iter().flat_map(|plot| plot.all.bins());
    let least = bins().map(|bin| bin.from.max(1)).min().unwrap_or(1) as f64;
    let most = bins().map(|bin| bin.to).max().unwrap_or(10) as f64;
    let from = 10_f64.powf(least.log10().floor());
    let to = 10_f64.powf(most.log10().ceil());
    (from, to.max(from * 10.0))
}

/// The steps of a histogram, a run of bins that touch each other at a time: where there are no
/// values there is no line.
fn steps(bins: &[Bin], least: f64) -> Vec<Vec<(f64, f64)>> {
    let mut runs: Vec<Vec<(f64, f64)>> = Vec::new();
    let mut last = 0.0;
    for bin in bins {
        // Durations of nothing are with the shortest ones that a logarithm has.
        let from = (bin.from as f64).max(least);
        let to = (bin.to as f64).max(from);
        let count = bin.count as f64;
        match runs.last_mut() {
            Some(run) if from == last => {
                run.pop();
                run.extend([(from, count), (to, count), (to, FLOOR)]);
            }
            _ => runs.push(vec![(from, FLOOR), (from, count), (to, count), (to, FLOOR)]),
        }
        last = to;
    }
    runs
}

/// A duration that is a power of ten.
fn decade(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns >= 0.999e9 => (ns / 1e9, "s"),
        ns if ns >= 0.999e6 => (ns / 1e6, "ms"),
        ns if ns >= 0.999e3 => (ns / 1e3, "µs"),
        ns => (ns, "ns"),
    };
    format!("{value:.0}{unit}")
}

fn rgb(colour: &str) -> RGBColor {
    let part = |at: usize| {
        let digits = colour.get(at..at + 2).unwrap_or_default();
        u8::from_str_radix(digits, 16).unwrap_or(0x99)
    };
    RGBColor(part(1), part(3), part(5))
}

fn one(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    plot: &Plot<'_>,
    range: (f64, f64),
    below: u32,
) -> Result<(), Error> {
    let most = plot.all.bins().iter().map(|bin| bin.count).max();
    let top = (most.unwrap_or(1) as f64 * 2.0).max(10.0);
    let mut chart = ChartBuilder::on(area)
        .set_label_area_size(LabelAreaPosition::Left, LEFT)
        .set_label_area_size(LabelAreaPosition::Bottom, below)
        .margin_right(RIGHT)
        .build_cartesian_2d((range.0..range.1).log_scale(), (FLOOR..top).log_scale())?;
    let duration = |ns: &f64| decade(*ns);
    let count = |count: &f64| units::count(count.round() as u64);
    let label = TextStyle::from(font(TEXT)).color(&RGBColor(51, 51, 51));
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(RGBColor(210, 210, 210))
        .light_line_style(RGBColor(236, 236, 236))
        .x_max_light_lines(9)
        .y_max_light_lines(0)
        .y_labels(5)
        .x_label_formatter(&duration)
        .y_label_formatter(&count)
        .axis_style(RGBColor(120, 120, 120))
        .label_style(label.clone())
        .axis_desc_style(label);
    if below > 0 {
        mesh.x_desc("duration").x_labels(20);
    } else {
        mesh.x_labels(20);
    }
    mesh.draw()?;
    for run in steps(&plot.all.bins(), range.0) {
        let grey = RGBColor(0xD5, 0xD5, 0xD5).filled();
        chart.draw_series(AreaSeries::new(run, FLOOR, grey))?;
    }
    for (number, durations) in &plot.curves {
        let colour = rgb(palette::SERIES[*number]);
        for run in steps(&durations.bins(), range.0) {
            chart.draw_series(LineSeries::new(run, colour.stroke_width(2)))?;
        }
    }
    Ok(())
}

fn heading(svg: &mut Svg, title: &str, latency: &LatencyTable) {
    let left = f64::from(LEFT);
    let bold = "font-size=\"16\" font-weight=\"bold\" fill=\"#111111\"";
    svg.text((left, f64::from(TOP) + 14.0), Anchor::Start, bold, title);
    let curves = match latency.by {
        By::Cause => "lines: how the goroutine was found · what made it runnable",
        By::Group => "lines: start functions that ran longest",
        By::Goroutine => "lines: goroutines that ran longest",
    };
    let about = format!(
        "how often a duration occurred, four bins for each power of two · grey: all together · {curves}"
    );
    let quiet = format!("font-size=\"{TEXT}\" fill=\"#555555\"");
    svg.text((left, f64::from(TOP) + 31.0), Anchor::Start, &quiet, &about);
}

/// Where each entry of the legend stands: its distance from the left, and its line.
fn legend_places(labels: &[String], width: u32) -> (Vec<(u32, u32)>, u32) {
    let (mut x, mut line) = (LEFT, 0);
    let mut places = Vec::new();
    for label in labels {
        let wide = 34 + svg::width_of(label, TEXT);
        if x > LEFT && x + wide > width - RIGHT {
            (x, line) = (LEFT, line + 1);
        }
        places.push((x, line));
        x += wide;
    }
    (places, if labels.is_empty() { 0 } else { line + 1 })
}

fn legend(svg: &mut Svg, labels: &[String], places: &[(u32, u32)]) {
    svg.open(&format!("font-size=\"{TEXT}\" fill=\"#333333\""));
    for ((label, &(x, line)), colour) in labels.iter().zip(places).zip(palette::SERIES) {
        let (x, y) = (f64::from(x), f64::from(TOP + 42 + line * LEGEND_LINE));
        let area = Area {
            x,
            y: y + 3.5,
            width: 14.0,
            height: 4.0,
        };
        svg.rect(area, &format!("fill=\"{colour}\""), label);
        let room = 400;
        svg.titled_text(
            (x + 19.0, y + 9.5),
            Anchor::Start,
            "",
            &svg::cut(label, room, TEXT),
            label,
        );
    }
    svg.close();
}

/// What stands over a plot: its heading, lines of percentiles, and texts under the pointer.
fn over(svg: &mut Svg, plot: &Plot<'_>, y: u32, width: u32, range: (f64, f64)) {
    let state = match plot.state {
        GoroutineState::Runnable => "runnable: waiting for a P",
        state => state.name(),
    };
    let all = plot.all;
    let figures = format!(
        "{state} · {} · total {} · mean {} · max {}",
        units::counted(all.count(), "time"),
        units::duration(all.total()),
        units::duration(all.mean()),
        units::duration(all.max())
    );
    let bold = format!(
        "font-size=\"{}\" font-weight=\"bold\" fill=\"#333333\"",
        TEXT + 1
    );
    let at = (f64::from(LEFT), f64::from(y) - 20.0);
    svg.text(at, Anchor::Start, &bold, &figures);
    let span = f64::from(width - LEFT - RIGHT);
    let x = |ns: f64| {
        let share = (ns.max(range.0) / range.0).log10() / (range.1 / range.0).log10();
        f64::from(LEFT) + share * span
    };
    hovers(svg, all, y, &x);
    svg.open(&format!("font-size=\"{}\" fill=\"#333333\"", TEXT - 1));
    let mut free = f64::from(LEFT);
    for (name, quantile) in PERCENTILES {
        let value = all.quantile(quantile);
        let at = x(value.0 as f64);
        let line = format!("M{} {}v{}", svg::number(at), y - 3, PLOT + 3);
        svg.path(
            &line,
            "stroke=\"#333333\" stroke-width=\"1\" stroke-dasharray=\"3 3\" fill=\"none\"",
        );
        // Labels that would stand on each other move to the right of the one before.
        let text = format!("{name} {}", units::duration(value));
        let wide = f64::from(svg::width_of(&text, TEXT - 1));
        let right = f64::from(width - RIGHT);
        let label = at.max(free).min(right - wide);
        if label >= free {
            svg.text((label + 2.0, f64::from(y) - 6.0), Anchor::Start, "", &text);
            free = label + wide + 8.0;
        }
    }
    svg.close();
}

fn hovers(svg: &mut Svg, all: &Distribution, y: u32, x: &impl Fn(f64) -> f64) {
    svg.open("fill=\"#FFFFFF\" fill-opacity=\"0\"");
    for bin in all.bins() {
        let (from, to) = (x(bin.from as f64), x(bin.to as f64));
        let area = Area {
            x: from,
            y: y.into(),
            width: to - from,
            height: PLOT.into(),
        };
        let title = format!(
            "{} to {}: {}",
            units::duration(Nanos(bin.from as i64)),
            units::duration(Nanos(bin.to as i64)),
            units::counted(bin.count, "time")
        );
        svg.rect(area, "", &title);
    }
    svg.close();
}
