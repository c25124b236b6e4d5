//! Writing a trace, of either kind, as one of Go since Go 1.22, which `go tool trace` and every other
//! reader of Go's traces opens.
//!
//! ```
//! # use std::io::Cursor;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use gmp_trace::go::write::Writer;
//!
//! # let file = gmp_trace::go::text::from_text(
//! #     "Trace Go1.22\nEventBatch gen=1 m=0 time=1 size=?\nFrequency freq=1000000000\n\
//! #      EventBatch gen=1 m=7 time=1 size=?\nProcStatus dt=1 p=0 pstatus=1\n\
//! #      GoStatus dt=1 g=1 m=7 gstatus=2\nGoBlock dt=1 reason_string=0 stack=0\n",
//! # )?;
//! let mut reader = gmp_trace::open(Cursor::new(file))?;
//! let mut out = Vec::new();
//! let mut writer = Writer::new(&mut out, reader.info().format);
//! while let Some(event) = reader.next()? {
//!     writer.event(&event, reader.tables())?;
//! }
//! let outcome = writer.finish(reader.tables())?;
//! assert_eq!((outcome.version, outcome.events), (23, 4));
//! assert!(outcome.left_out.is_empty() && outcome.added.is_empty());
//! assert!(out.starts_with(b"go 1.23 trace"));
//! # Ok(())
//! # }
//! ```
//!
//! Memory: the state of the goroutines that are alive and of all Ps and threads; of the current
//! generation at most 64 KiB a thread and the numbers of its strings and stacks; of the whole trace the
//! address of each different frame. Events are written as they come.
//!
//! What becomes of each event is written down in `docs/go-traces.md`.
//!
//! | file | gives |
//! |---|---|
//! | `file` | batches, generations |
//! | `names` | strings and stacks |
//! | `world` | what every goroutine, P and thread does, as Go's reader will have it |
//! | `legal` | what has to be so before an event may come |
//! | `goroutines`, `syscalls`, `procs`, `annotations` | Go's events for those of the model |
//! | `outcome` | what is not as it was |

mod annotations;
mod file;
mod goroutines;
mod legal;
mod names;
mod outcome;
mod procs;
mod syscalls;
mod world;

pub use outcome::Outcome;

use std::io::{self, Write};

use super::experiment::Allocations;
use super::header::Version;
use super::spec;
use super::states::GStatus;
use crate::event::{Body, Event, GState};
use crate::id::{GId, MId};
use crate::info::TraceFormat;
use crate::tables::{SiteRef, StackRef, Tables, Text};
use crate::time::Nanos;
use file::{Batch, File};
use legal::At;
use names::{Names, Shape};
use outcome::kind;
use world::World;

/// Time zero of the trace that is written. Some events are earlier than the first one.
const TIME_ZERO: i64 = 1_000_000_000;

/// Units of the clock in a second: every time is kept.
const FREQUENCY: u64 = 1_000_000_000;

/// Writes a trace of Go.
#[derive(Debug)]
pub struct Writer<W> {
    file: File<W>,
    of_go: bool,
    names: Names,
    world: World,
    samples: Batch,
    version: Version,
    /// Whether no generation came before this one.
    first: bool,
    latest: u64,
    /// The monotonic and the wall clock of the last generation.
    last_clocks: [u64; 2],
    collecting: Option<bool>,
    collector_sequence: u64,
    /// The latest time that was written when the first event of the collector was.
    collector_known: u64,
    /// A goroutine that was made and does not wait: the next event tells whether by a thread of C.
    held: Option<Event>,
    /// The goroutine whose end was written with the loss of its thread's P.
    ended: Option<GId>,
    outcome: Outcome,
}

impl<W: Write> Writer<W> {
    /// Begins a trace at `out`, which gets large pieces and needs no buffer; `format` is that of the
    /// trace that is turned into it.
    pub fn new(out: W, format: TraceFormat) -> Writer<W> {
        let of_go = matches!(format, TraceFormat::Go { .. });
        Writer {
            file: File::new(out),
            of_go,
            names: Names::new(!of_go),
            world: World::new(),
            samples: Batch::of_table(spec::CPU_SAMPLES),
            version: Version(0),
            first: true,
            latest: 0,
            last_clocks: [0, 0],
            collecting: None,
            collector_sequence: 0,
            collector_known: 0,
            held: None,
            ended: None,
            outcome: Outcome::default(),
        }
    }

    /// Writes `event`, whose references are in `tables`. Events come in the order in which a reader
    /// gives them.
    ///
    /// # Errors
    ///
    /// What the output says.
    pub fn event(&mut self, event: &Event, tables: &Tables) -> io::Result<()> {
        if let Some(held) = self.held.take() {
            if let Body::GoCreate { child, .. } = held.body
                && is_in_syscall(event, child, held.m)
            {
                self.create_in_syscall(&held, child);
                self.outcome.events += 2;
                return self.file.result();
            }
            self.take(&held, tables);
        }
        if may_be_made_by_c(event) {
            self.held = Some(*event);
            return Ok(());
        }
        self.take(event, tables);
        self.file.result()
    }

    /// Writes what the ids in events of Go's experiment about allocations mean in the generation that
    /// has begun. To be called after the event with which it begins.
    ///
    /// # Errors
    ///
    /// What the output says.
    pub fn allocations(&mut self, allocations: &Allocations, tables: &Tables) -> io::Result<()> {
        for data in allocations.to_batches(tables) {
            let time = self.latest.max(1);
            self.file
                .experiment(spec::EXPERIMENT_ALLOC_FREE, time, &data);
        }
        self.file.result()
    }

    /// Ends the trace.
    ///
    /// # Errors
    ///
    /// What the output says.
    pub fn finish(mut self, tables: &Tables) -> io::Result<Outcome> {
        if let Some(held) = self.held.take() {
            self.take(&held, tables);
        }
        if self.file.generation == 0 {
            self.version = Version(26);
            self.file.header(self.version);
        } else {
            self.end_generation();
        }
        self.file.flush()?;
        self.outcome.version = self.version.0;
        self.outcome.generations = self.file.generation;
        self.outcome.bytes = self.file.bytes;
        self.outcome.cut_strings = self.names.cut_strings;
        self.outcome.cut_stacks = self.names.cut_stacks;
        Ok(self.outcome)
    }

    fn take(&mut self, event: &Event, tables: &Tables) {
        if let Body::Sync { mono, wall, .. } = event.body {
            self.begin_generation(event.time, mono.zip(wall));
            return self.outcome.events += 1;
        }
        if self.file.generation == 0 {
            self.begin_generation(event.time, None);
        }
        let at = At {
            m: self.world.thread(event.m),
            time: time(event.time),
        };
        let destroyed = std::mem::take(&mut self.ended).is_some_and(|ended| {
            event.g == Some(ended) && matches!(event.body, Body::GoExit { .. })
        });
        // A damaged trace may tell of a goroutine after its end.
        let ended = subject(event).is_some_and(|g| self.world.ended.contains(&g));
        match destroyed || (!ended && self.translate(event, at, tables)) {
            true => self.outcome.events += 1,
            false => *self.outcome.left_out.entry(kind(&event.body)).or_default() += 1,
        }
    }

    // ---- generations

    fn begin_generation(&mut self, begin: Nanos, clocks: Option<(Nanos, Nanos)>) {
        if self.file.generation == 0 {
            // Go's reader wants the wall clock in a newer trace.
            self.version = Version(if clocks.is_some() { 26 } else { 23 });
            self.file.header(self.version);
        } else {
            self.end_generation();
            self.first = false;
        }
        self.file.generation += 1;
        self.world.begin_generation();
        let begin = time(begin);
        self.latest = self.latest.max(begin);
        self.names.begin(begin);
        let mut record = vec![spec::FREQUENCY];
        crate::varint::push(&mut record, FREQUENCY);
        let mut sync = Batch::of_table(spec::SYNC);
        if self.version.has_clock_snapshots() {
            let [mono, wall] = self.clocks(clocks);
            record.push(spec::CLOCK_SNAPSHOT);
            for number in [0, mono, wall / FREQUENCY, wall % FREQUENCY] {
                crate::varint::push(&mut record, number);
            }
        } else {
            sync = Batch::of_thread(file::NO_THREAD);
        }
        sync.record(&mut self.file, begin, &record);
        self.file.batch(&mut sync);
    }

    /// The monotonic and the wall clock as they are written: later than those of the generation before,
    /// as Go's validator wants it of clocks that somebody may have set back.
    fn clocks(&mut self, clocks: Option<(Nanos, Nanos)>) -> [u64; 2] {
        let [mono, wall] = self.last_clocks;
        let at_least = |last: u64, clock: Nanos| u64::try_from(clock.0).unwrap_or(0).max(last + 1);
        self.last_clocks = match clocks {
            Some(clocks) => [at_least(mono, clocks.0), at_least(wall, clocks.1)],
            None => [mono + 1, wall + 1],
        };
        self.last_clocks
    }

    fn end_generation(&mut self) {
        let at = At {
            m: world::NO_SLOT,
            time: self.latest,
        };
        // Reading can begin at any generation, so each tells of all that there is.
        for p in 0..self.world.procs.len() as u32 {
            self.state_proc(p, at);
        }
        for g in 0..self.world.goroutines.len() as u32 {
            self.state(g, at);
        }
        for thread in &mut self.world.threads {
            self.file.batch(&mut thread.batch);
        }
        self.file.batch(&mut self.samples);
        self.names.end(&mut self.file);
        if self.version.has_end_of_generation() {
            self.file.end_of_generation();
        }
    }

    // ---- names

    fn text(&mut self, text: Text, tables: &Tables) -> u64 {
        self.names.text(text, tables, &mut self.file)
    }

    fn stack(&mut self, shape: Option<Shape>, tables: &Tables) -> u64 {
        self.names.stack(shape, tables, &mut self.file)
    }

    /// The id of `stack`, or of the place that is known instead.
    fn stack_or_site(
        &mut self,
        stack: Option<StackRef>,
        site: Option<SiteRef>,
        tables: &Tables,
    ) -> u64 {
        self.stack(stack.map(Shape::Stack).or(site.map(Shape::Place)), tables)
    }

    // ---- events

    /// Writes `event`; false where there is nothing like it.
    fn translate(&mut self, event: &Event, at: At, tables: &Tables) -> bool {
        match event.body {
            Body::GoStart { .. } => self.goroutine_starts(event, at),
            Body::GoPark { .. }
            | Body::GoYield { .. }
            | Body::GoPreempted { .. }
            | Body::GoExit { .. } => self.goroutine_stops(event, at, tables),
            Body::GoReady {
                goroutine, stack, ..
            } => {
                let g = self.world.goroutine(goroutine);
                self.bring(g, GStatus::Waiting, at);
                let stack = self.stack(stack.map(Shape::Stack), tables);
                self.unblock(g, at, stack, false);
                true
            }
            Body::GoCreate { .. } => self.goroutine_made(event, at, tables),
            Body::GoStatus { .. } => self.goroutine_status(event, at, tables),
            Body::SyscallEnter { .. }
            | Body::SyscallExit
            | Body::SyscallExitBlocked
            | Body::SyscallImplicit { .. } => self.syscall(event, at, tables),
            Body::ProcStart
            | Body::ProcStop
            | Body::ProcHandoff { .. }
            | Body::ProcSteal { .. }
            | Body::ProcStatus { .. } => self.proc(event, at),
            _ => self.annotation(event, at, tables),
        }
    }
}

/// A time of the trace in the trace that is written.
fn time(time: Nanos) -> u64 {
    u64::try_from(time.0.saturating_add(TIME_ZERO))
        .unwrap_or(0)
        .max(1)
}

/// The goroutine whose state an event changes or tells.
fn subject(event: &Event) -> Option<GId> {
    match event.body {
        Body::GoCreate { child: g, .. }
        | Body::GoReady { goroutine: g, .. }
        | Body::GoStatus { goroutine: g, .. }
        | Body::SyscallImplicit { goroutine: g, .. } => Some(g),
        Body::GoStart { .. }
        | Body::GoPark { .. }
        | Body::GoYield { .. }
        | Body::GoPreempted { .. }
        | Body::GoExit { .. }
        | Body::SyscallEnter { .. }
        | Body::SyscallExit
        | Body::SyscallExitBlocked => event.g,
        _ => None,
    }
}

/// A goroutine that is made like this may be that of a thread of C.
fn may_be_made_by_c(event: &Event) -> bool {
    matches!(
        event.body,
        Body::GoCreate {
            site: None,
            stack: None,
            start_stack: None,
            runnable: false,
            ..
        }
    )
}

/// Whether `event` says that `child` is in a system call on thread `m`.
fn is_in_syscall(event: &Event, child: GId, m: Option<MId>) -> bool {
    matches!(
        event.body,
        Body::GoStatus {
            goroutine,
            state: GState::Syscall,
            on_m,
            ..
        } if goroutine == child && on_m == m && event.m == m
    )
}
