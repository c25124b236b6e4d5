//! What an M records when: one method for each event of the scheduler.
//!
//! Off, a method is one load and a branch. On, it takes one stamp and writes its records into the M's
//! own chunk, without allocation, lock or system call; only a new chunk, and the first use of a name or
//! a goroutine in a generation, take the collector's lock.

use std::cell::UnsafeCell;
use std::panic::Location;

use gmp_trace::event::{GState as Traced, PState};
use gmp_trace::write::Wait as TracedWait;

pub(crate) use super::collector::Collector as SchedTrace;
use super::marks::{ExitHow, Found, HandoffReason, Leave, Preemption, StealFrom, Waker};
use super::state::Writer;
use crate::prim::atomic::{AtomicU32, Ordering};
use crate::prim::hint;
use crate::sched::current;
use crate::sched::g::{GState, Routine};
use crate::sched::m::M;
use crate::sched::p::P;
use crate::sched::refs::{GRef, MRef, PRef};
use crate::sys::clock::thread_cpu_ns;
use crate::sys::tsc::ClockUnits;

/// Places that an M has looked up: a direct-mapped memory of what the collector's table says.
const REMEMBERED_SITES: usize = 64;

#[derive(Debug, Clone, Copy)]
struct RememberedSite {
    location: usize,
    routine: usize,
    generation: u32,
    number: u32,
}

/// What an M records with.
#[derive(Debug)]
pub(crate) struct ThreadTrace {
    m: u64,
    /// Odd while the M is inside a section that writes.
    section: AtomicU32,
    /// Odd from a record of a change until the change is made: see [`ThreadTrace::settle`].
    change: AtomicU32,
    /// The generation of the writer, for the collector.
    generation: AtomicU32,
    inner: UnsafeCell<Inner>,
}

#[derive(Debug)]
struct Inner {
    clock: ClockUnits,
    writer: Writer,
    sites: [RememberedSite; REMEMBERED_SITES],
}

/// A section in which the M may write into its chunk.
struct Section<'a> {
    trace: &'a ThreadTrace,
    inner: &'a mut Inner,
    m: &'a M,
    generation: u32,
    /// The stamp of everything in this section.
    now: u64,
}

impl ThreadTrace {
    pub(crate) fn new(m: u64) -> ThreadTrace {
        const NOTHING: RememberedSite = RememberedSite {
            location: 0,
            routine: 0,
            generation: 0,
            number: 0,
        };
        ThreadTrace {
            m,
            section: AtomicU32::new(0),
            change: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            inner: UnsafeCell::new(Inner {
                clock: ClockUnits::MONOTONIC,
                writer: Writer::new(),
                sites: [NOTHING; REMEMBERED_SITES],
            }),
        }
    }

    /// Begins a section on this M; `None` when nothing is recorded any more.
    #[inline(always)]
    fn section<'a>(&'a self, m: &'a M) -> Option<Section<'a>> {
        let collector = &m.sched.tracer;
        // ordering: Relaxed: only this M writes it.
        let odd = self.section.load(Ordering::Relaxed).wrapping_add(1);
        // ordering: Relaxed: RecordFence comes after it.
        self.section.store(odd, Ordering::Relaxed);
        collector.record_fence();
        let generation = collector.generation();
        if generation == 0 {
            self.leave_section();
            return None;
        }
        // SAFETY: this M's, and in its section: the collector does not touch it unless the generation
        // has changed, and then the M comes to it through the lock below.
        let inner = unsafe { &mut *self.inner.get() };
        let mut now = inner.clock.now_units();
        if !inner.writer.is_ready(generation) {
            now = self.open(m, inner, generation);
        }
        Some(Section {
            trace: self,
            inner,
            m,
            generation,
            now,
        })
    }

    #[inline(always)]
    fn leave_section(&self) {
        // ordering: Relaxed: only this M writes it.
        let even = self.section.load(Ordering::Relaxed).wrapping_add(1);
        // ordering: Release; pairs with the Acquire load in `wait_until_outside`.
        self.section.store(even, Ordering::Release);
    }

    /// Opens a chunk, and in a new generation says what the M is doing; the stamp.
    #[cold]
    #[inline(never)]
    fn open(&self, m: &M, inner: &mut Inner, generation: u32) -> u64 {
        let collector = &m.sched.tracer;
        let mut guard = collector.lock();
        let Some(state) = &mut *guard else { return 0 };
        inner.clock = state.clock;
        let now = inner.clock.now_units();
        let is_new = inner.writer.generation != generation;
        let open = state.open(&mut inner.writer, generation, now, Some(m));
        // ordering: Relaxed: under the lock.
        self.generation.store(generation, Ordering::Relaxed);
        if is_new && let Some((encoder, chunk)) = inner.writer.parts() {
            // Once a generation: running can be told from descheduled by the kernel.
            encoder.m_cpu(chunk, now, thread_cpu_ns());
        }
        let of_proc = match m.call_p() {
            None => PState::Running,
            Some(_) => PState::Syscall,
        };
        // Announced or not.
        let in_call = m.current().filter(|g| g.state() == GState::Syscall as u32);
        let of_goroutine = in_call.map_or(Traced::Running, |_| Traced::Syscall);
        // Under the lock, without which the monitor takes no P from a call.
        let on_m = Some(self.m);
        let writer = &mut inner.writer;
        if let Some(p) = m.traced_p() {
            writer.touch_p(now, generation, &p, of_proc, on_m);
        }
        if let Some(g) = m.current() {
            state.touch(writer, now, generation, &g, of_goroutine, on_m);
        }
        if open {
            collector.wake_if_low(state);
        }
        now
    }

    /// The goroutine of `m` comes back from a system call; `take` takes its P back, which the return says. If
    /// it does, the goroutine goes on with it, which is recorded.
    #[inline(always)]
    pub(crate) fn syscall_exit_if(&self, m: &M, take: impl FnOnce() -> bool) -> bool {
        if m.sched.tracer.generation() == 0 {
            return take();
        }
        self.record_syscall_exit_if(m, take)
    }

    #[inline(never)]
    fn record_syscall_exit_if(&self, m: &M, take: impl FnOnce() -> bool) -> bool {
        let Some(mut section) = self.section(m) else {
            return take();
        };
        section.announce();
        let taken = take();
        if taken {
            section.write(1, |e, c, now| e.syscall_exit(c, now));
        }
        taken
    }

    /// The change that the last record announced is made: what a goroutine or a P is says it now. Every
    /// change that [`Section::announce`] announces ends here.
    #[inline(always)]
    pub(crate) fn settle(&self) {
        // ordering: Relaxed: only this M writes it.
        let change = self.change.load(Ordering::Relaxed);
        if change % 2 == 1 {
            // ordering: Release; pairs with the Acquire load in `wait_until_settled`.
            self.change.store(change.wrapping_add(1), Ordering::Release);
        }
    }

    /// Waits until what this M has recorded is also done. For the collector, without its lock.
    pub(super) fn wait_until_settled(&self) {
        // ordering: Acquire; pairs with the Release in `settle`.
        let seen = self.change.load(Ordering::Acquire);
        // ordering: Acquire, as above.
        while seen % 2 == 1 && self.change.load(Ordering::Acquire) == seen {
            crate::sys::thread::sched_yield();
        }
    }

    /// Waits until this M has left the section that it may be in. For the collector.
    pub(super) fn wait_until_outside(&self) {
        // ordering: Acquire; pairs with the Release in `leave_section`.
        let seen = self.section.load(Ordering::Acquire);
        // ordering: Acquire, as above.
        while seen % 2 == 1 && self.section.load(Ordering::Acquire) == seen {
            hint::spin_loop();
        }
    }

    /// The last generation in which this M wrote. Under the collector's lock.
    pub(super) fn generation_of_writer(&self) -> u32 {
        // ordering: Relaxed: under the lock.
        self.generation.load(Ordering::Relaxed)
    }

    /// Calls `f` with the writer, if it still writes in `generation`.
    ///
    /// # Safety
    /// Under the collector's lock, and the M has been outside its section since the generation changed.
    pub(super) unsafe fn with_writer_of(&self, generation: u32, f: impl FnOnce(&mut Writer)) {
        if self.generation_of_writer() == generation {
            // SAFETY: the caller's contract: the M takes the lock before it uses the writer again.
            f(unsafe { &mut (*self.inner.get()).writer });
        }
    }
}

/// The wait of `g`, for a record.
#[inline(always)]
fn wait_of(section: &mut Section<'_>, g: GRef) -> TracedWait {
    match g.wait.get() {
        Some(wait) => TracedWait {
            reason: wait.reason as u32,
            site: section.site(wait.site, None),
            object: wait.object,
        },
        None => TracedWait {
            reason: 0,
            site: 0,
            object: 0,
        },
    }
}

impl Section<'_> {
    /// Says that the scheduler makes a change after this record, until [`ThreadTrace::settle`].
    #[inline(always)]
    fn announce(&self) {
        // ordering: Relaxed, both: only this M writes it, and the end of the section publishes it.
        let change = self.trace.change.load(Ordering::Relaxed) | 1;
        // ordering: Relaxed, as above.
        self.trace.change.store(change, Ordering::Relaxed);
    }

    /// Writes `events` events with `write`, or counts them as lost.
    #[inline(always)]
    fn write(
        &mut self,
        events: u64,
        write: impl FnOnce(&mut gmp_trace::write::Encoder, &mut [u8], u64),
    ) {
        let now = self.now;
        self.inner.writer.write(events, |e, c| write(e, c, now));
    }

    /// Sees to it that this generation has the status of `g`, which has `state`.
    #[inline(always)]
    fn touch(&mut self, g: GRef, state: Traced) {
        if g.traced.generation() != self.generation {
            self.touch_slow(g, state);
        }
    }

    #[cold]
    #[inline(never)]
    fn touch_slow(&mut self, g: GRef, state: Traced) {
        let mut guard = self.m.sched.tracer.lock();
        let Some(shared) = &mut *guard else { return };
        let writer = &mut self.inner.writer;
        if !writer.is_ready(self.generation) {
            shared.open(writer, self.generation, self.now, Some(self.m));
        }
        shared.touch(writer, self.now, self.generation, &g, state, None);
    }

    /// Sees to it that this generation has the status of `p`, which nobody holds.
    fn touch_idle_p(&mut self, p: &P) {
        if p.traced.generation() == self.generation {
            return;
        }
        // Under the lock, as the collector touches what nobody else did.
        let guard = self.m.sched.tracer.lock();
        let writer = &mut self.inner.writer;
        writer.touch_p(self.now, self.generation, p, PState::Idle, None);
        drop(guard);
    }

    /// The number of a place.
    #[inline(always)]
    fn site(
        &mut self,
        location: &'static Location<'static>,
        start: Option<&'static Routine>,
    ) -> u32 {
        let at = std::ptr::from_ref(location) as usize;
        let routine = start.map_or(0, |start| std::ptr::from_ref(start) as usize);
        let known = &self.inner.sites[slot(at, routine)];
        if known.location == at && known.routine == routine && known.generation == self.generation {
            return known.number;
        }
        self.look_up(location, start)
    }

    #[cold]
    #[inline(never)]
    fn look_up(
        &mut self,
        location: &'static Location<'static>,
        start: Option<&'static Routine>,
    ) -> u32 {
        let at = std::ptr::from_ref(location) as usize;
        let routine = start.map_or(0, |start| std::ptr::from_ref(start) as usize);
        let number = match &mut *self.m.sched.tracer.lock() {
            Some(state) => state.site(self.generation, location, start),
            None => 0,
        };
        self.inner.sites[slot(at, routine)] = RememberedSite {
            location: at,
            routine,
            generation: self.generation,
            number,
        };
        number
    }
}

impl Section<'_> {
    /// The number of a text.
    fn text(&mut self, text: &'static str) -> u32 {
        match &mut *self.m.sched.tracer.lock() {
            Some(state) => state.text(self.generation, text),
            None => 0,
        }
    }
}

impl Drop for Section<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.trace.leave_section();
    }
}

/// Where a place is remembered.
#[inline(always)]
fn slot(location: usize, routine: usize) -> usize {
    ((location >> 3) ^ (routine >> 4)) % REMEMBERED_SITES
}

/// Methods for the scheduler: `name(&self, m, arguments) |section, arguments| body`. Each is a check in
/// line and a body that is not.
macro_rules! events {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) = |$section:ident, $m:ident| $body:block)*) => {
        impl ThreadTrace {
            $(
                $(#[$doc])*
                #[inline(always)]
                pub(crate) fn $name(&self, m: &M $(, $arg: $type)*) {
                    #[inline(never)]
                    fn record($m: &M $(, $arg: $type)*) {
                        if let Some(mut $section) = $m.tracer.section($m) {
                            $body
                        }
                    }
                    if m.sched.tracer.generation() != 0 {
                        record(m $(, $arg)*);
                    }
                }
            )*
        }
    };
}

events! {
    /// `leaving` leaves in the way `how`, and `next` runs at once.
    switch(leaving: GRef, how: Leave, next: GRef, found: Found) = |section, m| {
        section.announce();
        section.touch(next, Traced::Runnable);
        let seq = next.traced.next(m.id);
        let id = next.id.get();
        match how {
            Leave::Park => {
                let wait = wait_of(&mut section, leaving);
                section.write(2, |e, c, now| e.park_start(c, now, wait, id, (found, seq)));
            }
            Leave::Yield => section.write(2, |e, c, now| e.yield_start(c, now, id, found, seq)),
            Leave::Preempted => {
                section.write(1, |e, c, now| e.preempted(c, now, Preemption::Cooperative));
                section.write(1, |e, c, now| e.start(c, now, id, found, seq));
            }
            Leave::Exit(ExitHow::Returned) => {
                section.write(2, |e, c, now| e.exit_start(c, now, id, found, seq));
            }
            Leave::Exit(how) => {
                section.write(1, |e, c, now| e.exit(c, now, how));
                section.write(1, |e, c, now| e.start(c, now, id, found, seq));
            }
        }
    }

    /// `leaving` leaves in the way `how`, and the scheduler looks for another one.
    leave(leaving: GRef, how: Leave) = |section, _m| {
        section.announce();
        match how {
            Leave::Park => {
                let wait = wait_of(&mut section, leaving);
                section.write(1, |e, c, now| e.park(c, now, wait));
            }
            Leave::Yield => section.write(1, |e, c, now| e.yields(c, now)),
            Leave::Preempted => {
                section.write(1, |e, c, now| e.preempted(c, now, Preemption::Cooperative));
            }
            Leave::Exit(how) => section.write(1, |e, c, now| e.exit(c, now, how)),
        }
    }

    /// The scheduler is about to start `g`.
    start(g: GRef, found: Found) = |section, m| {
        section.announce();
        section.touch(g, Traced::Runnable);
        let seq = g.traced.next(m.id);
        section.write(1, |e, c, now| e.start(c, now, g.id.get(), found, seq));
    }

    /// `g`, which waits, is about to become runnable.
    ready(g: GRef, by: Waker) = |section, m| {
        section.announce();
        section.touch(g, Traced::Waiting);
        let seq = g.traced.next(m.id);
        section.write(1, |e, c, now| e.ready(c, now, g.id.get(), by, seq));
    }

    /// `g` was made.
    create(g: GRef) = |section, m| {
        g.traced.touch(section.generation);
        g.traced.made_by(m.id);
        let site = match g.created_at.get() {
            Some(location) => section.site(location, g.routine.get()),
            None => 0,
        };
        section.write(1, |e, c, now| e.create(c, now, g.id.get(), site));
    }

    /// Work was taken from `victim`.
    steal(victim: &P, n: u32, from: StealFrom) = |section, _m| {
        section.write(1, |e, c, now| e.steal(c, now, victim.id, n, from));
    }

    /// A search by stealing found nothing.
    steal_failed(attempts: u32) = |section, _m| {
        section.write(1, |e, c, now| e.steal_failed(c, now, attempts));
    }

    /// A full ring moved goroutines to the global queue.
    overflow(n: u32) = |section, _m| {
        section.write(1, |e, c, now| e.overflow(c, now, n));
    }

    /// Goroutines were taken from the global queue.
    global_batch(n: u32) = |section, _m| {
        section.write(1, |e, c, now| e.global_batch(c, now, n));
    }

    /// The M is about to take `p`.
    proc_start(p: PRef) = |section, _m| {
        section.announce();
        section.touch_idle_p(&p);
        let seq = p.traced.next();
        section.write(1, |e, c, now| e.proc_start(c, now, p.id, seq));
    }

    /// The M is about to let go of its P.
    proc_stop(_p: PRef) = |section, _m| {
        section.announce();
        section.write(1, |e, c, now| e.proc_stop(c, now));
    }

    /// The goroutine that runs here is about to be frozen.
    preempted(how: Preemption) = |section, _m| {
        section.announce();
        section.write(1, |e, c, now| e.preempted(c, now, how));
    }

    /// The M has reached a safe point.
    safe_point(how: Preemption) = |section, _m| {
        section.write(1, |e, c, now| e.safe_point(c, now, how));
    }

    /// The goroutine that runs here wants the world stopped.
    stop_requested(why: &'static str) = |section, _m| {
        let why = section.text(why);
        section.write(1, |e, c, now| e.stop_requested(c, now, why));
    }

    /// Every M has reached a safe point.
    stopped() = |section, _m| {
        section.write(1, |e, c, now| e.stopped(c, now));
    }

    /// The world is about to go on.
    restarted() = |section, _m| {
        section.write(1, |e, c, now| e.restarted(c, now));
    }

    /// The M is about to give its P to another one.
    proc_handoff(to: MRef, why: HandoffReason) = |section, _m| {
        section.announce();
        section.write(1, |e, c, now| e.proc_handoff(c, now, Some(to.id), why));
    }

    /// The M's goroutine is locked to it.
    m_lock() = |section, _m| {
        section.write(1, |e, c, now| e.m_lock(c, now));
    }

    /// The M's goroutine is no longer locked to it.
    m_unlock() = |section, _m| {
        section.write(1, |e, c, now| e.m_unlock(c, now));
    }

    /// The M's goroutine is about to enter a system call.
    syscall_enter(site: &'static Location<'static>) = |section, m| {
        section.announce();
        if let Some(p) = m.p() {
            p.traced.next();
        }
        let site = section.site(site, None);
        section.write(1, |e, c, now| e.syscall_enter(c, now, site, 0));
    }

    /// The M's goroutine is back from a system call, and goes on with the P that the M took.
    syscall_exit() = |section, _m| {
        section.announce();
        section.write(1, |e, c, now| e.syscall_exit(c, now));
    }

    /// The M's goroutine is back from a system call, and there is no P.
    syscall_exit_blocked() = |section, _m| {
        section.announce();
        section.write(1, |e, c, now| e.syscall_exit_blocked(c, now));
    }

    /// The M's goroutine goes on without a P, which was taken while it was in the kernel.
    run_without_p() = |section, _m| {
        section.write(1, |e, c, now| e.run_without_p(c, now));
    }

    /// The M's thread has begun.
    m_begin() = |section, m| {
        section.write(1, |e, c, now| e.m_create(c, now, m.id));
    }

    /// The M's thread ends.
    m_end() = |section, _m| {
        section.write(1, |e, c, now| e.m_exit(c, now));
    }

    /// The M goes to sleep.
    m_park() = |section, _m| {
        section.write(1, |e, c, now| e.m_park(c, now));
    }

    /// The M wakes another one.
    m_wakes(target: MRef) = |section, _m| {
        section.write(1, |e, c, now| e.m_wake(c, now, target.id));
    }

    /// The M begins to look for work.
    spin_begin() = |section, _m| {
        section.write(1, |e, c, now| e.spin_begin(c, now));
    }

    /// The M ends to look for work.
    spin_end(found: bool) = |section, _m| {
        section.write(1, |e, c, now| e.spin_end(c, now, found));
    }

    /// The network was polled, by waiting or not, and that many goroutines will become ready.
    netpoll(blocking: bool, ready: u32) = |section, _m| {
        section.write(1, |e, c, now| e.netpoll(c, now, blocking, ready));
    }

    /// A timer fired for `g`, or for nobody that waits, `late` nanoseconds after its deadline.
    timer_fired(g: Option<GRef>, late: u64) = |section, _m| {
        let units = section.inner.clock.units_of_ns(late);
        let g = g.map_or(0, |g| g.id.get());
        section.write(1, |e, c, now| e.timer_fired(c, now, units, g));
    }
}

/// The thread, perhaps not an M, wakes an M.
pub(crate) fn m_wake(target: MRef) {
    if target.sched.tracer.generation() == 0 {
        return;
    }
    if let Some(m) = current::thread_m()
        && std::ptr::eq(m.sched, target.sched)
    {
        m.tracer.m_wakes(&m, target);
    }
}
