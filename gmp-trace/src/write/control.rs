//! Records of control blocks: clocks, statuses, begin and end of generations, losses.

use crate::event::GState;
use crate::spec::Kind;
use crate::write::encoder::Encoder;
use crate::write::scheduling::optional_m;

/// Three clocks, read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPair {
    /// The trace's clock, in its units.
    pub ticks: u64,
    /// The monotonic clock of the machine, in nanoseconds.
    pub mono: u64,
    /// The wall clock, in nanoseconds since the Unix epoch.
    pub wall: u64,
}

/// What a goroutine was doing when a generation began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoroutineStatus {
    /// The goroutine.
    pub g: u64,
    /// Its state.
    pub state: GState,
    /// The M that it is on, in state running or syscall.
    pub on_m: Option<u64>,
    /// Why it waits, as the number of a text; 0 (the empty text) where it does not wait.
    pub reason: u32,
    /// What it waits for; 0 for none.
    pub object: u64,
    /// Where it waits; 0 for none.
    pub site: u32,
    /// Its start function and where it was made; 0 for none.
    pub created_at: u32,
    /// Its creator; 0 for none.
    pub creator: u64,
    /// Its label, as the number of a text; 0 (the empty text) for none.
    pub label: u32,
}

/// What a generation is said to have held, for the reader to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationEnd {
    /// Number of the generation.
    pub generation: u32,
    /// Blocks of the generation, control blocks not counted.
    pub blocks: u64,
    /// Events in those blocks: the sum of [`Encoder::events`].
    pub events: u64,
    /// Events that were lost.
    pub lost: u64,
}

/// What a whole trace is said to have held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEnd {
    /// Generations that were finished.
    pub generations: u64,
    /// Events in them, as in [`GenerationEnd`].
    pub events: u64,
    /// Events that were lost.
    pub lost: u64,
}

impl Encoder {
    /// What a goroutine was doing when the generation began. Comes before the goroutine's first
    /// event of the generation, in the block of the M that records that one, or in a control block
    /// if there is none; its sequence number is 0.
    pub fn go_status(&mut self, chunk: &mut [u8], now: u64, status: &GoroutineStatus) {
        let args = [
            self.delta(now),
            self.relative(status.g),
            optional_m(status.on_m),
            u64::from(status.reason),
            status.object,
            u64::from(status.site),
            u64::from(status.created_at),
            status.creator,
            u64::from(status.label),
        ];
        self.record(
            chunk,
            Kind::GoStatus.head(status.state as u8, false),
            args,
            1,
        );
    }

    /// The clocks, read together.
    pub fn clock_pair(&mut self, chunk: &mut [u8], clocks: ClockPair) {
        let args = [clocks.ticks, clocks.mono, clocks.wall];
        self.record(chunk, Kind::ClockPair.head(0, false), args, 0);
    }

    /// Generation `generation` begins.
    pub fn gen_begin(&mut self, chunk: &mut [u8], generation: u32) {
        self.record(
            chunk,
            Kind::GenBegin.head(0, false),
            [u64::from(generation)],
            0,
        );
    }

    /// A generation is whole: every block of it is before this one in the file.
    pub fn gen_end(&mut self, chunk: &mut [u8], end: &GenerationEnd) {
        let args = [u64::from(end.generation), end.blocks, end.events, end.lost];
        self.record(chunk, Kind::GenEnd.head(0, false), args, 0);
    }

    /// `events` events of this M were lost here.
    pub fn loss(&mut self, chunk: &mut [u8], events: u64) {
        self.record(chunk, Kind::Loss.head(0, false), [events], 1);
    }

    /// The trace was finished.
    pub fn trace_end(&mut self, chunk: &mut [u8], end: &TraceEnd) {
        let args = [end.generations, end.events, end.lost];
        self.record(chunk, Kind::TraceEnd.head(0, false), args, 0);
    }
}
