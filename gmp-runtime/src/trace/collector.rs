//! The collector: generations of a trace, from its start to its end.
//!
//! # Protocol
//!
//! Every M writes its own chunks without a lock. What the Ms share is the number of the generation that
//! is being recorded ([`Collector::generation`], 0 while nothing is), and the state under the
//! collector's lock: chunks and names.
//!
//! * **An M records**: makes its section counter odd · *RecordFence* · reads the generation · if it is
//!   not the one of its chunk, takes the lock, seals its chunk and opens another one · writes · makes
//!   the counter even.
//! * **The collector's thread advances**: under the lock, writes the status of every goroutine and P that
//!   the generation did not touch · stores the next generation (or 0) · *AdvanceFence* · waits until every
//!   M's counter is even or has changed: nobody writes into the old generation any more, because either
//!   the M read the new number, or its section was over · under the lock, seals the chunks that Ms have
//!   not given up themselves, and writes the generation's end.
//!
//! RecordFence is a compiler fence and AdvanceFence a membarrier where there is one, else both are
//! fences.
//!
//! **Changes.** A record comes before the change that it tells of. Between the two, an M may stand still for
//! longer than a generation; so its change counter is odd from the one to the other, and the collector waits
//! until it is even, or has changed, before it looks at goroutines and Ps: what earlier generations recorded is
//! done then, and who changes something later takes the lock first, for the status.
//!
//! **Statuses.** The first M that touches a goroutine in a generation writes its status before the event,
//! and *before it changes anything about the goroutine*. It takes the lock for that. So while the collector
//! holds the lock, an untouched goroutine is as it was when the generation began, except that an M that
//! has not written in this generation may be changing the one that it runs; that one is *running*, and
//! nothing of it is read. New goroutines are touched from the start, so when the walk is over nothing is
//! untouched any more.

use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::thread::JoinHandle;

use gmp_trace::write::{ClockPair, GenerationEnd, TraceEnd};

use super::chunks::{CHUNK_BYTES, Chunk, Exchange, Output, full_list};
use super::names::Names;
use super::state::{Control, Counts, State, Writer};
use crate::lock::{Rank, SpinGuard, SpinLock};
use crate::prim::atomic::{AtomicU32, Ordering};
use crate::sched::{Sched, critical, current};
use crate::sys::clock::{monotonic_ns, wall_ns};
use crate::sys::futex;
use crate::sys::memory_barrier::Fences;
use crate::sys::tsc::ClockUnits;

/// How long a generation lasts at least. Short in unit tests, so that they see many.
const GENERATION_NS: u64 = if cfg!(test) { 5_000_000 } else { 1_000_000_000 };

/// How long it lasts at most, when restating takes too large a part of the bytes.
const LONGEST_GENERATION_NS: u64 = 60 * GENERATION_NS;

/// Restating may take one part in so many of the bytes.
const RESTATING_SHARE: u64 = 100;

/// Goroutines that are looked at without letting go of the lock.
const GOROUTINES_AT_ONCE: usize = 256;

/// The trace of one scheduler.
#[derive(Debug)]
pub(crate) struct Collector {
    /// The generation that is being recorded; 0 while nothing is.
    generation: AtomicU32,
    /// RecordFence is the frequent one, AdvanceFence the rare one.
    fences: Fences,
    /// What is shared; `None` while nothing is recorded.
    state: SpinLock<Option<State>>,
    /// Counts reasons for the collector's thread to look; the word it sleeps on.
    word: AtomicU32,
    /// Set to end the trace.
    stop: AtomicU32,
    /// The last generation of this scheduler; no number is used twice. Written under `thread`.
    last: AtomicU32,
    thread: Mutex<Option<JoinHandle<io::Result<Summary>>>>,
}

/// What a finished trace holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Events that were recorded.
    pub events: u64,
    /// Events that found no room.
    pub lost: u64,
}

impl Collector {
    pub(crate) fn new(fences: Fences) -> Collector {
        Collector {
            generation: AtomicU32::new(0),
            fences,
            state: SpinLock::new(Rank::Trace, None),
            word: AtomicU32::new(0),
            stop: AtomicU32::new(0),
            last: AtomicU32::new(0),
            thread: Mutex::new(None),
        }
    }

    /// The generation that is being recorded, 0 for none.
    #[inline(always)]
    pub(super) fn generation(&self) -> u32 {
        // ordering: Relaxed: RecordFence stands before the load that counts; the one that decides
        // whether to record at all may be late.
        self.generation.load(Ordering::Relaxed)
    }

    /// RecordFence: between making the section counter odd and reading the generation.
    #[inline(always)]
    pub(super) fn record_fence(&self) {
        // fence: RecordFence; pairs with AdvanceFence in `close_generation`.
        self.fences.frequent();
    }

    /// The shared state, for whoever is about to write.
    pub(super) fn lock(&self) -> SpinGuard<'_, Option<State>> {
        self.state.lock()
    }

    /// Wakes the collector's thread when chunks run low.
    pub(super) fn wake_if_low(&self, state: &State) {
        if state.exchange.runs_low() {
            self.wake();
        }
    }

    fn wake(&self) {
        // ordering: Release; pairs with the Acquire load in `work`.
        self.word.fetch_add(1, Ordering::Release);
        futex::wake(&self.word, 1);
    }

    /// Begins to record into `path`.
    ///
    /// # Errors
    /// `AlreadyExists` while a trace is being recorded; the kernel's error for the file.
    pub(crate) fn start(&self, sched: &'static Sched, path: &Path) -> io::Result<()> {
        let mut thread = self
            .thread
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if thread.is_some() {
            let message = "a trace is being recorded already: stop it first";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        let clock = ClockUnits::detect();
        let mut output = Output::create(path, &clock)?;
        let mut state = State {
            exchange: Exchange::new(),
            names: Names::new()?,
            clock,
            counts: [Counts::default(); 2],
            control: Control::new(),
            outside: Writer::new(),
        };
        Exchange::refill(&mut output, |f| f(&mut state.exchange));
        self.set_state(Some(state));
        // ordering: Relaxed: the thread is made after it.
        self.stop.store(0, Ordering::Relaxed);
        // ordering: Relaxed: under the lock of `thread`. Generations of one scheduler never repeat, so
        // that what an earlier trace touched does not look touched.
        let first = self.last.load(Ordering::Relaxed) + 1;
        // The thread closes generations, so it must not begin before the first one has.
        let (begun, begins) = std::sync::mpsc::channel();
        let made = sched.spawn_helper("gmp-trace", move || {
            // An error would mean that this function is gone, which it is only after it has sent.
            let _ = begins.recv();
            sched.tracer.work(sched, output, first)
        });
        match made {
            Ok(handle) => *thread = Some(handle),
            Err(error) => {
                self.set_state(None);
                return Err(error);
            }
        }
        {
            let _section = critical::enter_if(current::goroutine());
            self.begin_generation(first);
        }
        // The thread waits for it, so it can be sent.
        let _ = begun.send(());
        Ok(())
    }

    /// Ends the trace: everything that was recorded is in the file when this returns. `None` when
    /// nothing was being recorded.
    pub(crate) fn stop(&self, sched: &Sched) -> Option<io::Result<Summary>> {
        let mut thread = self
            .thread
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let handle = thread.take()?;
        // ordering: Release; pairs with the Acquire load in `work`.
        self.stop.store(1, Ordering::Release);
        self.wake();
        let result = handle.join();
        // ordering: Relaxed: it has ended.
        sched.helper_threads.fetch_sub(1, Ordering::Relaxed);
        Some(match result {
            Ok(result) => result,
            Err(_) => Err(io::Error::other(
                "the thread that writes the trace panicked",
            )),
        })
    }

    /// Changes what is shared, on a goroutine or a thread.
    fn set_state(&self, state: Option<State>) {
        let section = critical::enter_if(current::goroutine());
        let before = std::mem::replace(&mut *self.state.lock(), state);
        drop(section);
        // Not in a section, because it frees memory.
        drop(before);
    }

    /// Records nothing more, and leaves what is there to another process.
    pub(crate) fn forget(&self) {
        // ordering: Relaxed: one thread.
        self.generation.store(0, Ordering::Relaxed);
    }

    /// From now on `generation` is recorded.
    fn begin_generation(&self, generation: u32) {
        if let Some(state) = &mut *self.state.lock() {
            state.names.begin(generation);
            state.control.begin(&mut state.exchange, generation);
            *state.counts_of(generation) = Counts::default();
            let (mono, wall) = (monotonic_ns(), wall_ns());
            let pair = state.clock.pair();
            let clocks = ClockPair {
                ticks: pair.units,
                mono: pair.monotonic_ns,
                wall: wall + (pair.monotonic_ns - mono),
            };
            state
                .control
                .write_bound(&mut state.exchange, pair.units, |encoder, chunk| {
                    encoder.gen_begin(chunk, generation);
                    encoder.clock_pair(chunk, clocks);
                });
        }
        // ordering: Relaxed: the collector's thread, or the one that starts it.
        self.last.store(generation, Ordering::Relaxed);
        // ordering: Release: the state of the generation comes before its number.
        self.generation.store(generation, Ordering::Release);
    }

    /// The collector's thread: prepares chunks, finishes them, advances generations, ends the trace.
    fn work(&self, sched: &Sched, mut output: Output, first: u32) -> io::Result<Summary> {
        let mut full = full_list();
        let mut generation = first;
        let mut total = TraceEnd {
            generations: 0,
            events: 0,
            lost: 0,
        };
        let mut length = GENERATION_NS;
        let mut next = monotonic_ns() + length;
        loop {
            // ordering: Acquire; pairs with the Release in `wake`.
            let seen = self.word.load(Ordering::Acquire);
            self.serve(&mut output, &mut full);
            // ordering: Acquire; pairs with the Release in `stop`.
            let stop = self.stop.load(Ordering::Acquire) != 0;
            let now = monotonic_ns();
            if stop || now >= next {
                let serve = || self.serve(&mut output, &mut full);
                if self.close_generation(sched, generation, stop, &mut total, serve) {
                    length = (length * 2).min(LONGEST_GENERATION_NS);
                }
                if stop {
                    break;
                }
                generation += 1;
                next = now + length;
                continue;
            }
            futex::wait(&self.word, seen, Some(next - now));
        }
        self.end(output, &mut full, total)
    }

    /// Prepares chunks that are missing, and finishes those that are full.
    fn serve(&self, output: &mut Output, full: &mut Vec<Chunk>) {
        Exchange::refill(output, |f| {
            if let Some(state) = &mut *self.state.lock() {
                f(&mut state.exchange);
            }
        });
        if let Some(state) = &mut *self.state.lock() {
            state.exchange.take_full(full);
        }
        output.finish(full);
    }

    /// Closes `generation`, and begins the next one unless this is the `last`. Whether restating took too
    /// large a part of its bytes.
    fn close_generation(
        &self,
        sched: &Sched,
        generation: u32,
        last: bool,
        total: &mut TraceEnd,
        serve: impl FnMut(),
    ) -> bool {
        self.restate_untouched(sched, generation, serve);
        let mut control = match &mut *self.state.lock() {
            Some(state) => std::mem::replace(&mut state.control, Control::new()),
            None => return false,
        };
        if last {
            // ordering: Relaxed: AdvanceFence comes after it.
            self.generation.store(0, Ordering::Relaxed);
        } else {
            self.begin_generation(generation + 1);
        }
        // fence: AdvanceFence; pairs with RecordFence in `record_fence`.
        self.fences.rare();
        sched.for_each_m(|m| m.tracer.wait_until_outside());
        self.seal_old_blocks(sched, generation);
        self.write_end(&mut control, generation, last, total)
    }

    /// Seals blocks of `generation` that Ms have not given up themselves.
    fn seal_old_blocks(&self, sched: &Sched, generation: u32) {
        sched.for_each_m(|m| {
            if let Some(state) = &mut *self.state.lock() {
                // SAFETY: under the lock, and the M is outside its section or in the next generation:
                // it comes back to its writer through the lock.
                unsafe {
                    m.tracer
                        .with_writer_of(generation, |writer| state.close(writer))
                };
            }
        });
        if let Some(state) = &mut *self.state.lock() {
            let mut outside = std::mem::replace(&mut state.outside, Writer::new());
            if outside.generation == generation {
                state.close(&mut outside);
            }
            state.outside = outside;
        }
    }

    /// Writes the status of what `generation` did not touch.
    fn restate_untouched(&self, sched: &Sched, generation: u32, mut serve: impl FnMut()) {
        // What was recorded in the generation before may not be done yet.
        sched.for_each_m(|m| m.tracer.wait_until_settled());
        let mut first = 0;
        while first < sched.table.len() {
            let end = (first + GOROUTINES_AT_ONCE).min(sched.table.len());
            sched.with_ms(|ms| {
                let Some(state) = &mut *self.state.lock() else {
                    return;
                };
                for g in (first..end).map(|index| sched.table.get(index)) {
                    let runs_on = ms.iter().find(|m| {
                        m.tracer.generation_of_writer() < generation && m.current() == Some(g)
                    });
                    state.restate(generation, &g, runs_on.map(|m| m.id));
                }
            });
            first = end;
            serve();
        }
        for p in sched.procs() {
            if let Some(state) = &mut *self.state.lock() {
                state.restate_p(generation, &p);
            }
        }
    }

    /// Writes the end of `generation`, and of the trace if it is the `last`; whether restating took too
    /// large a part.
    fn write_end(
        &self,
        control: &mut Control,
        generation: u32,
        last: bool,
        total: &mut TraceEnd,
    ) -> bool {
        let mut guard = self.state.lock();
        let Some(state) = &mut *guard else {
            return false;
        };
        let tables = state.names.end(&mut state.exchange, generation);
        let counts = *state.counts_of(generation);
        let end = GenerationEnd {
            generation,
            blocks: counts.blocks + u64::from(tables),
            events: counts.events,
            lost: counts.lost + control.lost,
        };
        total.generations += 1;
        total.events += end.events;
        total.lost += end.lost;
        let bytes = counts.blocks * CHUNK_BYTES as u64;
        let too_much = control.restated * RESTATING_SHARE > bytes;
        // The last words stand after every block of the generation.
        control.end(&mut state.exchange);
        let now = state.clock.now_units();
        control.write_bound(&mut state.exchange, now, |encoder, chunk| {
            encoder.gen_end(chunk, &end);
            if last {
                encoder.trace_end(chunk, total);
            }
        });
        control.end(&mut state.exchange);
        too_much
    }

    /// Finishes the file.
    fn end(
        &self,
        mut output: Output,
        full: &mut Vec<Chunk>,
        total: TraceEnd,
    ) -> io::Result<Summary> {
        let unused = match self.state.lock().take() {
            Some(mut state) => {
                state.exchange.take_full(full);
                state.exchange.unused()
            }
            None => 0,
        };
        output.finish(full);
        output.close(unused)?;
        Ok(Summary {
            events: total.events,
            lost: total.lost,
        })
    }
}
