//! The state of the played scheduler, and how it records.

use std::collections::VecDeque;
use std::io;

use crate::event::{Body, Event, GState, PState};
use crate::id::{GId, MId, ObjectId, PId};
use crate::tables::{Site, SiteRef, StackRef, Tables, Text};
use crate::testgen::{Config, Program, TICKS_PER_SECOND};
use crate::time::Nanos;
use crate::write::{ClockPair, Context, Encoder, GoroutineStatus, HeaderInfo, Recorder, Seq, Wait};

/// When played traces begin, in units of the clock.
const BEGIN: u64 = 1_000_000;

/// A goroutine.
#[derive(Debug)]
pub(super) struct Goroutine {
    pub(super) state: GState,
    pub(super) dead: bool,
    pub(super) on_m: Option<usize>,
    pub(super) wait: Option<Wait>,
    pub(super) label: u32,
    site: u32,
    creator: u64,
    seq: u32,
    /// The M that wrote the last sequenced record.
    last_m: Option<usize>,
    /// The generation in which its state was last said.
    generation: u32,
}

/// A P.
#[derive(Debug)]
pub(super) struct Proc {
    pub(super) m: Option<usize>,
    pub(super) queue: VecDeque<usize>,
    pub(super) syscall: bool,
    seq: u32,
    generation: u32,
}

/// An M.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) p: Option<usize>,
    pub(super) g: Option<usize>,
    generation: u32,
    skew: u64,
}

/// A scheduler at play.
#[derive(Debug)]
pub(super) struct Scheduler {
    pub(super) config: Config,
    pub(super) goroutines: Vec<Goroutine>,
    pub(super) procs: Vec<Proc>,
    pub(super) threads: Vec<Thread>,
    pub(super) global: VecDeque<usize>,
    /// Goroutines that wait on channels, and those that sleep.
    pub(super) waiting: Vec<usize>,
    pub(super) sleeping: Vec<usize>,
    pub(super) alive: usize,
    pub(super) sites: Vec<u32>,
    pub(super) texts: Vec<u32>,
    pub(super) stacks: Vec<u32>,
    random: u64,
    now: u64,
    generation: u32,
    recorder: Recorder<Vec<u8>>,
    recorded: u64,
    events: Vec<Event>,
    /// Where in `events` the statuses go that are written when the generation ends.
    statuses_at: usize,
    pub(super) tables: Tables,
    /// What went wrong while recording: nothing does, a vector takes everything.
    failed: io::Result<()>,
}

impl Scheduler {
    pub(super) fn new(seed: u64, config: &Config) -> Scheduler {
        let header = HeaderInfo {
            process_id: 42,
            start: BEGIN + 1,
            ..HeaderInfo::new(TICKS_PER_SECOND)
        };
        let recorder = match Recorder::new(Vec::new(), &header, config.block_bytes) {
            Ok(recorder) => recorder,
            Err(error) => unreachable!("a vector takes everything: {error}"),
        };
        let mut scheduler = Scheduler {
            config: *config,
            goroutines: Vec::new(),
            procs: Vec::new(),
            threads: Vec::new(),
            global: VecDeque::new(),
            waiting: Vec::new(),
            sleeping: Vec::new(),
            alive: 0,
            sites: Vec::new(),
            texts: Vec::new(),
            stacks: Vec::new(),
            random: seed,
            now: BEGIN,
            generation: 0,
            recorder,
            recorded: 0,
            events: Vec::new(),
            statuses_at: 0,
            tables: Tables::new(),
            failed: Ok(()),
        };
        scheduler.define();
        scheduler
    }

    /// Strings, sites and stacks, and the machine: everything has a number before it is used.
    fn define(&mut self) {
        for text in [
            "request",
            "parse",
            "aggregate",
            "stop: collect",
            "/sched/goroutines",
        ] {
            let number = self.recorder.text(text);
            self.texts.push(number);
        }
        for (line, function) in ["main::reader", "main::worker", "main::writer"]
            .iter()
            .enumerate()
        {
            let site = self
                .recorder
                .site(function, "src/main.rs", 10 * (line as u32 + 1), 5);
            self.sites.push(site);
        }
        for depth in 1..4u64 {
            let frames: Vec<u64> = (0..depth).map(|frame| 0x40_0000 + 16 * frame).collect();
            let stack = self.recorder.stack(&frames);
            self.stacks.push(stack);
        }
        let config = self.config;
        for _ in 0..config.ps.max(1) {
            let queue = VecDeque::new();
            self.procs.push(Proc {
                m: None,
                queue,
                syscall: false,
                seq: 0,
                generation: 0,
            });
        }
        for _ in 0..config.ms.max(1) {
            let skew = if config.skew == 0 {
                0
            } else {
                self.below(config.skew + 1)
            };
            self.threads.push(Thread {
                p: None,
                g: None,
                generation: 0,
                skew,
            });
        }
    }

    /// Plays until the events are recorded.
    pub(super) fn play(&mut self) {
        let generations = u64::from(self.config.generations.max(1));
        for generation in 1..=generations {
            self.begin_generation();
            let enough = self.config.events * generation / generations;
            while self.recorded < enough {
                let thread = self.below(self.threads.len() as u64) as usize;
                self.act(thread);
            }
            if generation < generations {
                self.end_generation();
            }
        }
    }

    pub(super) fn finish(mut self) -> Program {
        self.end_generation();
        self.expect_none_failed();
        match self.recorder.finish() {
            Ok(bytes) => Program {
                bytes,
                events: self.events,
                tables: self.tables,
                recorded: self.recorded,
            },
            Err(error) => unreachable!("a vector takes everything: {error}"),
        }
    }

    pub(super) fn abandon(self) -> Program {
        self.expect_none_failed();
        match self.recorder.abandon() {
            Ok(bytes) => Program {
                bytes,
                events: self.events,
                tables: self.tables,
                recorded: self.recorded,
            },
            Err(error) => unreachable!("a vector takes everything: {error}"),
        }
    }

    fn expect_none_failed(&self) {
        if let Err(error) = &self.failed {
            unreachable!("a vector takes everything: {error}");
        }
    }

    /// A number below `limit`, which is not 0.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn begin_generation(&mut self) {
        self.generation += 1;
        self.now += 1;
        let (ticks, mono, wall) = (self.now, self.now * 16, 1_700_000_000_000_000_000);
        let result = self
            .recorder
            .begin_generation(ClockPair { ticks, mono, wall });
        self.keep(result);
        if self.generation == 1 && self.config.expect {
            self.intern_like_a_reader();
        }
        let nanos = Some(Nanos(mono as i64));
        let body = Body::Sync {
            generation: u64::from(self.generation),
            mono: nanos,
            wall: Some(Nanos(wall as i64)),
        };
        self.push(self.now, None, Context::default(), body);
        self.statuses_at = self.events.len();
    }

    /// Interns in the order in which the tables are written.
    fn intern_like_a_reader(&mut self) {
        let strings = [
            "request",
            "parse",
            "aggregate",
            "stop: collect",
            "/sched/goroutines",
            "main::reader",
            "src/main.rs",
            "main::worker",
            "main::writer",
        ];
        for text in strings {
            self.tables.intern_text(text);
        }
        let file = self.tables.intern_text("src/main.rs");
        for (line, function) in ["main::reader", "main::worker", "main::writer"]
            .iter()
            .enumerate()
        {
            let function = self.tables.intern_text(function);
            let line = 10 * (line as u32 + 1);
            self.tables.intern_site(Site {
                function,
                file,
                line,
                column: 5,
            });
        }
        for depth in 1..4u64 {
            let frame = |frame| crate::tables::Frame {
                pc: 0x40_0000 + 16 * frame,
                function: Text::EMPTY,
                file: Text::EMPTY,
                line: 0,
            };
            self.tables
                .intern_stack(&(0..depth).map(frame).collect::<Vec<_>>());
        }
    }

    fn end_generation(&mut self) {
        let begin = self
            .events
            .get(self.statuses_at.wrapping_sub(1))
            .map(|e| e.time);
        let mut statuses = Vec::new();
        let now = self.now;
        for place in 0..self.procs.len() {
            if self.procs[place].generation != self.generation {
                let (state, on_m) = self.proc_state(place);
                let result = self.recorder.control(now, |encoder, chunk| {
                    encoder.proc_status(chunk, now, place as u32, state, on_m);
                });
                self.keep(result);
                statuses.push(self.proc_status_body(place));
            }
        }
        for place in 0..self.goroutines.len() {
            let goroutine = &self.goroutines[place];
            if goroutine.generation != self.generation && !goroutine.dead {
                let status = self.status(place);
                let result = self.recorder.control(now, |encoder, chunk| {
                    encoder.go_status(chunk, now, &status);
                });
                self.keep(result);
                statuses.push(self.status_body(place));
            }
        }
        self.recorded += statuses.len() as u64;
        if self.config.expect {
            let held = Event {
                time: begin.unwrap_or_default(),
                order: 0,
                m: None,
                p: None,
                g: None,
                body: Body::ProcStop,
            };
            let statuses = statuses.into_iter().map(|body| Event { body, ..held });
            self.events
                .splice(self.statuses_at..self.statuses_at, statuses);
            for (order, event) in self.events.iter_mut().enumerate() {
                event.order = order as u64;
            }
        }
        let result = self.recorder.end_generation();
        self.keep(result);
    }

    fn keep(&mut self, result: io::Result<()>) {
        if self.failed.is_ok() {
            self.failed = result;
        }
    }

    /// What `thread` holds.
    fn context(&self, thread: usize) -> Context {
        let thread = &self.threads[thread];
        Context {
            p: thread.p.and_then(|p| PId::new(p as u32)),
            g: thread.g.and_then(|g| GId::new(g as u64 + 1)),
        }
    }

    /// Lets time pass; what follows happens at a moment of its own.
    pub(super) fn pass_time(&mut self) {
        let longest = if self.config.mix == super::Mix::Channels {
            6
        } else {
            200
        };
        self.now += 1 + self.below(longest);
    }

    /// The time on the clock of `thread`.
    pub(super) fn clock(&self, thread: usize) -> u64 {
        self.now + self.threads[thread].skew
    }

    /// Records what `thread` did; its state is still as it was before.
    pub(super) fn write(&mut self, thread: usize, call: impl FnOnce(&mut Encoder, &mut [u8], u64)) {
        let (now, context) = (self.clock(thread), self.context(thread));
        let m = MId::new(thread as u64);
        let Some(m) = m else { return };
        let result = self
            .recorder
            .record(m, now, context, |encoder, chunk| call(encoder, chunk, now));
        self.keep(result);
    }

    /// Records a message of the program.
    pub(super) fn write_log(&mut self, thread: usize, task: u64, key: u32, message: &str) {
        let (now, context) = (self.clock(thread), self.context(thread));
        let Some(m) = MId::new(thread as u64) else {
            return;
        };
        let written = self.recorder.try_record(m, now, context, |encoder, chunk| {
            encoder.log(chunk, now, task, key, message)
        });
        self.keep(written.map(|_| ()));
    }

    /// Records a CPU sample of `thread`.
    pub(super) fn write_sample(&mut self, thread: usize, stack: u32) {
        let (now, context) = (self.clock(thread), self.context(thread));
        let Some(m) = MId::new(thread as u64) else {
            return;
        };
        let who = (Some(thread as u64), context.p.map(PId::get));
        let g = context.g.map_or(0, GId::get);
        let result = self.recorder.sample(m, now, |encoder, chunk| {
            encoder.cpu_sample(chunk, now, who, g, stack);
        });
        self.keep(result);
    }

    /// Expects an event of `thread`, with what it holds now.
    pub(super) fn expect(&mut self, thread: usize, body: Body) {
        let (ticks, m) = (self.clock(thread), MId::new(thread as u64));
        self.push(ticks, m, self.context(thread), body);
    }

    fn push(&mut self, ticks: u64, m: Option<MId>, context: Context, body: Body) {
        self.recorded += 1;
        if self.config.expect {
            let time = Nanos((ticks - BEGIN - 1) as i64 * 16);
            let order = self.events.len() as u64;
            self.events.push(Event {
                time,
                order,
                m,
                p: context.p,
                g: context.g,
                body,
            });
        }
    }

    /// The next sequence number of goroutine `g`, written by `thread`.
    pub(super) fn next_seq(&mut self, g: usize, thread: usize) -> Seq {
        let goroutine = &mut self.goroutines[g];
        goroutine.seq += 1;
        if goroutine.last_m.replace(thread) == Some(thread) {
            Seq::Local
        } else {
            Seq::Remote(goroutine.seq)
        }
    }

    /// The next sequence number of P `p`.
    pub(super) fn next_proc_seq(&mut self, p: usize) -> u32 {
        self.procs[p].seq += 1;
        self.procs[p].seq
    }

    /// Adds a goroutine; returns its place. Its creation is yet to be recorded.
    pub(super) fn add_goroutine(&mut self, thread: usize, creator: u64, site: u32) -> usize {
        self.goroutines.push(Goroutine {
            state: GState::Runnable,
            dead: false,
            on_m: None,
            wait: None,
            label: 0,
            site,
            creator,
            seq: 0,
            last_m: Some(thread),
            generation: self.generation,
        });
        self.alive += 1;
        self.goroutines.len() - 1
    }

    /// Says what `thread`'s P and goroutine do, if nobody did in this generation.
    pub(super) fn touch_thread(&mut self, thread: usize) {
        if self.threads[thread].generation == self.generation {
            return;
        }
        self.threads[thread].generation = self.generation;
        if let Some(p) = self.threads[thread].p {
            self.touch_proc(thread, p);
        }
        if let Some(g) = self.threads[thread].g {
            self.touch(thread, g);
        }
    }

    /// Says what goroutine `g` does, if nobody did in this generation.
    pub(super) fn touch(&mut self, thread: usize, g: usize) {
        if self.goroutines[g].generation == self.generation {
            return;
        }
        let (status, body) = (self.status(g), self.status_body(g));
        self.write(thread, |encoder, chunk, now| {
            encoder.go_status(chunk, now, &status)
        });
        self.expect(thread, body);
        let goroutine = &mut self.goroutines[g];
        goroutine.generation = self.generation;
        goroutine.seq = 0;
        goroutine.last_m = Some(thread);
    }

    /// Says what P `p` does, if nobody did in this generation.
    pub(super) fn touch_proc(&mut self, thread: usize, p: usize) {
        if self.procs[p].generation == self.generation {
            return;
        }
        let ((state, on_m), body) = (self.proc_state(p), self.proc_status_body(p));
        self.write(thread, |e, c, now| {
            e.proc_status(c, now, p as u32, state, on_m)
        });
        self.expect(thread, body);
        self.procs[p].generation = self.generation;
        self.procs[p].seq = 0;
    }

    fn proc_state(&self, p: usize) -> (PState, Option<u64>) {
        let proc = &self.procs[p];
        let state = match proc.m {
            None => PState::Idle,
            Some(_) if proc.syscall => PState::Syscall,
            Some(_) => PState::Running,
        };
        (state, proc.m.map(|m| m as u64))
    }

    fn proc_status_body(&self, p: usize) -> Body {
        let (state, on_m) = self.proc_state(p);
        match PId::new(p as u32) {
            Some(proc) => Body::ProcStatus {
                proc,
                state,
                on_m: on_m.and_then(MId::new),
            },
            None => unreachable!("few Ps are played"),
        }
    }

    fn status(&self, g: usize) -> GoroutineStatus {
        let goroutine = &self.goroutines[g];
        let wait = goroutine.wait.unwrap_or(Wait {
            reason: 0,
            site: 0,
            object: 0,
        });
        GoroutineStatus {
            g: g as u64 + 1,
            state: goroutine.state,
            on_m: goroutine.on_m.map(|m| m as u64),
            reason: wait.reason,
            object: wait.object,
            site: wait.site,
            created_at: goroutine.site,
            creator: goroutine.creator,
            label: goroutine.label,
        }
    }

    fn status_body(&self, g: usize) -> Body {
        let status = self.status(g);
        match GId::new(status.g) {
            Some(goroutine) => Body::GoStatus {
                goroutine,
                state: status.state,
                on_m: status.on_m.and_then(MId::new),
                reason: (status.reason != 0).then(|| text(status.reason)),
                object: ObjectId::new(status.object),
                site: site(status.site),
                created_at: site(status.created_at),
                creator: GId::new(status.creator),
                label: (status.label != 0).then(|| text(status.label)),
                stack: None,
            },
            None => unreachable!("goroutines are numbered from 1"),
        }
    }
}

/// What a reader makes of the number of a text: strings of the trace follow the known ones.
pub(super) fn text(number: u32) -> Text {
    match number.checked_sub(crate::limits::FIRST_STRING) {
        Some(id) => Text(crate::tables::KNOWN_TEXTS.len() as u32 + id),
        None => Text(number),
    }
}

/// What a reader makes of the number of a site.
pub(super) fn site(number: u32) -> Option<SiteRef> {
    number.checked_sub(1).map(SiteRef)
}

/// What a reader makes of the number of a stack.
pub(super) fn stack(number: u32) -> Option<StackRef> {
    number.checked_sub(1).map(StackRef)
}
