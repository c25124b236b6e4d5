//! Generated traces: a scheduler is played, and what it does is recorded and kept.
//!
//! Everything follows from the seed, so a trace can be made again from its name. The played
//! scheduler obeys the rules of a real one (states, sequence numbers, statuses), over any number of
//! Ms whose clocks may disagree.

mod actions;
mod scheduler;

use crate::event::Event;
use crate::tables::Tables;
use crate::testgen::scheduler::Scheduler;

/// What to generate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Goroutines that live at once, about.
    pub goroutines: usize,
    /// Ms.
    pub ms: usize,
    /// Ps.
    pub ps: usize,
    /// Events, about: the last action may add a few, statuses come on top.
    pub events: u64,
    /// Generations, in which the events are spread evenly.
    pub generations: u32,
    /// What goroutines do.
    pub mix: Mix,
    /// How far the clocks of Ms are apart at most, in units of the clock.
    pub skew: u64,
    /// Bytes of a block, about.
    pub block_bytes: usize,
    /// Whether to keep what was meant: it takes a hundred bytes an event.
    pub expect: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            goroutines: 20,
            ms: 3,
            ps: 2,
            events: 2_000,
            generations: 2,
            mix: Mix::Everything,
            skew: 0,
            block_bytes: 4 << 10,
            expect: true,
        }
    }
}

/// What goroutines do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Every kind of event.
    Everything,
    /// Sends and receives on channels, with now and then a yield.
    Channels,
}

/// A generated trace and what it means.
#[derive(Clone, Debug)]
pub struct Program {
    /// The trace, unless it was written elsewhere.
    pub bytes: Vec<u8>,
    /// What a reader is to give, where [`Config::expect`] was set. With skewed clocks the order of
    /// events of different Ms is not determined and may be another.
    pub events: Vec<Event>,
    /// What the references in `events` mean.
    pub tables: Tables,
    /// Events that were recorded, whether kept in `events` or not.
    pub recorded: u64,
}

/// Units of the clock of generated traces in a second: one is 16 ns.
pub const TICKS_PER_SECOND: u64 = 62_500_000;

/// Plays a scheduler from `seed`.
pub fn program(seed: u64, config: &Config) -> Program {
    let mut scheduler = Scheduler::new(seed, config);
    scheduler.play();
    scheduler.finish()
}

/// Plays a scheduler from `seed` that dies in the middle: the trace has no end, and the last block of
/// each M is open.
pub fn killed_program(seed: u64, config: &Config) -> Program {
    let mut scheduler = Scheduler::new(seed, config);
    scheduler.play();
    scheduler.abandon()
}
