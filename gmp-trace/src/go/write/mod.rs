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
//! Memory: the state of what is alive, and of the current generation the numbers of its strings and
//! stacks and at most 64 KiB a thread; events are written as they come.
//!
//! What becomes of each event is written down in `docs/go-traces.md`.

mod file;
mod legal;
mod names;
mod world;

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::experiment::Allocations;
use super::header::Version;
use super::spec;
use super::states::{GStatus, NOBODY, PStatus};
use crate::event::{Body, Event, GState, PState, Scope};
use crate::id::{GId, MId, PId, TaskId};
use crate::info::TraceFormat;
use crate::tables::{SiteRef, StackRef, Tables, Text};
use crate::time::Nanos;
use file::{Batch, File};
use legal::At;
use names::{Names, Shape};
use world::World;

/// Time zero of the trace that is written. Some events are earlier than the first one.
const TIME_ZERO: i64 = 1_000_000_000;

/// Units of the clock in a second: every time is kept.
const FREQUENCY: u64 = 1_000_000_000;

/// What became of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// The number in the header: 26, or 23 for a trace that does not know the wall clock, which every
    /// generation has to tell since 1.25.
    pub version: u16,
    /// Generations that were begun.
    pub generations: u64,
    /// Events of the trace that were written.
    pub events: u64,
    /// Bytes that were written.
    pub bytes: u64,
    /// Events that were not written, because Go's format has nothing like them, or not there, by kind.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Events that Go's reader wants and the trace does not have, by Go's name.
    pub added: BTreeMap<&'static str, u64>,
    /// Strings that were cut to 1024 bytes.
    pub cut_strings: u64,
    /// Stacks of which the outermost frames were left out, to have 128.
    pub cut_stacks: u64,
}

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
                self.state(g, at);
                let stack = self.stack(stack.map(Shape::Stack), tables);
                let goroutine = self.world.g(g);
                goroutine.sequence += 1;
                goroutine.status = GStatus::Runnable;
                let args = [goroutine.id.get(), goroutine.sequence, stack];
                self.put(at, spec::GO_UNBLOCK, &args);
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

    fn goroutine_starts(&mut self, event: &Event, at: At) -> bool {
        let Some(id) = event.g else { return false };
        let at = self.real(at, event);
        let g = self.world.goroutine(id);
        self.bring(g, GStatus::Runnable, at);
        self.start(g, at, event.p, false);
        true
    }

    fn goroutine_stops(&mut self, event: &Event, at: At, tables: &Tables) -> bool {
        let at = self.real(at, event);
        let g = match event.g {
            Some(id) => self.world.goroutine(id),
            None => match self.goroutine_of(at) {
                Some(g) => g,
                None => return false,
            },
        };
        let goroutine = self.world.g(g);
        let in_syscall = goroutine.status == GStatus::Syscall && goroutine.thread == at.m;
        match event.body {
            Body::GoExit { .. } if in_syscall => {
                self.destroy_in_syscall(g, at);
                return true;
            }
            // Back from a call that nobody announced, without a P.
            Body::GoYield { .. } | Body::GoPreempted { .. } if in_syscall => {
                self.end_blocked(g, at, false);
                return true;
            }
            _ => {}
        }
        self.bring(g, GStatus::Running, at);
        self.acquire(at, event.p);
        self.state(g, at);
        let (kind, reason, stack) = match event.body {
            Body::GoPark {
                reason,
                site,
                stack,
                ..
            } => {
                let reason = match Self::reason(reason).filter(|_| !self.of_go) {
                    Some(word) => self.names.string(word, &mut self.file),
                    None => self.text(reason, tables),
                };
                let stack = self.stack_or_site(stack, site, tables);
                (spec::GO_BLOCK, reason, stack)
            }
            Body::GoPreempted { stack, .. } => {
                let stack = self.stack(stack.map(Shape::Stack), tables);
                (spec::GO_STOP, self.text(Text::PREEMPTED, tables), stack)
            }
            Body::GoYield { stack } => {
                let stack = self.stack(stack.map(Shape::Stack), tables);
                (spec::GO_STOP, self.text(Text::GOSCHED, tables), stack)
            }
            _ => {
                self.end_ranges(g, at);
                self.put(at, spec::GO_DESTROY, &[]);
                self.world.forget(g);
                return true;
            }
        };
        self.put(at, kind, &[reason, stack]);
        self.world.unbind(g);
        self.world.g(g).status = match kind {
            spec::GO_BLOCK => GStatus::Waiting,
            _ => GStatus::Runnable,
        };
        true
    }

    /// A goroutine that ends has no range open.
    fn end_ranges(&mut self, g: u32, at: At) {
        for _ in 0..self.world.g(g).stops().len() {
            self.add_end(at, spec::STW_END);
        }
        if self.world.g(g).assists() {
            self.add_end(at, spec::GC_MARK_ASSIST_END);
        }
    }

    fn add_end(&mut self, at: At, kind: u8) {
        let name = spec::spec(kind).map_or("", |spec| spec.name);
        *self.outcome.added.entry(name).or_default() += 1;
        self.put(at, kind, &[]);
    }

    fn goroutine_made(&mut self, event: &Event, at: At, tables: &Tables) -> bool {
        let Body::GoCreate {
            child,
            site,
            stack,
            start_stack,
            runnable,
        } = event.body
        else {
            return false;
        };
        let g = self.world.goroutine(child);
        if self.world.g(g).status != GStatus::Unknown {
            return false;
        }
        let start = start_stack.map(Shape::Stack).or(site.map(Shape::Start));
        let start = self.stack(start, tables);
        let (kind, status) = match runnable {
            true => (spec::GO_CREATE, GStatus::Runnable),
            false => (spec::GO_CREATE_BLOCKED, GStatus::Waiting),
        };
        if self.first && !self.can_create(at.m) {
            // Before there is a P: it is among what was there when the trace began.
            self.world.g(g).status = status;
            self.put_status(g, at, start, false);
            return true;
        }
        let stack = stack.map(Shape::Stack).or(site.map(Shape::Made));
        let stack = self.stack(stack, tables);
        let at = self.creator(at);
        let generation = self.file.generation;
        let goroutine = self.world.g(g);
        (goroutine.status, goroutine.sequence, goroutine.stated) = (status, 0, generation);
        self.put(at, kind, &[child.get(), start, stack]);
        true
    }

    fn goroutine_status(&mut self, event: &Event, at: At, tables: &Tables) -> bool {
        let Body::GoStatus {
            goroutine,
            state,
            on_m,
            site,
            created_at,
            stack,
            ..
        } = event.body
        else {
            return false;
        };
        let shape = match created_at.filter(|_| !self.of_go) {
            Some(start) => Some(Shape::Status(stack, site, start)),
            None => stack.map(Shape::Stack).or(site.map(Shape::Place)),
        };
        let stack = self.stack(shape, tables);
        let g = self.world.goroutine(goroutine);
        let status = match state {
            GState::Runnable => GStatus::Runnable,
            GState::Running => GStatus::Running,
            GState::Syscall => GStatus::Syscall,
            GState::Waiting => GStatus::Waiting,
        };
        let at = match status {
            GStatus::Running | GStatus::Syscall => {
                let known = self.world.g(g).thread;
                at.on(match on_m.or(event.m) {
                    Some(m) => self.world.thread(Some(m)),
                    None if known != NOBODY => known,
                    None => self.unnamed_thread(g),
                })
            }
            _ => at,
        };
        let generation = self.file.generation;
        let is = self.world.g(g);
        let (was, thread, stated) = (is.status, is.thread, is.stated == generation);
        let executing = matches!(status, GStatus::Running | GStatus::Syscall);
        if was == status && (!executing || thread == at.m) {
            if stated {
                return false;
            }
        } else if was == GStatus::Unknown && self.first {
            if executing {
                self.vacate(at, g);
                self.world.bind(g, at.m, status);
            } else {
                self.world.g(g).status = status;
            }
        } else {
            self.bring(g, status, at);
            return true;
        }
        self.put_status(g, at, stack, false);
        true
    }

    fn syscall(&mut self, event: &Event, at: At, tables: &Tables) -> bool {
        if let Body::SyscallImplicit { goroutine, on_m } = event.body {
            let at = at.on(self.world.thread(Some(on_m)));
            let g = self.world.goroutine(goroutine);
            self.bring(g, GStatus::Running, at);
            self.begin_syscall(g, at, 0, false);
            return true;
        }
        let at = self.real(at, event);
        let g = match event.g {
            Some(id) => self.world.goroutine(id),
            None => match self.goroutine_of(at) {
                Some(g) => g,
                None => return false,
            },
        };
        if let Body::SyscallEnter { site, stack } = event.body {
            self.bring(g, GStatus::Running, at);
            self.acquire(at, event.p);
            let stack = self.stack_or_site(stack, site, tables);
            self.begin_syscall(g, at, stack, false);
            return true;
        }
        self.bring(g, GStatus::Syscall, at);
        if event.body == Body::SyscallExitBlocked {
            self.end_blocked(g, at, false);
            return true;
        }
        let p = self.world.m(at.m).p;
        if p != NOBODY && self.world.p(p).status == PStatus::Syscall {
            self.end_syscall(g, at, false);
        } else {
            // It goes on with another P than the one that it had.
            self.end_blocked(g, at, false);
            self.start(g, at, event.p, true);
        }
        true
    }

    /// A thread of C calls into the program.
    fn create_in_syscall(&mut self, event: &Event, child: GId) {
        let at = At {
            m: self.world.thread(event.m),
            time: time(event.time),
        };
        let at = self.real(at, event);
        let g = self.world.goroutine(child);
        if self.world.g(g).status != GStatus::Unknown {
            return self.bring(g, GStatus::Syscall, at);
        }
        self.vacate(at, g);
        self.world.bind(g, at.m, GStatus::Syscall);
        let generation = self.file.generation;
        let goroutine = self.world.g(g);
        (goroutine.sequence, goroutine.stated) = (0, generation);
        self.put(at, spec::GO_CREATE_SYSCALL, &[child.get()]);
    }

    /// The goroutine ends in a system call; a P that its thread still has is left behind.
    fn destroy_in_syscall(&mut self, g: u32, at: At) {
        self.state(g, at);
        let p = self.world.m(at.m).p;
        if p != NOBODY {
            self.state_proc(p, at);
            if self.world.p(p).status == PStatus::Syscall {
                self.world.take(p, PStatus::Abandoned);
            } else {
                self.release(at);
            }
        }
        self.put(at, spec::GO_DESTROY_SYSCALL, &[]);
        self.world.forget(g);
    }

    fn proc(&mut self, event: &Event, at: At) -> bool {
        match event.body {
            Body::ProcStatus { proc, state, on_m } => {
                return self.proc_status(proc, state, on_m, at);
            }
            Body::ProcSteal {
                victim,
                from_m,
                why,
            } => {
                let to_itself = why.is_none() && from_m.is_some() && from_m == event.m;
                return self.proc_stolen(victim, from_m, to_itself, at);
            }
            _ => {}
        }
        let at = self.real(at, event);
        let Some(p) = event.p.map(|p| self.world.proc(p)) else {
            return false;
        };
        let held = self.world.m(at.m).p;
        if event.body == Body::ProcStart {
            if held == p {
                return false;
            }
            self.release(at);
            self.start_proc(p, at, false);
        } else {
            if held != p {
                return false;
            }
            self.state_proc(p, at);
            self.put(at, spec::PROC_STOP, &[]);
            self.world.take(p, PStatus::Idle);
        }
        true
    }

    fn proc_status(&mut self, proc: PId, state: PState, on_m: Option<MId>, at: At) -> bool {
        let p = self.world.proc(proc);
        let wanted = match (state, on_m) {
            (PState::Idle, _) | (_, None) => NOBODY,
            (_, Some(m)) => self.world.thread(Some(m)),
        };
        let generation = self.file.generation;
        let is = self.world.p(p);
        let (was, thread) = (is.status, is.thread);
        if was == PStatus::Unknown {
            if wanted == NOBODY {
                self.world.take(p, PStatus::Idle);
            } else {
                self.release(at.on(wanted));
                let status = match state {
                    PState::Syscall => PStatus::Syscall,
                    _ => PStatus::Running,
                };
                self.world.give(p, wanted, status);
            }
        } else if thread != wanted {
            match wanted {
                NOBODY => self.idle(p, at),
                m => self.acquire(at.on(m), Some(proc)),
            }
            return true;
        } else if is.stated == generation {
            return false;
        }
        let at = if wanted == NOBODY { at } else { at.on(wanted) };
        self.put_proc_status(p, at, false);
        true
    }

    fn proc_stolen(&mut self, victim: PId, from_m: Option<MId>, to_itself: bool, at: At) -> bool {
        let p = self.world.proc(victim);
        let proc = self.world.p(p);
        let (status, thread) = (proc.status, proc.thread);
        if to_itself && status == PStatus::Syscall {
            // Its goroutine ends, which says both.
            let at = at.on(thread);
            let Some(g) = self.goroutine_of(at) else {
                return false;
            };
            self.ended = Some(self.world.g(g).id);
            self.destroy_in_syscall(g, at);
            return true;
        }
        self.state_proc(p, at);
        match status {
            PStatus::Syscall | PStatus::Abandoned if at.m != world::NO_SLOT => {
                let from = match thread {
                    NOBODY => from_m.map_or(0, MId::get),
                    thread => self.world.m(thread).id,
                };
                let proc = self.world.p(p);
                proc.sequence += 1;
                let args = [u64::from(victim.get()), proc.sequence, from];
                self.put(at, spec::PROC_STEAL, &args);
            }
            // Go's format knows no taking of a P whose thread is not in a system call.
            PStatus::Running | PStatus::Syscall => self.put(at.on(thread), spec::PROC_STOP, &[]),
            _ => return false,
        }
        self.world.take(p, PStatus::Idle);
        true
    }

    /// Events that change no state of a goroutine, P or thread.
    fn annotation(&mut self, event: &Event, at: At, tables: &Tables) -> bool {
        match event.body {
            Body::CpuSample { stack } => {
                let stack = self.stack(stack.map(Shape::Stack), tables);
                let mut record = vec![spec::CPU_SAMPLE];
                let m = event.m.map_or(file::NO_THREAD, MId::get);
                let p = event.p.map_or(u64::MAX, |p| u64::from(p.get()));
                let g = event.g.map_or(0, GId::get);
                for number in [at.time, m, p, g, stack] {
                    crate::varint::push(&mut record, number);
                }
                self.samples.record(&mut self.file, at.time, &record);
                true
            }
            Body::RangeBegin { .. } | Body::RangeEnd { .. } => self.range(event, at, tables),
            Body::GcBegin { .. } | Body::GcActive { .. } | Body::GcEnd { .. } => {
                self.collector(event, at, tables)
            }
            Body::ProcsChange { procs, stack } => {
                let stack = self.stack(stack.map(Shape::Stack), tables);
                let Some(at) = self.anywhere(at, true) else {
                    return false;
                };
                self.put(at, spec::PROCS_CHANGE, &[u64::from(procs), stack]);
                true
            }
            Body::Metric { name, value } => {
                let kind = match tables.text(name) {
                    "/memory/classes/heap/objects:bytes" => spec::HEAP_ALLOC,
                    "/gc/heap/goal:bytes" => spec::HEAP_GOAL,
                    _ => return false,
                };
                let Some(at) = self.anywhere(at, false) else {
                    return false;
                };
                self.put(at, kind, &[value]);
                true
            }
            Body::Unknown { kind, args } => self.experimental(kind, &args, at),
            _ => self.in_goroutine(event, at, tables),
        }
    }

    fn experimental(&mut self, kind: u16, args: &[u64], at: At) -> bool {
        let spec = u8::try_from(kind).ok().and_then(spec::spec);
        let known = spec.filter(|spec| spec.form == spec::Form::Experimental);
        match known {
            Some(spec) if self.of_go && at.m != world::NO_SLOT => {
                let count = spec.args.len() - 1;
                self.put(at, spec.number, args.get(..count).unwrap_or_default());
                true
            }
            _ => false,
        }
    }

    fn collector(&mut self, event: &Event, at: At, tables: &Tables) -> bool {
        let (kind, cycle, stack) = match event.body {
            Body::GcBegin { cycle, stack } => (spec::GC_BEGIN, cycle, stack),
            Body::GcActive { cycle } => (spec::GC_ACTIVE, cycle, None),
            Body::GcEnd { cycle, .. } => (spec::GC_END, cycle, None),
            _ => return false,
        };
        let stack = self.stack(stack.map(Shape::Stack), tables);
        let kind = match (kind, self.collecting) {
            (spec::GC_END | spec::GC_ACTIVE, Some(true)) if !self.first => kind,
            (spec::GC_END, Some(true)) => kind,
            // It was not seen to begin.
            (spec::GC_ACTIVE, None) if self.first => kind,
            (spec::GC_BEGIN | spec::GC_ACTIVE, None | Some(false)) => spec::GC_BEGIN,
            _ => return false,
        };
        let place = self.anywhere(at, true);
        let at = match place {
            Some(at) => at,
            None if self.collecting.is_none() => at,
            None => return false,
        };
        self.collector_sequence = match self.collecting {
            None => cycle,
            Some(_) => self.collector_sequence.wrapping_add(1),
        };
        let args = [self.collector_sequence, stack];
        let count = if kind == spec::GC_BEGIN { 2 } else { 1 };
        self.put(at, kind, args.get(..count).unwrap_or_default());
        self.collecting = Some(kind != spec::GC_END);
        true
    }

    fn range(&mut self, event: &Event, at: At, tables: &Tables) -> bool {
        let (name, scope, begin) = match event.body {
            Body::RangeBegin {
                name,
                scope,
                stack,
                already_active,
            } => (name, scope, Some((stack, already_active))),
            Body::RangeEnd { name, scope, .. } => (name, scope, None),
            _ => return false,
        };
        let active = begin.is_some_and(|(_, active)| active);
        let (open, id, kinds) = match (tables.text(name), scope) {
            ("GC incremental sweep", Scope::Proc(proc)) => {
                let p = self.world.proc(proc);
                let on = self.world.p(p).thread;
                let status = self.world.p(p).status;
                if active && status == PStatus::Unknown || !active && (on == NOBODY || on != at.m) {
                    return false;
                }
                self.state_proc(p, at);
                let proc = self.world.p(p);
                let kinds = [
                    spec::GC_SWEEP_ACTIVE,
                    spec::GC_SWEEP_BEGIN,
                    spec::GC_SWEEP_END,
                ];
                (&mut proc.sweeping, u64::from(proc.id.get()), kinds)
            }
            ("GC mark assist", Scope::Goroutine(goroutine)) => {
                let g = self.world.goroutine(goroutine);
                let known = self.world.g(g).status != GStatus::Unknown;
                if active && !known
                    || !active && (event.g != Some(goroutine) || !self.in_user_code(at, event))
                {
                    return false;
                }
                self.state(g, at);
                let kinds = [
                    spec::GC_MARK_ASSIST_ACTIVE,
                    spec::GC_MARK_ASSIST_BEGIN,
                    spec::GC_MARK_ASSIST_END,
                ];
                let goroutine = self.world.g(g);
                let id = goroutine.id.get();
                (&mut goroutine.spans().mark_assist, id, kinds)
            }
            _ => return false,
        };
        let confirms = active && !self.first;
        let expected = confirms || begin.is_none();
        if *open != expected {
            return false;
        }
        *open = begin.is_some();
        let [is_active, begins, ends] = kinds;
        match (begin, event.body) {
            (Some((_, true)), _) => self.put(at, is_active, &[id]),
            (Some((stack, false)), _) => {
                let stack = self.stack(stack.map(Shape::Stack), tables);
                self.put(at, begins, &[stack]);
            }
            (None, Body::RangeEnd { figures, .. }) if ends == spec::GC_SWEEP_END => {
                let (swept, reclaimed) = figures.unwrap_or_default();
                self.put(at, ends, &[swept, reclaimed]);
            }
            _ => self.put(at, ends, &[]),
        }
        true
    }

    /// What a goroutine says while it runs.
    fn in_goroutine(&mut self, event: &Event, at: At, tables: &Tables) -> bool {
        let fits = match event.body {
            Body::StopRequested { .. }
            | Body::Restarted
            | Body::TaskEnd { .. }
            | Body::RegionBegin { .. }
            | Body::RegionEnd { .. }
            | Body::Log { .. } => true,
            Body::GoLabel { label } => label != Text::EMPTY || self.of_go,
            Body::TaskBegin { task, .. } => {
                !matches!(task.0, 0 | u64::MAX) && !self.world.tasks.contains(&task.0)
            }
            _ => false,
        };
        if !fits || !self.in_user_code(at, event) {
            return false;
        }
        let Some(g) = self.goroutine_of(at) else {
            return false;
        };
        let id = |task: Option<TaskId>| task.map_or(0, |task| task.0);
        let stack_of = |stack: Option<StackRef>| stack.map(Shape::Stack);
        match event.body {
            Body::StopRequested { kind, stack } => {
                if self.world.g(g).stops().contains(&kind) {
                    return false;
                }
                self.world.g(g).spans().stops.push(kind);
                let args = [self.text(kind, tables), self.stack(stack_of(stack), tables)];
                self.put(at, spec::STW_BEGIN, &args);
            }
            Body::Restarted => {
                if self.world.g(g).spans().stops.pop().is_none() {
                    return false;
                }
                self.put(at, spec::STW_END, &[]);
            }
            Body::GoLabel { label } => {
                let label = self.text(label, tables);
                self.put(at, spec::GO_LABEL, &[label]);
            }
            Body::TaskBegin {
                task,
                parent,
                name,
                stack,
            } => {
                self.world.tasks.insert(task.0);
                let name = self.text(name, tables);
                let stack = self.stack(stack_of(stack), tables);
                self.put(
                    at,
                    spec::USER_TASK_BEGIN,
                    &[task.0, id(parent), name, stack],
                );
            }
            Body::TaskEnd { task, stack } => {
                self.world.ended_tasks.push(task.0);
                let stack = self.stack(stack_of(stack), tables);
                self.put(at, spec::USER_TASK_END, &[task.0, stack]);
            }
            Body::RegionBegin { task, name, stack } => {
                let region = (id(task), name);
                self.world.g(g).spans().regions.push(region);
                let name = self.text(name, tables);
                let stack = self.stack(stack_of(stack), tables);
                self.put(at, spec::USER_REGION_BEGIN, &[region.0, name, stack]);
            }
            Body::RegionEnd { task, name, stack } => {
                let region = (id(task), name);
                let regions = &mut self.world.g(g).spans().regions;
                // One that is not there may have begun before the trace; Go's reader refuses one that
                // is not the innermost.
                if regions.last().is_some_and(|innermost| *innermost != region) {
                    return false;
                }
                regions.pop();
                let name = self.text(name, tables);
                let stack = self.stack(stack_of(stack), tables);
                self.put(at, spec::USER_REGION_END, &[region.0, name, stack]);
            }
            Body::Log {
                task,
                key,
                value,
                stack,
            } => {
                let (key, value) = (self.text(key, tables), self.text(value, tables));
                let stack = self.stack(stack_of(stack), tables);
                self.put(at, spec::USER_LOG, &[id(task), key, value, stack]);
            }
            _ => return false,
        }
        true
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
    let shape = |child| Body::GoCreate {
        child,
        site: None,
        stack: None,
        start_stack: None,
        runnable: false,
    };
    matches!(event.body, Body::GoCreate { child, .. } if event.body == shape(child))
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

/// The name of a kind of event that may be left out.
fn kind(body: &Body) -> &'static str {
    match body {
        Body::GoCreate { .. } => "GoCreate",
        Body::GoStart { .. } => "GoStart",
        Body::GoYield { .. } => "GoYield",
        Body::GoPreempted { .. } => "GoPreempted",
        Body::GoPreemptRequested { .. } => "GoPreemptRequested",
        Body::GoPark { .. } => "GoPark",
        Body::GoReady { .. } => "GoReady",
        Body::GoExit { .. } => "GoExit",
        Body::GoLabel { .. } => "GoLabel",
        Body::GoStatus { .. } => "GoStatus",
        Body::SyscallEnter { .. } => "SyscallEnter",
        Body::SyscallExit => "SyscallExit",
        Body::SyscallExitBlocked => "SyscallExitBlocked",
        Body::SyscallImplicit { .. } => "SyscallImplicit",
        Body::ProcStart => "ProcStart",
        Body::ProcStop => "ProcStop",
        Body::ProcSteal { .. } => "ProcSteal",
        Body::ProcHandoff { .. } => "ProcHandoff",
        Body::ProcStatus { .. } => "ProcStatus",
        Body::ProcsChange { .. } => "ProcsChange",
        Body::RunWithoutP => "RunWithoutP",
        Body::Steal { .. } => "Steal",
        Body::StealFailed { .. } => "StealFailed",
        Body::RunqOverflow { .. } => "RunqOverflow",
        Body::GlobalBatch { .. } => "GlobalBatch",
        Body::MCreate { .. } => "MCreate",
        Body::MExit => "MExit",
        Body::MPark => "MPark",
        Body::MWake { .. } => "MWake",
        Body::SpinBegin => "SpinBegin",
        Body::SpinEnd { .. } => "SpinEnd",
        Body::MLock => "MLock",
        Body::MUnlock => "MUnlock",
        Body::MCpu { .. } => "MCpu",
        Body::SchedSample { .. } => "SchedSample",
        Body::Netpoll { .. } => "Netpoll",
        Body::TimerFired { .. } => "TimerFired",
        Body::StopRequested { .. } => "StopRequested",
        Body::SafePoint { .. } => "SafePoint",
        Body::Stopped => "Stopped",
        Body::Restarted => "Restarted",
        Body::RangeBegin { .. } => "RangeBegin",
        Body::RangeEnd { .. } => "RangeEnd",
        Body::GcBegin { .. } => "GcBegin",
        Body::GcActive { .. } => "GcActive",
        Body::GcEnd { .. } => "GcEnd",
        Body::Metric { .. } => "Metric",
        Body::TaskBegin { .. } => "TaskBegin",
        Body::TaskEnd { .. } => "TaskEnd",
        Body::RegionBegin { .. } => "RegionBegin",
        Body::RegionEnd { .. } => "RegionEnd",
        Body::Log { .. } => "Log",
        Body::CpuSample { .. } => "CpuSample",
        Body::Sync { .. } => "Sync",
        Body::Loss { .. } => "Loss",
        Body::Unknown { .. } => "Unknown",
    }
}
