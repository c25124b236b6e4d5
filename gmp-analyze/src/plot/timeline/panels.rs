//! What is under the lanes on the same time axis: utilization, queues, goroutines by state.

use super::layout::{AXIS, Band, HEADING, Layout, Rows, TEXT};
use crate::analysis::timeline::Chart;
use crate::machine::GoroutineState;
use crate::plot::axis::TimeAxis;
use crate::plot::palette;
use crate::plot::svg::{Anchor, Area, Rects, Svg};
use crate::plot::{Error, font};
use crate::units;
use gmp_trace::time::Nanos;
use plotters::coord::Shift;
use plotters::prelude::*;

/// A drawing area of plotters that becomes SVG.
pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Pixels of a cell of heat.
const CELL: usize = 4;

/// Texts under the pointer, in all rows together.
const HOVERS: usize = 1_000;

/// A stacked plot: name, colour and goroutines times nanoseconds by pixel, from the bottom up.
pub(super) struct Stack<'a> {
    pub(super) parts: Vec<(&'static str, &'static str, &'a [i64])>,
}

impl Stack<'_> {
    /// Names and colours.
    pub(super) fn key(&self) -> Vec<(&'static str, &'static str)> {
        let parts = self.parts.iter();
        parts.map(|(name, colour, _)| (*name, *colour)).collect()
    }
}

/// Draws the panels of one chart.
pub(super) struct Panels<'a> {
    pub(super) chart: &'a Chart,
    pub(super) layout: &'a Layout,
    pub(super) axis: TimeAxis,
}

impl Panels<'_> {
    /// Nanoseconds of `pixels` pixels.
    fn time_of(&self, pixels: usize) -> f64 {
        let length = (self.chart.to.0 - self.chart.from.0) as f64;
        (length * pixels as f64 / f64::from(self.layout.pixels)).max(f64::MIN_POSITIVE)
    }

    /// Vertical lines at the ticks of time, behind whatever comes later.
    pub(super) fn mesh(&self, canvas: &Canvas<'_>, y: u32, height: u32) -> Result<(), Error> {
        let area = self.part(canvas, Band { y, height }, 0);
        let mut chart = ChartBuilder::on(&area)
            .set_label_area_size(LabelAreaPosition::Left, self.layout.left)
            .margin_right(self.right())
            .build_cartesian_2d(self.axis.clone(), 0_f64..1.0)?;
        let mut mesh = chart.configure_mesh();
        mesh.disable_y_mesh()
            .disable_axes()
            .x_max_light_lines(0)
            .bold_line_style(RGBColor(215, 215, 215));
        mesh.draw()?;
        Ok(())
    }

    fn right(&self) -> u32 {
        self.layout.width - self.layout.left - self.layout.pixels
    }

    fn part<'b>(&self, canvas: &Canvas<'b>, band: Band, below: u32) -> Canvas<'b> {
        canvas
            .clone()
            .shrink((0, band.y), (self.layout.width, band.height + below))
    }

    /// A stacked plot with its axis of numbers; with the axis of time where it is the last one.
    pub(super) fn stack(
        &self,
        canvas: &Canvas<'_>,
        band: Band,
        stack: &Stack<'_>,
        last: bool,
    ) -> Result<(), Error> {
        let pixel = self.time_of(1);
        let pixels = self.layout.pixels as usize;
        let mut tops = vec![0.0; pixels];
        let mut curves = Vec::new();
        for (_, colour, part) in &stack.parts {
            for (top, &value) in tops.iter_mut().zip(*part) {
                *top += value as f64 / pixel;
            }
            curves.push((*colour, tops.clone()));
        }
        let largest = tops.iter().fold(0.0_f64, |a, &b| a.max(b));
        // A round number of goroutines, and room above the highest.
        let limit = nice_limit(largest);
        let below = if last { AXIS } else { 0 };
        let area = self.part(canvas, band, below);
        let mut builder = ChartBuilder::on(&area);
        builder
            .set_label_area_size(LabelAreaPosition::Left, self.layout.left)
            .set_label_area_size(LabelAreaPosition::Bottom, below)
            .margin_right(self.right());
        let mut chart = builder.build_cartesian_2d(self.axis.clone(), 0_f64..limit)?;
        for (colour, tops) in curves.iter().rev() {
            let colour = rgb(colour);
            let points = (0..pixels).flat_map(|pixel| {
                // A step for each pixel: nothing is smoothed.
                let at = |edge: usize| self.chart.from.0 + self.time_of(edge) as i64;
                [(at(pixel), tops[pixel]), (at(pixel + 1), tops[pixel])]
            });
            let points: Vec<(i64, f64)> = without_repeats(points);
            chart.draw_series(AreaSeries::new(points, 0.0, colour.filled()))?;
        }
        let unit = format!("time from the begin of the trace ({})", self.axis.unit());
        let number = |value: &f64| units::count(value.round() as u64);
        let small = |value: &f64| format!("{value:.1}");
        let label = TextStyle::from(font(TEXT)).color(&RGBColor(51, 51, 51));
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh()
            .y_labels(4)
            .max_light_lines(0)
            .bold_line_style(RGBAColor(120, 120, 120, 0.35))
            .axis_style(RGBColor(120, 120, 120))
            .label_style(label.clone())
            .axis_desc_style(label);
        if limit > 3.0 {
            mesh.y_label_formatter(&number);
        } else {
            mesh.y_label_formatter(&small);
        }
        if last {
            mesh.x_desc(unit).x_labels(20);
        } else {
            mesh.x_labels(0);
        }
        mesh.draw()?;
        Ok(())
    }

    /// The line over a plot.
    pub(super) fn heading(&self, svg: &mut Svg, y: u32, text: &str) {
        let at = (f64::from(self.layout.left), f64::from(y) - 6.0);
        let style = format!(
            "font-size=\"{}\" font-weight=\"bold\" fill=\"#333333\"",
            TEXT + 1
        );
        svg.text(at, Anchor::Start, &style, text);
    }

    /// Samples of the colours of a stack, right of the heading.
    pub(super) fn key(&self, svg: &mut Svg, y: u32, parts: &[(&'static str, &'static str)]) {
        let mut x = f64::from(self.layout.left + self.layout.pixels);
        let y = f64::from(y) - 15.0;
        svg.open(&format!("font-size=\"{TEXT}\" fill=\"#333333\""));
        for (name, colour) in parts.iter().rev() {
            svg.text((x, y + 9.0), Anchor::End, "", name);
            x -= f64::from(crate::plot::svg::width_of(name, TEXT)) + 4.0;
            let area = Area {
                x: x - 11.0,
                y,
                width: 11.0,
                height: 10.0,
            };
            svg.rect(area, &format!("fill=\"{colour}\""), "");
            x -= 25.0;
        }
        svg.close();
    }

    /// Rows of heat: `rows` are names and values by pixel, of which `full` is the darkest.
    pub(super) fn heat(
        &self,
        svg: &mut Svg,
        place: Rows,
        rows: &[(String, &[i64])],
        full: f64,
        say: impl Fn(f64) -> String,
    ) {
        let pixels = self.layout.pixels as usize;
        let mut paths: Vec<Rects> = palette::HEAT.iter().map(|_| Rects::default()).collect();
        for (row, (_, values)) in rows.iter().enumerate() {
            let y = f64::from(place.y + place.each * row as u32);
            let height = f64::from(place.each.saturating_sub(1).max(1));
            let mut run: Option<(usize, usize, usize)> = None;
            for begin in (0..pixels).step_by(CELL) {
                let end = (begin + CELL).min(pixels);
                let sum: i64 = values[begin..end].iter().sum();
                let level = level_of(sum as f64 / self.time_of(end - begin) / full.max(1e-9));
                match &mut run {
                    Some(run) if run.2 == level => run.1 = end,
                    _ => {
                        self.heat_run(&mut paths, run, y, height);
                        run = Some((begin, end, level));
                    }
                }
            }
            self.heat_run(&mut paths, run, y, height);
        }
        svg.open("shape-rendering=\"crispEdges\"");
        for (path, colour) in paths.iter().zip(palette::HEAT) {
            svg.path(path.data(), &format!("fill=\"{colour}\""));
        }
        svg.close();
        self.heat_names(svg, place, rows);
        self.heat_hovers(svg, place, rows, say);
    }

    /// The largest value of a cell of heat.
    pub(super) fn most(&self, rows: &[(String, &[i64])]) -> f64 {
        let cell = self.time_of(CELL);
        let sums = rows.iter().flat_map(|(_, values)| values.chunks(CELL));
        let sums = sums.map(|cell| cell.iter().sum::<i64>());
        sums.max().unwrap_or(0) as f64 / cell
    }

    fn heat_run(
        &self,
        paths: &mut [Rects],
        run: Option<(usize, usize, usize)>,
        y: f64,
        height: f64,
    ) {
        if let Some((begin, end, level)) = run {
            paths[level].add(Area {
                x: f64::from(self.layout.left) + begin as f64,
                y,
                width: (end - begin) as f64,
                height,
            });
        }
    }

    fn heat_names(&self, svg: &mut Svg, place: Rows, rows: &[(String, &[i64])]) {
        let size = TEXT - 1;
        let every = (size + 1).div_ceil(place.each.max(1)) as usize;
        svg.open(&format!("font-size=\"{size}\" fill=\"#333333\""));
        for (row, (name, _)) in rows.iter().enumerate().step_by(every) {
            let middle = f64::from(place.y + place.each * row as u32) + f64::from(place.each) / 2.0;
            let at = (f64::from(self.layout.left) - 7.0, middle + 3.4);
            svg.text(at, Anchor::End, "", name);
        }
        svg.close();
    }

    fn heat_hovers(
        &self,
        svg: &mut Svg,
        place: Rows,
        rows: &[(String, &[i64])],
        say: impl Fn(f64) -> String,
    ) {
        let pixels = self.layout.pixels as usize;
        let per_row = (HOVERS / rows.len().max(1)).clamp(4, 60);
        let step = pixels.div_ceil(per_row);
        svg.open("fill=\"#FFFFFF\" fill-opacity=\"0\"");
        for (row, (name, values)) in rows.iter().enumerate() {
            for begin in (0..pixels).step_by(step) {
                let end = (begin + step).min(pixels);
                let sum: i64 = values[begin..end].iter().sum();
                let title = format!(
                    "{name}, {}: {}",
                    self.stretch(begin, end),
                    say(sum as f64 / self.time_of(end - begin))
                );
                let area = Area {
                    x: f64::from(self.layout.left) + begin as f64,
                    y: f64::from(place.y + place.each * row as u32),
                    width: (end - begin) as f64,
                    height: place.each.into(),
                };
                svg.rect(area, "", &title);
            }
        }
        svg.close();
    }

    fn stretch(&self, begin: usize, end: usize) -> String {
        let moment =
            |pixel: usize| units::duration(self.chart.from + Nanos(self.time_of(pixel) as i64));
        format!("{} to {}", moment(begin), moment(end))
    }

    /// What the pointer shows over a stacked plot.
    pub(super) fn stack_hovers(&self, svg: &mut Svg, band: Band, stack: &Stack<'_>) {
        let pixels = self.layout.pixels as usize;
        let step = pixels.div_ceil(80);
        svg.open("fill=\"#FFFFFF\" fill-opacity=\"0\"");
        for begin in (0..pixels).step_by(step) {
            let end = (begin + step).min(pixels);
            let parts = stack.parts.iter().map(|(name, _, values)| {
                let sum: i64 = values[begin..end].iter().sum();
                format!("{:.2} {name}", sum as f64 / self.time_of(end - begin))
            });
            let parts: Vec<String> = parts.collect();
            let title = format!("{}: {}", self.stretch(begin, end), parts.join(", "));
            let area = Area {
                x: f64::from(self.layout.left) + begin as f64,
                y: band.y.into(),
                width: (end - begin) as f64,
                height: band.height.into(),
            };
            svg.rect(area, "", &title);
        }
        svg.close();
    }

    /// The scale of heat, right of a heading: light is `least`, dark is `most`.
    pub(super) fn heat_key(&self, svg: &mut Svg, y: u32, least: &str, most: &str) {
        let right = f64::from(self.layout.left + self.layout.pixels);
        let y = f64::from(y) - f64::from(HEADING) + 5.0;
        svg.open(&format!("font-size=\"{TEXT}\" fill=\"#333333\""));
        svg.text((right, y + 9.0), Anchor::End, "", most);
        let mut x = right - f64::from(crate::plot::svg::width_of(most, TEXT)) - 4.0;
        for colour in palette::HEAT.iter().rev() {
            x -= 10.0;
            let area = Area {
                x,
                y,
                width: 10.0,
                height: 10.0,
            };
            svg.rect(area, &format!("fill=\"{colour}\""), "");
        }
        svg.text((x - 5.0, y + 9.0), Anchor::End, "", least);
        svg.close();
    }
}

/// The states of goroutines from the bottom up: what costs a P first, what waits last.
pub(super) const STATE_ORDER: [GoroutineState; GoroutineState::COUNT] = [
    GoroutineState::Running,
    GoroutineState::Syscall,
    GoroutineState::SyscallWithoutP,
    GoroutineState::Runnable,
    GoroutineState::Waiting,
    GoroutineState::Unknown,
];

/// The shade of a share: nothing at all is lightest, whatever is there is darker.
fn level_of(share: f64) -> usize {
    let last = palette::HEAT.len() - 1;
    if share <= 0.0 {
        0
    } else {
        ((share * last as f64).ceil() as usize).clamp(1, last)
    }
}

/// A round number above `largest`.
fn nice_limit(largest: f64) -> f64 {
    let largest = (largest * 1.05).max(1.0);
    let power = 10_f64.powf(largest.log10().floor());
    let steps = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let step = steps.iter().find(|step| **step * power >= largest);
    step.unwrap_or(&10.0) * power
}

/// A colour of the palette for plotters, which has no patterns.
fn rgb(colour: &str) -> RGBColor {
    let part = |at: usize| {
        let digits = colour.get(at..at + 2).unwrap_or("A0");
        u8::from_str_radix(digits, 16).unwrap_or(0xA0)
    };
    if colour.starts_with('#') {
        RGBColor(part(1), part(3), part(5))
    } else {
        RGBColor(0xB8, 0xB8, 0xB8)
    }
}

/// Points without those between two of the same height.
fn without_repeats(points: impl Iterator<Item = (i64, f64)>) -> Vec<(i64, f64)> {
    let mut kept: Vec<(i64, f64)> = Vec::new();
    for point in points {
        let count = kept.len();
        if count >= 2 && kept[count - 1].1 == point.1 && kept[count - 2].1 == point.1 {
            kept[count - 1] = point;
        } else {
            kept.push(point);
        }
    }
    kept
}
