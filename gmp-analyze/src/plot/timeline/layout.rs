//! Where everything is on the picture, in pixels from the top left.

use crate::analysis::timeline::{Chart, Lanes};

/// Space right of the time axis.
const RIGHT: u32 = 30;
/// Space above the title.
pub(super) const TOP: u32 = 12;
/// Size of letters.
pub(super) const TEXT: u32 = 11;
/// Height of a line of the legend.
pub(super) const LEGEND_LINE: u32 = 18;
/// Height of the line that says what a plot shows.
pub(super) const HEADING: u32 = 20;
/// Space between two plots.
const GAP: u32 = 8;
/// Height of the time axis with its labels and its unit.
pub(super) const AXIS: u32 = 44;
/// Height of the lane of the whole world.
const WORLD: u32 = 14;
/// Space between the plot of queues and the rows under it: half a letter of its axis.
const BETWEEN: u32 = 8;
/// Heights of the plots of queues and of states.
const QUEUES: u32 = 70;
const STATES: u32 = 90;
/// The narrowest time axis.
const NARROWEST: u32 = 200;
/// The lowest lane.
const LOWEST: u32 = 4;

/// Space left of the time axis, for the names of lanes.
pub(super) fn left(lanes: Lanes) -> u32 {
    match lanes {
        Lanes::Procs | Lanes::Threads => 62,
        Lanes::Groups | Lanes::Tasks => 210,
    }
}

/// How many pixels the time axis has on a picture of `width` pixels.
pub fn pixels(width: u32, lanes: Lanes) -> usize {
    width.saturating_sub(left(lanes) + RIGHT).max(NARROWEST) as usize
}

/// A horizontal part of the picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Band {
    pub(super) y: u32,
    pub(super) height: u32,
}

/// Rows of equal height.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) y: u32,
    pub(super) each: u32,
    pub(super) count: u32,
}

impl Rows {
    pub(super) fn height(&self) -> u32 {
        self.each * self.count
    }
}

/// The whole picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) left: u32,
    pub(super) pixels: u32,
    pub(super) world: Option<Band>,
    pub(super) lanes: Rows,
    /// Utilization of each P.
    pub(super) busy: Rows,
    pub(super) queues: Band,
    /// The queue of each P.
    pub(super) local: Rows,
    pub(super) states: Band,
}

impl Layout {
    /// Divides the picture; `legend` is the number of lines that the legend takes. `height` is what
    /// was asked for: lanes take what the rest leaves.
    pub(super) fn new(chart: &Chart, legend: u32, height: Option<u32>) -> Layout {
        let count = (chart.lanes.len() as u32).max(1);
        let procs = chart.busy.len() as u32;
        let queues = chart.queues.as_ref();
        let local = queues.map_or(0, |queues| queues.local.len() as u32);
        let row = match procs {
            0..=4 => 14,
            5..=16 => 11,
            17..=32 => 8,
            _ => 4,
        };
        let comfortable = match count {
            1 | 2 => 48,
            3 | 4 => 40,
            5..=8 => 32,
            9..=16 => 24,
            17..=32 => 18,
            _ => 10,
        };
        let world = if chart.world.is_some() { WORLD + 4 } else { 0 };
        let busy_part = if procs > 0 {
            HEADING + GAP + row * procs
        } else {
            0
        };
        let above = TOP + 46 + legend * LEGEND_LINE + GAP + world;
        let below = busy_part
            + (GAP + HEADING + QUEUES + BETWEEN + row * local)
            + (GAP + HEADING + STATES)
            + AXIS;
        let each = height.map_or(comfortable, |height| {
            (height.saturating_sub(above + below) / count).max(LOWEST)
        });
        let lanes = Rows {
            y: above,
            each,
            count,
        };
        let busy = Rows {
            y: lanes.y + lanes.height() + if procs > 0 { GAP + HEADING } else { 0 },
            each: row,
            count: procs,
        };
        let queues = Band {
            y: busy.y + busy.height() + GAP + HEADING,
            height: QUEUES,
        };
        let local = Rows {
            y: queues.y + queues.height + BETWEEN,
            each: row,
            count: local,
        };
        let states = Band {
            y: local.y + local.height() + GAP + HEADING,
            height: STATES,
        };
        let pixels = chart.options.pixels as u32;
        let left = left(chart.options.lanes);
        Layout {
            width: left + pixels + RIGHT,
            height: states.y + states.height + AXIS,
            left,
            pixels,
            world: chart.world.is_some().then_some(Band {
                y: above - world,
                height: WORLD,
            }),
            lanes,
            busy,
            queues,
            local,
            states,
        }
    }

    /// The part of lane `number`.
    pub(super) fn lane(&self, number: usize) -> Band {
        Band {
            y: self.lanes.y + self.lanes.each * number as u32,
            height: self.lanes.each,
        }
    }
}
