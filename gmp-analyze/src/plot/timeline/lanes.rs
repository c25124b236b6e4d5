//! Lanes: spans, what is merged, marks.

use super::layout::{Band, Layout, TEXT};
use crate::analysis::timeline::{Chart, ChartLane, ChartSpan, Mark, Paint};
use crate::plot::palette;
use crate::plot::svg::{self, Anchor, Area, Rects, Svg};
use crate::units;
use gmp_trace::time::Nanos;
use std::collections::BTreeMap;

/// Bytes that merged parts of all lanes may take; wider steps are taken until they fit.
const MERGED_BYTES: usize = 500_000;

/// Texts under the pointer for merged parts, in all lanes together.
const HOVERS: u32 = 1_600;

/// Height of the strip of marks in lanes that have room for one.
const STRIP: u32 = 7;

/// Lanes lower than this have no strip: marks stand on the spans.
const ROOM_FOR_STRIP: u32 = 18;

/// Where spans of a lane are: below its marks.
fn bar(band: Band, strip: bool) -> Band {
    let (above, below) = match band.height {
        0..=7 => (0, 1),
        8..=17 => (1, 1),
        _ if strip => (STRIP, 2),
        _ => (3, 3),
    };
    Band {
        y: band.y + above,
        height: band.height - above - below,
    }
}

/// Draws lanes of one chart.
pub(super) struct Lanes<'a> {
    chart: &'a Chart,
    layout: &'a Layout,
    names: &'a [String],
    strip: bool,
}

impl Lanes<'_> {
    pub(super) fn new<'a>(chart: &'a Chart, layout: &'a Layout, names: &'a [String]) -> Lanes<'a> {
        let marks = chart.lanes.iter().any(|lane| !lane.marks.is_empty());
        Lanes {
            chart,
            layout,
            names,
            strip: marks && layout.lanes.each >= ROOM_FOR_STRIP,
        }
    }

    /// Everything between the names of lanes and the end of the time axis.
    pub(super) fn draw(&self, svg: &mut Svg) {
        let mut lanes: Vec<(&ChartLane, Band)> = Vec::new();
        if let (Some(lane), Some(band)) = (&self.chart.world, self.layout.world) {
            lanes.push((lane, band));
        }
        for (number, lane) in self.chart.lanes.iter().enumerate() {
            lanes.push((lane, bar(self.layout.lane(number), self.strip)));
        }
        self.backgrounds(svg, &lanes);
        self.merged(svg, &lanes);
        self.hovers(svg, &lanes);
        self.spans(svg, &lanes);
        self.stops(svg);
        for (number, lane) in self.chart.lanes.iter().enumerate() {
            self.marks(svg, lane, self.layout.lane(number));
        }
    }

    fn area(&self, band: Band) -> Area {
        Area {
            x: self.layout.left.into(),
            y: band.y.into(),
            width: self.layout.pixels.into(),
            height: band.height.into(),
        }
    }

    fn backgrounds(&self, svg: &mut Svg, lanes: &[(&ChartLane, Band)]) {
        // The lines of the time axis are to be seen through it.
        svg.open(&format!("fill=\"{}\" opacity=\"0.7\"", palette::BACKGROUND));
        for (lane, band) in lanes {
            let title = if lane.about.is_empty() {
                &lane.label
            } else {
                &lane.about
            };
            svg.rect(self.area(*band), "", title);
        }
        svg.close();
        let size = TEXT.min(self.layout.lanes.each.max(8));
        svg.open(&format!("font-size=\"{size}\" fill=\"#333333\""));
        // Low lanes have names only as often as names have room.
        let every = (size + 1).div_ceil(self.layout.lanes.each.max(1)) as usize;
        let world = usize::from(self.chart.world.is_some());
        for (number, (lane, band)) in lanes.iter().enumerate() {
            if number >= world && !(number - world).is_multiple_of(every) {
                continue;
            }
            let y = f64::from(band.y) + f64::from(band.height) / 2.0 + f64::from(size) * 0.36;
            let label = svg::cut(&lane.label, self.layout.left - 14, size);
            let x = f64::from(self.layout.left) - 7.0;
            svg.titled_text((x, y), Anchor::End, "", &label, &lane.label);
        }
        svg.close();
    }

    /// Merged spans: in each step of the time axis colours share the height by their time.
    fn merged(&self, svg: &mut Svg, lanes: &[(&ChartLane, Band)]) {
        let mut step = 1;
        let paths = loop {
            let mut paths: BTreeMap<Paint, Rects> = BTreeMap::new();
            for (lane, band) in lanes {
                self.merged_lane(&mut paths, lane, *band, step);
            }
            let bytes: usize = paths.values().map(|path| path.data().len()).sum();
            if bytes <= MERGED_BYTES || step >= 64 {
                break paths;
            }
            step *= 2;
        };
        svg.open("opacity=\"0.8\" shape-rendering=\"crispEdges\"");
        for (paint, path) in &paths {
            if let Some(fill) = palette::fill(*paint) {
                svg.path(path.data(), &format!("fill=\"{fill}\""));
            }
        }
        svg.close();
    }

    fn merged_lane(
        &self,
        paths: &mut BTreeMap<Paint, Rects>,
        lane: &ChartLane,
        band: Band,
        step: usize,
    ) {
        // By paint: the rectangle that is being drawn, as long as the next one continues it.
        let mut open: BTreeMap<Paint, (usize, usize, f64, f64)> = BTreeMap::new();
        let pixels = self.layout.pixels as usize;
        for begin in (0..pixels).step_by(step) {
            let end = (begin + step).min(pixels);
            let whole = self.time_of(begin, end);
            let sums: Vec<i64> = lane
                .merged
                .iter()
                .map(|merged| merged.pixels[begin..end].iter().sum())
                .collect();
            // Where spans overlap there is more time than the lane is long.
            let whole = whole.max(sums.iter().sum::<i64>() as f64);
            let mut bottom = f64::from(band.y + band.height);
            for (merged, &sum) in lane.merged.iter().zip(&sums) {
                if sum <= 0 || palette::fill(merged.paint).is_none() {
                    continue;
                }
                let exact = sum as f64 / whole * f64::from(band.height);
                // Half pixels; what is there at all shows.
                let height = ((exact * 2.0).round() / 2.0).max(0.5);
                let top = bottom - height;
                let path = paths.entry(merged.paint).or_default();
                match open.get_mut(&merged.paint) {
                    Some(last) if last.1 == begin && last.2 == top && last.3 == height => {
                        last.1 = end;
                    }
                    last => {
                        if let Some(last) = last {
                            path.add(self.box_of(*last));
                        }
                        open.insert(merged.paint, (begin, end, top, height));
                    }
                }
                bottom = top;
            }
        }
        for (paint, last) in open {
            paths.entry(paint).or_default().add(self.box_of(last));
        }
    }

    fn box_of(&self, (begin, end, top, height): (usize, usize, f64, f64)) -> Area {
        Area {
            x: f64::from(self.layout.left) + begin as f64,
            y: top,
            width: (end - begin) as f64,
            height,
        }
    }

    /// Nanoseconds from pixel `begin` to pixel `end`.
    fn time_of(&self, begin: usize, end: usize) -> f64 {
        let length = (self.chart.to.0 - self.chart.from.0) as f64;
        length * (end - begin) as f64 / f64::from(self.layout.pixels)
    }

    /// The moment of pixel `pixel`.
    fn moment(&self, pixel: usize) -> Nanos {
        self.chart.from + Nanos(self.time_of(0, pixel) as i64)
    }

    /// What the pointer shows over merged spans.
    fn hovers(&self, svg: &mut Svg, lanes: &[(&ChartLane, Band)]) {
        let pixels = self.layout.pixels as usize;
        let per_lane = (HOVERS / lanes.len().max(1) as u32).clamp(4, 80) as usize;
        let step = pixels.div_ceil(per_lane);
        svg.open("fill=\"#FFFFFF\" fill-opacity=\"0\"");
        for (lane, band) in lanes {
            for begin in (0..pixels).step_by(step) {
                let end = (begin + step).min(pixels);
                let mut parts: Vec<(i64, Paint)> = lane
                    .merged
                    .iter()
                    .map(|merged| (merged.pixels[begin..end].iter().sum(), merged.paint))
                    .filter(|(sum, _)| *sum > 0)
                    .collect();
                if parts.is_empty() {
                    continue;
                }
                parts.sort_by_key(|(sum, paint)| (std::cmp::Reverse(*sum), *paint));
                let whole = if lane.overlaps {
                    parts.iter().map(|(sum, _)| *sum as f64).sum()
                } else {
                    self.time_of(begin, end)
                };
                let shares = parts.iter().take(4).map(|(sum, paint)| {
                    let share = units::percent(*sum as f64 / whole);
                    format!("{share} {}", palette::name(*paint, self.names))
                });
                let shares: Vec<String> = shares.collect();
                let title = format!(
                    "{}, {} to {}, merged: {}",
                    lane.label,
                    units::duration(self.moment(begin)),
                    units::duration(self.moment(end)),
                    shares.join(", ")
                );
                let top = (f64::from(band.y), f64::from(band.height));
                svg.rect(self.box_of((begin, end, top.0, top.1)), "", &title);
            }
        }
        svg.close();
    }

    fn x(&self, time: Nanos) -> f64 {
        let length = (self.chart.to.0 - self.chart.from.0).max(1) as f64;
        let share = (time.0 - self.chart.from.0) as f64 / length;
        f64::from(self.layout.left) + share * f64::from(self.layout.pixels)
    }

    /// Spans that are wide enough to be seen, each with its text under the pointer.
    fn spans(&self, svg: &mut Svg, lanes: &[(&ChartLane, Band)]) {
        for (lane, band) in lanes {
            let mut by_paint: BTreeMap<Paint, Vec<&ChartSpan>> = BTreeMap::new();
            for span in &lane.spans {
                by_paint.entry(span.paint).or_default().push(span);
            }
            // The life of a task is under its regions.
            let life = by_paint.remove_entry(&Paint::Task);
            for (paint, spans) in life.into_iter().chain(by_paint) {
                let fill = palette::fill(paint).unwrap_or(palette::BACKGROUND);
                svg.open(&format!("fill=\"{fill}\""));
                for span in spans {
                    let (begin, end) = (self.x(span.begin), self.x(span.end));
                    let area = Area {
                        x: begin,
                        y: band.y.into(),
                        width: end - begin,
                        height: band.height.into(),
                    };
                    svg.rect(area, "", &self.about(lane, span));
                }
                svg.close();
            }
        }
    }

    fn about(&self, lane: &ChartLane, span: &ChartSpan) -> String {
        let mut about = lane.label.clone();
        if let Some(goroutine) = span.goroutine {
            about.push_str(&format!(", G{goroutine}"));
        }
        let group = span.group.map(|group| &self.chart.group_names[group]);
        if let Some(group) = group {
            about.push(' ');
            about.push_str(group);
        }
        if !matches!(span.paint, Paint::Group(_) | Paint::Others) {
            about.push_str(", ");
            about.push_str(&palette::name(span.paint, self.names));
        }
        let length = units::duration(span.end - span.begin);
        about.push_str(&format!(": {length} from {}", units::duration(span.begin)));
        about
    }

    /// Stops of the world over all lanes.
    fn stops(&self, svg: &mut Svg) {
        let Some(world) = &self.chart.world else {
            return;
        };
        svg.open(&format!(
            "fill=\"{}\" fill-opacity=\"0.25\" pointer-events=\"none\"",
            palette::VERMILLION
        ));
        for span in world.spans.iter().filter(|span| span.paint == Paint::Stop) {
            let (begin, end) = (self.x(span.begin), self.x(span.end));
            let area = Area {
                x: begin,
                y: self.layout.lanes.y.into(),
                width: (end - begin).max(1.0),
                height: self.layout.lanes.height().into(),
            };
            svg.rect(area, "", "");
        }
        svg.close();
    }

    /// Marks in the strip above the spans, one for each cell; many are a larger one.
    fn marks(&self, svg: &mut Svg, lane: &ChartLane, band: Band) {
        for cells in &lane.marks {
            let most = cells.counts.iter().max().copied().unwrap_or(0);
            let color = palette::mark(cells.mark);
            svg.open(&format!("fill=\"{color}\""));
            for (cell, &count) in cells.counts.iter().enumerate() {
                if count == 0 {
                    continue;
                }
                let width = self.chart.mark_cell;
                let middle = (cell * width) as f64 + width as f64 / 2.0;
                let x = f64::from(self.layout.left) + middle;
                let from = self.moment(cell * width);
                let title = format!(
                    "{}: {} about {}",
                    lane.label,
                    units::counted(count, cells.mark.name()),
                    units::duration(from)
                );
                let shape = shape(cells.mark, x, f64::from(band.y), count);
                // Where there are marks everywhere, the shade tells where there are more.
                let opacity = svg::number(0.4 + 0.6 * count as f64 / most as f64);
                svg.raw(&format!(
                    "<path opacity=\"{opacity}\" d=\"{shape}\"><title>{}</title></path>",
                    svg::escaped(&title)
                ));
            }
            svg.close();
        }
    }
}

/// The outline of a mark: each kind has a shape of its own, so that colour is not needed.
pub(super) fn shape(mark: Mark, x: f64, y: f64, count: u64) -> String {
    // One is small, ten and more are large.
    let size = 2.0 + (count as f64).log10().min(1.0);
    let n = svg::number;
    match mark {
        Mark::Steal => format!(
            "M{} {}h{}l-{} {}z",
            n(x - size),
            n(y + 0.5),
            n(2.0 * size),
            n(size),
            n(1.6 * size)
        ),
        Mark::HandOff => format!(
            "M{} {}l{s} {s}l-{s} {s}l-{s} -{s}z",
            n(x),
            n(y + 0.5),
            s = n(size)
        ),
        Mark::Preemption => format!("M{} {}h2v{}h-2z", n(x - 1.0), n(y + 0.5), n(2.0 * size)),
    }
}
